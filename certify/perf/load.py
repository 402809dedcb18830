"""Puts load on a deployment: closed-loop sessions whose every exchange is recorded."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from certify.deployment.recorder import Recorder
from certify.records import ChatRequest, Json, TrialId


@dataclass(frozen=True, slots=True)
class Question:
    """One request of a session, in its place."""

    trial_id: TrialId
    request: ChatRequest
    recipe: Mapping[str, Json]
    serves: tuple[str, ...] = ()
    warm_up: bool = False


def closed_loop(recorder: Recorder, questions: Iterable[Question]) -> None:
    """One session: each request is sent when the answer before it has ended."""
    for question in questions:
        recorder.ask(
            question.trial_id,
            question.request,
            serves=question.serves,
            recipe=question.recipe,
            warm_up=question.warm_up,
        )
