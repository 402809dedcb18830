"""`certificate.json` and the files beside it: complete, canonical, honest about what it lacks."""

import gzip
import hashlib
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from certify import judging
from certify.codec import canonical, parse_json
from certify.evidence import EvidenceView
from certify.records import Json
from certify.report import certificate as certificate_module
from certify.report.claims import against_suite
from certify.report.statement import CertificateError, UnknownPredicateError, from_bytes, settled
from certify.thresholds import load, parse
from tests.certified import ISSUED_US, ToyRun, new_signer, toy_judges, toy_pair, toy_plan, toy_run, toy_view


@pytest.fixture(autouse=True, scope="module")
def _toys() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judging, "judges", toy_judges)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, _toys: object) -> ToyRun:
    folder = tmp_path_factory.mktemp("certificate") / "run"
    folder.mkdir()
    log = folder / "run-log.html"
    log.write_text("<p>log</p>", encoding="utf-8")
    return toy_run(folder, signer=new_signer(), run_log=log, commit="c0ffee", changes={"challenge": "nonce-1"})


def payload(run: ToyRun) -> dict[str, Json]:
    value = parse_json((run.folder / "certificate.json").read_bytes())
    assert isinstance(value, dict)
    return value


def file_sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_it_is_a_canonical_in_toto_statement_of_our_predicate(run: ToyRun) -> None:
    raw = (run.folder / "certificate.json").read_bytes()

    assert canonical(parse_json(raw)) == raw
    assert payload(run)["_type"] == "https://in-toto.io/Statement/v1"
    assert payload(run)["predicateType"] == "urn:certify:deployment-certificate:v1"


def test_it_binds_every_file_by_digest(run: ToyRun) -> None:
    certificate = from_bytes((run.folder / "certificate.json").read_bytes())
    bound = {one.name: one.digest for one in certificate.subjects}

    assert set(bound) == {
        "deployment", "evidence.jsonl", "plan.json", "thresholds.toml", "run-log.html", "pr", "report.html"
    }  # fmt: skip
    assert bound["pr"] == {"gitCommit": "c0ffee"}
    for name in ("evidence.jsonl", "plan.json", "thresholds.toml", "run-log.html"):
        assert bound[name] == {"sha256": file_sha256(run.folder / name)}


