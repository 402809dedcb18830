"""`summary.md`: what a PR comment or a job summary shows; verdict first, check last, at most 60,000 characters."""

from certify.codec import digest
from certify.report.shown import markdown, plain_bound, plain_value
from certify.report.statement import Certificate, Result

CAP = 60_000  # characters; a PR comment takes 65,536
_REASONS, _COVERAGE = 20, 40


def summary_markdown(certificate: Certificate, payload: bytes) -> str:
    """The summary of a certificate whose bytes are `payload`; every foreign text in it is inert."""
    predicate = certificate.predicate
    marks = [*([] if predicate.issuer.seal != "none" else ["UNSIGNED"]), *predicate.labels]
    head = " · ".join((f"# {predicate.summary.outcome}", *(markdown(mark) for mark in marks)))
    observed = predicate.deployment.observed
    facts = (
        f"profile **{markdown(predicate.method.profile)}**",
        f"assurance **{markdown(predicate.assurance_level)}**",
        f"thresholds **{markdown(predicate.method.thresholds.name)}**",
        f"issued {predicate.issued}",
    )
    signer = (
        f"Signed by {markdown(predicate.issuer.name)} ({markdown(predicate.issuer.key)}), if the check below says so."
        if predicate.issuer.seal != "none"
        else "Nobody signed this report."
    )
    engine = f"{observed.engine} {observed.version}".strip()
    deployment = f"{observed.model or 'unknown model'} on {engine} at {predicate.deployment.base_url}"
    lines = [
        head,
        "",
        ", ".join(facts),
        "",
        f"{markdown(deployment)}. {signer}",
        "",
        *(f"- {markdown(reason)}" for reason in predicate.summary.reasons[:_REASONS]),
        "",
        "| verdict | requirement | level | measured | required |",
        "|---|---|---|---|---|",
        *(_row(result) for result in predicate.results),
        "",
        "**Not covered**",
        "",
        *(
            f"- {markdown(absence.requirement)}: {markdown(absence.reason)}"
            for absence in predicate.coverage[:_COVERAGE]
        ),
        *([] if predicate.coverage else ["- nothing that the profile asks for"]),
    ]
    digests = [("certificate.json", digest(payload))]
    digests += [(subject.name, value) for subject in certificate.subjects for value in subject.digest.values()]
    tail = [
        "",
        "| file | digest |",
        "|---|---|",
        *(f"| {markdown(name)} | `{value}` |" for name, value in digests),
        "",
        "Check it: `certify verify report.html --trust allowed_signers`",
        "",
    ]
    return _within(lines, tail)


def _row(result: Result) -> str:
    verdict = result.verdict
    measured = "; ".join(plain_value(figure) for figure in verdict.figures[:3]) or verdict.summary
    required = "; ".join(plain_bound(bound) for bound in verdict.bounds[:3])
    cells = (f"**{verdict.outcome}**", verdict.requirement, str(result.level), markdown(measured), markdown(required))
    return f"| {' | '.join(cells)} |"


def _within(lines: list[str], tail: list[str]) -> str:
    closing = "\n".join(tail)
    room = CAP - len(closing) - 80
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            kept.append("\nCut here; report.html holds the rest.")
            break
        kept.append(line)
    return "\n".join((*kept, closing))
