"""Finding out who answers: the identity probes, in order, and one clear line when they cannot go on."""

import json
import re
from dataclasses import dataclass, replace
from typing import Protocol

from certify.codec import CodecError, parse_json
from certify.deployment.errors import DeploymentError
from certify.records import FailureKind, Json, Probe
from certify.wire import server_error
from certify.wire.hostile import shown
from certify.wire.identity import PREFIX, Identity, read_identity

HTTP_OK = 200
REFUSED_STATUSES = (401, 403)
ABSENT_STATUSES = (404, 405, 501)
UNAVAILABLE = 503

MODELS, CHAT = "/v1/models", "/v1/chat/completions"
METRICS_PATHS = ("/metrics", "/prometheus/metrics")
CONFIGURATION_PATHS = ("/server_info", "/get_server_info")
_FURTHER = ("/version", "/props", "/server_info?config_format=json", "/health")

# TensorRT-LLM's /metrics takes the statistics away from whoever else reads them.
_DRAINING = ("tensorrt-llm",)

_SECRET_NAME = re.compile(r"(?i)api_?key|secret|password|passwd|credential|private_key|authorization|(?:^|_)token$")
_SECRET_OPTION = re.compile(r"(?i)(--[a-z-]*(?:key|token|password|secret)[a-z-]*[ =])\S+")
_DROPPED = ("vllm_env", "env_vars", "pip_packages", "conda_packages", "cpu_info", "hf_token")
_DEEPEST = 12
_GZIP = "\x1f\ufffd\x08"  # its first bytes, read as UTF-8 with replacements


class _Ask(Protocol):
    def __call__(self, name: str, method: str, path: str, body: object = None) -> Probe: ...


@dataclass(frozen=True, slots=True)
class Found:
    """Who answers, and the probes that showed it."""

    identity: Identity
    probes: tuple[Probe, ...]


def metrics_path(engine: str) -> str:
    """Where an engine shows its counters."""
    return "/prometheus/metrics" if engine in _DRAINING else "/metrics"


def discover(ask_once: _Ask, base_url: str, model: str) -> Found:
    """Probes in order: the model list, what engines tell of themselves, one tiny completion, the counters.

    Raises:
        DeploymentError: one line that says why this is no deployment to certify.
        KeyboardInterrupt: the run was stopped during a probe.
    """

    def ask(name: str, method: str, path: str, body: object = None) -> Probe:
        probe = ask_once(name, method, path, body)
        if probe.failure is not None and probe.failure.kind is FailureKind.INTERRUPTED:
            raise KeyboardInterrupt
        return probe

    listing = ask(PREFIX + MODELS, "GET", MODELS)
    probes = [listing]
    _check_reached(listing, base_url)
    listed = read_identity(probes)
    if listing.status == HTTP_OK:
        _check_listing(listing, listed, base_url)
        model = _chosen(model, listed, listing)
        probes += [ask(PREFIX + path, "GET", path) for path in _FURTHER]
    elif listing.status not in ABSENT_STATUSES:
        raise DeploymentError(f"GET {base_url}{MODELS} gave {_told(listing)}: {_advice(listing)}")
    elif not model:
        raise DeploymentError(
            f"GET {base_url}{MODELS} gave HTTP {listing.status}: if this server has chat completions all the same, "
            "name its model with --model"
        )
    tiny = ask(
        PREFIX + CHAT,
        "POST",
        CHAT,
        {
            "model": model,
            "messages": [{"role": "user", "content": "Hello"}],
            "max_tokens": 1,
            "temperature": 0.0,
        },
    )
    probes.append(tiny)
    _check_completes(tiny, base_url, model)
    if listing.status == HTTP_OK:
        path = metrics_path(read_identity(probes).engine)
        probes.append(ask(PREFIX + path, "GET", path))
    identity = read_identity(probes)
    return Found(replace(identity, model=model), tuple(probes))


def without_secrets(text: str) -> str:
    """A configuration page without the values of keys, tokens and passwords, and without environment dumps.

    SGLang's page holds its `api_key`, vLLM's the environment of the server.
    """
    try:
        value = parse_json(text)
    except CodecError:
        return _SECRET_OPTION.sub(r"\1[left out]", text[:2000]) if text.lstrip()[:1] not in ("{", "[") else ""
    return json.dumps(_cleaned(value, 0), ensure_ascii=False, separators=(",", ":"))


def _cleaned(value: Json, depth: int) -> Json:
    if depth > _DEEPEST:
        return None
    match value:
        case dict():
            return {
                name: "[left out]" if member and _SECRET_NAME.search(name) else _cleaned(member, depth + 1)
                for name, member in value.items()
                if name not in _DROPPED
            }
        case list():
            return [_cleaned(member, depth + 1) for member in value]
        case str():
            return _SECRET_OPTION.sub(r"\1[left out]", value)
    return value


