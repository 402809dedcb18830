"""Whether the evidence holds the questions of the plan: what was asked is made again from the plan, and compared.

Answers to other questions prove nothing, however right they are. Compared are the seed of each planned trial (the HMAC
of the run's seed and challenge), how it was asked, and the text of every request that the evidence keeps; of a request
too long to keep only its facts are.
"""

from collections.abc import Callable, Iterator, Mapping

from certify.cases import haystack, tiny
from certify.cases.corpora import PROMPTS, copying_prompt, nonce, timed_prompt
from certify.cases.scenarios import SCENARIOS
from certify.codec import CodecError, parse_json
from certify.evidence import EvidenceView
from certify.judging.reading import SPEC_OFF_CHAIN, capped, interrupted, many, planned_id
from certify.plan import REPLACEMENT, Plan, PlannedGate, PlannedTrial, case_seed
from certify.records import Arm, Finding, Json, Outcome, Thinking, Trial, TrialId, Verdict

WHOLE_RUN = "PRE-CONTRACT-02"  # judged over every exchange of the run
_CORPUS = {prompt.name: prompt for prompt in PROMPTS}

_Texts = Callable[[PlannedTrial, Trial, PlannedGate], str]


def not_as_planned(requirement: str, view: EvidenceView, plan: Plan) -> Verdict | None:
    """An ERROR where an exchange that serves a requirement is not what the plan asks; None where all are."""
    faults = tuple(_faults(requirement, view, plan))
    if not faults:
        return None
    return Verdict(
        requirement,
        Outcome.ERROR,
        f"{many(len(faults), 'exchange')} not the question of the plan: {faults[0].text}",
        rule="only answers to the planned questions count, each asked once",
        findings=capped(faults),
        cause="the evidence was edited, or the plan was not made by this suite",
        action="run again, and leave the run folder as it is",
        evidence=tuple(sorted({seq for fault in faults for seq in fault.evidence})),
    )


def _faults(requirement: str, view: EvidenceView, plan: Plan) -> Iterator[Finding]:
    planned = {trial.trial_id: (gate, trial) for gate in plan.gates for trial in gate.trials}
    earlier: dict[TrialId, Trial] = {}
    for seq, trial in view.trials("" if requirement == WHOLE_RUN else requirement):
        if fault := _out_of_place(trial, earlier) or _not_planned(trial, planned, plan):
            yield Finding(f"{_name(trial)}: {fault}", (seq,))
        earlier[trial.trial_id] = trial
    if SPEC_OFF_CHAIN not in view.attached:
        return
    earlier = {}
    for seq, trial in view.attached[SPEC_OFF_CHAIN].trials(requirement):
        # The other arm's run may have asked more than this one takes over.
        if trial.trial_id.arm is not Arm.SPEC_OFF or planned_id(trial.trial_id) not in planned:
            continue
        if fault := _out_of_place(trial, earlier) or _not_planned(trial, planned, plan):
            yield Finding(f"{_name(trial)} (record {seq} of the attached chain {SPEC_OFF_CHAIN}): {fault}")
        earlier[trial.trial_id] = trial


def _name(trial: Trial) -> str:
    place = trial.trial_id
    return f"{place.requirement} {place.case} #{place.repeat}"


def _out_of_place(trial: Trial, earlier: Mapping[TrialId, Trial]) -> str:
    """Asked twice, or again although nothing was interrupted: a retry to green."""
    place = trial.trial_id
    if place in earlier:
        return "asked twice"
    if place.repeat < REPLACEMENT:
        return ""
    first = earlier.get(TrialId(place.requirement, place.case, place.arm, place.repeat - REPLACEMENT))
    return "" if first is not None and interrupted(first) else "asked again although it had not been interrupted"


def _not_planned(trial: Trial, planned: Mapping[TrialId, tuple[PlannedGate, PlannedTrial]], plan: Plan) -> str:
    found = planned.get(planned_id(trial.trial_id))
    if found is None:
        return "no trial of the plan"
    gate, one = found
    place = _seed_place(one.trial_id)
    if place is None:
        return "no case that this suite asks"
    if one.seed != case_seed(plan.seed, plan.challenge, *place):
        return "its seed does not follow from the run's seed and challenge"
    asked, cap = trial.exchange.asked, _cap(gate, one)
    said = (asked.stream, str(asked.thinking), cap if cap is None else asked.max_tokens)
    if said != (one.stream, one.thinking, cap):
        return f"asked with (stream, thinking, max_tokens) {said}, planned {(one.stream, one.thinking, cap)}"
    return _other_request(trial, one, gate)


def _seed_place(place: TrialId) -> tuple[str, str, int] | None:
    """(requirement, case, repeat) from which a trial's seed is made; None for a case that no gate asks."""
    owner, case, repeat = place.requirement, place.case, place.repeat
    head = case.partition("/")[0]
    if owner == "PERF-C1-01" and case not in _CORPUS:
        return None
    if owner in _TEXTS:
        one_seed = owner == "LCTX-USAGE-01" or case.startswith("pair-")  # of a haystack, and of a prompt said again
        return owner, "prompt" if owner.startswith("PRE-") else head, 0 if one_seed else repeat
    scenario = SCENARIOS.get(head)
    if scenario is None or owner not in {scenario.REQUIREMENT, "QUAL-SPEC-05"}:
        return None
    return scenario.REQUIREMENT, scenario.NAME, repeat


