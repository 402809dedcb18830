"""The simulator over HTTP: an ASGI application around one engine."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Sequence

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from certify.embedded.simulator import vllm
from certify.embedded.simulator.answer_key import read_keys
from certify.embedded.simulator.asking import Asking, RefusedError, read_asking
from certify.embedded.simulator.engine import CONTEXT_TOKENS, VERSION, Answering, Engine
from certify.embedded.simulator.tokens import token_id, tokens_of

LARGEST_BODY = 64 * 1024 * 1024


async def _body(request: Request) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > LARGEST_BODY:
            raise RefusedError("the body is longer than 64 MiB", status=413, kind="RequestEntityTooLarge")
        pieces.append(piece)
    return b"".join(pieces)


class Simulator:
    """The endpoints of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._serial = itertools.count()
        self._created = int(time.time())

    def application(self) -> Starlette:
        """The ASGI application."""
        routes = [
            Route("/health", self.health),
            Route("/version", self.version),
            Route("/v1/models", self.models),
            Route("/metrics", self.metrics),
            Route("/tokenize", self.tokenize, methods=["POST"]),
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
            Route("/simulator/seed", self.seed, methods=["POST"]),
        ]
        return Starlette(routes=routes, exception_handlers={RefusedError: _refuse, ClientDisconnect: _gone})

    async def health(self, _: Request) -> Response:
        """Alive."""
        return Response()

    async def version(self, _: Request) -> Response:
        """The version of the engine that it simulates."""
        return JSONResponse({"version": VERSION})

    async def models(self, _: Request) -> Response:
        """The one model, owned by the simulator."""
        return JSONResponse(vllm.models(self._created))

    async def metrics(self, _: Request) -> Response:
        """The counters."""
        return PlainTextResponse(vllm.metrics(self._engine), media_type="text/plain; version=0.0.4")

    async def tokenize(self, request: Request) -> Response:
        """Token counts of a text or of a chat."""
        raw = await _body(request)
        tokens = await asyncio.to_thread(self._tokens_of, raw)
        ids = await asyncio.to_thread(lambda: [token_id(token) for token in tokens])
        return JSONResponse({"count": len(ids), "max_model_len": CONTEXT_TOKENS, "tokens": ids, "token_strs": None})

    def _tokens_of(self, raw: bytes) -> Sequence[str]:
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise RefusedError(f"the body is not JSON: {error}") from error
        if isinstance(body, dict) and isinstance(body.get("prompt"), str):
            return tokens_of(body["prompt"])
        return self._engine.prompt_of(read_asking(raw))

    async def seed(self, request: Request) -> Response:
        """Take the seed of a run, or single cases: only this deployment has such an endpoint."""
        keys = await asyncio.to_thread(read_keys, await _body(request))
        self._engine.keys.update(keys)
        return JSONResponse({"cases": len(keys)})

    async def chat(self, request: Request) -> Response:
        """A chat completion, streamed or not."""
        began = time.monotonic()
        raw = await _body(request)
        began = max(began, time.monotonic() - 0.001)  # an upload is not prefill
        answering = await asyncio.to_thread(self._answer, raw)
        name = f"chatcmpl-{next(self._serial):08x}"
        if answering.asking.stream:
            return StreamingResponse(self._stream(answering, name, began), media_type="text/event-stream")
        async for _ in self._paced(answering, began):
            pass
        return JSONResponse(vllm.whole_body(answering, self._engine, name, int(time.time())))

    def _answer(self, raw: bytes) -> Answering:
        asking: Asking = read_asking(raw)
        return self._engine.answer(asking)

    async def _paced(self, answering: Answering, began: float) -> AsyncIterator[int]:
        """The index of each step when its time has come."""
        engine = self._engine
        due = began + engine.pace.ttft_s(answering.prompt_tokens, answering.cached_tokens)
        engine.change_running(1)
        try:
            for index, tokens in enumerate(answering.steps):
                await asyncio.sleep(due - time.monotonic())
                engine.count_generated(len(tokens))
                yield index
                due += engine.pace.next_step_s(engine.totals.running)
        finally:
            engine.change_running(-1)

    async def _stream(self, answering: Answering, name: str, began: float) -> AsyncIterator[bytes]:
        chunks = vllm.Chunks(answering, self._engine, name, int(time.time()))
        last = len(answering.steps) - 1
        async for index in self._paced(answering, began):
            if index == 0:
                yield chunks.role()
            if piece := chunks.step(answering.steps[index], last=index == last):
                yield piece
        for piece in chunks.tail():
            yield piece


async def _refuse(_: Request, error: Exception) -> Response:
    refused = error if isinstance(error, RefusedError) else RefusedError(str(error))
    return JSONResponse(vllm.error_body(refused), status_code=refused.status)


async def _gone(_: Request, __: Exception) -> Response:
    return Response(status_code=499)