def _check_reached(probe: Probe, base_url: str) -> None:
    failure = probe.failure
    if failure is None:
        return
    why = failure.message
    if failure.kind is FailureKind.CONNECT_TIMEOUT:
        advice = "is the host up, and does a firewall drop the port?"
    elif failure.kind is FailureKind.PROTOCOL or (failure.kind is FailureKind.BROKEN and probe.status is None):
        advice = "something else than an HTTP server listens there; check the port, and http against https"
    elif why.startswith("dns"):
        advice = "check the host name"
    elif why.startswith("tls"):
        advice = "check https against http, and the certificate (SSL_CERT_FILE names a private authority)"
    elif failure.kind is FailureKind.CONNECT:
        advice = "is the server running, and is this its port?"
    else:
        advice = "the server accepts connections and does not answer; look at its log"
    raise DeploymentError(f"{probe.method} {base_url}{probe.path}: {why}: {advice}")


def _check_listing(listing: Probe, listed: Identity, base_url: str) -> None:
    if listing.body.startswith(_GZIP):
        raise DeploymentError(
            f"GET {base_url}{MODELS} gave a compressed answer that nobody asked for: let the proxy in front of the "
            "deployment honour `Accept-Encoding: identity`"
        )
    if listing.body.lstrip()[:1] == "<":
        raise DeploymentError(
            f"GET {base_url}{MODELS} gave a web page, not JSON: a proxy or another web server answers there; "
            "check host, port and path"
        )
    if not listed.models:
        raise DeploymentError(
            f"GET {base_url}{MODELS} gave no list of models but {shown(listing.body)!r}: "
            "this is not an OpenAI-compatible API, or it serves no model yet"
        )


def _chosen(model: str, listed: Identity, listing: Probe) -> str:
    if not model and len(_roots(listing)) > 1:
        raise DeploymentError(f"the deployment serves {_names(listed.models)}: choose one with --model")
    if model and model not in listed.models and model not in _aliases(listing):
        raise DeploymentError(f"model {shown(model)!r} is not served: the deployment has {_names(listed.models)}")
    return model or listed.models[0]


def _names(models: tuple[str, ...]) -> str:
    more = f" and {len(models) - 10} more" if len(models) > 10 else ""  # noqa: PLR2004 - a line stays a line
    return ", ".join(repr(name) for name in models[:10]) + more


def _cards(listing: Probe) -> list[dict[str, Json]]:
    try:
        value = parse_json(listing.body)
    except CodecError:
        return []
    data = value.get("data") if isinstance(value, dict) else None
    return [card for card in data if isinstance(card, dict)] if isinstance(data, list) else []


def _roots(listing: Probe) -> set[str]:
    """Several names of one model have the same root (vLLM, SGLang); adapters have a parent and are not counted."""
    return {str(card.get("root") or card.get("id")) for card in _cards(listing) if not card.get("parent")}


def _aliases(listing: Probe) -> set[str]:
    """Further names of listed models (llama.cpp)."""
    sent = (card.get("aliases") for card in _cards(listing))
    return {name for names in sent if isinstance(names, list) for name in names if isinstance(name, str)}


def _check_completes(tiny: Probe, base_url: str, model: str) -> None:
    """A completion that is refused as such is left to preflight; here only what makes every request futile ends it."""
    _check_reached(tiny, base_url)
    asked = f"POST {base_url}{CHAT} for model {shown(model)!r} gave"
    if tiny.status in (*REFUSED_STATUSES, *ABSENT_STATUSES, UNAVAILABLE):
        raise DeploymentError(f"{asked} {_told(tiny)}: {_advice(tiny)}")
    if tiny.status == HTTP_OK and '"choices"' not in tiny.body:
        raise DeploymentError(f"{asked} no chat completion but {shown(tiny.body)!r}: not an OpenAI-compatible API")
    if tiny.status is not None and 300 <= tiny.status < 400:  # noqa: PLR2004 - redirects
        raise DeploymentError(f"{asked} a redirect (HTTP {tiny.status}): give the address that it leads to")


def _told(probe: Probe) -> str:
    try:
        error = server_error.from_json(parse_json(probe.body), probe.status, certain=True)
    except CodecError:
        error = server_error.from_text(probe.body.encode(), probe.status)
    return f"HTTP {probe.status} ({shown(error.message, 300)})" if error else f"HTTP {probe.status}"


def _advice(probe: Probe) -> str:
    if probe.status in REFUSED_STATUSES:
        return "the key is missing or refused; name the variable that holds it with --api-key-env"
    if probe.status == UNAVAILABLE:
        return "the server is there and not ready; wait until its model is loaded"
    if probe.status in ABSENT_STATUSES:
        return "no such model or no chat completions there; check --model and the path of the base URL"
    if probe.status is not None and 300 <= probe.status < 400:  # noqa: PLR2004 - redirects
        return "give the address that the redirect leads to"
    return "the server is in trouble; look at its log"
