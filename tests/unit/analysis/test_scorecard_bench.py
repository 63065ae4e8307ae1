"""The scorecard and what stands behind it: shares are counted right, parts are left out, archives become recordings."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

from stream_guard.analysis.labels import DetectionShare
from tests.bench.crossed import VARIANTS, ScoredRun, choose, leave_out
from tests.bench.fetch import SETS, unpack, write, write_pairs
from tests.bench.hintbench import events_of
from tests.bench.packs import BENIGN, Measured, rules_of
from tests.bench.scorecard import LEFT_OUT, score
from tests.bench.scorecard_page import page, plot


def test_a_pack_is_scored_by_its_rules_that_are_sent_and_runs_that_count() -> None:
    first, second, *_ = rules_of()["workplace"]
    sessions = {BENIGN: {"a", "b"}, "bad": {"c", "d"}, LEFT_OUT: {"e"}}
    fired = {first: {BENIGN: {"a"}, "bad": {"c"}, LEFT_OUT: {"e"}}, second: {"bad": {"d"}}}
    row = next(row for row in score("set", Measured(sessions, fired), {second}) if row.by == "workplace")
    assert (row.precision, row.recall, row.alarms) == (
        DetectionShare(1, 2),
        DetectionShare(1, 2),
        DetectionShare(1, 2),
    )
    silent = next(row for row in score("set", Measured(sessions, fired), set()) if row.by == "runaway")
    assert silent.recall == DetectionShare(0, 2)
    shown = page([row, silent], {"set": "bad: it was"})
    assert "| workplace |" in shown
    assert "| runaway |" in shown  # rows in which nothing is found stay in
    assert plot([row._replace(by="all packs")]).count("<circle") == 2
    drawn = plot([row._replace(recordings="tracesafe 8", by=by) for by in ("kind", "kind texts: True")])
    assert drawn.count(">tracesafe 8: kind<") == drawn.count(">tracesafe 8: kind texts<") == 1


def test_what_is_left_out_has_no_say_in_what_is_chosen() -> None:
    good, simple = "everything", "values only, without requests"
    runs = [ScoredRun("a", "a/1", bad=True, fired=frozenset((good, simple)))] * 5
    runs += [ScoredRun("b", "b/1", bad=True, fired=frozenset((good,)))] * 5
    runs += [ScoredRun("a", "", bad=False, fired=frozenset()), ScoredRun("b", "", bad=False, fired=frozenset())]
    assert choose(runs) == good
    assert choose([run for run in runs if run.suite == "a"]) in {"three classes", simple, *VARIANTS} - {good}
    chosen, found = leave_out(runs, lambda run: run.suite)["b"]
    assert chosen != good
    assert (found.right, found.bad) == (0, 5)


def archive(**files: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as opened:
        for name, content in files.items():
            member = tarfile.TarInfo(f"repository-abc/data/{name.replace('__', '.')}")
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    return made.getvalue()


def test_an_archive_becomes_recordings_with_labels(tmp_path: Path) -> None:
    step = {"role": "agent", "action": json.dumps({"name": "pay", "arguments": {"to": "x"}})}
    run = {"task_id": "t", "is_risky": True, "trajectory": [step, {"role": "environment", "content": '{"ok": true}'}]}
    packed = archive(hintbench_val__json=json.dumps([run]).encode(), other__txt=b"no")
    assert write("hintbench", SETS["hintbench"], unpack(packed), tmp_path) == 1
    with gzip.open(tmp_path / "hintbench" / "trajectories.jsonl.gz") as opened:
        (line,) = opened.read().splitlines()
    assert [type(event).__name__ for event in events_of(line)] == ["Turn", "ToolCall", "ToolResult"]
    assert json.loads((tmp_path / "hintbench" / "labels.jsonl").read_text()) == {"risky": True}
    assert write_pairs(unpack(archive(golden_7_A__jsonl=b"{}\n{}\n")), tmp_path) == 2
    assert (tmp_path / "tracesafe" / "7_A.jsonl.gz").exists()
