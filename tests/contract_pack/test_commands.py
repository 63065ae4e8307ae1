"""``contract validate | score | ci`` as a build meets them: what is printed, and the exit code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from stream_guard.cli.app import app
from stream_guard.errors import PolicyError, SettingsError
from stream_guard.judge.model import Event
from tests.contract_pack.answers import answered
from tests.contract_pack.test_document import OUTSIDE

GOOD = ("According to the filing, all is fine.", "Source: none. Data is unavailable.", "According to the filing.")
SCENARIOS = ("no-chaos", "search-tool-down", "llm-degraded")


def sessions(*texts: str, **response: Any) -> list[list[Event]]:
    return [answered(text, scenario, **response) for scenario, text in zip(SCENARIOS, texts, strict=True)]


def write(folder: Path, recorded: Sequence[Sequence[Event]], contract: str = OUTSIDE) -> list[str]:
    """Write both files and return the arguments that name them."""
    traces, file = folder / "traces.jsonl", folder / "flakestorm.yaml"
    traces.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for one in recorded for event in one))
    file.write_text(contract, encoding="utf-8")
    return ["--traces", str(traces), "--config", str(file)]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["contract", *arguments])


def test_score_prints_the_number_alone(tmp_path: Path) -> None:
    done = run("score", *write(tmp_path, sessions(*GOOD)))
    assert (done.stdout, done.exit_code) == ("100\n", 0)


def test_a_critical_failure_exits_1_whatever_the_score(tmp_path: Path) -> None:
    done = run("score", *write(tmp_path, sessions(GOOD[0], "According to me, $1,234.56.", GOOD[2])))
    assert (done.stdout, done.exit_code) == ("80\n", 1)
    assert "the contract is broken: never-fabricate-when-tools-fail" in done.stderr


def test_failures_that_are_not_critical_lower_the_score_and_only_a_gate_makes_them_fail(tmp_path: Path) -> None:
    files = write(tmp_path, sessions(*GOOD, latency_ms=90_000))
    assert (run("score", *files).stdout, run("score", *files).exit_code) == ("80\n", 0)
    assert run("score", *files, "--min-score", "90").exit_code == 1


def test_nothing_evaluated_is_no_number_and_exit_4_even_if_inconclusive_is_allowed(tmp_path: Path) -> None:
    done = run("score", *write(tmp_path, []), "--allow-inconclusive")
    assert (done.stdout, done.exit_code) == ("", 4)


def test_cells_that_could_not_be_judged_exit_4_unless_that_is_allowed(tmp_path: Path) -> None:
    files = write(tmp_path, sessions(*GOOD)[:2])
    done = run("score", *files)
    assert (done.stdout, done.exit_code) == ("100\n", 4)
    assert "2 of 9 cells could not be judged" in done.stderr
    assert run("score", *files, "--allow-inconclusive").exit_code == 0


def test_records_that_cannot_be_read_exit_4(tmp_path: Path) -> None:
    files = write(tmp_path, sessions(*GOOD))
    with (tmp_path / "traces.jsonl").open("a") as traces:
        traces.write("{broken\n")
    assert run("score", *files).exit_code == 4


def test_validate_tells_the_cells_and_refuses_what_is_wrong(tmp_path: Path) -> None:
    write(tmp_path, [])
    file = tmp_path / "flakestorm.yaml"
    done = run("validate", "-c", str(file))
    assert (done.exit_code, "3 invariants in 3 scenarios, 9 cells" in done.stdout) == (0, True)
    file.write_text(OUTSIDE.replace("type: latency", "type: latencie"))
    assert isinstance(run("validate", "-c", str(file)).exception, PolicyError)


def test_ci_weighs_the_parts_that_ran(tmp_path: Path) -> None:
    done = run("ci", *write(tmp_path, sessions(*GOOD, latency_ms=90_000)), "--part", "mutation=0.5")
    assert done.stdout.splitlines() == [
        "mutation: 50.00 %",
        "chaos: not run",
        "contract: 80.00 %",
        "replay: not run",
        "overall: 69.09 %",
    ]
    assert done.exit_code == 0


def test_ci_fails_when_a_part_is_too_low_or_the_contract_is_broken(tmp_path: Path) -> None:
    files = write(tmp_path, sessions(*GOOD))
    low = run("ci", *files, "--part", "mutation=0.5", "--min-score", "60")
    assert (low.exit_code, "under 60 %: mutation" in low.stderr) == (1, True)
    assert run("ci", *write(tmp_path, sessions("no", *GOOD[1:]))).exit_code == 1


@pytest.mark.parametrize("part", ["contract=1", "mutation", "mutation=2", "chaos=x", "mutation=nan"])
def test_a_part_that_cannot_be_counted_is_refused(tmp_path: Path, part: str) -> None:
    done = run("ci", *write(tmp_path, sessions(*GOOD)), "--part", part)
    assert isinstance(done.exception, SettingsError)


def test_reports_are_written_before_the_exit_code_is_given(tmp_path: Path) -> None:
    forms = ("table", "json", "markdown", "junit", "sarif", "github", "html")
    files = write(tmp_path, sessions("no", "$1.00", "no"))
    targets = [argument for form in forms for argument in ("--report", f"{form}={tmp_path / form}")]
    done = run("score", *files, *targets)
    assert (done.stdout, done.exit_code) == ("20\n", 1)
    assert all((tmp_path / form).stat().st_size for form in forms)
    assert json.loads((tmp_path / "json").read_text())["score"] == 20.0


@pytest.mark.parametrize("report", ["html", "number=x", "pdf=x", "json="])
def test_a_report_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path: Path, report: str) -> None:
    done = run("score", "--traces", str(tmp_path / "none"), "--report", report)
    assert isinstance(done.exception, SettingsError)


def test_the_contract_may_be_named_as_an_argument(tmp_path: Path) -> None:
    _, traces, option, file = write(tmp_path, sessions(*GOOD))
    assert run("validate", file).stdout == run("validate", option, file).stdout
    assert run("score", file, "--traces", traces).stdout == "100\n"
    twice = run("validate", file, option, file)
    assert twice.exit_code != 0
    assert "named twice" in str(twice.exception)
