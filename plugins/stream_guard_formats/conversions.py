"""A program that makes native events of a recording of no known format, with the names of its fields filled in."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterable, Sequence
from typing import Final

from stream_guard import Json, Record
from stream_guard_formats.reading import excerpt
from stream_guard_formats.unknown_shapes import Path, StepPlaces, describe, find_reading

_MOST_INPUTS: Final = 100
_MOST_BYTES: Final = 4 << 20  # of an input, that are looked at
_MOST_RECORDS: Final = 50

_logger = logging.getLogger(__name__)

_HEAD: Final = """\
import gzip, json, sys
from datetime import datetime

def get(value, *path):
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value

def seconds(value):
    try:
        value = datetime.fromisoformat(value).timestamp() if isinstance(value, str) else float(value)
        return value / 1000 if value > 1e11 else value
    except (TypeError, ValueError, OverflowError):
        return None

def tell(kind, step, **fields):
    fields = {"kind": kind, "session_id": session, "time": seconds({time}), **fields}
    print(json.dumps({name: value for name, value in fields.items() if value is not None}))

text = (gzip.open if sys.argv[1].endswith(".gz") else open)(sys.argv[1], "rt", encoding="utf-8").read()
try:
    runs = json.loads(text)
except ValueError:
    runs = [json.loads(line) for line in text.splitlines() if line.strip()]
runs = [run for run in (runs if isinstance(runs, list) else [runs]) if isinstance(run, dict)]
waiting = []
for number, run in enumerate(runs):
    session = str({session})
    for place, step in enumerate({steps}):
"""
_CALLS: Final = """\
        for at, call in enumerate({calls}):
            if isinstance({tool}, str) and {tool}:
                args, waiting = {args}, [*waiting, f"{{number}}.{{place}}.{{at}}"]
                args = json.loads(args) if isinstance(args, str) and args[:1] == "{{" else args
                tell("tool_call", step, tool={tool}, call_id=waiting[-1], args=args)
"""
_OWN_RESULT: Final = """\
                if {result} is not None:
                    status = "error" if {failed} else "ok"
                    tell("tool_result", step, call_id=waiting.pop(), output={result}, status=status)
"""
_LATER_RESULT: Final = """\
        if {is_result}:
            call, status = step, "error" if {step_failed} else "ok"
            tell("tool_result", step, call_id=waiting.pop(0) if waiting else "", output={later}, status=status)
            continue
"""
_TEXTS: Final = """\
        if isinstance({text}, str) and {text}:
            if {role} in {persons}:
                tell("user_message", step, text={text})
            else:
                tell("turn", step, response={{"content": [{{"type": "text", "text": {text}}}]}})
"""


class UnknownInputs:
    """The first records of inputs of which no format is known."""

    def __init__(self) -> None:
        self._inputs: dict[str, list[Json]] = {}
        self._sizes: dict[str, int] = {}

    def add(self, data: Json, record: Record) -> None:
        """Keep a record that no format reads, if it is one of the first of its input."""
        origin = record.origin
        kept, size = self._inputs.get(origin, []), self._sizes.get(origin, 0) + len(record.value)
        if (
            len(kept) < _MOST_RECORDS
            and (not kept or size <= _MOST_BYTES)
            and (kept or len(self._inputs) < _MOST_INPUTS)
        ):
            self._inputs.setdefault(origin, []).append(data)
            self._sizes[origin] = size

    def drop(self, origins: Iterable[str]) -> None:
        """Forget inputs of which a format is known after all; single records of them are dead letters."""
        for origin in origins:
            self._inputs.pop(origin, None)

    def log(self) -> None:
        """Log what each input looks like."""
        for origin, records in self._inputs.items():
            advice = "stream-guard convert prints a program that converts it"
            _logger.warning(
                "%s: no format is known by its shape, %s; %s",
                origin or "input",
                describe(records),
                advice if find_reading(records) else "it has nothing that looks like a tool call or a text",
            )

    def programs(self) -> Sequence[str]:
        """Return, for each input whose steps can be told, how to convert it."""
        found: list[str] = []
        for origin, records in self._inputs.items():
            if (reading := find_reading(records)) is not None:
                file = shlex.quote(origin) if origin.isprintable() and origin else "FILE"
                head = f"{excerpt(origin)} looks like this: {describe(records)}."
                todo = f"Save what follows as to_events.py, and run: python to_events.py {file} > events.jsonl"
                found.append(f"{head}\n{todo}\n\n{write_conversion(reading)}")
        return found


def write_conversion(reading: StepPlaces) -> str:
    """Return the program. Names from the file stand in it as literals, so none of them can be code."""
    places = reading.places
    in_step = {name: _get("step", place) for name, place in places.items()}
    in_call = {name: _get("call", place) for name, place in places.items()}
    session = _get("run", places["session"]) if "session" in places else "None"
    steps = _get("run", reading.steps) + " or []" if reading.steps else "[run]"
    name = f'{session} or f"run-{{number}}"' if reading.steps else f"{session} or sys.argv[1]"
    program = _HEAD.replace("{time}", in_step.get("time", "None"))
    program = program.replace("{session}", name).replace("{steps}", steps)
    world = reading.world if "role" in places else ()
    is_inside = _has_own_result(reading)
    if "tool" in places and ("result" in places or world) and not is_inside:
        program += _later_result(in_step, world)
    if "tool" in places:
        calls = f"{_get('step', reading.calls)} or []" if reading.calls else "[step]"
        program += _CALLS.format(calls=calls, tool=in_call["tool"], args=in_call.get("args", "None"))
        if is_inside:
            program += _OWN_RESULT.format(result=in_call["result"], failed=_failed(in_call))
    if "text" in places:
        program += _TEXTS.format(text=in_step["text"], role=in_step.get("role", "None"), persons=ascii(reading.persons))
    return program


def _has_own_result(reading: StepPlaces) -> bool:
    """Whether a call and what came of it stand in one object."""
    return "result" in reading.places and not reading.world


def _later_result(in_step: dict[str, str], world: tuple[str, ...]) -> str:
    result, text = in_step.get("result", "None"), in_step.get("text", "None")
    is_result = f"{in_step['role']} in {world!a}" if world else f"{result} is not None and not {in_step['tool']}"
    later = f"{text} if {result} is None else {result}" if text != result else result
    return _LATER_RESULT.format(is_result=is_result, later=f"({later})", step_failed=_failed(in_step))


def _failed(places: dict[str, str]) -> str:
    if "worked" in places:
        return f"{places['worked']} is False"
    return places.get("failed", "False")


def _get(holder: str, path: Path) -> str:
    return f"get({holder}, {', '.join(map(ascii, path))})"
