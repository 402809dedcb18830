"""Who answers, and one clear line when nobody does that can be asked."""

import json
import socket
import threading

import pytest

from certify.deployment.client import Deadlines, Deployment, DeploymentError
from certify.records import Arm, Message, Thinking
from tests.raw_server import ANSWER, Connection, not_http, replying, serving

SHORT = Deadlines(connect_s=1, first_token_s=0.3, silence_s=0.3, exchange_s=0.8)
CARD = {"id": "m", "object": "model", "owned_by": "vllm", "max_model_len": 4096, "root": "m", "parent": None}


def identifying(script, model: str = "", **beside):
    with serving(script) as server:
        deployment = Deployment(server.url, model=model, deadlines=SHORT, **beside)
        try:
            return deployment.identify(), deployment
        finally:
            deployment.close()


def refusal(script, model: str = "", **beside) -> str:
    with pytest.raises(DeploymentError) as refused:
        identifying(script, model, **beside)
    message = str(refused.value)
    assert "\n" not in message
    return message


def vllm(connection: Connection, asked) -> None:
    pages = {
        "/v1/models": {"object": "list", "data": [CARD]},
        "/version": {"version": "0.33.0"},
        "/v1/chat/completions": ANSWER | {"system_fingerprint": "vllm-0.33.0-tp2-01234567", "model": "m"},
        "/tokenize": {"count": 11, "max_model_len": 4096, "tokens": [1] * 11},
    }
    if asked.path == "/metrics":
        page = b'# HELP x\nvllm:generation_tokens_total{engine="0"} 5\nvllm:generation_tokens_created 1.7e9\n'
        connection.reply(page, content_type="text/plain")
    elif asked.path in pages:
        connection.reply(pages[asked.path])
    else:
        connection.reply({"detail": "Not Found"}, 404)


# --- who answers ----------------------------------------------------------------------------------------------------


def test_identify_settles_model_and_dialect():
    (identity, probes), deployment = identifying(vllm)
    assert (deployment.model, deployment.engine) == ("m", "vllm")
    assert (identity.version, identity.context_tokens, identity.tensor_parallel) == ("0.33.0", 4096, 2)
    assert all(probe.name == f"identity:{probe.path}" for probe in probes)
    assert probes[-1].body == 'vllm:generation_tokens_total{engine="0"} 5\n'


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
def test_the_address_as_people_write_it(ending):
    with serving(vllm) as server:
        deployment = Deployment(server.url + ending)
        deployment.identify()
        deployment.close()
        assert deployment.base_url == server.url
    assert server.asked[0].path == "/v1/models"


def test_a_path_in_the_address_is_kept():
    assert Deployment("https://gateway.example/team/v1/").base_url == "https://gateway.example/team"


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://x", "http://", "http://user:pw@host", "http://host/v1?x=1", "http://[::1", ""]
)
def test_an_address_that_is_none_is_refused_without_its_password(url):
    with pytest.raises(DeploymentError) as refused:
        Deployment(url)
    assert "pw" not in str(refused.value)


def test_a_server_that_only_knows_chat_completions_is_generic_when_its_model_is_named():
    def only_chat(connection, asked):
        known = asked.path == "/v1/chat/completions"
        connection.reply(ANSWER if known else {"detail": "Not Found"}, 200 if known else 404)

    (identity, _), deployment = identifying(only_chat, "mine")
    assert (identity.engine, identity.model, deployment.engine) == ("generic", "mine", "generic")
    assert "--model" in refusal(only_chat)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (replying({"error": "Unauthorized"}, 401), "--api-key-env"),
        (replying({"error": "Forbidden"}, 403), "--api-key-env"),
        (replying(b"<!doctype html><title>nginx</title>", 200, "text/html"), "web page"),
        (replying({"hello": "world"}), "not an OpenAI-compatible API"),
        (replying({"error": {"code": 503, "message": "Loading model"}}, 503), "wait until its model is loaded"),
        (replying(b"", 307), "redirect"),
        (replying(b"oops", 500), "look at its log"),
        (not_http, "check the port"),
        (lambda connection, _: connection.hang(), "accepts connections and does not answer"),
    ],
    ids=["401", "403", "html", "other-json", "loading", "redirect", "500", "not-http", "silent"],
)
def test_one_clear_line_says_why_a_deployment_cannot_be_asked(script, says):
    assert says in refusal(script)


def test_an_unknown_model_is_told_what_is_served():
    assert "'m'" in refusal(vllm, "other")


def test_several_models_are_a_choice():
    cards = [{"id": "a"}, {"id": "b"}]
    assert "'a', 'b'" in refusal(replying({"data": cards}))


def test_nobody_there():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(DeploymentError, match="is the server running"):
        Deployment(f"http://127.0.0.1:{port}").identify()


def test_a_host_that_has_no_address():
    with pytest.raises(DeploymentError, match="check the host name"):
        Deployment("http://nowhere.invalid").identify()


def test_https_to_a_server_without_tls():
    def answer_in_the_clear() -> None:
        sock, _ = listener.accept()
        with sock:
            sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            sock.recv(65536)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer_in_the_clear)
        thread.start()
        with pytest.raises(DeploymentError, match="check https against http"):
            Deployment(f"https://127.0.0.1:{listener.getsockname()[1]}").identify()
        thread.join(5)


def test_the_completion_needs_a_key_though_the_list_does_not():
    def guarded(connection, asked):
        listing = asked.path == "/v1/models"
        connection.reply({"data": [CARD]} if listing else {"error": "Unauthorized"}, 200 if listing else 401)

    assert "--api-key-env" in refusal(guarded)


# --- the other verbs ------------------------------------------------------------------------------------------------


def test_counters_and_tokenize():
    with serving(vllm) as server:
        deployment = Deployment(server.url)
        deployment.identify()
        sample = deployment.counters("before", Arm.SERVED)
        count = deployment.tokenize((Message("user", "Hello"),), Thinking.ON)
        deployment.close()
    assert (sample.name, sample.status, sample.text) == ("before", 200, 'vllm:generation_tokens_total{engine="0"} 5\n')
    assert count == 11
    assert server.asked[-1].json == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello"}],
        "add_generation_prompt": True,
        "chat_template_kwargs": {"thinking": True, "enable_thinking": True},
    }


def test_counters_where_there_are_none():
    with serving(replying({"detail": "Not Found"}, 404)) as server:
        deployment = Deployment(server.url, model="m")
        sample = deployment.counters("before", Arm.SERVED)
        deployment.close()
    assert (sample.status, sample.text) == (404, "")


def test_a_probe_sends_bytes_as_they_are():
    with serving(replying({"detail": "bad"}, 400)) as server:
        deployment = Deployment(server.url, model="m")
        probe = deployment.probe("contract:malformed", "POST", "/v1/chat/completions", b'{"model": ')
        deployment.close()
    assert (server.asked[0].body, probe.status, probe.body) == (b'{"model": ', 400, '{"detail": "bad"}')


def test_secrets_in_a_configuration_page_are_left_out():
    page = {
        "api_key": "sk-1",
        "launch_command": "serve --api-key sk-2 --tp 2",
        "vllm_env": {"HF_TOKEN": "hf-3"},
        "tp_size": 2,
    }
    with serving(replying(page)) as server:
        deployment = Deployment(server.url, model="m")
        body = deployment.probe("identity:/server_info", "GET", "/server_info").body
        deployment.close()
    assert json.loads(body) == {
        "api_key": "[left out]",
        "launch_command": "serve --api-key [left out] --tp 2",
        "tp_size": 2,
    }
