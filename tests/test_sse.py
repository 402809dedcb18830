import itertools

from hypothesis import given
from hypothesis import strategies as st

from certify.wire.sse import SseEvent, SseParser

LINES = st.sampled_from(
    [
        *(b"data: a", b"data:b", b"data", b"data:  two blanks", b'data: {"x": "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"}'),
        *(
            b"data: [DONE]",
            b"event: error",
            b"event:x",
            b": keep-alive",
            b":",
            b"id: 7",
            b"retry: 3",
            b"",
            b"",
            b" ",
            b"\xff",
        ),
    ]
)
STREAMS = st.builds(
    lambda lines, bom: (b"\xef\xbb\xbf" if bom else b"") + b"".join(line + end for line, end in lines),
    st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=30),
    st.booleans(),
)


def parse(*reads: bytes) -> list[SseEvent]:
    parser = SseParser()
    return [event for stamp, read in enumerate(reads) for event in parser.feed(read, stamp)] + parser.finish()


def data(*reads: bytes) -> list[str]:
    return [event.data for event in parse(*reads)]


def reference(stream: bytes) -> list[tuple[str, str]]:
    """The standard's text, word for word, over the whole stream at once."""
    text = stream.removeprefix(b"\xef\xbb\xbf").decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    events, held, name = [], [], ""
    for line in text.split("\n")[:-1]:
        if line == "":
            events += [(name, "\n".join(held))] if held else []
            held, name = [], ""
        elif line.startswith("data"):
            held.append(line[4:].removeprefix(":").removeprefix(" "))
        elif line.startswith("event:"):
            name = line[6:].removeprefix(" ")
    return events + ([(name, "\n".join(held))] if held else [])


@given(STREAMS)
def test_a_stream_means_what_the_standard_says(stream):
    assert [(event.name, event.data) for event in parse(stream)] == reference(stream)


@given(STREAMS, st.lists(st.integers(0, 400), max_size=12))
def test_any_split_gives_the_same_events_with_the_stamp_of_the_read_that_completed_them(stream, cuts):
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    reads = [stream[start:end] for start, end in itertools.pairwise(edges)]
    bytewise = [event for event in parse(*(bytes([byte]) for byte in stream)) if event.flaw != "unterminated"]
    read_of_byte = [number for number, read in enumerate(reads) for _ in read]
    split = parse(*reads)
    assert [event.data for event in split] == data(stream)
    assert [event.stamp for event in split[: len(bytewise)]] == [read_of_byte[event.stamp] for event in bytewise]


@given(st.binary(max_size=300), st.integers(1, 50))
def test_no_bytes_break_it(raw, longest):
    parser = SseParser(longest)
    events = parser.feed(raw, 0) + parser.finish()
    assert all(len(event.data) <= 2 * longest for event in events)


def test_line_ends_of_every_kind_and_mixed():
    assert data(b"data: 1\n\ndata: 2\r\n\r\ndata: 3\r\rdata: 4\r\n\n") == ["1", "2", "3", "4"]


def test_several_data_lines_are_one_event():
    assert data(b"data: {\ndata: }\n\n") == ["{\n}"]


def test_an_event_is_named_and_the_name_does_not_last():
    assert [event.name for event in parse(b"event: error\ndata: 1\n\ndata: 2\n\n")] == ["error", ""]


def test_comments_between_and_within_events_say_nothing():
    assert data(b": ping\r\n\r\ndata: 1\r\n: ping\r\n\r\n") == ["1"]


def test_the_blank_that_tensorrt_llm_leaves_after_its_json_stays():
    assert data(b"data: {} \n\n") == ["{} "]


def test_a_cr_completes_its_event_and_its_late_lf_starts_nothing():
    events = parse(b"data: 1\r\n\r", b"\ndata: 2\n\n")
    assert [(event.data, event.stamp) for event in events] == [("1", 0), ("2", 1)]


def test_a_character_may_be_cut_anywhere():
    assert data(*(bytes([byte]) for byte in "data: é€😀\n\n".encode())) == ["é€😀"]


def test_what_is_not_utf8_is_marked():
    assert parse(b"data: \xff\n\n") == [SseEvent("", "�", 0, "not UTF-8")]


def test_an_event_that_the_end_cuts_off_is_marked():
    assert parse(b"data: 1\n\n", b"data: 2") == [SseEvent("", "1", 0), SseEvent("", "2", 1, "unterminated")]


def test_an_endless_line_is_cut_and_the_next_event_is_whole():
    parser = SseParser(longest_event=10)
    events = parser.feed(b"data: " + b"x" * 50, 0) + parser.feed(b"x" * 50 + b"\n\ndata: y\n\n", 1)
    assert [(event.flaw, event.data[:1], len(event.data) <= 10) for event in events] == [
        ("too long", "x", True),
        ("", "y", True),
    ]
