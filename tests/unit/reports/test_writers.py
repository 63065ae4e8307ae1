"""The writers of reports: plain values in, one form out."""

from __future__ import annotations

import json
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest

from stream_guard import Place
from stream_guard.reports import (
    JUnitCase,
    JUnitSuite,
    SarifResult,
    annotation,
    load_template,
    write_junit,
    write_sarif,
)

HOSTILE = "a\n::error::b\u202e"


def test_sarif_has_the_rule_the_level_the_place_and_the_fingerprint() -> None:
    place = Place("policy.yaml", 3, 7)
    written = write_sarif([SarifResult("r", "warning", HOSTILE, place, {"alertId": "1"})], ["r", "silent"])
    (run,) = json.loads(written)["runs"]
    (result,) = run["results"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["r", "silent"]
    assert result["level"] == "warning"
    assert result["message"]["text"] == "a ::error::b\\u202e"
    assert result["partialFingerprints"] == {"alertId": "1"}
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "policy.yaml"
    assert (location["region"]["startLine"], location["region"]["startColumn"]) == (3, 7)


def test_sarif_without_a_place_has_no_location() -> None:
    (result,) = json.loads(write_sarif([SarifResult("r", "none", "m")], []))["runs"][0]["results"]
    assert "locations" not in result


def test_junit_counts_failures_and_skipped_cases() -> None:
    cases = [JUnitCase("passed"), JUnitCase("failed", failure=HOSTILE), JUnitCase("skipped", skipped="why")]
    document = ET.fromstring(write_junit("all", [JUnitSuite("suite", "class", cases)]))
    (suite,) = document.iter("testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    (failure,) = document.iter("failure")
    assert failure.get("message") == "a ::error::b\\u202e"


@pytest.mark.parametrize(
    ("place", "column", "where"),
    [
        (None, False, ""),
        (Place("a:b.yaml", 0, 0), False, "file=a%3Ab.yaml,line=1,"),
        (Place("p.yaml", 4, 2), False, "file=p.yaml,line=4,"),
        (Place("p.yaml", 4, 2), True, "file=p.yaml,line=4,col=2,"),
        (Place("p.yaml"), True, "file=p.yaml,"),
    ],
)
def test_annotation_says_where(place: Place | None, column: bool, where: str) -> None:
    assert annotation("note", "a,b", "50%", place, column=column) == f"::notice {where}title=a%2Cb::50%25"


def test_annotation_is_one_line_whatever_an_agent_wrote() -> None:
    assert annotation("error", HOSTILE, HOSTILE, None).count("\n") == 0


def test_template_is_loaded_with_its_filters() -> None:
    names = ("change", "sureness", "words", "interval", "chance", "drawn")
    template = load_template("stream_guard_diff", "diff.html.j2", **dict.fromkeys(names, str))
    assert {"visible", "number", *names} <= set(template.environment.filters)


def test_report_forms_are_known_without_the_packages_that_write_them() -> None:
    program = "import sys, stream_guard.reports; print([m for m in ('jinja2', 'junitparser') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"
