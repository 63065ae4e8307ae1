"""The schema of policies, proven with the language server that editors use for YAML."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editor.language_server import LanguageServer
from tests.parts import require

pytestmark = pytest.mark.editor

SERVER = Path(__file__).parent / "node_modules" / "yaml-language-server" / "bin" / "yaml-language-server"
MODELINE = "# yaml-language-server: $schema=policy.schema.json\n"

MISTAKES = """\
sessionz: {idle: 30m}
rules:
  - id: confirm
    kind: must_call_befor
  - id: order
    kind: must_call_before
    params:
      first: confirm
      secondd: refund
  - id: budget
    kind: max_total_tokens
    params: {n: "4000"}
  - id: large
    kind: no_call
    params: {tool: refund}
    when:
      - {path: tool.args.amount, op: "=>", value: 500}
      - any_of:
          - {path: labls.tier, op: "==", value: 3}
    severity: errorz
  - id: followup
    kind: must_followup
    params:
      trigger:
        - {path: stop_reason, opp: "==", value: tool_use}
      must: {kind: tool_call, tool_nme: confirm}
    then: blockk
    cooldown: soon
"""

# What stands there while somebody is writing; "|" is where the cursor may be, behind what an editor has put in.
WRITING = """\
rules:
  - id: one
    kind: no_call
    params:
      tool: drop
  - id: two
    kind: |
  - id: three
    kind: must_call_before
    params:
      first: confirm
      |
    severity: |
""".replace("|", "")


@pytest.fixture(scope="module")
def server() -> Iterator[LanguageServer]:
    node = shutil.which("node")
    require(node, "node is not installed")
    require(SERVER.is_file(), "the language server is not installed; run npm ci in tests/editor")
    with LanguageServer([str(node), str(SERVER), "--stdio"]) as started:
        yield started


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the schema as the command line prints it."""
    made = tmp_path_factory.mktemp("editor")
    command = [sys.executable, "-m", "stream_guard.cli", "schema", "policy"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert json.loads(printed)["title"] == "stream_guard policy"
    (made / "policy.schema.json").write_text(printed)
    return made


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(MODELINE + text)
    return file


def place(text: str, part: str) -> tuple[int, int]:
    """Where a part stands, in lines and columns from 1, below the modeline."""
    before = text[: text.index(part)]
    return before.count("\n") + 2, len(before) - before.rfind("\n")


def test_planted_mistakes_are_underlined_where_they_are(server: LanguageServer, folder: Path) -> None:
    found = server.open(write(folder, "mistakes.yaml", MISTAKES))
    places = {(item["range"]["start"]["line"] + 1, item["range"]["start"]["character"] + 1) for item in found}
    parts = (
        "sessionz",
        "must_call_befor\n",
        "secondd",
        '"4000"',
        '"=>"',
        "labls.tier",
        "errorz",
        "opp",
        "tool_nme",
        "blockk",
        "soon",
    )
    planted = {place(MISTAKES, part) for part in parts}
    assert planted <= places
    # Beside them only the keys that are missing because they are misspelt, in the same mappings.
    others = [item["message"] for item in found if _start(item) not in planted]
    assert all(message.startswith("Missing property") for message in others), others


def _start(item: dict[str, dict[str, dict[str, int]]]) -> tuple[int, int]:
    start = item["range"]["start"]
    return start["line"] + 1, start["character"] + 1


@pytest.mark.parametrize("name", ["refunds", "coding_agent", "personal_assistant"])
def test_the_sample_policies_have_nothing_underlined(
    server: LanguageServer, folder: Path, root: Path, name: str
) -> None:
    text = (root / "deploy" / "policies" / f"{name}.yaml").read_text()
    assert server.open(write(folder, f"{name}.yaml", text)) == []


@pytest.fixture(scope="module")
def writing(server: LanguageServer, folder: Path) -> Path:
    file = write(folder, "writing.yaml", WRITING)
    server.open(file)
    return file


def test_kinds_are_offered_with_what_they_ask_for(server: LanguageServer, writing: Path) -> None:
    offered = server.complete(writing, 8, 11)
    assert {"no_call", "must_call_before", "must_followup", "max_turns"} <= set(offered)
    assert len(offered["no_call"]) > 10


def test_parameters_of_the_kind_are_offered_and_no_others(server: LanguageServer, writing: Path) -> None:
    offered = server.complete(writing, 13, 7)
    assert {"second", "same_arg", "within_seconds"} <= set(offered)
    assert not {"tool", "n", "trigger", "severity"} & set(offered)
    assert offered["same_arg"] != ""


def test_severities_are_offered(server: LanguageServer, writing: Path) -> None:
    assert {"info", "warning", "error", "critical"} <= set(server.complete(writing, 14, 15))


def test_hovering_explains_kinds_and_parameters(server: LanguageServer, writing: Path) -> None:
    kind = server.hover(writing, 4, 12)
    assert "no_call" in kind
    assert "what the rule asks for" in kind
    assert "tool" in server.hover(writing, 6, 8)