def _cap(gate: PlannedGate, one: PlannedTrial) -> int | None:
    """The planned `max_tokens` of a trial, None where the plan leaves it to the gate."""
    cap = gate.parameters.get("max_tokens")
    for name in (one.trial_id.case.partition("/")[0], one.thinking):
        cap = cap.get(name) if isinstance(cap, dict) else cap
    return cap if type(cap) is int else None


def _other_request(trial: Trial, one: PlannedTrial, gate: PlannedGate) -> str:
    """How the kept request differs from the planned one, "" where it does not or was too long to keep."""
    if not trial.exchange.request_body:
        return ""
    try:
        body = parse_json(trial.exchange.request_body)
    except CodecError:
        body = None
    if not isinstance(body, dict):
        return "its request is no JSON object"
    if said := _said_otherwise(body, trial, one):
        return f"its request has another {said}"
    try:
        wanted = _messages(one, trial, gate)
    except (KeyError, TypeError, ValueError) as error:
        return f"its recipe makes no request ({type(error).__name__})"
    return "" if _spoken(body.get("messages")) == wanted else "its request asks something else"


def _said_otherwise(body: dict[str, Json], trial: Trial, one: PlannedTrial) -> str:
    """The first field of a request that is not as planned; a field that a dialect leaves out says nothing."""
    mode = {Thinking.ON: True, Thinking.OFF: False}.get(Thinking(one.thinking))
    switches = body.get("chat_template_kwargs")
    said = switches.get("enable_thinking", mode) if isinstance(switches, dict) else mode
    cap = trial.exchange.asked.max_tokens
    pairs = {
        "stream": (body.get("stream", False), one.stream),
        "max_tokens": (body.get("max_tokens", cap), cap),
        "thinking switch": (said, mode),
    }
    return next((name for name, (found, wanted) in pairs.items() if found != wanted), "")


def _spoken(messages: Json) -> list[tuple[Json, Json]]:
    turns = messages if isinstance(messages, list) else []
    return [(turn.get("role"), turn.get("content") or "") for turn in turns if isinstance(turn, dict)]


def _messages(one: PlannedTrial, trial: Trial, gate: PlannedGate) -> list[tuple[Json, Json]]:
    """(role, content) of each turn of the planned request."""
    text = _TEXTS.get(one.trial_id.requirement)
    if text is not None:
        return [("user", text(one, trial, gate))]
    scenario = SCENARIOS[one.trial_id.case.partition("/")[0]]
    request = scenario.request(
        scenario.generate(one.seed),
        thinking=Thinking(one.thinking),
        stream=one.stream,
        max_tokens=trial.exchange.asked.max_tokens,
        thinking_budget_tokens=trial.exchange.asked.thinking_budget_tokens,
    )
    return [(turn.role, turn.content) for turn in request.messages]


def _words(trial: Trial, name: str = "words") -> int:
    """A number of words in a recipe; never more than the request has bytes, whatever a stranger wrote there."""
    words = trial.recipe[name]
    if type(words) is not int or abs(words) > len(trial.exchange.request_body):
        raise ValueError(f"{name} is {words!r}")
    return words


def _names(value: Json) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError("a list of words expected")
    return tuple(str(word) for word in value)


def _ladder_text(one: PlannedTrial, trial: Trial, gate: PlannedGate) -> str:
    case, _, part = one.trial_id.case.partition("/")
    if case == "calibration":
        if "group" in trial.recipe:
            return haystack.words_prompt(_names(trial.recipe["group"]))
        return haystack.calibration_prompt(one.seed, _words(trial))
    tokens, strata = gate.parameters["rungs"], gate.parameters["strata"]
    if not isinstance(tokens, list) or not isinstance(strata, list):
        raise TypeError("no rungs in the plan")
    layers = dict(zip((f"rung-{rung}" for rung in tokens), strata, strict=True))[case]
    if type(layers) is not int:
        raise TypeError("no strata in the plan")
    question = haystack.question_of(one.trial_id.repeat, layers, reserve=part == "reserve")
    dropped = _names(trial.recipe["dropped"])
    return haystack.padded(haystack.build(one.seed, _words(trial), layers, question, dropped), _words(trial, "pad"))


_TEXTS: Mapping[str, _Texts] = {
    "PRE-CONTRACT-01": lambda one, _trial, _gate: tiny.sum_question(one.seed),
    "PRE-THINK-01": lambda one, _trial, _gate: tiny.riddle(one.seed),
    "PRE-RULER-01": lambda _one, _trial, _gate: tiny.TICK,
    "PERF-C1-01": lambda one, _trial, _gate: timed_prompt(_CORPUS[one.trial_id.case], nonce(one.seed)),
    "PERF-CACHE-01": lambda one, trial, _gate: haystack.calibration_prompt(one.seed, _words(trial)),
    "LCTX-USAGE-01": _ladder_text,
    "QUAL-SPEC-01": lambda one, _trial, _gate: copying_prompt(one.seed),
}
