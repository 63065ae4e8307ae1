"""Numbers that a model writes as texts, read as the tool will read them: where its JSON Schema says number."""

from __future__ import annotations

from typing import Final

from stream_guard.model import Json

_NUMERIC: Final = frozenset(("number", "integer"))
_DEEP: Final = 20  # levels of objects and lists that are looked into


def numbers_as_typed(args: Json, properties: Json, _level: int = 0) -> Json:
    """Return the arguments with texts as numbers where the properties of the tool's schema say number and not text.

    Executors that check arguments by the schema read such texts as numbers; a rule has to compare what they get.
    """
    if not isinstance(args, dict) or not isinstance(properties, dict) or _level > _DEEP:
        return args
    return {name: _typed(value, properties.get(name), _level) for name, value in args.items()}


def _typed(value: Json, schema: Json, level: int) -> Json:
    if not isinstance(schema, dict):
        return value
    if isinstance(value, str):
        types = _types(schema)
        return _number(value) if types & _NUMERIC and "string" not in types else value
    if isinstance(value, dict):
        return numbers_as_typed(value, schema.get("properties"), level + 1)
    if isinstance(value, list) and level < _DEEP:
        return [_typed(item, schema.get("items"), level + 1) for item in value]
    return value


def _types(schema: dict[str, Json]) -> frozenset[str]:
    """Return the types that a schema allows, as far as it says so by ``type``, ``anyOf`` or ``oneOf``."""
    said = schema.get("type")
    found = {said} if isinstance(said, str) else set[str]()
    if isinstance(said, list):
        found = {one for one in said if isinstance(one, str)}
    for choice in ("anyOf", "oneOf"):
        inner = schema.get(choice)
        for one in inner if isinstance(inner, list) else ():
            if isinstance(one, dict) and isinstance(one.get("type"), str):
                found.add(one["type"])
    return frozenset(found)


def _number(text: str) -> Json:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text
