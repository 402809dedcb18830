"""The words of a verdict: what was measured and required, where from, the evidence, the cause, what to do, a repeat."""

import shlex

from certify.plan import Plan
from certify.records import Figure, Verdict, decimal
from certify.requirements import REQUIREMENTS
from certify.visible import visible

_FINDINGS = 8  # shown in a failure text; the page shows all


def repeat_command(requirement: str, plan: Plan) -> str:
    """One command that asks the same questions again."""
    words = ["certify", "run", "--base-url", plan.base_url, "--profile", plan.profile, "--only", requirement]
    words += ["--seed", plan.seed]
    words += ["--challenge", plan.challenge] if plan.challenge else []
    words += ["--spec-off-url", plan.spec_off_url] if plan.spec_off_url else []
    return shlex.join(words)


def seqs(numbers: tuple[int, ...]) -> str:
    """Evidence sequence numbers as ranges: (1, 2, 3, 7) is '1-3, 7'; at most twelve ranges."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    shown = ", ".join(f"{low}-{high}" if low < high else str(low) for low, high in ranges[:12])
    return shown + (f", … ({len(ranges) - 12} more)" if len(ranges) > 12 else "")  # noqa: PLR2004


def figure_text(figure: Figure) -> str:
    """A figure with its interval, n, population and how it was counted."""
    interval = ""
    if figure.low_scaled is not None and figure.high_scaled is not None:
        low, high = decimal(figure.low_scaled, figure.decimals), decimal(figure.high_scaled, figure.decimals)
        interval = f" [{low}, {high}] {figure.interval}".rstrip()
    extras = "; ".join(part for part in (figure.spread, figure.population, figure.counted) if part)
    return f"{figure.name} {figure}{interval} (n = {figure.n}{'; ' + extras if extras else ''})"


def failure_text(verdict: Verdict, plan: Plan) -> str:
    """The whole story of a verdict that is not a PASS, for a tired person."""
    lines = [f"{verdict.requirement} {verdict.outcome}  {visible(verdict.summary)}"]
    lines += [f"  required: {REQUIREMENTS[verdict.requirement].title}"]
    lines += [f"  measured: {visible(figure_text(figure), 600)}" for figure in verdict.figures]
    lines += [
        f"  threshold: {bound.metric} {bound} ({visible(bound.source)}; set {bound.threshold_set})"
        for bound in verdict.bounds
    ]
    lines += [f"  rule: {visible(verdict.rule, 600)}"] if verdict.rule else []
    for finding in verdict.findings[:_FINDINGS]:
        where = f" [evidence {seqs(finding.evidence)}]" if finding.evidence else ""
        lines.append(f"  - {visible(finding.text)}{where}")
        lines += [f"      {visible(finding.quote)}"] if finding.quote else []
    hidden = len(verdict.findings) - _FINDINGS
    lines += [f"  - … and {hidden} more in the report"] if hidden > 0 else []
    lines += [f"  evidence: lines {seqs(verdict.evidence)}"] if verdict.evidence else []
    lines += [f"  likely cause: {visible(verdict.cause, 600)}"] if verdict.cause else []
    lines += (
        ["  what to do: " + "\n    ".join(visible(line, 600) for line in verdict.action.split("\n"))]
        if verdict.action
        else []
    )
    lines += [f"  repeat: {repeat_command(verdict.requirement, plan)}"]
    return "\n".join(lines)
