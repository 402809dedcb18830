"""The deployment seen from outside: a handful of synchronous verbs over HTTP, deadlines, and typed errors."""

import hashlib
import json
import time
from dataclasses import dataclass

from certify.codec import CodecError, parse_json
from certify.deployment import dialects, discovery
from certify.deployment.address import normalised
from certify.deployment.errors import DeploymentError
from certify.deployment.secret import Secret
from certify.deployment.transport import Watch
from certify.deployment.wire_exchange import Exchanger
from certify.records import Arm, Asked, ChatRequest, Exchange, Failure, Json, Message, Probe, Sample, Thinking
from certify.wire.counters import relevant_lines
from certify.wire.hostile import whole_text
from certify.wire.identity import Identity

__all__ = ["Deadlines", "Deployment", "DeploymentError"]

LONGEST_BODY_BYTES = 32 * 1024 * 1024
LONGEST_PROBE_BYTES = 1024 * 1024
LONGEST_METRICS_BYTES = 8 * 1024 * 1024
LONGEST_KEPT_REQUEST_BYTES = 64 * 1024
PROBE_FIRST_BYTE_S = 30.0  # SGLang's /health generates a token and may take 20 s


@dataclass(frozen=True, slots=True)
class Deadlines:
    """When to stop waiting, in seconds: for the connection, the first token, silence after it, and the whole.

    The first token's deadline ends with the first byte of the answer's body, whatever it holds; silence is broken by
    any byte.
    """

    connect_s: float = 5.0
    first_token_s: float = 120.0
    silence_s: float = 60.0
    exchange_s: float = 900.0


