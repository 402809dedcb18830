"""What a person sees in the terminal: the plan, the progress, each verdict, and the end block."""

import shlex
import sys
import time
from pathlib import Path

from certify.controller import LaneResult, LaneRun
from certify.judging.summary import Overall
from certify.plan import Plan
from certify.records import Level, Outcome, Verdict
from certify.report.text import failure_text
from certify.requirements import REQUIREMENTS
from certify.visible import visible

_PLAIN_EVERY_S = 5.0  # in CI one line at most so often


def plan_lines(lane: LaneRun) -> list[str]:
    """The locked plan of a lane in a few lines, or why it was refused."""
    if lane.plan is None:
        return [refusal(lane)]
    plan = lane.plan
    total = sum(gate.expected_s for gate in plan.gates)
    challenge = f", challenge {visible(plan.challenge)}" if plan.challenge else ""
    where = f"{visible(plan.base_url)}  model {visible(plan.model)}  engine {plan.engine}"
    lines = [
        f"deployment: {where}  context {plan.context_tokens or 'unknown'}",
        f"profile {plan.profile}, thresholds {plan.thresholds_set}, seed {plan.seed}{challenge}",
        f"plan sha256:{plan.sha256}  about {minutes(total)} in all, evidence in {lane.folder}",
    ]
    for gate in plan.gates:
        title = REQUIREMENTS[gate.requirement].title
        lines.append(f"  {gate.requirement:<16} {gate.level:<9} {minutes(gate.expected_s):>8}  {title}")
    if plan.diagnostic:
        lines.append(f"DIAGNOSTIC RUN, never a certificate: {', '.join(plan.diagnostic)}")
    return lines


def refusal(lane: LaneRun | LaneResult) -> str:
    """Why a lane was refused, in one line: it quotes the server, so nothing in it reaches the terminal as it came."""
    return f"REFUSED  {visible(lane.label)}: {visible(lane.refused, 1200)}"


def minutes(seconds: float) -> str:
    """A duration for a person."""
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"  # noqa: PLR2004


def verdict_line(verdict: Verdict, plan: Plan) -> str:
    """One line a verdict."""
    gate = plan.gate(verdict.requirement)
    note = "" if gate is None or gate.level is Level.REQUIRED else f" ({gate.level})"
    return f"{verdict.outcome:<14} {verdict.requirement}{note}  {visible(verdict.summary, 200)}"


class Progress:
    """What runs, how far, when it ends: one rewritten line on a terminal, a plain line now and then elsewhere.

    A worker of xdist has no terminal: its lines go to `progress.txt` in the run folder.
    """

    def __init__(self, config: object, folder: Path) -> None:
        self._worker = hasattr(config, "workerinput")
        self._manager = config.pluginmanager.getplugin("capturemanager")  # type: ignore[attr-defined]
        self._file = (folder / "progress.txt").open("a", encoding="utf-8") if self._worker else None
        self._last = 0.0
        self._live = sys.__stderr__ is not None and sys.__stderr__.isatty() and not self._worker

    def say(self, text: str) -> None:
        """Show one line of progress."""
        line = visible(text, 160)
        if self._file is not None:
            print(f"{time.strftime('%H:%M:%S')} {line}", file=self._file, flush=True)
        elif self._live:
            self._print(f"\r\x1b[2K  {line}", end="")
        elif time.monotonic() - self._last >= _PLAIN_EVERY_S:
            self._last = time.monotonic()
            self._print(f"  … {line}", end="\n")

    def close(self) -> None:
        """Clear the live line."""
        if self._file is not None:
            self._file.close()
        elif self._live:
            self._print("\r\x1b[2K", end="")

    def _print(self, text: str, *, end: str) -> None:
        if self._manager is None:
            print(text, end=end, file=sys.stderr, flush=True)
            return
        with self._manager.global_and_fixture_disabled():
            print(text, end=end, file=sys.stderr, flush=True)


def print_results(results: list[LaneResult]) -> None:
    """The end block of each lane; the last lines are `report: PATH`."""
    for result in results:
        if result.plan is None or result.overall is None:
            print(f"\n{refusal(result)}\nevidence: {result.folder}")
        else:
            _print_outcome(result, result.plan, result.overall)
    for result in results:
        if result.report is not None:
            print(f"check it: {verify_command(result.report)}")
    for result in results:
        if result.report is not None:
            print(f"report: {result.report}")


def verify_command(report: Path) -> str:
    """The command that checks a report, with the trust file beside it where the run wrote one (the demo does)."""
    beside = report.with_name("allowed_signers")
    return shlex.join(["certify", "verify", str(report), *(["--trust", str(beside)] if beside.is_file() else [])])


def _print_outcome(result: LaneResult, plan: Plan, outcome: Overall) -> None:
    for verdict in result.verdicts:
        gate = plan.gate(verdict.requirement)
        unasked = verdict.outcome is Outcome.NOT_RUN and not verdict.evidence
        told = gate is None or gate.level is not Level.REPORTED
        if told and not unasked and verdict.outcome not in {Outcome.PASS, Outcome.NOT_APPLICABLE}:
            print("\n" + failure_text(verdict, plan))
    counts = "  ".join(f"{name} {count}" for name, count in outcome.counts.items() if count)
    print(f"\n{outcome.outcome}  profile {plan.profile}  {visible(result.label)}  ({counts})")
    for reason in outcome.reasons:
        print(f"  {visible(reason)}")
    if outcome.counts.get(Outcome.NOT_RUN):
        print("  NOT_RUN: a hard FAIL stops a run (--keep-going goes on), or the gate was left out or interrupted")
        print(f"  what is missing is asked by: certify run --resume {shlex.quote(str(result.folder))}")
