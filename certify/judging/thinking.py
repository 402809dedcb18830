"""PRE-THINK-01: the switch counts when its effect is seen in what came back, never because it was accepted."""

from collections.abc import Sequence
from dataclasses import dataclass

from certify.evidence import EvidenceView
from certify.judging.capability import FLAGS, unseen
from certify.judging.envelope import leaked_thinking
from certify.judging.reading import Seen, brief, capped, counted, evidence_of, missing, quote, refused, unanswered
from certify.plan import Plan
from certify.records import Capability, Figure, Finding, Outcome, Thinking, Verdict
from certify.thresholds import Thresholds

REQUIREMENT = "PRE-THINK-01"
RULE = (
    "in every repeat reasoning text or reasoning tokens come back with the switch on and none with it off; one repeat "
    "that differs fails; n repeats without a miss bound the share of misses at 1 - .05^(1/n)"
)
# Tokens that an answer may hold beyond one for each byte of its text: end of turn, role and channel markers.
HIDDEN_TOKENS = 8


@dataclass(frozen=True, slots=True)
class _Effect:
    """What one mode showed over its repeats."""

    mode: Thinking
    seen: tuple[Seen, ...]

    @property
    def thought(self) -> tuple[Seen, ...]:
        return tuple(one for one in self.seen if thought(one))

    @property
    def prompt_tokens(self) -> frozenset[int]:
        return frozenset(one.answer.usage.prompt_tokens for one in self.seen if one.answer.usage)

    def __str__(self) -> str:
        return f"{self.mode}: thinking in {len(self.thought)} of {len(self.seen)}"


def thought(one: Seen) -> bool:
    """Whether an answer shows thinking by effect: reasoning text, or reasoning tokens by `usage`."""
    usage = one.answer.usage
    return bool(one.answer.reasoning.strip()) or bool(usage and usage.reasoning_tokens)


def judge_thinking(view: EvidenceView, plan: Plan, thresholds: Thresholds) -> Verdict:
    """PASS when thinking follows the switch; FAIL when it leaks, is ignored, inverted, hidden, or declared in vain."""
    del thresholds
    seen = tuple(counted(view, REQUIREMENT))
    modes = tuple(
        _Effect(mode, tuple(one for one in seen if one.trial.exchange.asked.thinking is mode)) for mode in Thinking
    )
    outcome, summary, cause, action, findings = _decide(modes, seen, plan)
    return Verdict(
        REQUIREMENT,
        outcome,
        f"{summary} ({'; '.join(map(str, modes))})",
        rule=RULE,
        figures=tuple(
            Figure(
                f"thinking_seen_{effect.mode}",
                len(effect.thought),
                0,
                "answers",
                len(effect.seen),
                "answers with reasoning text or `usage` reasoning tokens",
                population="one prompt, answers capped",
            )
            for effect in modes
            if effect.seen
        ),
        findings=capped(findings),
        cause=cause,
        action=action,
        evidence=evidence_of(seen),
    )


_Decision = tuple[Outcome, str, str, str, list[Finding]]


def _decide(modes: tuple[_Effect, ...], seen: Sequence[Seen], plan: Plan) -> _Decision:
    on, off, _ = modes
    leaks = [
        Finding(f"{one.name}: {leak}", one.evidence, quote(one.answer.content))
        for one in seen
        if (leak := leaked_thinking(one))
    ]
    if leaks:
        return (
            Outcome.FAIL,
            "thinking markup leaks into the content",
            "the engine runs without a reasoning parser, or with that of another model family",
            FLAGS[Capability.THINKING],
            leaks,
        )
    declined = [one for one in seen if refused(one)]
    broken = [one for one in seen if unanswered(one) and not refused(one)]
    if broken or missing(plan, REQUIREMENT, seen) or not (on.seen and off.seen):
        return (
            Outcome.ERROR,
            "the switch could not be measured: an answer is missing or broken",
            "see PRE-CONTRACT-01: an answer that breaks says nothing about thinking",
            "make the deployment answer, then run again",
            [Finding(f"{one.name}: {unanswered(one)}", one.evidence) for one in broken],
        )
    if declined:
        texts = [Finding(f"{one.name}: refused, {unanswered(one)}", one.evidence) for one in declined]
        return _absent(plan, "the request that switches thinking is refused", texts, effect=False)
    return _by_effect(on, off, plan)


