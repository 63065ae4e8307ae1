"""No agent changes the settings in which its own guard stands, whichever agent it is and however it writes."""

from __future__ import annotations

from typing import Any

import pytest

from stream_guard.agent_hooks.dialects import AGENTS
from stream_guard.agent_hooks.installing import PLANS, HooksFile
from stream_guard.guard.inline import Guard
from stream_guard.judge.model import ToolCall
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry

POLICY = load_policy("packs: [coding_agent]", build_registry())
BY_HAND = {"kimi": ["~/.kimi-code/config.toml"]}  # install only says what to write there


def places(agent: str) -> list[str]:
    plan = PLANS[agent]
    names = [plan.path] if isinstance(plan, HooksFile) else [*plan.files, *BY_HAND.get(agent, [])]
    assert names
    return [name.replace("~/", "/home/ann/") if name.startswith("~/") else f"/home/ann/app/{name}" for name in names]


def tampering(path: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("Edit", {"file_path": path, "old_string": "a", "new_string": "b"}),
        ("Bash", {"command": f"echo '{{}}' > {path}"}),
        ("Bash", {"command": f"rm -f {path}"}),
        ("Bash", {"command": f'bash -c "mv {path} /tmp/away"'}),
        ("Bash", {"command": f"cp /tmp/mine {path}"}),
        ("Bash", {"command": f"python3 -c \"import os; os.remove('{path}')\""}),
        ("mcp__fs__write_file", {"path": path, "content": "{}"}),
    ]


@pytest.mark.parametrize("agent", AGENTS)
def test_an_edit_of_the_guards_own_settings_waits_for_a_person_and_reading_them_does_not(agent: str) -> None:
    guard = Guard(POLICY)
    for number, path in enumerate(places(agent)):
        for step, (tool, args) in enumerate([*tampering(path), ("Bash", {"command": f"cat {path}"})]):
            session = f"{number}-{step}"
            labels = {"cwd": "/home/ann/app"}
            call = ToolCall(session_id=session, event_id=session, time=1.0, tool=tool, args=args, labels=labels)
            found = [finding.rule_id for finding in guard.check(call).findings]
            assert ("guards-stay-as-they-are" in found) is (step < len(tampering(path))), (tool, args, found)
