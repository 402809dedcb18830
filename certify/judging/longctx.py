"""The judges of the long-context room: rungs exact by `usage`, needles found at every rung."""

from collections.abc import Mapping
from dataclasses import dataclass

from certify.cases import haystack
from certify.cases.haystack import NeedleScore
from certify.cases.nouns import NOUNS
from certify.evidence import EvidenceView
from certify.judging import Judge
from certify.judging.measured import NS_PER_S, Measured, figure, flaw, measured, timeline
from certify.judging.reading import quote
from certify.plan import Plan, PlannedGate, whole_parameter, whole_parameters
from certify.records import Bound, Figure, Finding, Json, Outcome, Verdict
from certify.stats import lower_bound
from certify.thresholds import Thresholds

EXACT, NEEDLES = "LCTX-USAGE-01", "LCTX-NEEDLE-01"
METRIC = "share_found"
SHOWN = 10

RUNG_MISSES, ALL_MISSES, RESERVES_WRONG = 3, 5, 2  # FAIL from so many on
SPARED_ON_RUNG, SPARED_IN_ALL = 1, 2  # unconfirmed misses that a PASS may list
FEWEST_NOUNS = 100  # of which a haystack is built
CUT_TOKENS = 64  # a rung that falls short by more was cut; by less, the builder may be off

COLD_TOKENS, COLD_SHARE = 64, 0.05


@dataclass(frozen=True, slots=True)
class _Question:
    """One needle's question and what came of it; `reserve` is one that a miss of its stratum called for."""

    one: Measured
    stratum: int
    reserve: bool
    score: NeedleScore
    depth_share: float


@dataclass(frozen=True, slots=True)
class _Rung:
    """What was asked at one rung, in order; `mended` holds its mended cold question, if there was one."""

    tokens: int
    strata: int
    asked: list[Measured]
    mended: list[Measured]
    reserves: list[Measured]

    @property
    def everything(self) -> list[Measured]:
        return self.asked + self.mended + self.reserves


def judge_exact_rungs(view: EvidenceView, plan: Plan, thresholds: Thresholds) -> Verdict:
    """PASS when `usage.prompt_tokens` equals the rung on every question of every rung (after at most one mending)."""
    del thresholds  # a count is exact or it is not
    gate = plan.gate(EXACT)
    if gate is None:
        return Verdict(EXACT, Outcome.NOT_RUN, "the plan does not hold this gate")
    trials = measured(view, EXACT)
    evidence = tuple(one.seq for one in trials)
    early = _calibrated(gate, trials)
    if early:
        return early
    rungs = _rungs(gate, trials)
    faults = [fault for rung in rungs if (fault := _rung_fault(rung))]
    findings = (*(one[1] for one in faults), *_mended(rungs), *_not_cold(rungs), *_uncovered(gate))
    wanted = ", ".join(f"{rung.tokens:,}" for rung in rungs)
    if faults:
        outcome = Outcome.FAIL if any(one[0] is Outcome.FAIL for one in faults) else faults[0][0]
        leading = next(one[1] for one in faults if one[0] is outcome)
        return Verdict(
            EXACT,
            outcome,
            f"{len(faults)} of {len(rungs)} rungs ({wanted} tokens) did not hold: {leading.text}",
            gate.rule,
            _figures(rungs),
            findings=findings,
            cause=_exact_cause(outcome),
            action="compare the server's context settings and its log at these exchanges; a proxy may cut large bodies",
            evidence=evidence,
        )
    mended = sum(bool(rung.mended) for rung in rungs)
    return Verdict(
        EXACT,
        Outcome.PASS,
        f"{len(rungs)} of {len(rungs)} rungs ({wanted} tokens) exact by usage, {len(rungs) - mended} at the first shot",
        gate.rule,
        _figures(rungs),
        findings=findings,
        evidence=evidence,
    )


def _exact_cause(outcome: Outcome) -> str:
    if outcome is Outcome.FAIL:
        return (
            "the server cuts long prompts (often the front, with HTTP status 200), counts them wrong, or breaks on them"
        )
    return "the words of the haystack are not one token each in this tokenizer: the length could not be aimed at"


