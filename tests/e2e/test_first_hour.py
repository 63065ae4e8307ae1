"""The first hour, in a real terminal of 80 columns: init, check, and the first alert explained."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import stream_guard as sg
from tests import processes
from tests.screens import SCREENS, play_demo
from tests.terminal import COLUMNS, Screen, show

VARIABLE = "STREAM_GUARD_DATA"
RECORDINGS = (
    "agentdyn/runs.jsonl.gz",
    "claude_code/replay.jsonl.gz",
    "claude_code/sessions",
    "langfuse_export/traces.jsonl.gz",
    "sentinel_steps/episodes.jsonl.gz",
    "tau2/airline.simulations.jsonl.gz",
    "tau2/retail.simulations.jsonl.gz",
    "tau_bench/airline_gpt-4o.jsonl.gz",
    "tau_bench/retail_agentrx.jsonl.gz",
    "trail_otel/traces.jsonl.gz",
)


@pytest.fixture(scope="module")
def played() -> Iterator[dict[str, str]]:
    with TemporaryDirectory() as folder:  # a short name: explain shows where the recording is
        yield play_demo(Path(folder))


@pytest.mark.parametrize("name", ["init", "check", "explain", "template", "packs"])
def test_the_screens_of_the_demo_are_those_that_were_looked_at(name: str, played: dict[str, str]) -> None:
    committed = (SCREENS / f"{name}.txt").read_text()
    assert played[name].splitlines() == committed.splitlines(), "run `python -m tests.screens`, and look at the diff"


@pytest.mark.parametrize("name", ["init", "check", "explain", "template", "packs"])
def test_the_screen_fits_the_terminal(name: str, played: dict[str, str]) -> None:
    assert [line for line in played[name].splitlines() if len(line) > COLUMNS] == []


@pytest.mark.slow
@pytest.mark.parametrize("recording", RECORDINGS)
def test_a_stranger_comes_from_recordings_to_an_alert_that_is_explained(recording: str) -> None:
    data = os.environ.get(VARIABLE)
    if not data:
        pytest.skip(f"{VARIABLE} is not set; it names the folder of the recordings")
    with TemporaryDirectory() as folder:  # a short name, as a stranger's would be
        traces = "traces" if Path(data, recording).is_dir() else "traces.jsonl.gz"
        Path(folder, traces).symlink_to(Path(data, recording))
        play(traces, Path(folder))


def play(traces: str, folder: Path) -> None:
    """Begin, check, and have the first alert explained, or a session where there is none."""
    begun = show("init", traces, folder=folder)
    assert begun.code == 0, begun.text
    assert begun.widest <= COLUMNS, begun.text
    assert "Checked\n" in begun.text
    command = ("check", traces, "--policy", "policy.yaml", "--allow-inconclusive")
    checked = show(*command, folder=folder)
    assert checked.code in (0, 1), checked.text
    listed = processes.run(*command, "--format", "jsonl", cwd=folder, text=True)
    alerts = [json.loads(line) for line in listed.stdout.splitlines()]
    assert bool(alerts) is bool(checked.code)
    what = alerts[0]["alert_id"] if alerts else first_session(folder / traces)
    explained = show("explain", what, traces, "--policy", "policy.yaml", folder=folder)
    assert explained.code == 0, explained.text
    assert widest(explained) <= COLUMNS, explained.text
    assert (alerts[0]["rule_id"] if alerts else what[:20]) in explained.text


def widest(screen: Screen) -> int:
    """Return the length of the longest line; lines of the log name files in full."""
    return max(len(line) for line in screen.text.splitlines() if ": read as " not in line)


def first_session(traces: Path) -> str:
    return next(event.session_id for event in islice(sg.read_events(str(traces)), 1))
