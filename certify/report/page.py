"""`report.html`: one static page, rendered from a certificate and its embedded evidence, and from nothing else.

The same certificate and evidence give the same bytes, so that a reader can render it again. No script, no request:
a content security policy allows one style sheet, by its digest. All text goes through `text.visible` and autoescape.
"""

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

from jinja2 import BaseLoader, Environment, StrictUndefined, Template
from markupsafe import Markup

from certify.judging.summary import Word
from certify.plan import Absence, Plan, from_bytes
from certify.records import Bound, Figure, Json, Level, Outcome
from certify.report import charts, slot
from certify.report.shown import plain_bound, plain_value
from certify.report.statement import Certificate, Predicate, Result
from certify.report.text import repeat_command, seqs
from certify.requirements import REQUIREMENTS
from certify.visible import visible

_CAP, _FINDINGS_SHOWN, _QUOTE_CAP, _TEXT_CAP = 4_000, 40, 1_200, 200_000
_TICKED = re.compile(r"`([^`]{1,80})`")
_TONES = {Outcome.PASS: "good", Outcome.NOT_APPLICABLE: "plain", Outcome.FAIL: "bad"}
_WORDS = {Word.CERTIFIED: "good", Word.NOT_CERTIFIED: "bad", Word.INCOMPLETE: "wary"}


@dataclass(frozen=True, slots=True)
class _Row:
    """One requirement as the page shows it."""

    result: Result
    tone: str
    opened: bool
    figures: tuple[tuple[Figure, str, Bound | None, Markup | None], ...]
    loose_bounds: tuple[Bound, ...]
    repeat: str


def render(certificate: Certificate, chains: tuple[bytes, ...]) -> bytes:
    """The page with an empty slot for the certificate; `chains` are the gzip bytes of the embedded chains.

    The subject `report.html`, which holds this page's digest, is not looked at.
    """
    predicate = certificate.predicate
    plan = from_bytes(predicate.method.plan.text.encode())
    style = _asset("page.css")
    html = _template().render(
        p=predicate,
        subjects=[one for one in certificate.subjects if one.name != "report.html"],
        plan=plan,
        style=Markup(style),  # noqa: S704 - our own style sheet
        style_sha256=Markup(base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()),  # noqa: S704 - base64
        rows=[_row(result, plan) for result in predicate.results],
        tone=_WORDS[predicate.summary.outcome],
        declared=_pairs(predicate.deployment.declared),
        client=_pairs(predicate.method.client),
        uncovered=_by_reason(predicate.coverage),
        lowered=[bar for bar in predicate.method.thresholds.against_suite if bar.lowered],
        rosette=charts.rosette(sealed=predicate.issuer.seal != "none"),
        counts=[(str(one), predicate.summary.counts[one]) for one in Outcome if one in predicate.summary.counts],
        headline=_headline(predicate),
        evidence=[_evidence(index, chain) for index, chain in enumerate(chains)],
        slot=Markup((slot.OPEN + slot.CLOSE).decode()),  # noqa: S704 - our own markers
    )
    return html.encode()


def _row(result: Result, plan: Plan) -> _Row:
    verdict = result.verdict
    named = {bound.metric: bound for bound in verdict.bounds}
    return _Row(
        result,
        _TONES.get(verdict.outcome, "wary"),
        result.level is not Level.REPORTED and verdict.outcome not in {Outcome.PASS, Outcome.NOT_APPLICABLE},
        tuple(_measured(figure, named.get(figure.name)) for figure in verdict.figures),
        tuple(bound for bound in verdict.bounds if bound.metric not in {figure.name for figure in verdict.figures}),
        repeat_command(verdict.requirement, plan),
    )


def _measured(figure: Figure, bound: Bound | None) -> tuple[Figure, str, Bound | None, Markup | None]:
    drawn = charts.strip(figure, bound) if bound is not None and bound.unit == figure.unit else None
    return figure, plain_value(figure), bound, drawn


def _headline(predicate: Predicate) -> str:
    required = [one.verdict.outcome for one in predicate.results if one.level is Level.REQUIRED]
    passed = sum(outcome is Outcome.PASS for outcome in required)
    return f"{passed} of {len(required)} required requirements pass"


def _by_reason(coverage: tuple[Absence, ...]) -> list[tuple[str, list[str]]]:
    """What was not covered, by the reason, in the order of the plan."""
    reasons = dict.fromkeys(absence.reason for absence in coverage)
    return [(reason, [one.requirement for one in coverage if one.reason == reason]) for reason in reasons]


def _pairs(facts: dict[str, Json], prefix: str = "") -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for name, value in facts.items():
        if isinstance(value, dict):
            pairs += _pairs(value, f"{prefix}{name}.")
        else:
            pairs.append((f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)))
    return pairs


def _evidence(index: int, chain: bytes) -> Markup:
    opening, closing = slot.evidence_markers(index)
    return Markup((opening + base64.b64encode(chain) + closing).decode())  # noqa: S704 - markers and base64


@cache
def _asset(name: str) -> str:
    return resources.files("certify.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _template() -> Template:
    environment = Environment(
        loader=BaseLoader(),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters.update(
        bound=plain_bound,
        numbers=seqs,
        quote=lambda text: Markup.escape(visible(text, _QUOTE_CAP, lines=True)),
        paragraph=lambda text: Markup.escape(visible(text, _CAP, lines=True)),
        long=lambda text: Markup.escape(visible(text, _TEXT_CAP, lines=True)),
        day=lambda text: text[:10],
        minute=lambda text: text[:16].replace("T", " ") + " UTC",
        ticks=_ticks,
        title_of=lambda requirement: REQUIREMENTS[requirement].title if requirement in REQUIREMENTS else requirement,
        few=lambda items: items[:_FINDINGS_SHOWN],
    )
    return environment.from_string(_asset("page.html.j2"))


def _ticks(text: str) -> Markup:
    """Text with its `names` in code style: ours by origin, escaped all the same."""
    return Markup(_TICKED.sub(r"<code>\1</code>", str(Markup.escape(visible(text, _CAP)))))  # noqa: S704 - escaped


def _finalize(value: object) -> object:
    if isinstance(value, Markup):
        return value
    return "–" if value is None else visible(str(value), _CAP)
