"""The gate is killed while a hook waits for its answer: what each agent would do, as the table of the docs says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stream_guard.agent_hooks.dialects import AGENTS
from stream_guard.agent_hooks.installing import samples_of
from tests.agent_plugins import NODE, play
from tests.vectors.hooks import start
from tests.wires.gate import dying_gate

DOCS = Path(__file__).parents[3] / "docs" / "hooks.md"
PLUGINS = ("opencode", "amp")
WAYS = ("closed", "ask", "open")


def outcome(agent: str, said: Any, code: int | None) -> str:
    """Return what an agent does with an answer to the event before a tool, as its contract says."""
    answer = said if isinstance(said, dict) else {}
    words = {answer.get(name) for name in ("decision", "permission", "permissionDecision", "action")}
    words.add(answer.get("hookSpecificOutput", {}).get("permissionDecision"))
    if answer.get("cancel"):
        return "the run ends"
    if code == 2 or "throws" in answer or words & {"deny", "block", "reject-and-continue"}:
        return "blocked"
    return "asks the user" if "ask" in words else "runs"


def rows() -> dict[str, list[str]]:
    table = (
        DOCS.read_text(encoding="utf-8")
        .partition("<!-- the gate is killed")[2]
        .partition("\n\n")[2]
        .partition("\n\n")[0]
    )
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    return {line[0].strip("`"): line[1:] for line in lines}


def test_the_table_has_a_row_for_every_agent() -> None:
    assert sorted(rows()) == sorted(AGENTS)
    assert all(len(cells) == 5 and all(cells) for cells in rows().values())


@pytest.mark.parametrize("agent", [agent for agent in AGENTS if agent not in PLUGINS])
def test_an_agent_does_what_the_table_says_when_the_gate_dies_in_the_middle(agent: str) -> None:
    event, payload = samples_of(agent)[0]
    with dying_gate() as gate:
        done = [start({"agent": agent, "event": event, "stdin": payload, "on_error": way}, gate) for way in WAYS]
    assert [outcome(agent, said, code) for said, code, _ in done] == rows()[agent][:3]
    assert all("gate" in json.dumps(said) + stderr for said, _, stderr in done), "it says why"


@pytest.mark.skipif(NODE is None, reason="needs node, to run the plugins")
@pytest.mark.parametrize("agent", PLUGINS)
def test_a_plugin_does_what_the_table_says_when_the_gate_dies_in_the_middle(agent: str) -> None:
    payload = samples_of(agent)[0][1]
    done = []
    with dying_gate() as gate:
        for way in WAYS:
            [said] = play(agent, gate, [payload], STREAM_GUARD_HOOK__ON_ERROR=way)
            done.append(outcome(agent, said, None))
    assert done == rows()[agent][:3]
