"""`certify verify`: what is intact verifies; whatever was changed is refused with the right exit code."""

import base64
import gzip
import hashlib
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certify import judging
from certify.codec import canonical, parse_json
from certify.records import Json, Outcome
from certify.report import certificate as certificate_module
from certify.report import page, slot
from certify.report.certificate import with_page
from certify.report.seal import KeyFile, allowed_signers_line
from certify.report.statement import Certificate, from_bytes
from certify.report.verify import VerifyResult, verify
from tests.certified import ToyRun, new_signer, toy_judges, toy_pair, toy_run

NOW = datetime(2027, 1, 16, tzinfo=UTC)
SIMULATED = '{"object":"list","data":[{"id":"sim","owned_by":"certify-simulator"}]}'


@pytest.fixture(autouse=True, scope="module")
def _toys() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judging, "judges", toy_judges)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, _toys: object) -> ToyRun:
    return toy_run(tmp_path_factory.mktemp("verify") / "run", signer=new_signer())


def checked(run: ToyRun, **options: object) -> VerifyResult:
    return verify(run.report, **{"trust": run.trust, "now": NOW} | options)


def failed(result: VerifyResult) -> list[str]:
    return [step.name for step in result.steps if not step.ok]


# --- what is intact -----------------------------------------------------------------------------------------------


def test_an_intact_report_verifies_step_by_step(run: ToyRun) -> None:
    result = checked(run)

    assert result.exit_code == 0
    assert [step.name for step in result.steps] == [
        "extract", "statement", "seal", "trust", "page", "evidence", "plan", "recompute", "policy", "verdict",
    ]  # fmt: skip
    assert not failed(result)


def test_a_folder_stands_for_its_report(run: ToyRun) -> None:
    assert verify(run.folder, trust=run.trust, now=NOW).exit_code == 0


def test_a_report_that_was_zipped_and_unzipped_verifies(run: ToyRun, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "report.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(run.report, "report.html")
    with zipfile.ZipFile(tmp_path / "report.zip") as archive:
        archive.extract("report.html", tmp_path)

    assert verify(tmp_path / "report.html", trust=run.trust, now=NOW).exit_code == 0


def test_a_report_verifies_alone_without_its_folder(run: ToyRun, tmp_path: Path) -> None:
    (tmp_path / "r.html").write_bytes(run.report.read_bytes())

    assert verify(tmp_path / "r.html", trust=run.trust, now=NOW).exit_code == 0


def test_a_second_seal_can_be_added_later(run: ToyRun, tmp_path: Path) -> None:
    sealed = slot.read(run.report.read_bytes(), cap=1 << 24)
    other = KeyFile.generate("reviewer@example.org")
    more = replace(sealed, seals=(*sealed.seals, slot.Seal("sshsig", other.sign(sealed.payload.encode()))))
    (tmp_path / "r.html").write_bytes(slot.fill(run.report.read_bytes(), more))
    (tmp_path / "trust").write_text(allowed_signers_line(other), encoding="utf-8")

    assert verify(tmp_path / "r.html", trust=tmp_path / "trust", now=NOW).exit_code == 0


def test_a_long_chain_lies_beside_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_module, "EMBED_CAP", 100)
    run = toy_run(tmp_path / "run", signer=new_signer())

    assert b"data:application/gzip" not in run.report.read_bytes()
    assert checked(run).exit_code == 0
    (run.folder / "evidence.jsonl.gz").unlink()
    assert (checked(run).exit_code, failed(checked(run))) == (6, ["evidence"])


def test_an_attached_chain_is_judged_with_its_run(tmp_path: Path) -> None:
    run = toy_pair(tmp_path)

    assert failed(verify(run.report, trust=None, now=NOW)) == ["seal"]


# --- the exit codes -----------------------------------------------------------------------------------------------


