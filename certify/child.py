"""Child processes that never outlive their parent, and that say on a pipe when they serve (ground floor)."""

import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import certify

PR_SET_PDEATHSIG = 1  # linux/prctl.h
LOG_TAIL_LINES = 12
STOP_S = 5.0


class ChildError(RuntimeError):
    """A child process that did not come up: what it was, why, and the last lines of its log."""


def package_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment in which `python -m certify…` finds this very package, and never one in the working folder."""
    root = str(Path(certify.__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1", **(extra or {})}


def log_tail(path: Path, lines: int = LOG_TAIL_LINES) -> str:
    """The last lines of a log, printable characters only."""
    try:
        raw = path.read_bytes()[-16_384:]
    except OSError:
        return ""
    text = "".join(c if c.isprintable() or c == "\n" else "?" for c in raw.decode(errors="replace"))
    return "\n".join(text.splitlines()[-lines:])


class Child:
    """`python -m MODULE ARGUMENTS` as a context manager; `address` is the line that it announced.

    Two ropes tie it to its parent, because each alone has a hole. A pipe that only the parent holds open tells the
    child of the parent's death, but is read late while native code holds the interpreter. The kernel's parent death
    signal is immediate, but speaks of the *thread* that started the child, so it is used from the main thread only.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        log_path: Path,
        name: str,
        start_s: float = 60.0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log_path = log_path
        self.address = ""
        self._command = [sys.executable, "-m", module, *arguments]
        self._name, self._start_s, self._environment = name, start_s, dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline = -1

    @property
    def pid(self) -> int:
        """The process id of the running child."""
        if self._process is None:
            raise ChildError(f"{self._name} is not running: enter it as a context manager first")
        return self._process.pid

    def __enter__(self) -> Self:
        """Start it and wait for its announcement.

        Raises:
            ChildError: it ended or stayed silent for `start_s` seconds.
        """
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        ready_read, ready_write = os.pipe()
        life_read, self._lifeline = os.pipe()
        by_thread = threading.current_thread() is threading.main_thread()
        ropes = f"{ready_write},{life_read},{os.getpid() if by_thread else 0}"
        try:
            with self.log_path.open("wb") as log:
                self._process = subprocess.Popen(  # noqa: S603 - our own module, no shell
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=(ready_write, life_read),
                    env=package_environment({**self._environment, "CERTIFY_CHILD": ropes}),
                    start_new_session=True,  # Ctrl-C goes to the run, which then ends its deployment in order
                )
            os.close(ready_write)
            ready_write = -1
            self.address = self._announced(ready_read)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        finally:
            for descriptor in (ready_read, life_read, ready_write):
                if descriptor >= 0:
                    os.close(descriptor)
        return self

    def _announced(self, descriptor: int) -> str:
        deadline, line = time.monotonic() + self._start_s, b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise ChildError(self._why(f"did not serve within {self._start_s:g} s"))
            piece = os.read(descriptor, 4096)
            if not piece:
                raise ChildError(self._why("ended before it served"))
            line += piece
        return line.decode().strip()

    def _why(self, what: str) -> str:
        return f"{self._name} {what}. Its log {self.log_path} ends with:\n{log_tail(self.log_path) or '(nothing)'}"

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


class Ropes:
    """The child's side: made first thing in a module that `Child` starts; without a `Child` it does nothing."""

    def __init__(self) -> None:
        """Ends this process if the parent is already gone, and as soon as it goes."""
        self._ready = -1
        ropes = os.environ.pop("CERTIFY_CHILD", "")
        if not ropes:
            return
        self._ready, lifeline, parent = (int(part) for part in ropes.split(","))
        for descriptor in (self._ready, lifeline):
            os.set_inheritable(descriptor, False)  # noqa: FBT003 - positional in the standard library
        if parent and sys.platform == "linux":
            ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:  # it died before the signal was asked for
                os._exit(1)
        threading.Thread(target=_die_with, args=(lifeline,), daemon=True).start()

    def announce(self, line: str) -> None:
        """Say to the parent (or, without one, on stdout) what is served where."""
        if self._ready < 0:
            print(line, flush=True)  # noqa: T201 - the module's interface when started by hand
            return
        os.write(self._ready, f"{line}\n".encode())
        os.close(self._ready)
        self._ready = -1


def _die_with(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(0)
