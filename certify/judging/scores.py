"""The scores of the quality cases, computed again: the case from the plan's seed, the answer from its raw body."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from certify.cases.scenarios import SCENARIOS
from certify.cases.scoring import Grade, Score
from certify.evidence import EvidenceView
from certify.judging.reading import Seen, counted, quote, read
from certify.plan import Plan
from certify.records import Arm, Exchange, Finding, Thinking

# Grades that tell nothing about the value: the thinking cap was met, or the request was declined.
APART = (Grade.BUDGET, Grade.REFUSED)


@dataclass(frozen=True, slots=True)
class Scored:
    """One answer with its score; `seed` is the case's."""

    seen: Seen
    scenario: str
    mode: Thinking
    seed: str
    score: Score

    @property
    def right(self) -> bool:
        """Whether nothing is wrong with it."""
        return self.score.grade is Grade.RIGHT

    @property
    def apart(self) -> bool:
        """Whether it is counted apart: neither right nor wrong."""
        return self.score.grade in APART

    @property
    def stratum(self) -> tuple[str, str]:
        """What it is grouped by: scenario and thinking mode."""
        return self.scenario, str(self.mode)

    def finding(self) -> Finding:
        """What is wrong, in one sentence, with the text that shows it."""
        return Finding(
            f"{self.seen.name}: {self.score.grade}: {self.score.reason}", self.seen.evidence, quote(self.score.quote)
        )


@lru_cache(maxsize=1024)
def _score(exchange: Exchange, scenario: str, seed: str) -> Score:
    module = SCENARIOS[scenario]
    return module.score(module.generate(seed), exchange, read(exchange))


def scored(view: EvidenceView, plan: Plan, requirement: str, arm: Arm = Arm.SERVED) -> tuple[Scored, ...]:
    """The scored cases that serve a requirement.

    What no plan foresees, or was asked from another seed, is left out: cases come from the plan's seeds alone. Trials
    of the other arm are cases of QUAL-SPEC-05 with the seeds of the served arm's.
    """
    found = []
    for one in counted(view, requirement, arm):
        planned = plan.planned_trial(one.trial.trial_id)
        scenario = one.trial.trial_id.case.partition("/")[0]
        other_question = planned is not None and one.trial.recipe.get("seed", planned.seed) != planned.seed
        if planned is not None and scenario in SCENARIOS and not other_question:
            mode = one.trial.exchange.asked.thinking
            found.append(Scored(one, scenario, mode, planned.seed, _score(one.trial.exchange, scenario, planned.seed)))
    return tuple(found)


def strata(ones: Iterable[Scored]) -> list[tuple[int, int]]:
    """(right, n) for each scenario and thinking mode, in a fixed order."""
    right: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    for one in ones:
        total[one.stratum] += 1
        right[one.stratum] += one.right
    return [(right[stratum], total[stratum]) for stratum in sorted(total)]


def grades(ones: Iterable[Scored]) -> str:
    """How many answers have which grade, in words: "10 right, 2 value"."""
    tally = Counter(one.score.grade for one in ones)
    return ", ".join(f"{tally[grade]} {grade}" for grade in reversed(Grade) if tally[grade]) or "none"
