"""Names that the pages mention are names that exist, and what must be mentioned is."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import msgspec
import pytest
import stream_guard_axes
import stream_guard_compliance
import stream_guard_contract
import stream_guard_dialects
import stream_guard_diff
import stream_guard_formats
import stream_guard_judge
import stream_guard_rules
import stream_guard_shell
import stream_guard_sinks
import stream_guard_tokens
from stream_guard_formats.native.decoder import MAX_ID

import stream_guard
from stream_guard import commands
from stream_guard.decoding.dead_letters import HEAD
from stream_guard.judge.arguments import MAX_NESTING
from stream_guard.judge.conditions import OPERATORS
from stream_guard.judge.model import Event, Header
from stream_guard.judge.paths import ROOTS
from stream_guard.judge.spec import DEFAULT_IDLE
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.running.batch import evaluate
from stream_guard.settings import SessionLimits
from tests.docs.blocks import blocks_of
from tests.docs.tree import SOURCES

ROOT = Path(__file__).parents[2]
PACKAGES = (
    stream_guard,
    stream_guard_rules,
    stream_guard_formats,
    stream_guard_sinks,
    stream_guard_dialects,
    stream_guard_judge,
    stream_guard_axes,
    stream_guard_diff,
    stream_guard_contract,
    stream_guard_compliance,
    stream_guard_shell,
    stream_guard_tokens,
)
WITH_TESTS = ("README.md", "docs/guard.md", "docs/running.md", "docs/replay.md", "docs/security.md", "docs/serve.md")
WITH_NAMES = ("docs/architecture.md", "docs/walk.md")


def page(name: str) -> str:
    return (ROOT / name).read_text()


@cache
def classes() -> dict[str, list[type]]:
    found: dict[str, list[type]] = {}
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                for name, value in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
                    found.setdefault(name, []).append(value)
    return found


def source_of(cls: type) -> str:
    """The source of a class. While another thread parses too, Python 3.11 may fail; asked again it answers."""
    try:
        return inspect.getsource(cls)
    except SystemError:
        return inspect.getsource(cls)


def exists(name: str) -> bool:
    """Whether ``Class`` or ``Class.member`` is there, methods, fields and attributes of instances alike."""
    owner, _, member = name.partition(".")
    return any(
        not member or hasattr(cls, member) or f"self.{member}" in source_of(cls) for cls in classes().get(owner, ())
    )


def cited_tests(text: str) -> Iterator[tuple[str, str]]:
    yield from re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)


@pytest.mark.parametrize("name", WITH_TESTS)
def test_every_test_that_a_promise_cites_exists(name: str) -> None:
    cited = list(cited_tests(page(name)))
    assert cited
    missing = [f"{file}::{test}" for file, test in cited if not re.search(rf"^def {test}\(", _read(file), re.MULTILINE)]
    assert missing == []


def _read(file: str) -> str:
    path = ROOT / file
    return path.read_text() if path.exists() else ""


def test_every_module_that_is_mentioned_exists() -> None:
    mentioned = set(re.findall(r"`((?:\w+/)*\w+\.py)`", page("docs/architecture.md")))
    assert mentioned
    assert [path for path in sorted(mentioned) if not any((ROOT / source / path).exists() for source in SOURCES)] == []


@pytest.mark.parametrize("name", WITH_NAMES)
def test_every_class_and_method_that_is_mentioned_exists(name: str) -> None:
    mentioned = set(re.findall(r"`([A-Z][a-z]\w+(?:\.\w+)?)`", page(name)))
    assert mentioned
    assert [one for one in sorted(mentioned) if not exists(one)] == []


def test_name_that_is_gone_is_noticed() -> None:
    assert exists("Engine.run")
    assert exists("Tracker.apply")
    assert not exists("Engine.observe_everything")
    assert not exists("Motor")


@pytest.mark.parametrize("operator", OPERATORS)
def test_operator_is_explained(operator: str) -> None:
    rows = re.findall(r"^\| (`.+?) \|", page("docs/policy.md"), re.MULTILINE)
    assert any(f"`{operator}`" in row for row in rows)


@pytest.mark.parametrize("path", ROOTS)
def test_root_of_paths_is_explained(path: str) -> None:
    rows = re.findall(r"^\| (`.+?) \|", page("docs/policy.md"), re.MULTILINE)
    assert any(re.search(rf"`{path}(\.[\w.*]+)?`", row) for row in rows)


def test_every_exit_code_is_explained() -> None:
    rows = re.findall(r"^\| (\d) \|", page("docs/running.md"), re.MULTILINE)
    codes = sorted(value for name, value in vars(commands).items() if name.isupper() and type(value) is int)
    assert [int(row) for row in rows] == codes


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("docs/running.md", f"the first {HEAD // 1024} KiB"),
        ("docs/policy.md", f"at most {SessionLimits().max_states} states"),
        ("docs/events.md", f"beyond {MAX_NESTING} levels"),
        ("docs/events.md", f"after {DEFAULT_IDLE / 60:g}\nminutes of silence"),
        ("docs/events.md", f"at most {MAX_ID} characters"),
    ],
)
def test_number_on_the_page_is_the_one_in_the_code(name: str, said: str) -> None:
    assert said in page(name)


STAMPED = {"index", "attempt"}
STAMPED_OF = {"tool_call": {"before"}, "turn": {"text", "tools"}, "decision": {"args"}, "tool_result": {"args"}}


def section(kind: str) -> str:
    return page("docs/events.md").split(f"\n## {kind}\n", 1)[1].split("\n## ", 1)[0]


def listed(text: str) -> set[str]:
    return set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))


@pytest.mark.parametrize("event_type", get_args(Event), ids=lambda kind: str(kind.__struct_config__.tag))
def test_event_is_explained_field_by_field_and_shown(event_type: type[Event]) -> None:
    kind = str(event_type.__struct_config__.tag)
    fields = set(event_type.__struct_fields__) - set(Header.__struct_fields__) - STAMPED - STAMPED_OF.get(kind, set())
    assert listed(section(kind)) == fields
    [shown] = [block for block in blocks_of(section(kind)) if block.language == "json"]
    decoded = msgspec.json.decode(shown.text)
    assert decoded["kind"] == kind
    assert set(decoded) <= fields | set(Header.__struct_fields__) | {"kind"}


def test_every_field_of_the_header_is_explained() -> None:
    assert listed(section("What every event has")) == set(Header.__struct_fields__) - STAMPED | {"kind"}


def test_the_events_of_the_page_are_one_session_with_one_attempt() -> None:
    registry = build_registry()
    decoder = registry.decoders["native"]()
    shown = [block.text for block in blocks_of(page("docs/events.md")) if block.language == "json"]
    events = [event for text in shown for event in decoder.decode(Record(text.encode()))]
    policy = load_policy("rules: [{id: look, kind: no_call, params: {tool: lookup_order}}]", registry)
    assert len(events) == len(shown)
    assert [finding.event_id for finding in evaluate(events, policy)] == ["ev-2/0"]
