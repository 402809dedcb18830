"""Puts load on a deployment: closed-loop sessions whose every exchange is recorded."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from certify.deployment.recorder import Recorder
from certify.records import ChatRequest, Exchange, Json, TrialId


@dataclass(frozen=True, slots=True)
class Question:
    """One request of a session, in its place."""

    trial_id: TrialId
    request: ChatRequest
    recipe: Mapping[str, Json]
    serves: tuple[str, ...] = ()
    warm_up: bool = False


def closed_loop(recorder: Recorder, questions: Iterable[Question]) -> tuple[Exchange, ...]:
    """One session: each request is sent when the answer before it has ended."""
    return tuple(
        recorder.ask(
            question.trial_id,
            question.request,
            serves=question.serves,
            recipe=question.recipe,
            warm_up=question.warm_up,
        )
        for question in questions
    )