def _calibrated(gate: PlannedGate, trials: list[Measured]) -> Verdict | None:
    """The verdict that a failed calibration gives; None when rungs could be asked."""
    tiny = sorted((one for one in trials if one.trial_id.case == "calibration"), key=lambda one: one.trial_id.repeat)
    evidence = tuple(one.seq for one in trials)
    sizes = whole_parameters(gate, "calibration_words")
    if len(tiny) < len(sizes):
        return Verdict(EXACT, Outcome.NOT_RUN, "calibration did not run to its end", gate.rule, evidence=evidence)
    flaws = [found for one in tiny if (found := flaw(one))]
    if flaws:
        return Verdict(
            EXACT,
            flaws[0].outcome,
            f"calibration by tiny requests failed: {flaws[0].text}",
            gate.rule,
            findings=tuple(one.finding() for one in flaws[:SHOWN]),
            action="a request of a few words must be answered with usage: see PRE-CONTRACT-01",
            evidence=evidence,
        )
    if len(trials) > len(tiny):
        return None
    counts = [one.answer.usage.prompt_tokens for one in tiny[: len(sizes)] if one.answer.usage]
    told = ", ".join(f"{words} words: {count}" for words, count in zip(sizes, counts, strict=True))
    return Verdict(
        EXACT,
        Outcome.INCONCLUSIVE,
        f"prompt_tokens does not follow the number of words ({told}): no rung can be aimed at",
        gate.rule,
        cause="usage.prompt_tokens is wrong, or this tokenizer splits most common nouns",
        action="compare usage.prompt_tokens with the server's /tokenize for a short prompt",
        evidence=evidence,
    )


def _rungs(gate: PlannedGate, trials: list[Measured]) -> list[_Rung]:
    by_case: dict[str, list[Measured]] = {}
    for one in trials:
        by_case.setdefault(one.trial_id.case, []).append(one)
    for ones in by_case.values():
        ones.sort(key=lambda one: one.trial_id.repeat)
    found = []
    pairs = zip(whole_parameters(gate, "rungs"), whole_parameters(gate, "strata"), strict=True)
    for tokens, strata in pairs:
        asked, mended, reserves = (by_case.get(f"rung-{tokens}{part}", []) for part in ("", "/mended", "/reserve"))
        found.append(_Rung(tokens, strata, asked, mended, reserves))
    return found


def _rung_fault(rung: _Rung) -> tuple[Outcome, Finding] | None:
    """What is wrong with the length of a rung: FAIL for the deployment's fault, INCONCLUSIVE for the builder's."""
    if not rung.asked:
        return Outcome.ERROR, Finding(f"rung {rung.tokens:,} was not asked: a smaller one gave no usage")
    for one in rung.everything:
        if found := flaw(one):
            lacking = found.outcome is Outcome.ERROR and one.exchange.status == 200  # noqa: PLR2004 - HTTP's OK
            text = f"rung {rung.tokens:,}, {_what(one)}: {found.text}"
            return Outcome.ERROR if lacking else Outcome.FAIL, Finding(text, (one.seq,), found.quote)
    if len(rung.asked) < rung.strata:
        return Outcome.ERROR, Finding(f"rung {rung.tokens:,}: {len(rung.asked)} of {rung.strata} questions were asked")
    aimed = rung.everything[1:] if rung.mended else rung.everything
    for one in aimed:
        count = one.answer.usage.prompt_tokens if one.answer.usage else 0
        if count != rung.tokens:
            text = f"rung {rung.tokens:,}, {_what(one)}: usage says {count:,} prompt tokens"
            cut = count < rung.tokens - CUT_TOKENS
            return Outcome.FAIL if cut else Outcome.INCONCLUSIVE, Finding(text, (one.seq,))
    return None


def _what(one: Measured) -> str:
    kind = one.trial_id.case.partition("/")[2] or ("cold question" if one.trial_id.repeat == 0 else "question")
    return f"{kind} {one.trial_id.repeat}"


def _mended(rungs: list[_Rung]) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            f"rung {rung.tokens:,} was {rung.asked[0].answer.usage.prompt_tokens - rung.tokens:+d} tokens off at the "
            "first shot and was mended at its end",
            (rung.asked[0].seq, rung.mended[0].seq),
        )
        for rung in rungs
        if rung.mended and rung.asked and rung.asked[0].answer.usage
    )


def _not_cold(rungs: list[_Rung]) -> tuple[Finding, ...]:
    """Cold questions that found more than the template's preamble cached: their times are no cold times."""
    found = []
    for rung in rungs:
        usage = rung.asked[0].answer.usage if rung.asked else None
        if usage and (usage.cached_tokens or 0) > max(COLD_TOKENS, COLD_SHARE * usage.prompt_tokens):
            text = f"the cold question of rung {rung.tokens:,} found {usage.cached_tokens:,} tokens cached: not cold"
            found.append(Finding(text, (rung.asked[0].seq,)))
    return tuple(found)


def _uncovered(gate: PlannedGate) -> tuple[Finding, ...]:
    left: Json = gate.parameters.get("uncovered")
    pairs: Mapping[str, Json] = left if isinstance(left, dict) else {}
    return tuple(Finding(f"rung {tokens} is not covered: {reason}") for tokens, reason in pairs.items())


