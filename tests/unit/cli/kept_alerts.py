"""A history with alerts, as a run leaves it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from stream_guard.cli.app import app

RULES = """
rules:
  - {id: no-pay, kind: no_call, params: {tool: pay}, severity: critical}
  - {id: no-look, kind: no_call, params: {tool: look}, severity: info}
"""


class KeptAlerts:
    """Sessions that were judged by a run whose alerts go to a history."""

    def __init__(self, folder: Path, calls: list[tuple[str, str, dict[str, Any]]]) -> None:
        self.events, self.policy, self.history = (folder / name for name in ("events.jsonl", "policy.yaml", "kept.db"))
        self.policy.write_text(RULES)
        with self.events.open("w") as file:
            for number, (session, tool, args) in enumerate(calls):
                call = {"kind": "tool_call", "session_id": session, "event_id": str(number), "tool": tool, "args": args}
                file.write(json.dumps(call) + "\n")
        done = self.invoke(
            "run", self.events, "--policy", self.policy, "--alerts", f"history:{self.history}", "--no-serve"
        )
        assert done.exit_code == 0, done.output

    def invoke(self, *arguments: object) -> Result:
        return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "80", "NO_COLOR": "1"})

    def ask(self, *arguments: object) -> Result:
        return self.invoke(*arguments, "--history", self.history)

    def listed(self, *filters: object) -> list[dict[str, Any]]:
        lines = self.ask("alerts", "list", "--format", "jsonl", *filters).stdout.splitlines()
        return [json.loads(line) for line in lines]