class Deployment:
    """The system under test. Threads may share it: one exchange a thread at a time, each on its own connection.

    Times are nanoseconds since just before the last bytes of the request were written. An answer is kept up to 32 MiB;
    the read that passes that ends the exchange. Proxies are not used, redirects not followed, nothing is sent twice,
    and nothing in a request says that it is a certification.
    """

    def __init__(
        self, base_url: str, *, model: str = "", api_key_env: str = "", deadlines: Deadlines | None = None
    ) -> None:
        """Checks the URL and the key's variable; opens nothing.

        Raises:
            DeploymentError: no http(s) URL, or the named variable is not set or holds no key.
        """
        self.base_url = normalised(base_url)
        self.model = model
        self.engine = "generic"
        self.deadlines = deadlines or Deadlines()
        self._metrics_path = "/metrics"
        secret = Secret.from_environment(api_key_env) if api_key_env else Secret("")
        if secret is None:
            raise DeploymentError(f"the variable {api_key_env} that --api-key-env names is not set or is empty")
        if not secret.fits_a_header():
            raise DeploymentError(f"the variable {api_key_env} holds blanks or characters that no key has")
        self._secret = secret
        self._exchanger = Exchanger(self.base_url, secret)

    def identify(self) -> tuple[Identity, tuple[Probe, ...]]:
        """Probe who answers; settles the dialect and, when none was given, the model.

        Raises:
            DeploymentError: unreachable, not an OpenAI-compatible API, key refused, or unknown model.
        """
        found = discovery.discover(self.probe, self.base_url, self.model)
        self.model = found.identity.model
        self.settle(found.identity.engine)
        return found.identity, found.probes

    def settle(self, engine: str) -> None:
        """Speak an engine's dialect without probing: the plan says who answered, and the evidence who answers now."""
        self.engine = engine
        self._metrics_path = discovery.metrics_path(engine)

    def exchange(self, request: ChatRequest) -> Exchange:
        """Ask one chat completion, streamed or not as it says; never raises for what the deployment does."""
        if not self.model:
            raise DeploymentError("no model is known yet: identify the deployment first, or give --model")
        body = dialects.render(request, self.model, self.engine)
        return self.exchange_body(body, _asked(request))

    def exchange_body(self, body: dict[str, Json], asked: Asked) -> Exchange:
        """Ask one chat completion in the caller's own wire body; never raises for what the deployment does."""
        content = _encoded(body)
        limits = self.deadlines
        watch = Watch(limits.connect_s, limits.first_token_s, limits.silence_s, limits.exchange_s)
        got = self._exchanger.send("POST", "/v1/chat/completions", content, watch, LONGEST_BODY_BYTES)
        return Exchange(
            asked=asked,
            request_sha256=hashlib.sha256(content).hexdigest(),
            request_body=content.decode() if len(content) <= LONGEST_KEPT_REQUEST_BYTES else "",
            request_bytes=len(content),
            sent_at_us=got.sent_at_us or time.time_ns() // 1000,
            status=got.status,
            content_type=got.content_type,
            body=got.body,
            body_bytes=got.body_bytes,
            body_sha256=got.body_sha256,
            reads=got.reads,
            headers_ns=got.headers_ns,
            ended_ns=got.ended_ns,
            failure=got.failure,
        )

    def probe(self, name: str, method: str, path: str, body: object = None) -> Probe:
        """One unscored request; never raises for what the deployment does.

        `path` is below the base URL; `body` is a JSON value, bytes (sent as they are), or None. At most 1 MiB of the
        answer is kept; of a metrics page the lines that the suite reads, of `/server_info` what is no secret.
        """
        content = body if isinstance(body, bytes) else _encoded(body) if body is not None else None
        plain = path.partition("?")[0]
        is_metrics = plain in discovery.METRICS_PATHS
        limits = self.deadlines
        first_byte_s = limits.first_token_s if content is not None else min(PROBE_FIRST_BYTE_S, limits.first_token_s)
        watch = Watch(limits.connect_s, first_byte_s, limits.silence_s, limits.exchange_s)
        cap = LONGEST_METRICS_BYTES if is_metrics else LONGEST_PROBE_BYTES
        got = self._exchanger.send(method, path, content, watch, cap)
        text = got.body.decode(errors="replace")
        if is_metrics:
            text = relevant_lines(text)
        elif plain in discovery.CONFIGURATION_PATHS:
            text = discovery.without_secrets(text)
        text = whole_text(text)  # a page parsed and written again may hold lone surrogates
        failure = got.failure
        if failure is not None and got.trouble:
            failure = Failure(failure.kind, f"{got.trouble}: {failure.message}")
        return Probe(name, method, path, got.status, got.content_type, text, got.ended_ns, failure)

    def counters(self, name: str, arm: Arm) -> Sample:
        """The relevant lines of the deployment's metrics page, now (status None or 404 where there is none)."""
        at_us = time.time_ns() // 1000
        page = self.probe(name, "GET", self._metrics_path)
        return Sample(name, arm, at_us, page.status, page.body)

    def tokenize(self, messages: tuple[Message, ...], thinking: Thinking) -> int | None:
        """How many prompt tokens the engine's own tokenizer counts, where the engine offers that; else None."""

        def post(path: str, body: dict[str, Json], /) -> Json:
            content = _encoded(body)
            limits = self.deadlines
            watch = Watch(limits.connect_s, limits.first_token_s, limits.silence_s, limits.exchange_s)
            got = self._exchanger.send("POST", path, content, watch, LONGEST_BODY_BYTES)
            try:
                return parse_json(got.body) if got.status == 200 and not got.failure else None  # noqa: PLR2004 - HTTP
            except CodecError:
                return None

        return dialects.count_tokens(post, self.model, self.engine, messages, thinking)

    def close(self) -> None:
        """Close all connections; exchanges that run in other threads end as interrupted."""
        self._exchanger.close()


def _encoded(body: object) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _asked(request: ChatRequest) -> Asked:
    return Asked(
        stream=request.stream,
        max_tokens=request.max_tokens,
        thinking=request.thinking,
        thinking_budget_tokens=request.thinking_budget_tokens,
        ignore_eos=request.ignore_eos,
        tools=tuple(tool.name for tool in request.tools),
        tool_choice=request.tool_choice,
        constrained=request.schema is not None or bool(request.regex),
    )