def _figures(rungs: list[_Rung]) -> tuple[Figure, ...]:
    """For each rung the prompt tokens that usage tells, and the cold prefill rate."""
    figures = []
    for rung in rungs:
        counts = [one.answer.usage.prompt_tokens for one in rung.asked if one.answer.usage]
        if counts:
            figures.append(
                figure(
                    f"rung_{rung.tokens}_prompt_tokens", counts[-1], 0, "tokens", n=len(counts),
                    counted="usage.prompt_tokens of the last question", spread=f"{min(counts):,} to {max(counts):,}",
                )
            )  # fmt: skip
        first = timeline(rung.asked[0]).ttft_ns if rung.asked else None
        usage = rung.asked[0].answer.usage if rung.asked else None
        if first and usage:
            fresh = usage.prompt_tokens - (usage.cached_tokens or 0)
            figures.append(
                figure(
                    f"rung_{rung.tokens}_cold_prefill_rate", fresh * NS_PER_S / first, 1, "tok/s", n=1,
                    counted="prompt_tokens less cached_tokens of the cold question / its time to first token",
                )
            )  # fmt: skip
    return tuple(figures)


def judge_needles(view: EvidenceView, plan: Plan, thresholds: Thresholds) -> Verdict:
    """PASS when every rung's needles are found but for single, unconfirmed misses; the rule of the gate says which."""
    gate = plan.gate(NEEDLES)
    if gate is None:
        return Verdict(NEEDLES, Outcome.NOT_RUN, "the plan does not hold this gate")
    trials = measured(view, NEEDLES)
    evidence = tuple(one.seq for one in trials)
    rungs = _rungs(gate, trials)
    seeds = {trial.trial_id.case: trial.seed for trial in gate.trials}
    broken = [(one, found) for rung in rungs for one in rung.everything if (found := flaw(one))]
    if broken:
        one, found = broken[0]
        return Verdict(
            NEEDLES,
            Outcome.FAIL if any(each.outcome is Outcome.FAIL for _, each in broken) else Outcome.ERROR,
            f"{len(broken)} questions were not answered: {one.trial_id.case}, {_what(one)}: {found.text}",
            gate.rule,
            findings=tuple(each.finding() for _, each in broken[:SHOWN]),
            action="look into the server's log at these exchanges",
            evidence=evidence,
        )
    short = [rung for rung in rungs if len(rung.asked) < rung.strata]
    if short:
        return Verdict(
            NEEDLES,
            Outcome.ERROR if len(short) < len(rungs) else Outcome.NOT_RUN,
            f"rung {short[0].tokens:,} has {len(short[0].asked)} of {short[0].strata} questions",
            gate.rule,
            action="see LCTX-USAGE-01: the ladder ends where a rung cannot be aimed at",
            evidence=evidence,
        )
    bound = thresholds.bound(NEEDLES, METRIC)
    return _found(gate, {rung.tokens: _questions(rung, seeds) for rung in rungs}, bound, evidence)


def _questions(rung: _Rung, seeds: Mapping[str, str]) -> list[_Question]:
    """The questions of a rung, scored against the truth that its seed regenerates."""
    seed = seeds[f"rung-{rung.tokens}"]
    reserves = max(haystack.NEEDLES_PER_STRATUM - 1, 1)
    found = []
    for one in rung.asked + rung.reserves:
        reserve = one in rung.reserves
        stratum = one.trial_id.repeat // reserves if reserve else one.trial_id.repeat
        question = haystack.question_of(one.trial_id.repeat, rung.strata, reserve=reserve)
        words, dropped = one.recipe.get("words"), one.recipe.get("dropped")
        score = NeedleScore.WRONG
        if type(words) is int and isinstance(dropped, list) and _fits(words, rung, len(dropped)):
            names = tuple(str(word) for word in dropped)
            expected = haystack.expected_answer(seed, words, rung.strata, question, names)
            score = haystack.score_needle(expected, one.answer.content)
        found.append(_Question(one, stratum, reserve, score, (stratum + 0.5) / rung.strata))
    return found


def _fits(words: int, rung: _Rung, dropped: int) -> bool:
    """Whether a recipe can be that of this rung at all: evidence of a stranger may say anything."""
    return haystack.shortest(rung.strata) <= words <= rung.tokens and dropped <= len(NOUNS) - FEWEST_NOUNS


