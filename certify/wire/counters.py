"""The deployment's own counters, read from Prometheus text by exact sample names (docs/METHODS.md lists them)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals since the engine started, summed over label sets; None where the engine has no such counter."""

    prompt_tokens: int | None = None
    generation_tokens: int | None = None
    prefix_queries: int | None = None
    prefix_hits: int | None = None
    drafts: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    accepted_per_position: tuple[int, ...] = ()
    running: int | None = None
    waiting: int | None = None


def relevant_lines(text: str) -> str:
    """The lines of a metrics page that `read_counters` or identity reads: what evidence keeps (at most 64 KiB)."""
    raise NotImplementedError


def read_counters(text: str) -> Counters:
    """The counters in (the relevant lines of) a metrics page of any engine."""
    raise NotImplementedError
