"""The deployments that an `embedded:` URL starts: each a pair of launches, with and without speculation."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from certify.options import EMBEDDED_REAL, EMBEDDED_SIMULATED


class Running(Protocol):
    """A launch that answers."""

    @property
    def base_url(self) -> str:
        """Where it answers."""


@dataclass(frozen=True, slots=True)
class Pair:
    """How a launch is started: `start(speculation, log_dir)`; its context manager's value answers."""

    launch: Callable[[bool, Path], AbstractContextManager[Running]]

    def start(self, *, speculation: bool, log_dir: Path) -> AbstractContextManager[Running]:
        """A launch with or without speculation."""
        return self.launch(speculation, log_dir)


def _real(speculation: bool, log_dir: Path) -> AbstractContextManager[Running]:  # noqa: FBT001 - the one choice
    from certify.embedded.real import start_real  # noqa: PLC0415 - an extra

    return start_real(speculation, log_dir)


def _simulated(speculation: bool, log_dir: Path) -> AbstractContextManager[Running]:  # noqa: FBT001 - the one choice
    from certify.embedded.simulator import start_simulated  # noqa: PLC0415 - loads an ASGI stack

    return start_simulated("spec-on" if speculation else "spec-off", log_dir)


PAIRS: Mapping[str, Pair] = MappingProxyType({EMBEDDED_REAL: Pair(_real), EMBEDDED_SIMULATED: Pair(_simulated)})