def _found(
    gate: PlannedGate, by_rung: Mapping[int, list[_Question]], bound: Bound | None, evidence: tuple[int, ...]
) -> Verdict:
    misses = {
        tokens: [one for one in asked if not one.reserve and one.score is not NeedleScore.RIGHT]
        for tokens, asked in by_rung.items()
    }
    asked = {tokens: sum(not one.reserve for one in ones) for tokens, ones in by_rung.items()}
    total, missed = sum(asked.values()), sum(map(len, misses.values()))
    outcome, reason = _rule(gate, by_rung, misses)
    share, proven = 100 * (total - missed) / total, lower_bound(total - missed, total)
    if bound and outcome is Outcome.PASS and share * 10**bound.decimals < bound.scaled:
        outcome, reason = Outcome.INCONCLUSIVE, f"{share:.1f} % found lies below {bound}"
    silent = sum(one.score is NeedleScore.NO_ANSWER for ones in misses.values() for one in ones)
    rungs = "; ".join(f"{tokens:,}: {asked[tokens] - len(ones)} of {asked[tokens]}" for tokens, ones in misses.items())
    figures = (
        *(_share(f"rung_{tokens}_{METRIC}", asked[tokens], len(ones)) for tokens, ones in misses.items()),
        _share(METRIC, total, missed),
    )
    return Verdict(
        NEEDLES,
        outcome,
        f"needles found by rung: {rungs}; {total - missed} of {total} prove p >= {proven:.3f}"
        + (f" ({reason})" if reason else ""),
        gate.rule,
        figures,
        (bound,) if bound else (),
        (*_miss_findings(by_rung), *_uncovered(gate)),
        cause=_needle_cause(misses, silent) if missed else "",
        action=""
        if outcome is Outcome.PASS
        else "ask the same model elsewhere at this length: a model may fail too; "
        "compare with smaller rungs; check RoPE/YaRN, window and KV cache settings",
        evidence=evidence,
    )


def _rule(
    gate: PlannedGate, by_rung: Mapping[int, list[_Question]], misses: Mapping[int, list[_Question]]
) -> tuple[Outcome, str]:
    total = sum(map(len, misses.values()))
    for tokens, ones in misses.items():
        if len(ones) >= RUNG_MISSES:
            return Outcome.FAIL, f"{len(ones)} misses on rung {tokens:,}"
        for one in ones:
            reserves = [other for other in by_rung[tokens] if other.reserve and other.stratum == one.stratum]
            wrong = sum(other.score is not NeedleScore.RIGHT for other in reserves)
            if wrong >= RESERVES_WRONG:
                return (
                    Outcome.FAIL,
                    f"{wrong} of {len(reserves)} reserves wrong at rung {tokens:,}, stratum {one.stratum}",
                )
            if len(reserves) < whole_parameter(gate, "reserves"):
                return Outcome.ERROR, f"the reserves of rung {tokens:,}, stratum {one.stratum} were not asked"
    if total >= ALL_MISSES:
        return Outcome.FAIL, f"{total} misses in all"
    if total > SPARED_IN_ALL or any(len(ones) > SPARED_ON_RUNG for ones in misses.values()):
        return Outcome.INCONCLUSIVE, f"{total} misses, not confirmed by their reserves"
    return Outcome.PASS, f"{total} unconfirmed misses" if total else ""


def _share(name: str, asked: int, missed: int) -> Figure:
    low = lower_bound(asked - missed, asked)
    return figure(
        name, 100 * (asked - missed) / asked, 1, "%", n=asked, bounds=(100 * low, 100.0),
        counted="first questions answered with the exact code, of all first questions",
        population="one needle a stratum of depth, exact match of four words", interval="Clopper-Pearson, lower, 95 %",
    )  # fmt: skip


def _miss_findings(by_rung: Mapping[int, list[_Question]]) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            f"rung {tokens:,}, depth about {one.depth_share:.0%}: {one.score.value}"
            + (" (reserve)" if one.reserve else ""),
            (one.one.seq,),
            quote(one.one.answer.content),
        )
        for tokens, ones in by_rung.items()
        for one in ones
        if one.score is not NeedleScore.RIGHT
    )[:SHOWN]


def _needle_cause(misses: Mapping[int, list[_Question]], silent: int) -> str:
    total = sum(map(len, misses.values()))
    if 2 * silent > total:
        return (
            f"{silent} of {total} misses have no answer at all: thinking used up the tokens, or the turn ended at once"
        )
    warm = sum(one.one.trial_id.repeat > 0 for ones in misses.values() for one in ones)
    if warm == total and total >= RUNG_MISSES:
        return "only warm questions miss: the prefix cache may return a wrong state"
    return "what stands at these depths was not attended to: a cut, a window, positions out of range, or a weak model"


JUDGES: Mapping[str, Judge] = {EXACT: judge_exact_rungs, NEEDLES: judge_needles}
