"""The plugin of OpenCode in a real JavaScript engine, against a real gate; that of Amp is the same with types."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from stream_guard.agent_hooks import plugins
from tests.frameworks.served import serving
from tests.parts import require

PLUGIN = Path(plugins.__file__).parent / "plugin_files" / "opencode.js"
POLICY = """
rules:
  - {id: no-drop, kind: no_call, params: {tool: drop}, then: block, reason: Tables stay.}
  - {id: read-first, kind: must_call_before, params: {first: read, second: edit, first_must_succeed: true}, then: block}
"""
PROGRAM = """
import {{ StreamGuard }} from {plugin};
const hooks = await StreamGuard();
const said = [];
for (const [hook, input, output] of {steps}) {{
  const threw = (error) => ({{ throws: error.message }});
  said.push((await hooks[hook](input, output).catch(threw)) ?? null);
}}
console.log(JSON.stringify(said));
"""


def play(gate: str, steps: list[Any], **settings: str) -> Any:
    node = shutil.which("node")
    require(node, "node is not installed")
    assert node is not None
    program = PROGRAM.format(plugin=json.dumps(PLUGIN.as_uri()), steps=json.dumps(steps))
    done = subprocess.run(
        [node, "--input-type=module", "-e", program],
        capture_output=True,
        text=True,
        check=True,
        env={"STREAM_GUARD_HOOK__GATE": gate, "STREAM_GUARD_HOOK__TIMEOUT": "60", **settings},
    )
    return json.loads(done.stdout)


def call(tool: str, number: int) -> list[Any]:
    return ["tool.execute.before", {"tool": tool, "sessionID": "s", "callID": f"c{number}"}, {"args": {"n": number}}]


def test_the_plugin_throws_what_the_gate_refuses_and_tells_results(tmp_path: Path) -> None:
    done = ["tool.execute.after", {"tool": "read", "sessionID": "s", "callID": "c2", "args": {}}, {"output": "text"}]
    with serving(tmp_path, POLICY) as (gate, _):
        said = play(gate, [call("drop", 0), call("edit", 1), call("read", 2), done, call("edit", 3)])
    assert "Tables stay." in said[0]["throws"]
    assert "read-first" in said[1]["throws"]
    assert said[2:] == [None, None, None]


def test_without_a_gate_the_plugin_throws_unless_told_otherwise() -> None:
    [shut] = play("http://127.0.0.1:9", [call("read", 0)])
    assert "could not judge this call" in shut["throws"]
    assert play("http://127.0.0.1:9", [call("read", 0)], STREAM_GUARD_HOOK__ON_ERROR="open") == [None]


@pytest.mark.parametrize("name", ["opencode.js", "amp.ts"])
def test_a_plugin_has_a_deadline_and_asks_under_its_own_name(name: str) -> None:
    text = (PLUGIN.parent / name).read_text()
    assert "AbortSignal.timeout" in text
    assert f"/v1/hooks/{name.partition('.')[0]}`" in text