def test_intact_but_not_certified_is_1(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run", ("ok", "no"), signer=new_signer())

    assert (checked(run).exit_code, failed(checked(run))) == (1, ["verdict"])


def test_unsigned_is_3(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run")

    assert (checked(run).exit_code, failed(checked(run))) == (3, ["seal"])


def test_payload_only_is_4_and_says_that_the_page_was_not_covered(run: ToyRun) -> None:
    result = checked(run, payload_only=True)

    assert (result.exit_code, failed(result)) == (4, ["page"])


def test_no_trust_given_is_5_and_the_signer_is_told(run: ToyRun) -> None:
    result = checked(run, trust=None)

    assert (result.exit_code, failed(result)) == (5, ["trust"])
    assert run.signer.fingerprint in next(step.detail for step in result.steps if step.name == "seal")


@pytest.mark.parametrize(
    "line",
    [
        allowed_signers_line(new_signer()),
        'tester@example.org valid-before="20270101" {key}\n',
        'tester@example.org namespaces="git" {key}\n',
        "tester@example.org cert-authority {key}\n",
        "",
    ],
    ids=["stranger", "expired", "other namespace", "authority", "empty"],
)
def test_a_signer_that_the_reader_does_not_trust_is_5(run: ToyRun, tmp_path: Path, line: str) -> None:
    (tmp_path / "trust").write_text(line.format(key=run.signer.public_line), encoding="utf-8")

    assert checked(run, trust=tmp_path / "trust").exit_code == 5


def test_another_principal_than_the_expected_one_is_5(run: ToyRun) -> None:
    assert checked(run, identity="tester@example.org").exit_code == 0
    assert checked(run, identity="boss@example.org").exit_code == 5


def test_a_revoked_key_is_5(run: ToyRun, tmp_path: Path) -> None:
    (tmp_path / "revoked").write_text(run.signer.public_line, encoding="utf-8")

    assert checked(run, revoked=tmp_path / "revoked").exit_code == 5


def test_another_judge_is_6_and_the_right_one_is_named(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run", signer=new_signer(), changes={"judge_version": "0"})
    result = checked(run)

    assert result.exit_code == 6
    assert "uvx certify==" in next(step.detail for step in result.steps if step.name == "recompute")


@pytest.mark.parametrize(
    "options",
    [
        {"now": NOW + timedelta(days=60)},
        {"now": NOW - timedelta(days=60)},
        {"max_age_days": 0},
        {"expect_commit": "c0ffee"},
        {"expect_model": "another"},
        {"challenge": "nonce"},
    ],
    ids=str,
)
def test_stale_or_about_something_else_is_7(run: ToyRun, options: dict[str, object]) -> None:
    result = checked(run, **options)

    assert (result.exit_code, failed(result)) == (7, ["policy"])


def test_what_the_reader_expects_is_found(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run", signer=new_signer(), commit="c0ffee", changes={"challenge": "nonce"})

    assert checked(run, expect_commit="c0ffee", expect_model="toy-7b", challenge="nonce", max_age_days=2).exit_code == 0


@pytest.mark.parametrize("content", [b"", b"<html></html>", b"\x00" * 1000, slot.OPEN + slot.CLOSE])
def test_what_is_no_report_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "r.html").write_bytes(content)
    result = verify(tmp_path / "r.html", trust=None)

    assert (result.exit_code, len(result.steps)) == (2, 1)


def test_a_missing_report_is_refused_in_one_line(tmp_path: Path) -> None:
    assert verify(tmp_path / "absent.html", trust=None).steps[0].detail.startswith("cannot read")


# --- tampering by someone without the key -------------------------------------------------------------------------


def edited_slot(change: Callable[[slot.Sealed], slot.Sealed]) -> Callable[[bytes], bytes]:
    return lambda raw: slot.fill(raw, change(slot.read(raw, cap=1 << 24)))


def raw_slot(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def edit(raw: bytes) -> bytes:
        before, content, after = slot.split(raw, slot.OPEN, slot.CLOSE, "certificate")
        return before + change(content) + after

    return edit


def edited_payload(old: str, new: str) -> Callable[[bytes], bytes]:
    return edited_slot(lambda sealed: replace(sealed, payload=sealed.payload.replace(old, new, 1)))


def restated(change: Callable[[dict[str, Json]], object]) -> Callable[[bytes], bytes]:
    """The payload changed as JSON and written canonically again: only the seal can tell."""

    def edit(sealed: slot.Sealed) -> slot.Sealed:
        statement = parse_json(sealed.payload)
        change(statement)
        return replace(sealed, payload=canonical(statement).decode())

    return edited_slot(edit)


def packed_again(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def edit(raw: bytes) -> bytes:
        before, content, after = slot.split(raw, *slot.evidence_markers(0), "evidence")
        evidence = change(gzip.decompress(base64.b64decode(content)))
        return before + base64.b64encode(gzip.compress(evidence, mtime=0)) + after

    return edit


def last_line_off(evidence: bytes) -> bytes:
    return b"".join(evidence.splitlines(keepends=True)[:-1])


def other_seal(sealed: slot.Sealed) -> slot.Sealed:
    return replace(sealed, seals=(slot.Seal("sshsig", STRANGER.sign(sealed.payload.encode())),))


def seal_of_other_text(sealed: slot.Sealed) -> slot.Sealed:
    return replace(sealed, seals=(slot.Seal("sshsig", STRANGER.sign(b"other")),))


STRANGER = KeyFile.generate("stranger@example.org")
WITHOUT_THE_KEY: dict[str, Callable[[bytes], bytes]] = {
    "visible verdict": lambda raw: raw.replace(b"<h1>CERTIFIED", b"<h1>PERFECT  ", 1),
    "visible figure": lambda raw: raw.replace(b"3.00 x", b"9.00 x", 1),
    "CRLF": lambda raw: raw.replace(b"\n", b"\r\n"),
    "byte order mark": lambda raw: b"\xef\xbb\xbf" + raw,
    "appended byte": lambda raw: raw + b" ",
    "appended element": lambda raw: raw + b"<p>better</p>",
    "truncated": lambda raw: raw[:-10],
    "second slot": lambda raw: raw + slot.OPEN + slot.CLOSE,
    "HTML in the slot": raw_slot(lambda content: b"<p>x</p>" + content),
    "newline in the slot": raw_slot(lambda content: b"\n" + content),
    "URL-safe base64": raw_slot(lambda content: b"-" + content[1:]),
    "hidden padding bits": raw_slot(lambda content: base64.b64encode(base64.b64decode(content) + b" ")),
    "stripped slot": raw_slot(lambda _: b""),
    "removed slot": lambda raw: raw.replace(slot.OPEN, b"").replace(slot.CLOSE, b""),
    "stripped seal": edited_slot(lambda sealed: replace(sealed, seals=())),
    "swapped seal": edited_slot(other_seal),
    "seal of another text": edited_slot(seal_of_other_text),
    "seal of an unknown type": edited_slot(lambda sealed: replace(sealed, seals=(slot.Seal("pgp", "x"),))),
    "too many seals": edited_slot(lambda sealed: replace(sealed, seals=sealed.seals * 17)),
    "other payload type": edited_slot(lambda sealed: replace(sealed, payload_type="text/plain")),
    "duplicate key in the payload": edited_payload('{"_type":', '{"_type":"x","_type":'),
    "blank in the payload": edited_payload('{"_type":', '{ "_type":'),
    "threshold in the payload": edited_payload('"scaled":20', '"scaled":10'),
    "time in the payload": restated(lambda one: one["predicate"].update(issued="2027-01-16T08:00:00Z")),
    "dropped requirement": restated(lambda one: one["predicate"]["results"].pop()),
    "unsigned extra field": restated(lambda one: one.update(note="x")),
    "deep nesting": edited_slot(lambda sealed: replace(sealed, payload="[" * 200_000)),
    "evidence line": packed_again(lambda evidence: evidence.replace(b'"body":"ok"', b'"body":"OK"', 1)),
    "truncated evidence": packed_again(last_line_off),
    "gzip bomb": packed_again(lambda _: b"0" * 50_000_000),
    "evidence taken out": lambda raw: raw.replace(slot.evidence_markers(0)[0], b"", 1),
    "second chain": lambda raw: raw.replace(b"</main>", b"".join(slot.evidence_markers(1)) + b"</main>", 1),
}


@pytest.mark.parametrize("change", WITHOUT_THE_KEY.values(), ids=WITHOUT_THE_KEY)
def test_whoever_lacks_the_key_can_change_nothing(
    run: ToyRun, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    original = run.report.read_bytes()
    changed = change(original)
    (tmp_path / "r.html").write_bytes(changed)

    assert changed != original
    assert verify(tmp_path / "r.html", trust=run.trust, now=NOW).exit_code == 2


def test_one_changed_byte_anywhere_is_told(run: ToyRun, tmp_path: Path) -> None:
    original = run.report.read_bytes()
    chooser = random.Random(1)
    found = set()
    for place in chooser.sample(range(len(original)), 20):
        changed = bytearray(original)
        changed[place] ^= 1 << chooser.randrange(8)
        (tmp_path / "r.html").write_bytes(bytes(changed))
        found.add(verify(tmp_path / "r.html", trust=run.trust, now=NOW).exit_code)

    assert found == {2}


def test_another_run_log_in_the_folder_is_told(tmp_path: Path) -> None:
    log = tmp_path / "run" / "run-log.html"
    log.parent.mkdir()
    log.write_text("<p>log</p>", encoding="utf-8")
    run = toy_run(tmp_path / "run", signer=new_signer(), run_log=log)

    assert verify(run.folder, trust=run.trust, now=NOW).exit_code == 0
    log.write_text("<p>better log</p>", encoding="utf-8")
    result = verify(run.folder, trust=run.trust, now=NOW)
    assert (result.exit_code, failed(result)) == (2, ["run log"])


# --- lies by someone who has the key ------------------------------------------------------------------------------


def sealed_again(run: ToyRun, change: Callable[[Certificate], Certificate]) -> bytes:
    """A report whose seal, digests and page are all in order, over a certificate that says something else."""
    certificate = from_bytes((run.folder / "certificate.json").read_bytes())
    told = change(
        replace(certificate, subjects=tuple(one for one in certificate.subjects if one.name != "report.html"))
    )
    rendered = page.render(told, ((run.folder / "evidence.jsonl.gz").read_bytes(),))
    payload = with_page(told, rendered).to_bytes()
    seals = (slot.Seal("sshsig", run.signer.sign(payload)),)
    return slot.fill(rendered, slot.Sealed(payload.decode(), "application/vnd.in-toto+json", seals))


def predicate(**changes: object) -> Callable[[Certificate], Certificate]:
    return lambda one: replace(one, predicate=replace(one.predicate, **changes))


def first_result(**changes: object) -> Callable[[Certificate], Certificate]:
    def change(one: Certificate) -> Certificate:
        first, *rest = one.predicate.results
        told = replace(first, verdict=replace(first.verdict, **changes))
        return replace(one, predicate=replace(one.predicate, results=(told, *rest)))

    return change


def lower_bar(one: Certificate) -> Certificate:
    bars = one.predicate.method.thresholds
    bounds = tuple(replace(each, bound=replace(each.bound, scaled=1)) for each in bars.bounds)
    method = replace(one.predicate.method, thresholds=replace(bars, bounds=bounds))
    return replace(one, predicate=replace(one.predicate, method=method))


def other_thresholds(one: Certificate) -> Certificate:
    text = one.predicate.method.thresholds.text + "\n"
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    bars = replace(one.predicate.method.thresholds, text=text, sha256=sha256)
    return replace(one, predicate=replace(one.predicate, method=replace(one.predicate.method, thresholds=bars)))


def shorter_plan(one: Certificate) -> Certificate:
    plan = parse_json(one.predicate.method.plan.text)
    plan["gates"].pop()
    text = canonical(plan).decode()
    locked = replace(one.predicate.method.plan, text=text, sha256=hashlib.sha256(text.encode()).hexdigest())
    method = replace(one.predicate.method, plan=locked)
    return replace(one, predicate=replace(one.predicate, method=method, results=one.predicate.results[:-1]))


def no_chain(one: Certificate) -> Certificate:
    return replace(one, predicate=replace(one.predicate, evidence=()))


def other_head(one: Certificate) -> Certificate:
    chains = tuple(replace(each, head_sha256="0" * 64) for each in one.predicate.evidence)
    return replace(one, predicate=replace(one.predicate, evidence=chains))


def other_subject(one: Certificate) -> Certificate:
    return replace(one, subjects=(replace(one.subjects[0], digest={"sha256": "0" * 64}), *one.subjects[1:]))


WITH_THE_KEY: dict[str, Callable[[Certificate], Certificate]] = {
    "a FAIL told as PASS": first_result(outcome=Outcome.PASS),
    "a better figure": first_result(summary="2 of 2 answers say ok"),
    "a finding left out": first_result(findings=()),
    "a requirement left out": lambda one: predicate(results=one.predicate.results[1:])(one),
    "the summary": lambda one: predicate(summary=replace(one.predicate.summary, reasons=()))(one),
    "the coverage": predicate(coverage=()),
    "the assurance level": predicate(assurance_level="challenged"),
    "the statements": predicate(statements=()),
    "the calibration": predicate(calibration=()),
    "the identity": lambda one: predicate(deployment=replace(one.predicate.deployment, base_url="http://better"))(one),
    "the bars": lower_bar,
    "the thresholds text": other_thresholds,
    "the plan": shorter_plan,
    "no evidence": no_chain,
    "the end of the chain": other_head,
    "a subject": other_subject,
    "the issuer's key": lambda one: predicate(issuer=replace(one.predicate.issuer, key=STRANGER.fingerprint))(one),
    "signed as unsigned": lambda one: predicate(issuer=replace(one.predicate.issuer, seal="none"))(one),
}


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory, _toys: object) -> ToyRun:
    return toy_run(tmp_path_factory.mktemp("failing") / "run", ("ok", "no"), signer=new_signer())


def test_sealing_again_without_a_lie_changes_nothing(failing: ToyRun) -> None:
    assert sealed_again(failing, lambda one: one) == failing.report.read_bytes()


@pytest.mark.parametrize("lie", WITH_THE_KEY.values(), ids=WITH_THE_KEY)
def test_a_sealed_lie_does_not_follow_from_the_evidence(
    failing: ToyRun, tmp_path: Path, lie: Callable[[Certificate], Certificate]
) -> None:
    (tmp_path / "r.html").write_bytes(sealed_again(failing, lie))

    assert verify(tmp_path / "r.html", trust=failing.trust, now=NOW).exit_code == 2


def test_the_label_of_a_simulated_run_cannot_be_taken_off(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run", signer=new_signer(), view_changes={"model_page": SIMULATED})
    run.report.write_bytes(sealed_again(run, predicate(labels=())))
    result = checked(run)

    assert (result.exit_code, failed(result)) == (2, ["recompute"])


def test_a_certificate_of_another_major_version_is_6(run: ToyRun, tmp_path: Path) -> None:
    text = slot.read(run.report.read_bytes(), cap=1 << 24)
    newer = replace(text, payload=text.payload.replace("certificate:v1", "certificate:v2"))
    (tmp_path / "r.html").write_bytes(slot.fill(run.report.read_bytes(), newer))

    assert verify(tmp_path / "r.html", trust=run.trust, now=NOW).exit_code == 6


def test_it_holds_without_assertions_too(run: ToyRun) -> None:
    script = (
        "import sys, pathlib, datetime\n"
        "from certify import judging\n"
        "from tests import certified\n"
        "judging.judges = certified.toy_judges\n"
        "from certify.report.verify import verify\n"
        "report, trust = map(pathlib.Path, sys.argv[1:])\n"
        "now = datetime.datetime(2027, 1, 16, tzinfo=datetime.UTC)\n"
        "print(verify(report, trust=trust, now=now).exit_code)\n"
        "report.write_bytes(report.read_bytes() + b' ')\n"
        "print(verify(report, trust=trust, now=now).exit_code)\n"
    )
    copy = run.folder.parent / "copy.html"
    copy.write_bytes(run.report.read_bytes())
    command = [sys.executable, "-O", "-c", script, str(copy), str(run.trust)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60, cwd=Path(__file__).parent.parent
    )

    assert done.stdout.split() == ["0", "2"]
