"""Records of no known format: what they look like, and a program that makes native events of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from stream_guard import Json
from stream_guard_formats.reading import name_of

Path: TypeAlias = tuple[str, ...]

# Names as people choose them, best first, without signs and in small letters.
_TOOLS: Final = (
    *("tool", "toolname", "functionname", "function", "fn", "skill", "action", "actionname", "command", "cmd"),
    *("operation", "op", "api", "method", "call", "name"),
)
_ARGS: Final = (
    *("args", "arguments", "toolargs", "toolinput", "params", "parameters", "kwargs", "input", "inputs", "with"),
    *("actioninput", "options", "payload", "data"),
)
_RESULTS: Final = (
    *("result", "output", "toolresult", "tooloutput", "observation", "returned", "returns", "return", "response"),
    *("got", "stdout", "reply"),
)
_TEXTS: Final = ("text", "content", "message", "utterance", "said", "say", "body", "msg", "thought", "prompt")
_ROLES: Final = ("role", "speaker", "sender", "from", "author", "who", "source", "type", "kind", "event", "actor")
_TIMES: Final = ("time", "timestamp", "ts", "createdat", "datetime", "date", "at", "when", "starttime", "start")
_SESSIONS: Final = (
    *("sessionid", "session", "conversationid", "conversation", "threadid", "thread", "runid", "run", "traceid"),
    *("trace", "episodeid", "episode", "chatid", "dialogid", "taskid", "task", "uuid", "id", "name"),
)
_FAILED: Final = ("error", "iserror", "failed", "exception", "exitcode", "returncode")
_WORKED: Final = ("success", "ok", "succeeded")
_PERSONS: Final = ("user", "human", "customer", "person", "client", "caller", "question", "request", "prompt")
_WORLD: Final = ("tool", "function", "observation", "environment", "env", "result", "output", "api", "executor")
_ASKING: Final = ("call", "calls", "use", "request", "requested", "start", "started", "begin", "invocation")
_MOST_RECORDS: Final = 50
_MOST_KEYS: Final = 12
_DEEPEST: Final = 2
_SHORT: Final = 200


class StepPlaces(NamedTuple):
    """Where the parts of an event stand in the steps of a recording."""

    steps: Path  # from a record to its steps; empty where each record is a step
    calls: Path  # from a step to a list of its calls; empty where it has one at most
    places: dict[str, Path]
    persons: tuple[str, ...]
    world: tuple[str, ...]


def describe(records: Sequence[Json]) -> str:
    """Return what the records look like, in words; names are shown as they would stand in a program."""
    first = records[0] if records else None
    if isinstance(first, dict):
        return f"{'objects' if len(records) > 1 else 'an object'} with {_keys_of(first)}"
    return f"{name_of(first)}, where an object was expected"


def _keys_of(item: dict[str, Json], *, deep: bool = True) -> str:
    named = [f"{key[:_SHORT]!a} ({_sort_of(value, deep=deep)})" for key, value in list(item.items())[:_MOST_KEYS]]
    more = len(item) - len(named)
    return ", ".join(named) + (f" and {more} more" if more > 0 else "") if named else "nothing in it"


def _sort_of(value: Json, *, deep: bool) -> str:
    if isinstance(value, list):
        first = next((item for item in value if isinstance(item, dict)), None)
        inside = f" of objects with {_keys_of(first, deep=False)}" if first is not None and deep else ""
        return f"a list of {len(value)}{inside or ' values'}"
    return name_of(value)


def find_reading(records: Sequence[Json]) -> StepPlaces | None:
    """Return where the parts of events stand, guessed by names and values; None where nothing looks like a step."""
    runs = [record for record in _flat(records) if isinstance(record, dict)][:_MOST_RECORDS]
    if not runs:
        return None
    for path in [*_lists_in(runs), ()]:
        steps = [step for run in runs for step in (_items(run, path) if path else [run])]
        reading = _read_steps(runs, steps, path)
        if reading is not None:
            return reading
    return None


def _read_steps(runs: list[dict[str, Json]], steps: list[dict[str, Json]], path: Path) -> StepPlaces | None:
    if not steps:
        return None
    roles = _find(steps, _ROLES, _is_word)
    calls = next(
        (at for at in _lists_in(steps) if _find([c for s in steps for c in _items(s, at)], _TOOLS, _is_word)), ()
    )
    holders = [call for step in steps for call in _items(step, calls)] if calls else steps
    args = _find(holders, _ARGS, _is_input)
    # What stands inside the arguments names nothing.
    tool = _find(holders, _TOOLS, _is_word, without=roles, outside=args)
    if tool is not None:
        args = _find([one for one in holders if _at(one, tool)], _ARGS, _is_input, without=tool)
    if tool is not None and tool[-1].lower() == "name" and args is None:
        tool = None  # somebody's name
    text = _find(steps, _TEXTS, _is_text)
    if tool is None and text is None:
        return None
    places: dict[str, Path | None] = {
        "tool": tool,
        "args": args,
        "result": _find(holders, _RESULTS, _is_something, without=args) if tool else None,
        "failed": _find(holders, _FAILED, _is_something),
        "worked": _find(holders, _WORKED, lambda value: isinstance(value, bool)),
        "text": text,
        "role": roles,
        "time": _find(steps, _TIMES, lambda value: isinstance(value, str | int | float)),
        "session": _find(runs, _SESSIONS, _is_short),
    }
    if tool is not None and places["result"] is None:  # in steps of their own
        places["result"] = _find(steps, _RESULTS, _is_something, without=args)
    words = {str(found) for step in steps if roles and isinstance(found := _at(step, roles), str)}
    return StepPlaces(
        path,
        calls,
        {name: place for name, place in places.items() if place is not None},
        tuple(sorted(word for word in words if _plain(word).startswith(_PERSONS))),
        tuple(sorted(word for word in words if _plain(word).startswith(_WORLD) and not _plain(word).endswith(_ASKING))),
    )


def _flat(records: Sequence[Json]) -> Iterator[Json]:
    for record in records:
        yield from record if isinstance(record, list) else [record]


def _lists_in(items: Sequence[dict[str, Json]]) -> list[Path]:
    """Return the ways to lists of objects, at the top or one step down, those with most objects first."""
    sizes: dict[Path, int] = {}
    for item in items:
        for key, value in _fields(item):
            for path, found in [((key,), value), *(((key, name), one) for name, one in _fields(value))]:
                if isinstance(found, list) and any(isinstance(one, dict) for one in found):
                    sizes[path] = sizes.get(path, 0) + len(found)
    return sorted(sizes, key=lambda path: -sizes[path])


def _fields(value: Json) -> list[tuple[str, Json]]:
    """Return the fields of an object whose names may stand in a program."""
    return [field for field in value.items() if len(field[0]) <= _SHORT] if isinstance(value, dict) else []


def _items(item: dict[str, Json], path: Path) -> list[dict[str, Json]]:
    found = _at(item, path)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _at(item: Json, path: Path) -> Json:
    for key in path:
        item = item.get(key) if isinstance(item, dict) else None
    return item


def _find(
    items: Sequence[dict[str, Json]],
    names: Sequence[str],
    fits: Callable[[Json], bool],
    *,
    without: Path | None = None,
    outside: Path | None = None,
) -> Path | None:
    """Return the way to the field with the best of the names whose value fits in some of the items."""
    ways: dict[str, set[Path]] = {}
    for item in items[:500]:
        for path, value in _ways_in(item):
            if fits(value):
                ways.setdefault(_plain(path[-1]), set()).add(path)
    for name in names:
        found = [
            way for way in ways.get(name, ()) if way != without and (not outside or way[: len(outside)] != outside)
        ]
        if found:
            return min(found, key=lambda way: (len(way), way))
    return None


def _ways_in(item: Json, above: Path = ()) -> Iterator[tuple[Path, Json]]:
    """Yield the fields of an object, and those of objects in it, with the ways to them."""
    for key, value in _fields(item):
        yield (*above, key), value
        if len(above) < _DEEPEST:
            yield from _ways_in(value, (*above, key))


def _plain(name: str) -> str:
    return "".join(sign for sign in name.lower() if sign.isalnum())


def _is_word(value: Json) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 100 and "\n" not in value and value.count(" ") <= 3


def _is_text(value: Json) -> bool:
    return isinstance(value, str) and bool(value)


def _is_short(value: Json) -> bool:
    return (isinstance(value, str) and 0 < len(value) <= _SHORT) or (isinstance(value, int) and value is not True)


def _is_input(value: Json) -> bool:
    return isinstance(value, dict | list) or (isinstance(value, str) and value[:1] in ("{", "["))


def _is_something(value: Json) -> bool:
    return value is not None and value != "" and value is not False
