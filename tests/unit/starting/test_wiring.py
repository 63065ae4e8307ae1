"""A tool whose name has the words of one that a pack names is that tool, and so is its argument."""

from __future__ import annotations

from collections import Counter

from stream_guard.registry import build_registry
from stream_guard.starting.first_policy import wired_classes, wired_rules
from stream_guard.starting.survey import ToolUse

PACK = {
    "tool_classes": {"reads": ["Read|NotebookRead", "read_file"], "runs": "Bash", "sends": "~send_*"},
    "rules": [
        {
            "id": "look-first",
            "kind": "must_call_before",
            "params": {"first": "Read|Write", "second": "Edit", "same_arg": "file_path"},
            "tests": [{"claim": "about other names", "trace": []}],
        },
        {"id": "shell", "kind": "no_call", "params": {"tool": "@runs"}},
    ],
}
TOOLS = ["read", "readFile", "mcp__fs__read_file", "edit", "write", "bash", "reader", "send_mail"]
USES = {tool: ToolUse(arguments=Counter({"path": 1, "text": 1})) for tool in TOOLS}


def test_classes_get_the_tools_that_their_names_mean() -> None:
    assert wired_classes(PACK, TOOLS) == {"reads": ["read", "readFile", "mcp__fs__read_file"], "runs": ["bash"]}
    assert wired_classes(PACK, ["Read", "Bash", "send_mail"]) == {}


def test_a_rule_about_tools_that_nobody_called_is_about_those_that_were_meant() -> None:
    registry = build_registry()
    (rule,) = wired_rules(PACK, TOOLS, USES, registry)
    assert rule["params"] == {"first": "read|write", "second": "edit", "same_arg": "path"}
    assert (rule["id"], "tests" in rule) == ("look-first", False)
    assert list(wired_rules(PACK, ["Read", "Edit"], USES, registry)) == []
    assert list(wired_rules(PACK, ["bash"], USES, registry)) == []
