"""What all tests of the suite share."""

import os
from collections.abc import Generator

import pytest

pytest_plugins = ["pytester"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a skip is a failure: whatever a test needs is installed there (CERTIFY_NO_SKIPS)."""
    report = yield
    if (
        report.skipped
        and not hasattr(report, "wasxfail")
        and os.environ.get("CERTIFY_NO_SKIPS")
        and "may_skip" not in item.keywords
    ):
        report.outcome = "failed"
        report.longrepr = f"skipped, but nothing may be missing here: {report.longrepr}"
    return report
