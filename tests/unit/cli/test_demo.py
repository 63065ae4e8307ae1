"""``demo``: its page has a report to show, made of its own sessions."""

from __future__ import annotations

from pathlib import Path

from stream_guard.cli.demo import write_sample_report, write_samples
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry


def test_the_report_of_the_demo_says_what_check_says_of_its_sessions(tmp_path: Path) -> None:
    events, policy_file = write_samples(tmp_path, 16)
    write_sample_report(tmp_path / "reports", events, load_policy(policy_file, build_registry()))
    [report] = (tmp_path / "reports").iterdir()
    assert report.name == "check-samples.html"
    assert "confirm-before-refund" in report.read_text()
