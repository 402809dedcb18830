"""`junit.xml`: a courtesy for CI servers; one test case per requirement, never greener than the certificate."""

from xml.etree import ElementTree as ET

from certify.judging.summary import prevents
from certify.records import Outcome
from certify.report.shown import plain_value
from certify.report.statement import Certificate, Result
from certify.visible import visible

_CAP = 4_000


def junit_xml(certificate: Certificate) -> bytes:
    """The certificate as JUnit XML: a deciding requirement that carries nothing is a failure or an error."""
    predicate = certificate.predicate
    suites = ET.Element("testsuites")
    suite = ET.SubElement(suites, "testsuite", name="certify")
    properties = ET.SubElement(suite, "properties")
    for name, value in (
        ("certificate", predicate.id),
        ("verdict", predicate.summary.outcome),
        ("profile", predicate.method.profile),
        ("assurance_level", predicate.assurance_level),
        ("signature", predicate.issuer.key or "UNSIGNED"),
        ("labels", " ".join(predicate.labels)),
        ("base_url", predicate.deployment.base_url),
        ("model", predicate.deployment.observed.model),
        ("plan_sha256", predicate.method.plan.sha256),
        ("thresholds_sha256", predicate.method.thresholds.sha256),
    ):
        ET.SubElement(properties, "property", name=name, value=visible(str(value), _CAP))
    for result in predicate.results:
        _case(suite, result)
    counts = {tag: len(suite.findall(f"testcase/{tag}")) for tag in ("failure", "error", "skipped")}
    suite.set("tests", str(len(predicate.results)))
    suite.set("failures", str(counts["failure"]))
    suite.set("errors", str(counts["error"]))
    suite.set("skipped", str(counts["skipped"]))
    suite.set("timestamp", predicate.issued.rstrip("Z"))
    ET.indent(suites)
    return bytes(ET.tostring(suites, encoding="utf-8", xml_declaration=True))


def _case(suite: ET.Element, result: Result) -> None:
    verdict = result.verdict
    case = ET.SubElement(
        suite, "testcase", classname=f"certify.{visible(result.family)}", name=visible(verdict.requirement)
    )
    properties = ET.SubElement(case, "properties")
    ET.SubElement(properties, "property", name="level", value=str(result.level))
    ET.SubElement(properties, "property", name="outcome", value=str(verdict.outcome))
    for figure in verdict.figures:
        ET.SubElement(properties, "property", name=visible(figure.name), value=visible(plain_value(figure), _CAP))
    tag = _tag(result)
    if tag:
        lines = [verdict.summary, *(finding.text for finding in verdict.findings[:20]), verdict.cause, verdict.action]
        message = visible(f"{verdict.outcome}: {verdict.summary}", _CAP)
        element = ET.SubElement(case, tag, message=message)
        element.text = visible("\n".join(filter(None, lines)), _CAP, lines=True)
        if tag != "skipped":
            element.set("type", str(verdict.outcome))


def _tag(result: Result) -> str:
    outcome = result.verdict.outcome
    if prevents(result.level, outcome):
        return "failure" if outcome is Outcome.FAIL else "error"
    return "" if outcome is Outcome.PASS else "skipped"
