"""Values in Python code, as far as they can be told without running it."""

from __future__ import annotations

from typing import Final, NamedTuple

from stream_guard_shell.shell.word_lists import word_list


class Value(NamedTuple):
    """A value: ``kind`` is text, path, name (of a module or what is in it), items, data, file or other.

    ``text`` is a literal, a path or a dotted name. ``source`` says where data came from: net, decoded or computed.
    """

    kind: str
    text: str | None = None
    source: str = ""
    host: str = ""
    carried: bool = False  # it holds what a file, a process or the environment said
    items: tuple[Value, ...] = ()
    hole: bool = False  # it hangs on something that was put into the code


DATA: Final = Value("data")
OTHER: Final = Value("other")

DATA_METHODS: Final = frozenset(
    word_list("""
    append capitalize casefold center clear close copy count decode encode endswith extend find flush format format_map
    get index insert isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isspace istitle isupper
    items join keys ljust lower lstrip partition pop popitem raise_for_status read readline readlines removeprefix
    removesuffix replace reverse rfind rindex rjust rpartition rsplit rstrip seek setdefault sort split splitlines
    startswith strip swapcase tell title translate update upper values write writelines zfill add discard json hex
    """)
)
"""Methods of strings, lists, dictionaries and open files."""

BUILTINS: Final = frozenset(
    word_list("""
    abs all any ascii bin bool bytearray bytes callable chr complex dict dir divmod enumerate exit filter float format
    frozenset hash hex id input int isinstance issubclass iter len list map max memoryview min next object oct ord pow
    print quit range repr reversed round set slice sorted str sum tuple type zip Exception ValueError RuntimeError
    SystemExit KeyError TypeError OSError StopIteration
    """)
)
"""Builtins that compute or print."""


def joined(values: list[Value]) -> Value:
    """Return texts one after the other; data where one is not known."""
    hole = any(value.hole for value in values)
    carried = any(value.carried for value in values)
    source = next((value for value in values if value.source), DATA)
    if all(value.kind in ("text", "path") and value.text is not None for value in values) and not hole:
        return Value("text", "".join([value.text or "" for value in values]), carried=carried)
    prefix = values[0].text if values and values[0].kind == "text" else None
    return Value("data", prefix, source.source, source.host, carried, hole=hole)
