"""The simulated TP=2 pair: two launches of one model, with speculation and without, in processes of their own."""

from pathlib import Path
from types import TracebackType
from typing import Self

from certify.child import Child

ARMS = ("spec-on", "spec-off")
DIALECTS = ("vllm",)


class SimulatedDeployment:
    """One arm in its process; `base_url` holds while the context is entered."""

    def __init__(self, arm: str, log_dir: Path, *, dialect: str = "vllm", time_scale: float = 1.0) -> None:
        if arm not in ARMS or dialect not in DIALECTS:
            raise ValueError(f"arm {arm!r}, dialect {dialect!r}: known are {', '.join(ARMS)} and {', '.join(DIALECTS)}")
        self.log_path = log_dir / f"embedded-simulated-{arm}.log"
        self.base_url = ""
        arguments = ["--port", "0", "--dialect", dialect, "--arm", arm, "--time-scale", str(time_scale)]
        self._child = Child("certify.embedded.simulator", arguments, log_path=self.log_path, name="the simulator")

    def __enter__(self) -> Self:
        """Start it.

        Raises:
            ChildError: it did not come up; with the last lines of its log.
        """
        self._child.__enter__()
        self.base_url = self._child.address
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.__exit__(kind, value, trace)


def start_simulated(arm: str, log_dir: Path, *, dialect: str = "vllm", time_scale: float = 1.0) -> SimulatedDeployment:
    """An arm of the pair, to be entered as a context manager; `time_scale` multiplies every duration."""
    return SimulatedDeployment(arm, log_dir, dialect=dialect, time_scale=time_scale)
