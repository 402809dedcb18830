"""The chain: what is written is read back, and whatever was changed is told."""

from pathlib import Path

import pytest

from certify.codec import canonical, parse_json
from certify.evidence import EvidenceError, EvidenceView, EvidenceWriter, Header
from certify.records import Arm, Asked, Event, Exchange, Reads, Thinking, Trial, TrialId

HEADER = Header(1, "run", "0.1.0", "http://x", {"python": "3"})
ASKED = Asked(
    stream=True,
    max_tokens=5,
    thinking=Thinking.ON,
    thinking_budget_tokens=None,
    ignore_eos=False,
    tools=(),
    tool_choice="",
    constrained=False,
)


def trial(repeat: int = 0, body: bytes = b"data: x\n\n") -> Trial:
    exchange = Exchange(
        ASKED, "aa", "{}", 2, 1, 200, "text/event-stream", body, len(body), "bb", Reads((1,), (2,), ()), 5, 9
    )
    return Trial(
        TrialId("PERF-C1-01", "code", Arm.SERVED, repeat), ("PERF-C1-01", "PRE-CONTRACT-02"), False, {"n": 1}, exchange
    )


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    path = tmp_path / "evidence.jsonl"
    with EvidenceWriter.create(path, HEADER) as writer:
        writer.trial(trial())
        writer.trial(trial(1, b"\xff\x00 not text"))
        writer.event(Event("gate-finished", "PERF-C1-01"))
        writer.footer("complete")
    return path


def test_what_is_written_is_read_back(chain: Path) -> None:
    view = EvidenceView(chain)

    assert view.header == HEADER
    assert [one for _, one in view.trials("PRE-CONTRACT-02")] == [trial(), trial(1, b"\xff\x00 not text")]
    assert view.finished_gates() == {"PERF-C1-01"}
    assert view.complete


def test_an_index_by_requirement_leaves_out_what_does_not_serve_it(chain: Path) -> None:
    assert not list(EvidenceView(chain).trials("QUAL-ENV-01"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [*lines[:1], *lines[2:]], "sequence number"),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], "sequence number"),
        (lambda lines: [lines[0], lines[1].replace(b"code", b"prose"), *lines[2:]], "chain is broken"),
        (lambda lines: [lines[0], b" " + lines[1], *lines[2:]], "canonical"),
        (
            lambda lines: [lines[0].replace(b'"kind":"header"', b'"kind":"header","kind":"header"'), *lines[1:]],
            "duplicate",
        ),
        (lambda lines: lines[1:], "sequence number"),
        (lambda lines: [b"\x00" * 40 + b"\n"], "not JSON"),
        (lambda lines: [], "no header"),
    ],
    ids=["dropped", "swapped", "edited", "spaced", "doubled key", "headless", "binary", "empty"],
)
def test_a_changed_chain_is_refused(chain: Path, change, words: str) -> None:
    chain.write_bytes(b"".join(change(chain.read_bytes().splitlines(keepends=True))))

    with pytest.raises(EvidenceError, match=words):
        EvidenceView(chain)


def test_a_torn_last_line_is_an_event_and_what_came_before_stands(chain: Path) -> None:
    whole = chain.read_bytes()
    chain.write_bytes(whole[:-20])

    assert EvidenceView(chain).torn
    EvidenceWriter.reopen(chain, reason="resume").close()
    view = EvidenceView(chain)

    assert not view.torn
    assert len(list(view.trials())) == 2
    assert [event.name for _, event in view.events("torn-line")] == ["torn-line"]


def test_a_reopened_chain_names_the_record_that_it_goes_on_from(chain: Path) -> None:
    before = EvidenceView(chain).head_sha256
    EvidenceWriter.reopen(chain, reason="resume").close()

    (segment,) = EvidenceView(chain).records("segment")
    assert segment.data == {"reason": "resume", "after": before}


def test_a_view_reads_on_from_where_it_stood(tmp_path: Path) -> None:
    path = tmp_path / "evidence.jsonl"
    with EvidenceWriter.create(path, HEADER) as writer:
        view = EvidenceView(path)
        writer.trial(trial())
        assert not list(view.trials())
        view.refresh()

    assert len(list(view.trials())) == 1


def test_evidence_is_never_overwritten(chain: Path) -> None:
    with pytest.raises(FileExistsError):
        EvidenceWriter.create(chain, HEADER)


def test_a_record_of_another_shape_is_refused(chain: Path) -> None:
    lines = chain.read_bytes().splitlines()
    record = parse_json(lines[0])
    record["data"]["client"] = "text"
    chain.write_bytes(canonical(record) + b"\n")

    with pytest.raises(EvidenceError, match="Header"):
        _ = EvidenceView(chain).header
