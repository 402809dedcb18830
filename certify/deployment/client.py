"""The deployment seen from outside: a handful of synchronous verbs over HTTP, deadlines, and typed errors."""

from dataclasses import dataclass

from certify.records import Arm, ChatRequest, Exchange, Message, Probe, Sample, Thinking
from certify.wire.identity import Identity


@dataclass(frozen=True, slots=True)
class Deadlines:
    """When to stop waiting, in seconds: for the connection, the first token, silence after it, and the whole."""

    connect_s: float = 5.0
    first_token_s: float = 120.0
    silence_s: float = 60.0
    exchange_s: float = 900.0


class DeploymentError(Exception):
    """A deployment that cannot be asked: one line that says what was tried, what came, and what to do."""


class Deployment:
    """The system under test."""

    def __init__(
        self, base_url: str, *, model: str = "", api_key_env: str = "", deadlines: Deadlines | None = None
    ) -> None:
        """Checks the URL and the key's variable; opens nothing.

        Raises:
            DeploymentError: no http(s) URL, or the named variable is not set.
        """
        raise NotImplementedError

    base_url: str

    def identify(self) -> tuple[Identity, tuple[Probe, ...]]:
        """Probe who answers; settles the dialect and, when none was given, the model.

        Raises:
            DeploymentError: unreachable, not an OpenAI-compatible API, key refused, or unknown model.
        """
        raise NotImplementedError

    def exchange(self, request: ChatRequest) -> Exchange:
        """Ask one chat completion, streamed or not as it says; never raises for what the deployment does."""
        raise NotImplementedError

    def probe(self, name: str, method: str, path: str, body: object = None) -> Probe:
        """One unscored request; never raises for what the deployment does."""
        raise NotImplementedError

    def counters(self, name: str, arm: Arm) -> Sample:
        """The relevant lines of the deployment's metrics page, now (status None or 404 where there is none)."""
        raise NotImplementedError

    def tokenize(self, messages: tuple[Message, ...], thinking: Thinking) -> int | None:
        """How many prompt tokens the engine's own tokenizer counts, where the engine offers that; else None."""
        raise NotImplementedError

    def close(self) -> None:
        """Close all connections."""
        raise NotImplementedError
