"""The scores of two policies stand side by side."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from stream_guard.cli.app import app


def test_old_and_new_stand_beside_each_other_with_precision_and_recall(tmp_path: Path) -> None:
    calls = [("s1", "x"), ("s2", "y"), ("s3", "y")]
    lines = [json.dumps({"kind": "tool_call", "session_id": name, "tool": tool}) for name, tool in calls]
    (tmp_path / "e.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "old.yaml").write_text(
        "rules: [{id: r, kind: no_call, params: {tool: x|y}}, {id: gone, kind: no_call, params: {tool: x}}]"
    )
    (tmp_path / "new.yaml").write_text("rules: [{id: r, kind: no_call, params: {tool: y}}]")
    (tmp_path / "labels.json").write_text('{"s1": false, "s2": true, "s3": true}')
    given = ["--policy", "new.yaml", "--compare-policy", "old.yaml", "--labels", "labels.json"]
    named = [str(tmp_path / text) if "." in text else text for text in ["e.jsonl", *given]]
    done = CliRunner().invoke(app, ["replay", *named])
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["rule", "precision", "recall", "benign", "alert", "rate", "sessions"] in rows
    assert ["old", "new"] * 4 in rows
    assert ["r", "0.67", "1.00", "1.00", "1.00", "1.00", "0.00", "3", "2"] in rows
    assert ["gone", "0.00", "0.00", "1.00", "1"] in rows  # the new policy does not have it
