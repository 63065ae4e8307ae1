"""Real policies and traces: extraction finds what a person finds in them, and nothing crashes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from stream_guard_compliance import extract

from tests.reports.compliance_coverage import Part, check_part, read_parts, shares


@pytest.fixture(scope="module")
def parts() -> list[Part]:
    folder = Path(os.environ.get("STREAM_GUARD_DATA") or "missing") / "tau_bench"
    if not folder.is_dir():
        pytest.skip("STREAM_GUARD_DATA names no folder with tau_bench in it")
    return read_parts(folder)[0]


def test_every_policy_gives_concrete_rules_and_says_what_it_leaves_open(parts: list[Part]) -> None:
    assert parts
    for part in parts:
        counts = shares(extract(part.prompt, part.tools))
        assert counts["concrete"] >= 3
        assert counts["inconclusive"]
        assert counts["unparsed"]


def test_extracted_rules_run_over_the_traces_and_none_is_called_compliant(parts: list[Part]) -> None:
    for part in parts:
        part.traces = part.traces[:20]
        _, verdicts, _ = check_part(part)
        assert sum(verdicts.values()) == len(part.traces)
        assert not verdicts["satisfied"]
