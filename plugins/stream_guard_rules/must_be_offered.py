"""Calls keep to the tools as they were offered: the name, the arguments, their types, the version."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.json_values import short_digest
from stream_guard_rules.shared.lost_memory import FORGOTTEN, UNREAD, evict_oldest, was_forgotten
from stream_guard_rules.shared.requests import definitions, offered_in, schema_of

Check: TypeAlias = Literal["tool", "arguments", "required", "types", "version", "changing"]
_ALL: Final[list[Check]] = ["tool", "arguments", "required", "types", "version"]
_NOT_OFFERED: Final = sg.Unsure("unevaluable", "the tools that were offered")

_MOST_TOOLS: Final = 256
_MOST_ARGUMENTS: Final = 64
_LONGEST: Final = 64
_OPEN: Final = "*"  # beside the arguments: others are welcome
_NONE: Final = ""  # instead of arguments: the tool declares that it takes none
_BEYOND: Final = {"$ref", "allOf", "anyOf", "oneOf", "patternProperties"}  # what a schema says beside its properties

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
# Prototypes are written in the words of languages, too.
_SYNONYMS: Final = {
    "str": "string", "text": "string", "int": "integer", "float": "number", "double": "number", "bool": "boolean",
    "list": "array", "tuple": "array", "dict": "object", "map": "object", "none": "null",
}  # fmt: skip
_SAID: Final = {
    "arguments": "does not declare",
    "required": "needs",
    "types": "declares with another type",
    "version": "has retired",
    "changing": "has retired",
}
# Of the tool itself, and not of what it works on: "lists deprecated packages" is a tool like any other.
_OVER: Final = r"(?:deprecated|obsolete|superseded|discontinued|sunset|end[- ]of[- ]life)"
_RETIRED: Final = sg.Regex(
    rf"(?i)(?:^|[\[(*:.!-]\s*){_OVER}\b|\b(?:is|are|was|been|being|now|marked as|considered)\s+(?:now\s+)?{_OVER}\b"
    rf"|\b{_OVER}\s*(?:[:.!,;\])-]|since\b|in favou?r\b|(?:api|tool|function|version|method|endpoint)\b)"
    r"|\bno longer (?:supported|maintained|recommended|available)\b|\breplaced by\b"
)
_VERSION: Final = re.compile(r"^(.+?)(?:[_.-]?[vV]|[_.-])(\d{1,4})$|^(.+?)[_.-](?:new|latest|next)$")


class MustBeOfferedParams(sg.Params):
    """Parameters of ``must_be_offered``."""

    tool: sg.ToolPattern = Field(
        default_factory=lambda: sg.ToolPattern("*"),
        description="the tools whose calls are judged: a name, a glob, a list",
    )
    checks: list[Check] = Field(
        default=_ALL,
        min_length=1,
        description="what is a hit: a tool that is not offered, arguments that it does not declare, required ones that "
        "are missing, types, a version that is retired or has a successor beside it; `changing`, only where it is "
        "named: a tool with any retired argument, even if the call does without",
    )


class MustBeOfferedState(sg.State):
    """What is known of each tool that was offered, by a digest of its name."""

    tools: dict[str, dict[str, str]] = {}  # its arguments with their types; behind them "!" needed, "-" retired
    retired: dict[str, str] = {}  # why a tool should not be called any more
    latest: str = ""
    forgotten: sg.Sketch | None = None
    unread: bool = False


class MustBeOffered(sg.Rule[MustBeOfferedParams, MustBeOfferedState]):
    """A call must keep to the tools as the agent was offered them.

    Tools are read from the requests to the model and from results of ``tools/list``; what was offered once stays so.
    Types are looked at where an argument is declared with a plain one. Without any list a call cannot be judged. 256
    tools are remembered, with 64 arguments each; a call of one that was forgotten cannot be judged.
    """

    kind = "must_be_offered"
    state_limit = 262144
    examples = (
        sg.Example(
            claim="a tool that nobody offered is a hit",
            params={},
            trace=[
                {"turn": "a", "request": {"tools": [{"name": "add", "parameters": {"properties": {"a": {}}}}]}},
                {"call": "add", "args": {"a": 1}},
                {"call": "divide", "args": {"a": 1}},
            ],
            hits=[2],
        ),
        sg.Example(
            claim="an argument that is not declared, one that is missing and one of another type are hits",
            params={},
            trace=[
                {
                    "turn": "a",
                    "request": {
                        "tools": [
                            {
                                "name": "add",
                                "input_schema": {"properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]},
                            }
                        ]
                    },
                },
                {"call": "add", "args": {"a": 1, "c": 2}},
                {"call": "add", "args": {"b": 2}},
                {"call": "add", "args": {"a": "one"}},
                {"call": "add", "args": {"a": 1, "b": "x"}},
            ],
            hits=[1, 2, 3],
        ),
        sg.Example(
            claim="what a schema leaves open is the caller's to choose",
            params={},
            trace=[
                {
                    "turn": "a",
                    "request": {"tools": [{"name": "log"}, {"name": "put", "parameters": {"type": "object"}}]},
                },
                {"call": "log", "args": {"text": 1}},
                {"call": "put", "args": {"anything": [1]}},
            ],
            hits=[],
        ),
        sg.Example(
            claim="a tool whose successor stands beside it is a hit, and so is one that is called deprecated",
            params={"checks": ["version"]},
            trace=[
                {
                    "turn": "a",
                    "request": {
                        "tools": [
                            {"name": "search", "description": "Finds."},
                            {"name": "search_v2", "description": "Finds."},
                            {"name": "fetch", "description": "Deprecated: use search_v2."},
                        ]
                    },
                },
                {"call": "search"},
                {"call": "fetch"},
                {"call": "search_v2"},
            ],
            hits=[1, 2],
        ),
    )

    def reads_args(self) -> bool:
        """Whether arguments are compared with what the tool declares."""
        return self.params.checks != ["tool"]

    def on_turn(self, turn: sg.Turn, state: MustBeOfferedState) -> sg.Verdict:
        """Learn the tools of the request."""
        self._learn(offered_in(turn), state)
        return None

    def on_tool_result(self, result: sg.ToolResult, state: MustBeOfferedState) -> sg.Verdict:
        """Learn the tools that a server lists."""
        self._learn(offered_in(result), state)
        return None

    def on_tool_call(self, call: sg.ToolCall, state: MustBeOfferedState) -> sg.Verdict:
        """Compare the call with what was offered."""
        if not self.params.tool.matches(call.tool):
            return None
        if not state.tools:
            return _NOT_OFFERED
        name = short_digest(call.tool)
        arguments = state.tools.get(name)
        if arguments is None:
            return self._not_offered(call.tool, name, state)
        why = state.retired.get(name) if "version" in self.params.checks else None
        if why is not None:
            return sg.Hit(f"{call.tool} is called, which {why}", {"tool": call.tool, "why": "version"})
        return self._compare(call, arguments)

    def _not_offered(self, tool: str, name: str, state: MustBeOfferedState) -> sg.Verdict:
        if was_forgotten(name, state):
            return FORGOTTEN
        if state.unread:
            return UNREAD
        is_hit = "tool" in self.params.checks
        return sg.Hit(f"{tool} is called, which was not offered", {"tool": tool, "why": "tool"}) if is_hit else None

    def on_ungated(self, event: sg.Event, state: MustBeOfferedState) -> None:
        """Outside the gate nothing is learnt."""

    def _learn(self, listed: sg.Json, state: MustBeOfferedState) -> None:
        if not isinstance(listed, list) or not listed:
            return
        if (seen := short_digest(listed)) == state.latest:
            return  # most requests carry the same list
        state.latest = seen
        offered = list(definitions(listed[:_MOST_TOOLS]))
        names = [name for name, _ in offered]
        for name, tool in offered:
            key = short_digest(name)
            state.tools[key] = dict(_arguments(tool))
            state.retired.pop(key, None)
            why = _retirement(name, tool, names)
            if why:
                state.retired[key] = why
        evict_oldest(state.tools, _MOST_TOOLS, state)
        state.retired = {key: why for key, why in state.retired.items() if key in state.tools}
        state.unread = state.unread or len(listed) > _MOST_TOOLS

    def _compare(self, call: sg.ToolCall, declared: dict[str, str]) -> sg.Hit | None:
        if not declared or not isinstance(call.args, dict):
            return None  # nothing is said of its arguments, or nobody can read them
        for check, found in (
            ("arguments", [name for name in call.args if name not in declared and _OPEN not in declared]),
            ("required", [name for name, kinds in declared.items() if kinds.endswith("!") and name not in call.args]),
            ("types", [name for name, value in call.args.items() if not _fits(value, declared.get(name, ""))]),
            ("version", [name for name in call.args if _is_old(declared.get(name, ""))]),
            ("changing", [name for name, kinds in declared.items() if _is_old(kinds)]),
        ):
            if found and check in self.params.checks:
                named = ", ".join(name[:_LONGEST] for name in found[:3])
                how = "while its schema changes" if check == "changing" else "with arguments beside its schema"
                detail = f"{call.tool} is called {how}: it {_SAID[check]} {named}"
                return sg.Hit(
                    detail, {"tool": call.tool, "why": check, "arguments": [name[:_LONGEST] for name in found[:8]]}
                )
        return None


def _arguments(tool: dict[str, sg.Json]) -> Iterator[tuple[str, str]]:
    """Yield the arguments that a tool declares, with their types; nothing where it does not say."""
    schema = schema_of(tool)
    if schema is None:
        return
    properties, required = schema.get("properties"), schema.get("required")
    listed = properties if isinstance(properties, dict) else {}
    needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    leaves_open = not isinstance(properties, dict) or len(listed) > _MOST_ARGUMENTS
    if leaves_open or schema.get("additionalProperties") not in (None, False) or _BEYOND & schema.keys():
        yield _OPEN, ""
    for name, said in list(listed.items())[:_MOST_ARGUMENTS]:
        marks = ("-" if _is_retired(said) else "") + ("!" if name in needed else "")
        yield name, "|".join(_kinds(said)) + marks
    if not listed:
        yield _NONE, ""


def _kinds(said: sg.Json) -> list[str]:
    """Return the plain types of an argument; none where it has others."""
    if not isinstance(said, dict):
        return []
    written = said.get("type")
    listed = written if isinstance(written, list) else [written]
    kinds = [_SYNONYMS.get(kind.lower(), kind.lower()) if isinstance(kind, str) else "" for kind in listed]
    return kinds if all(kind in _TYPES for kind in kinds) else []


def _is_old(declared: str) -> bool:
    """Whether an argument is marked as retired."""
    return declared.rstrip("!").endswith("-")


def _fits(value: sg.Json, declared: str) -> bool:
    kinds = declared.rstrip("!-").split("|")
    if kinds == [""]:
        return True
    if isinstance(value, bool):
        return "boolean" in kinds
    if isinstance(value, float) and value.is_integer() and "integer" in kinds:
        return True
    return any(isinstance(value, _TYPES[kind]) for kind in kinds)


def _retirement(name: str, tool: dict[str, sg.Json], names: list[str]) -> str:
    """Return why a tool should not be called any more, in a few words; nothing where it may be."""
    if _is_retired(tool):
        return "is marked as deprecated"
    base, number = _version(name)
    for other in names:
        other_base, other_number = _version(other)
        if other != name and other_base == base and other_number > number:
            return f"has a successor beside it: {other[:_LONGEST]}"
    return ""


def _is_retired(said: sg.Json) -> bool:
    """Whether a tool, or an argument, is said to be of yesterday."""
    if not isinstance(said, dict):
        return False
    text = said.get("description")
    return said.get("deprecated") is True or (isinstance(text, str) and _RETIRED.occurs_in(text[:4000]))


def _version(name: str) -> tuple[str, float]:
    """Return the name without its version, and the version; 1 where it has none."""
    match = _VERSION.match(name)
    if match is None:
        return name, 1.0
    return (match[1], float(match[2])) if match[1] else (match[3], float("inf"))
