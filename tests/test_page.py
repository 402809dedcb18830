"""The page: one static file in which whatever a server says is text, and nothing else."""

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certify import judging
from certify.records import Finding, Outcome
from certify.report import page, slot
from certify.report.statement import Certificate, from_bytes
from certify.visible import visible
from tests.certified import ToyRun, new_signer, toy_judges, toy_run

HOSTILE = (
    "</pre><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</style><style>*{display:none}</style>",
    "</script><!--certify-signature-end-->",
    '" onmouseover="alert(1)',
    "{{ 7 * 7 }}{% raw %}",
    "<!--certify-evidence-0-->",
    "javascript:alert(1)",
    "\u202edeifirev\u202c\u200b\x00\x1b[31m",
    "a" + "\u0301" * 50,
    "&lt;b&gt;&#x3c;script&#x3e;",
    "]]>\r\n\tline",
)


class Shape(HTMLParser):
    """What a browser would build: tags with their attribute names, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: Counter[str] = Counter()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.names |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)


@pytest.fixture(autouse=True, scope="module")
def _toys() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judging, "judges", toy_judges)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, _toys: object) -> ToyRun:
    return toy_run(tmp_path_factory.mktemp("page") / "run", ("ok", "no"), signer=new_signer())


@pytest.fixture(scope="module")
def certificate(run: ToyRun) -> Certificate:
    return from_bytes((run.folder / "certificate.json").read_bytes())


def saying(certificate: Certificate, text: str) -> Certificate:
    """The certificate with `text` wherever words of a deployment can stand."""
    predicate = certificate.predicate
    seen = replace(
        predicate.deployment.observed, model=text, version=text, engine=text, models=(text,), system_fingerprint=text,
        facts=((text, text),),
    )  # fmt: skip
    results = tuple(
        replace(
            one,
            verdict=replace(
                one.verdict, outcome=Outcome.FAIL, summary=text, cause=text, action=text, rule=text,
                findings=(Finding(text, (1,), text),),
            ),
        )
        for one in predicate.results
    )  # fmt: skip
    deployment = replace(predicate.deployment, observed=seen, declared={text: text})
    return replace(
        certificate,
        predicate=replace(predicate, deployment=deployment, results=results, labels=("DEMO",), calibration=()),
    )


def rendered(certificate: Certificate, text: str) -> str:
    return page.render(saying(certificate, text), (b"gzip",)).decode()


@pytest.fixture(scope="module")
def plain(certificate: Certificate) -> Shape:
    return Shape(rendered(certificate, "words"))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_changes_no_tag_and_no_attribute(certificate: Certificate, plain: Shape, text: str) -> None:
    hostile = Shape(rendered(certificate, text))

    assert hostile.tags == plain.tags
    assert hostile.names == plain.names
    assert hostile.links == plain.links


@settings(max_examples=40, deadline=None)
@given(text=st.text(st.characters(codec=None), min_size=1, max_size=80))
def test_any_text_is_shown_as_text(certificate: Certificate, plain: Shape, text: str) -> None:
    text = "x" + text.encode("utf-8", "backslashreplace").decode()
    shape = Shape(rendered(certificate, text))

    assert shape.tags == plain.tags
    assert visible(text) in shape.text


def test_hidden_characters_are_shown_as_escapes(certificate: Certificate) -> None:
    text = Shape(rendered(certificate, "\u202ea\u200b\x1b")).text

    assert "\\u202ea\\u200b\\x1b" in text
    assert not set("\u202e\u200b\x1b") & set(text)


def test_long_quotes_are_cut_and_the_cut_is_told(certificate: Certificate) -> None:
    assert "characters more)" in Shape(rendered(certificate, "x" * 9_000)).text
    assert len(rendered(certificate, "x" * 1_000_000)) < 2_000_000


def test_nothing_runs_and_nothing_is_fetched(run: ToyRun) -> None:
    html = run.report.read_text(encoding="utf-8")
    shape = Shape(html)

    assert shape.tags["script"] == 1  # the slot: base64, of a type that no browser runs
    assert not {name for name in shape.names if name.startswith("on")}
    assert {link.split(":")[0] for link in shape.links if not link.startswith("#")} == {"data"}
    assert "default-src 'none'; style-src 'sha256-" in html


def test_the_style_is_the_one_that_the_policy_allows(run: ToyRun) -> None:
    import base64  # noqa: PLC0415
    import hashlib  # noqa: PLC0415

    html = run.report.read_text(encoding="utf-8")
    style = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    allowed = re.findall(r"'sha256-([^']+)'", html)

    assert [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in style] == allowed
    assert "style=" not in html.split("</style>")[1].split("data:application")[0]


def test_it_is_rendered_again_to_the_byte_from_certificate_and_evidence(run: ToyRun, certificate: Certificate) -> None:
    packed = (run.folder / "evidence.jsonl.gz").read_bytes()
    again = page.render(certificate, (packed,))

    assert slot.page_sha256(again) == slot.page_sha256(run.report.read_bytes())


def test_the_first_screen_says_all_that_decides(run: ToyRun) -> None:
    html = run.report.read_text(encoding="utf-8")
    first = Shape(html[: html.index("<main>")]).text

    for word in (
        *("NOT CERTIFIED", "smoke", "self_attested", "toy-7b", "vllm", "http://127.0.0.1:9", "2, declared only"),
        *(run.signer.identity, run.signer.fingerprint, "What was not covered", "no other arm was given"),
        *("generic", "None is lower", "certify verify report.html --trust"),
    ):
        assert word in first


def test_each_requirement_tells_its_whole_story(run: ToyRun) -> None:
    text = Shape(run.report.read_text(encoding="utf-8")).text

    for word in (
        *("PRE-CONTRACT-01 · required", "1 of 2 answers say ok", "3.00 x [2.50, 3.50], n = 2", "≥ 2.0 x"),
        *("five pairs above 2", "by hand", "every answer says ok", "a toy", "say ok", "no is not ok", "evidence 4"),
        "certify run --base-url http://127.0.0.1:9 --profile smoke --only PRE-CONTRACT-01 --seed 5eed",
    ):
        assert word in text


def test_unsigned_is_said_in_title_labels_box_and_foot(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run", demo=True, simulated=True)
    html = run.report.read_text(encoding="utf-8")

    assert "<title>CERTIFIED · UNSIGNED · DEMO · SIMULATED · toy-7b · Certify</title>" in html
    assert "<strong>UNSIGNED</strong> <strong>DEMO</strong> <strong>SIMULATED</strong>" in html
    assert "Nobody signed this report" in html
    assert html.count("UNSIGNED") == 3


def test_headings_tables_and_pictures_are_named_for_a_screen_reader(run: ToyRun) -> None:
    html = run.report.read_text(encoding="utf-8")
    body = html.split("</style>")[1]

    assert '<html lang="en">' in html
    assert len(re.findall(r"<h1>", body)) == 1
    assert len(re.findall(r"<th ", body)) == len(re.findall(r'<th scope="col">', body)) > 0
    assert len(re.findall(r"<svg", body)) == len(re.findall(r"<svg[^>]*(?:aria-label=|aria-hidden=)", body)) > 0


def test_a_page_without_its_evidence_is_small(run: ToyRun) -> None:
    html = run.report.read_text(encoding="utf-8")

    assert len(re.sub(r"[A-Za-z0-9+/=]{200,}", "", html)) < 100_000
