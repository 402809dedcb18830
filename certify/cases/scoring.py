"""The protocol of a scenario: a seeded case with computed truth, a request, and a strict score."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from certify.records import ChatRequest, Exchange, Json, Thinking
from certify.wire.answer import Answer


class Grade(StrEnum):
    """Where an answer stopped being right, in the order of checking; RIGHT means that it never did."""

    INFRA = "infra"  # no answer came: connection, HTTP status, cut
    PROTOCOL = "protocol"  # the envelope is broken
    BUDGET = "budget"  # thinking used up the tokens: no answer was begun, or it was cut
    FORMAT = "format"  # not the form that was asked for
    SCHEMA = "schema"  # the form, but not the schema
    VALUE = "value"  # the schema, but a wrong value
    REFUSED = "refused"  # a 4xx that names what the engine does not support
    RIGHT = "right"


@dataclass(frozen=True, slots=True)
class Case:
    """One generated question: `truth` is computed, never written by hand; `prompt` states all that is checked."""

    scenario: str
    seed: str
    prompt: str
    truth: Json
    detail: dict[str, Json]


@dataclass(frozen=True, slots=True)
class Score:
    """The grade of one answer, the reason in one sentence, and the (hostile, capped) text that shows it."""

    grade: Grade
    reason: str
    quote: str = ""


class Scenario(Protocol):
    """What a module of `cases/scenarios/` offers (module-level names)."""

    NAME: str
    REQUIREMENT: str
    CONSTRAINED: bool  # the server enforces the form (schema, pattern): form and schema are then gated by themselves

    def generate(self, seed: str) -> Case:
        """The case of a seed: the same on every machine and for all time of a judge version."""

    def request(
        self, case: Case, *, thinking: Thinking, stream: bool, max_tokens: int, thinking_budget_tokens: int | None
    ) -> ChatRequest:
        """The question as a request."""

    def score(self, case: Case, exchange: Exchange, answer: Answer) -> Score:
        """The strict score: infra, protocol, budget, format, schema, value, in this order."""
