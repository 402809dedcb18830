"""Who answers: engine, version, model, context and configuration, read from probes and answers alone."""

from collections.abc import Iterable
from dataclasses import dataclass

from certify.records import Probe
from certify.wire.answer import Answer


@dataclass(frozen=True, slots=True)
class Identity:
    """What the deployment says of itself; "" or None where it says nothing.

    `facts` are further observed facts as sorted (name, value) pairs of text, each capped at 200 characters.
    `context_tokens` is the longest prompt plus answer that one request may have, as far as the API tells.
    """

    engine: str  # "vllm", "sglang", "llama.cpp", "tensorrt-llm", "lmdeploy", "tabbyapi", "ds4", …, "generic"
    version: str
    model: str
    models: tuple[str, ...]
    context_tokens: int | None
    system_fingerprint: str
    tensor_parallel: int | None
    max_sequences: int | None
    simulated: bool
    facts: tuple[tuple[str, str], ...]


def read_identity(probes: Iterable[Probe], answers: Iterable[Answer] = ()) -> Identity:
    """The identity that a set of identity probes (and ordinary answers) shows; nothing is raised."""
    raise NotImplementedError
