"""The real Claude Code with the hooks of the recipe, a real gate, and a scripted model: no network beyond this machine.

The program comes with the Claude Agent SDK. It takes its model's answers from ANTHROPIC_BASE_URL, where a script
plays the model.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest

from stream_guard.guard.gate import Gate
from stream_guard.judge.model import ToolResult
from tests.wires.gate import serving

SDK = find_spec("claude_agent_sdk")  # only its folder is needed
if SDK is None or SDK.origin is None:
    pytest.skip("claude_agent_sdk is not installed", allow_module_level=True)
PROGRAM = Path(SDK.origin).parent / "_bundled" / "claude"
PAGE = Path(__file__).parents[2] / "docs" / "claude-code.md"
POLICY = """
rules:
  - id: no-drop
    kind: no_call
    params: {tool: Bash}
    when: {path: tool.args.command, op: contains, value: dropped}
    then: block
    reason: Nothing is dropped.
  - {id: report, kind: must_call_once, params: {tool: Write}}
"""
Step = dict[str, Any]


class Model(ThreadingHTTPServer):
    """Answers every request that offers tools with the next step of the script, and keeps what it was told last."""

    def __init__(self, script: list[Step]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.told: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def next_step(self, request: Step) -> Step:
        if not request.get("tools"):
            return {"text": "a title"}
        self.told.append(json.dumps(request["messages"][-1]["content"]))
        return self.script[min(len(self.told), len(self.script)) - 1]


class _Handler(BaseHTTPRequestHandler):
    server: Model
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        step = self.server.next_step(request)
        lines = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in spoken(step))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(lines.encode())))
        self.end_headers()
        self.wfile.write(lines.encode())

    def do_GET(self) -> None:
        self.send_error(404)

    def do_HEAD(self) -> None:
        self.send_error(404)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


def spoken(step: Step) -> Iterator[Step]:
    """Yield one answer of a model as the events of its stream."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {
        "id": f"msg_{uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "usage": usage,
    }
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}}
    block: Step
    if "text" in step:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": step["text"]}
    else:
        block = {"type": "tool_use", "id": f"toolu_{step['id']}", "name": step["tool"], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(step["input"])}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    stopped = {"stop_reason": "end_turn" if "text" in step else "tool_use", "stop_sequence": None}
    yield {"type": "message_delta", "delta": stopped, "usage": usage}
    yield {"type": "message_stop"}


@contextmanager
def playing(script: list[Step]) -> Iterator[Model]:
    model = Model(script)
    thread = Thread(target=model.serve_forever)
    thread.start()
    try:
        yield model
    finally:
        model.shutdown()
        thread.join()
        model.server_close()


def recipe() -> str:
    """Return the settings file that the page gives."""
    found = re.search(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def run_agent(folder: Path, model: Model, gate_url: str) -> subprocess.CompletedProcess[str]:
    """Let Claude Code work in a folder with the hooks of the page, and with nothing of this machine's user."""
    (folder / "work").mkdir()
    (folder / "settings.json").write_text(recipe())
    command: list[str | Path] = [
        PROGRAM,
        "-p",
        "go",
        "--settings",
        folder / "settings.json",
        "--allowedTools",
        "Bash,Write",
    ]
    environment = {
        "HOME": str(folder),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}",
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "STREAM_GUARD_HOOK__GATE": gate_url,
    }
    return subprocess.run(
        command, cwd=folder / "work", env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.skipif(not PROGRAM.exists(), reason="this wheel of claude-agent-sdk has no Claude Code in it")
def test_the_program_obeys_the_gate_and_does_not_stop_while_it_owes_a_call(tmp_path: Path) -> None:
    work = tmp_path / "work"
    script: list[Step] = [
        {"id": 1, "tool": "Bash", "input": {"command": f"touch {work}/dropped"}},
        {"text": "All done."},
        {"id": 2, "tool": "Write", "input": {"file_path": f"{work}/report.md", "content": "All is well."}},
        {"text": "Now it is done."},
        {"text": "The script is over."},
    ]
    with serving(tmp_path, POLICY) as (url, gate), playing(script) as model:
        done = run_agent(tmp_path, model, url)
    assert done.returncode == 0, done.stderr + done.stdout
    _asked, denied, refused, written = model.told  # one more would mean that it could not stop
    assert "Not run: this is not allowed. Nothing is dropped. [no-drop:" in denied
    assert "stream_guard: not finished yet." in refused
    assert "report: Write was never called" in refused
    assert "report.md" in written
    assert sorted(path.name for path in work.iterdir()) == ["report.md"]
    assert told(gate) == 2  # the refused call and the one that ran


@pytest.mark.skipif(not PROGRAM.exists(), reason="this wheel of claude-agent-sdk has no Claude Code in it")
def test_without_a_gate_the_program_runs_no_tool_and_still_ends(tmp_path: Path) -> None:
    work = tmp_path / "work"
    script: list[Step] = [
        {"id": 1, "tool": "Bash", "input": {"command": f"touch {work}/made"}},
        {"text": "I could not."},
    ]
    with playing(script) as model:
        done = run_agent(tmp_path, model, "http://127.0.0.1:9")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "could not judge this call: the gate at http://127.0.0.1:9 cannot be reached" in model.told[1]
    assert "nobody can say whether an obligation is open" in model.told[2]
    assert (len(model.told), list(work.iterdir())) == (3, [])


def told(gate: Gate) -> int:
    return gate.guard.counts.events[ToolResult]
