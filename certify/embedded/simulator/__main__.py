"""Serve one arm of the simulated pair: `python -m certify.embedded.simulator --arm spec-on`."""

import argparse
import socket
import sys

import uvicorn

from certify.child import Ropes
from certify.embedded.simulator import ARMS, DIALECTS
from certify.embedded.simulator.app import Simulator
from certify.embedded.simulator.engine import Engine
from certify.embedded.simulator.pace import Pace


def serve(*, port: int, dialect: str, arm: str, time_scale: float = 1.0, ropes: Ropes | None = None) -> int:
    """Serve until stopped; says on stdout where (or to the parent, if there is one). Returns the exit code."""
    if dialect not in DIALECTS or arm not in ARMS:
        known = f"dialects: {', '.join(DIALECTS)}; arms: {', '.join(ARMS)}"
        print(f"certify simulate: no dialect {dialect!r} with arm {arm!r}. Known {known}", file=sys.stderr)  # noqa: T201
        return 4
    try:
        listener = socket.create_server(("127.0.0.1", port), backlog=256)
        # asyncio sets it only on sockets that name their protocol, and Nagle's 40 ms would be part of each TTFT.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except (OSError, OverflowError) as error:
        message = (
            f"certify simulate: port {port} of 127.0.0.1 cannot be served ({error}): leave --port out for a free one"
        )
        print(message, file=sys.stderr)  # noqa: T201 - the command's own answer
        return 4
    engine = Engine(speculation=arm == "spec-on", pace=Pace(scale=time_scale))
    config = uvicorn.Config(
        Simulator(engine).application(),
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=75,
    )
    (ropes or Ropes()).announce(f"http://127.0.0.1:{listener.getsockname()[1]}")
    uvicorn.Server(config).run(sockets=[listener])
    return 0


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    ropes = Ropes()
    parser = argparse.ArgumentParser(prog="python -m certify.embedded.simulator", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--dialect", default="vllm")
    parser.add_argument("--arm", default="spec-on", choices=ARMS)
    parser.add_argument("--time-scale", type=float, default=1.0, help="multiplies every duration")
    options = parser.parse_args(arguments)
    return serve(
        port=options.port, dialect=options.dialect, arm=options.arm, time_scale=options.time_scale, ropes=ropes
    )


if __name__ == "__main__":
    sys.exit(main())
