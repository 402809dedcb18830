"""An API key is sent, and is nowhere else."""

import json
import logging
import pickle
import traceback

import pytest

from certify.deployment.client import Deployment, DeploymentError
from certify.deployment.secret import Secret
from certify.records import ChatRequest, Message
from tests.raw_server import serving

KEY = "sk-planted-0123456789/abc"
ASK = ChatRequest((Message("user", "Hello"),), max_tokens=8)


def test_a_key_is_sent_and_never_kept(monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("PLANTED", KEY)

    def echo(connection, asked):
        echoed = asked.headers["authorization"].encode()
        connection.reply(b'{"a":"%s","b":%s}' % (echoed, json.dumps(KEY).replace("/", "\\/").encode()), 400, KEY)

    with serving(echo) as server:
        deployment = Deployment(server.url, model="m", api_key_env="PLANTED")
        exchange = deployment.exchange(ASK)
        probe = deployment.probe("x", "GET", "/x")
        with pytest.raises(DeploymentError) as refused:
            deployment.identify()
        deployment.close()
    frames = refused.value.__traceback__.tb_next  # from the suite's first frame on; the test's own knows the key
    shown = "".join(traceback.TracebackException(DeploymentError, refused.value, frames, capture_locals=True).format())
    everything = (repr(exchange), repr(probe), shown, repr(vars(deployment)), caplog.text, exchange.body.decode())
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert not [text for text in everything if KEY in text or KEY.replace("/", "\\/") in text or "planted" in text]
    assert sum(exchange.reads.sizes) == len(exchange.body) == exchange.body_bytes
    assert exchange.body.count(b"*" * len(KEY)) == 2


def test_a_key_that_comes_in_two_reads_is_blotted_out(monkeypatch):
    monkeypatch.setenv("PLANTED", KEY)

    def echo(connection, _):
        connection.begin_stream()
        connection.chunk(f"data: {KEY[:9]}".encode())
        connection.pause(0.05)
        connection.chunk(f"{KEY[9:]}\n\n".encode())
        connection.end_stream()

    with serving(echo) as server:
        deployment = Deployment(server.url, model="m", api_key_env="PLANTED")
        exchange = deployment.exchange(ASK)
        deployment.close()
    assert exchange.body == b"data: " + b"*" * len(KEY) + b"\n\n"
    assert len(exchange.reads.sizes) == 2


def test_a_missing_key_is_told_by_the_name_of_its_variable(monkeypatch):
    monkeypatch.delenv("PLANTED", raising=False)
    with pytest.raises(DeploymentError, match="PLANTED"):
        Deployment("http://127.0.0.1:9", api_key_env="PLANTED")


@pytest.mark.parametrize("value", ["sk planted", "sk\nplanted", "schlüssel-planted"])
def test_what_is_no_key_is_refused_without_quoting_it(monkeypatch, value):
    monkeypatch.setenv("PLANTED", value)
    with pytest.raises(DeploymentError, match="PLANTED") as refused:
        Deployment("http://127.0.0.1:9", api_key_env="PLANTED")
    assert "planted" not in str(refused.value)


def test_a_secret_shows_and_pickles_nothing():
    secret = Secret(KEY)
    assert "planted" not in f"{secret} {secret!r}"
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_a_placeholder_is_no_secret():
    assert Secret("EMPTY").blot(b"EMPTY") == b"EMPTY"
