import http.client
import json
import statistics
import threading
import urllib.error
import urllib.request

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certify.preflight.emitter import Emitter
from certify.wire.emissions import Emissions, Schedule, read_emissions, schedule_of


@pytest.fixture(scope="module")
def emitter(tmp_path_factory):
    with Emitter(tmp_path_factory.mktemp("emitter") / "log") as running:
        yield running


def post(url, **fields):
    body = {
        "model": "emitter",
        "messages": [{"role": "user", "content": "count for me"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        **fields,
    }
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.read()


def events(body):
    return [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: {")]


def test_a_stream_keeps_its_schedule_and_says_when_it_sent(emitter):
    schedule = Schedule(ttft_us=20_000, itl_us=5_000, tokens_per_chunk=3, chunks=40)
    told = read_emissions(post(emitter.url(schedule)))
    assert told.tokens == (3,) * 40
    assert 20.0 <= (told.emitted_ns[0] - told.received_ns) / 1e6 < 40
    offsets_ms = [(at - told.received_ns) / 1e6 - 20 - 5 * index for index, at in enumerate(told.emitted_ns)]
    assert statistics.median(offsets_ms) < 1  # absolute deadlines: lateness does not add up
    assert min(offsets_ms) >= 0
    assert (told.emitted_us[-1] - told.emitted_us[0]) / 1e3 == pytest.approx(195, abs=15)


def test_usage_comes_alone_at_the_end_and_counts_tokens_not_chunks(emitter):
    *chunks, last = events(post(emitter.url(Schedule(0, 1_000, 4, 10))))
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 40
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks) == " tick" * 40


def test_max_tokens_cuts_the_last_chunk_short(emitter):
    told = post(emitter.url(Schedule(0, 1_000, 4, 10)), max_tokens=10)
    assert read_emissions(told).tokens == (4, 4, 2)
    assert events(told)[-2]["choices"][0]["finish_reason"] == "length"
    assert events(told)[-1]["usage"]["completion_tokens"] == 10


def test_a_plain_answer_comes_when_the_stream_would_have_ended(emitter):
    answer = json.loads(post(emitter.url(Schedule(1_000, 1_000, 1, 5)), stream=False))
    assert answer["choices"][0]["message"]["content"] == " tick" * 5
    assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + 5


def test_sixteen_streams_at_once_all_keep_their_rate(emitter):
    schedule = Schedule(ttft_us=30_000, itl_us=10_000, tokens_per_chunk=1, chunks=50)
    bodies = []
    threads = [threading.Thread(target=lambda: bodies.append(post(emitter.url(schedule)))) for _ in range(16)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    spans = [told.emitted_ns[-1] - told.emitted_ns[0] for told in map(read_emissions, bodies)]
    assert len(spans) == 16
    assert statistics.median(spans) / 1e6 == pytest.approx(490, abs=5)


def test_one_connection_serves_several_requests_also_after_a_client_went_away(emitter):
    path = Schedule(0, 500, 1, 3).path + "/v1/chat/completions"
    host = emitter.url(Schedule(0, 0)).split("/")[2]
    gone = http.client.HTTPConnection(host)
    gone.request(
        "POST", Schedule(50_000, 50_000, 1, 100).path + "/v1/chat/completions", '{"messages": [], "stream": true}'
    )
    gone.close()
    connection = http.client.HTTPConnection(host)
    for _ in range(2):
        connection.request("POST", path, '{"messages": [], "stream": true}')
        assert len(read_emissions(connection.getresponse().read()).emitted_ns) == 3
    connection.request("GET", Schedule(0, 500, 1, 3).path + "/v1/models")
    assert json.load(connection.getresponse())["data"][0]["id"] == "emitter"
    connection.close()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/chat/completions", b'{"messages": []}', 404),
        ("/s/1-1-0-5/v1/chat/completions", b'{"messages": []}', 404),
        ("/s/1-1-1-5/v1/chat/completions", b"{", 400),
        ("/s/1-1-1-5/v1/chat/completions", b"[]", 400),
        ("/s/1-1-1-5/v1/chat/completions", b'{"messages": [], "max_tokens": -1}', 400),
    ],
)
def test_what_it_cannot_serve_is_refused_with_a_reason(emitter, path, body, status):
    host = emitter.url(Schedule(0, 0)).split("/")[2]
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"http://{host}{path}", body, timeout=5)
    assert caught.value.code == status
    assert json.load(caught.value)["error"]["message"]


@given(st.binary(max_size=300))
def test_reading_stamps_never_raises(noise):
    body = b'data: {"x_emitted_ns":7,"x_emitted_us":8,"x_tokens":2,"x_received_ns":3}\n\n'
    assert read_emissions(body + noise).emitted_ns[:1] == (7,)
    assert read_emissions(b'data: {"x_emitted_ns":"7"}\n' + b"data: x_emitted_ns" + noise) is not None


def test_a_body_without_stamps_has_no_emissions():
    assert read_emissions(b'data: {"choices": []}\n\ndata: [DONE]\n\n') == Emissions(None, (), (), ())


@given(
    st.builds(
        Schedule,
        ttft_us=st.integers(0, 10**9),
        itl_us=st.integers(0, 10**9),
        tokens_per_chunk=st.integers(1, 10**5),
        chunks=st.integers(1, 10**6),
    )
)
def test_a_schedule_survives_its_path(schedule):
    assert schedule_of(f"{schedule.path}/v1/models") == schedule


def test_the_decode_rate_of_a_schedule_is_tokens_over_time():
    assert Schedule(50_000, 10_000, 3).decode_tok_s == 300.0


@pytest.mark.parametrize("bad", [{"tokens_per_chunk": 0}, {"chunks": 0}, {"itl_us": -1}])
def test_an_impossible_schedule_is_refused(bad):
    with pytest.raises(ValueError, match="not a schedule"):
        Schedule(**{"ttft_us": 0, "itl_us": 0, **bad})