def _by_effect(on: _Effect, off: _Effect, plan: Plan) -> _Decision:
    hidden = [
        Finding(f"{one.name}: {one.answer.usage.completion_tokens} tokens for {_visible(one)} bytes", one.evidence)
        for one in off.seen
        if one.answer.usage and one.answer.usage.completion_tokens > _visible(one) + HIDDEN_TOKENS and not thought(one)
    ]
    if on.thought and not off.thought and len(on.thought) == len(on.seen) and not hidden:
        declared_off = plan.declared.get(Capability.THINKING) is False
        note = [Finding("the owner declares `thinking = false`, yet it works")] if declared_off else []
        return Outcome.PASS, "thinking comes with the switch on and stays away with it off", "", "", note
    if off.thought and not on.thought:
        return (
            Outcome.FAIL,
            "the switch is inverted: thinking comes when it is off",
            "the template reads another name or the opposite sense of the switch",
            "compare the chat template's variable (thinking, enable_thinking) with the reasoning parser's",
            _texts(off.thought),
        )
    if off.thought:
        return (
            Outcome.FAIL,
            "the switch is ignored: thinking comes although it is off",
            "the template does not read the switch (undeclared template arguments are dropped without a word)",
            "serve a template that reads `enable_thinking` or `thinking`, as a boolean",
            _texts(off.thought),
        )
    if hidden:
        return (
            Outcome.FAIL,
            "with the switch off, tokens are spent that no text shows: thinking is hidden, not off",
            "the switch only drops the reasoning text from the answer",
            "make the switch reach the template, not only the parser",
            hidden,
        )
    if on.thought:
        return (
            Outcome.FAIL,
            "the switch is unreliable: thinking did not come in every answer that asked for it",
            "the template and the reasoning parser disagree about where thinking begins",
            "compare both answers in the evidence",
            [Finding(f"{one.name}: no thinking", one.evidence, quote(one.answer.content)) for one in on.seen],
        )
    reaches = on.prompt_tokens and off.prompt_tokens and not (on.prompt_tokens & off.prompt_tokens)
    return _absent(plan, "no thinking came in any mode", _prompts(on, off), effect=bool(reaches))


def _absent(plan: Plan, what: str, findings: list[Finding], *, effect: bool) -> _Decision:
    cause = "no reasoning parser, a template without thinking, or a switch that the server drops"
    if effect and plan.declared.get(Capability.THINKING) is False:
        return (
            Outcome.INCONCLUSIVE,
            f"thinking is declared absent, yet the switch changes the prompt; {what}",
            "the template thinks, and the engine does not split the thinking off",
            FLAGS[Capability.THINKING],
            findings,
        )
    outcome, summary, action = unseen(plan, Capability.THINKING, what)
    return outcome, summary, "" if outcome is Outcome.NOT_APPLICABLE else cause, action, findings


def _visible(one: Seen) -> int:
    calls = sum(len(call.name.encode()) + len(call.arguments.encode()) for call in one.answer.tool_calls)
    return len(one.answer.content.encode()) + calls


def _texts(ones: Sequence[Seen]) -> list[Finding]:
    return [Finding(f"{one.name}: reasoning {brief(one.answer.reasoning)}", one.evidence) for one in ones]


def _prompts(on: _Effect, off: _Effect) -> list[Finding]:
    def told(effect: _Effect) -> str:
        return ", ".join(map(str, sorted(effect.prompt_tokens))) or "not told"

    return [Finding(f"prompt tokens with the switch on: {told(on)}; off: {told(off)}")]