def test_the_sums_hold_and_leave_the_report_out(run: ToyRun) -> None:
    lines = (run.folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines()

    assert "report.html" not in {line.split("  ")[1] for line in lines}
    assert [line.split("  ")[0] for line in lines] == [file_sha256(run.folder / line.split("  ")[1]) for line in lines]


def test_the_packed_evidence_is_the_evidence(run: ToyRun) -> None:
    packed = (run.folder / "evidence.jsonl.gz").read_bytes()

    assert gzip.decompress(packed) == (run.folder / "evidence.jsonl").read_bytes()


def test_no_half_written_file_stays(run: ToyRun) -> None:
    assert not list(run.folder.glob(".*"))


def test_it_tells_identity_method_challenge_and_limits(run: ToyRun) -> None:
    predicate = from_bytes((run.folder / "certificate.json").read_bytes()).predicate

    assert (predicate.deployment.observed.engine, predicate.deployment.observed.model) == ("vllm", "toy-7b")
    assert predicate.deployment.declared == {"share": "0.5", "tp": 2}
    assert predicate.assurance_level == "challenged"
    assert predicate.challenge.seeds_cases
    assert predicate.calibration == run.verdicts[3].figures
    assert predicate.method.plan.sha256 == run.plan.sha256
    assert predicate.method.thresholds.text == run.thresholds.text
    assert predicate.issuer.key == run.signer.fingerprint
    assert (predicate.issued, predicate.validity.not_after) == ("2027-01-15T08:00:00Z", "2027-02-14T08:00:00Z")
    assert "QUAL-SPEC-01" in {absence.requirement for absence in predicate.coverage}
    assert any("does not prove which hardware" in statement for statement in predicate.statements)


def test_without_a_challenge_it_says_what_that_means(tmp_path: Path) -> None:
    predicate = from_bytes((toy_run(tmp_path / "run").folder / "certificate.json").read_bytes()).predicate

    assert predicate.assurance_level == "self_attested"
    assert any("came after the reader asked" in statement for statement in predicate.statements)


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    signer = new_signer()
    plan, bars = toy_plan(load("generic")), load("generic")
    view = toy_view(tmp_path / "evidence", plan)
    verdicts = [judging.judge(gate.requirement, view, plan, bars) for gate in plan.gates]
    first, second = (
        certificate_module.write_run(tmp_path / name, plan, view, bars, verdicts, signer=signer, issued_at_us=ISSUED_US)
        for name in ("one", "two")
    )

    assert first.read_bytes() == second.read_bytes()


def test_an_unsigned_run_has_no_seal_and_says_so(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run")
    issuer = from_bytes((run.folder / "certificate.json").read_bytes()).predicate.issuer

    assert (issuer.seal, issuer.key) == ("none", "")
    assert not (run.folder / "certificate.json.sig.txt").exists()


def test_a_demo_lays_its_trust_file_beside_the_report(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run", signer=new_signer("demo"), demo=True)

    assert (run.folder / "allowed_signers").read_text(encoding="utf-8").startswith("demo namespaces=")
    assert from_bytes((run.folder / "certificate.json").read_bytes()).predicate.labels == ("DEMO",)


def test_a_simulated_deployment_is_labelled_by_its_own_evidence(tmp_path: Path) -> None:
    page = '{"object":"list","data":[{"id":"sim","owned_by":"certify-simulator"}]}'
    run = toy_run(tmp_path / "run", view_changes={"model_page": page})

    assert from_bytes((run.folder / "certificate.json").read_bytes()).predicate.labels == ("SIMULATED",)


def test_an_attached_chain_is_bound_and_packed_too(tmp_path: Path) -> None:
    run = toy_pair(tmp_path)
    certificate = from_bytes((run.folder / "certificate.json").read_bytes())
    other = file_sha256(run.view.attached["spec-off"].path)

    assert [chain.attached_as for chain in certificate.predicate.evidence] == ["", "spec-off"]
    assert {one.name: one.digest for one in certificate.subjects}["evidence-spec-off.jsonl"] == {"sha256": other}
    assert (run.folder / "evidence-spec-off.jsonl.gz").is_file()


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen (OpenSSH) is not installed")
def test_the_seal_beside_it_is_checked_by_openssh_alone(run: ToyRun) -> None:
    command = ["ssh-keygen", "-Y", "verify", "-f", str(run.trust), "-I", run.signer.identity]
    command += ["-n", "certify-certificate@v1", "-s", str(run.folder / "certificate.json.sig.txt")]
    payload_bytes = (run.folder / "certificate.json").read_bytes()

    assert subprocess.run(command, input=payload_bytes, capture_output=True, check=False, timeout=20).returncode == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda statement: statement | {"extra": 1},
        lambda statement: statement | {"_type": "https://in-toto.io/Statement/v0.1"},
        lambda statement: statement | {"predicate": statement["predicate"] | {"extra": 1}},
        lambda statement: statement | {"predicate": statement["predicate"] | {"issued": 1}},
        lambda statement: statement | {"predicate": statement["predicate"] | {"schema": 1.5}},
        lambda statement: statement | {"subject": statement["subject"] * 2},
    ],
    ids=["field", "type", "predicate field", "wrong type", "float", "subject twice"],
)
def test_a_statement_of_another_shape_is_refused(run: ToyRun, change: object) -> None:
    with pytest.raises(CertificateError):
        from_bytes(canonical(change(payload(run))))


def test_a_statement_about_something_else_is_told_apart(run: ToyRun) -> None:
    with pytest.raises(UnknownPredicateError, match="v2"):
        from_bytes(canonical(payload(run) | {"predicateType": "urn:certify:deployment-certificate:v2"}))


def test_lone_surrogates_and_floats_are_settled_before_they_are_sealed() -> None:
    assert settled({"\ud800": [0.5, "a\udc00"]}) == {"\\ud800": ["0.5", "a\\udc00"]}


def test_an_answer_with_a_lone_surrogate_can_be_certified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def quoting(view: EvidenceView, plan: object, bars: object) -> object:
        verdict = toy_judges()["PRE-CONTRACT-01"](view, plan, bars)
        return replace(verdict, summary="it said \ud83d")

    monkeypatch.setattr(judging, "judges", lambda: toy_judges() | {"PRE-CONTRACT-01": quoting})
    run = toy_run(tmp_path / "run")

    results = from_bytes((run.folder / "certificate.json").read_bytes()).predicate.results
    assert results[0].verdict.summary == "it said \\ud83d"


OWN = """schema = 1
[sets.mine]
extends = "generic"
[sets.mine."PRE-RULER-01".ttft_error_p99]
ceiling = {ceiling}
unit = "ms"
source = "mine"
"""


@pytest.mark.parametrize(("ceiling", "found"), [("9", [True]), ("4.999", [False]), ("5.00", [])])
def test_a_lowered_bar_is_told_apart_from_a_raised_and_an_equal_one(ceiling: str, found: list[bool]) -> None:
    bars = against_suite(parse(OWN.format(ceiling=ceiling), "mine", "mine.toml"))

    assert [bar.lowered for bar in bars] == found


def test_a_bar_that_was_left_out_counts_as_lowered() -> None:
    bars = against_suite(parse("schema = 1\n[sets.empty]\n", "empty", "empty.toml"))

    assert len(bars) == len(load("generic").bounds)
    assert all(bar.lowered for bar in bars)


def test_what_a_diagnostic_run_leaves_is_labelled(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run", changes={"diagnostic": ("--only",)})

    assert "DIAGNOSTIC" in from_bytes((run.folder / "certificate.json").read_bytes()).predicate.labels
