"""JUnit's XML: test cases in suites, as build servers read them."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO

from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

from stream_guard.reports import JUnitSuite
from stream_guard.reports.safe import visible


def write_junit(name: str, suites: Iterable[JUnitSuite]) -> str:
    """Return the document of these suites."""
    document = JUnitXml(name)
    for suite in suites:
        written_suite = TestSuite(visible(suite.name))
        for case in suite.cases:
            written_case = TestCase(visible(case.name), visible(suite.classname))
            if case.failure is not None:
                written_case.result = [Failure(visible(case.failure))]
            elif case.skipped is not None:
                written_case.result = [Skipped(visible(case.skipped))]
            written_suite.add_testcase(written_case)
        document.add_testsuite(written_suite)
    written = BytesIO()
    document.write(written)
    return written.getvalue().decode()
