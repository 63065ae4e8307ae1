"""Parquet files whose footers and page heads say what is not so, written byte by byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

LARGEST: Final = 2**31 - 1
_I32, _I64, _TEXT, _LIST, _STRUCT = 5, 6, 8, 9, 12  # of Thrift's compact form


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _number(value: int) -> bytes:
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _text(value: bytes) -> bytes:
    return _varint(len(value)) + value


def _list(kind: int, items: list[bytes]) -> bytes:
    head = bytes([len(items) << 4 | kind]) if len(items) < 15 else bytes([0xF0 | kind]) + _varint(len(items))
    return head + b"".join(items)


def _struct(*fields: tuple[int, int, bytes]) -> bytes:
    written, before = b"", 0
    for number, kind, value in fields:
        written += bytes([(number - before) << 4 | kind]) + value
        before = number
    return written + b"\0"


def _group(name: bytes, children: int) -> bytes:
    return _struct((3, _I32, _number(0)), (4, _TEXT, _text(name)), (5, _I32, _number(children)))


def _leaf(name: bytes = b"n") -> bytes:
    return _struct((1, _I32, _number(1)), (3, _I32, _number(0)), (4, _TEXT, _text(name)))


def write(path: Path, **lies: Any) -> None:
    """Write a file of one column with three numbers; each of the lies takes the place of what is so."""
    rows = 3
    values = b"".join(number.to_bytes(4, "little") for number in range(rows))
    data_head = _struct((1, _I32, _number(rows)), (2, _I32, _number(0)), (3, _I32, _number(3)), (4, _I32, _number(3)))
    page_size = lies.get("page_size", len(values))
    page = _struct(
        (1, _I32, _number(0)),
        (2, _I32, _number(page_size)),
        (3, _I32, _number(lies.get("packed_page_size", len(values)))),
        (5, _STRUCT, lies.get("data_head", data_head)),
    )
    body = b"PAR1" + lies.get("first_page", b"") + page + values
    start = 4 + len(lies.get("first_page", b""))
    names = lies.get("names", [b"n"])
    column: list[tuple[int, int, bytes]] = [
        (1, _I32, _number(1)),
        (2, _LIST, _list(_I32, [_number(0), _number(8)])),
        (3, _LIST, _list(_TEXT, [_text(name) for name in names])),
        (4, _I32, _number(lies.get("codec", 0))),
        (5, _I64, _number(lies.get("values", rows))),
        (6, _I64, _number(lies.get("unpacked", len(page) + len(values)))),
        (7, _I64, _number(lies.get("packed", len(page) + len(values)))),
        (9, _I64, _number(lies.get("offset", start))),
    ]
    if "dictionary_offset" in lies:
        column.append((11, _I64, _number(lies["dictionary_offset"])))
    chunk = _struct((2, _I64, _number(start)), (3, _STRUCT, _struct(*column)))
    group = _struct(
        (1, _LIST, _list(_STRUCT, lies.get("chunks", [chunk]))),
        (2, _I64, _number(len(values))),
        (3, _I64, _number(lies.get("group_rows", rows))),
    )
    schema = lies.get("schema", [_group(b"schema", lies.get("children", 1)), _leaf()])
    footer = _struct(
        (1, _I32, _number(1)),
        (2, _LIST, _list(_STRUCT, schema)),
        (3, _I64, _number(lies.get("rows", rows))),
        (4, _LIST, _list(_STRUCT, [group] * lies.get("groups", 1))),
    )
    path.write_bytes(body + footer + lies.get("footer_size", len(footer)).to_bytes(4, "little") + b"PAR1")


def _nested(levels: int) -> dict[str, Any]:
    groups = [_group(b"g", 1) for _ in range(levels)]
    return {"schema": [_group(b"schema", 1), *groups, _leaf()], "names": [*[b"g"] * levels, b"n"]}


def _dictionary(size: int) -> dict[str, Any]:
    head = _struct((1, _I32, _number(LARGEST)), (2, _I32, _number(0)))
    page = _struct((1, _I32, _number(2)), (2, _I32, _number(size)), (3, _I32, _number(4)), (7, _STRUCT, head))
    return {"first_page": page + b"\1\0\0\0", "dictionary_offset": 4}


_NULLS: Final = _struct(
    (1, _I32, _number(LARGEST)), (2, _I32, _number(0)), (3, _I32, _number(3)), (4, _I32, _number(3))
)
LIES: Final[dict[str, dict[str, Any]]] = {
    "rows of the file": {"rows": 2**60, "group_rows": 2**60},
    "rows of a group": {"group_rows": LARGEST, "rows": LARGEST, "values": LARGEST},
    "values of a page": {"data_head": _NULLS, "values": LARGEST, "group_rows": LARGEST, "rows": LARGEST},
    "size of a page": {"page_size": LARGEST, "packed_page_size": LARGEST},
    "size of a packed page": {"page_size": LARGEST, "codec": 2},
    "size below nothing": {"page_size": -5, "packed_page_size": -5},
    "size of a column": {"unpacked": 2**62, "packed": 2**62},
    "size of a column below nothing": {"packed": -1},
    "place beyond the file": {"offset": 2**40},
    "place before the file": {"offset": -8},
    "place of a dictionary": {"dictionary_offset": 2**40},
    "size of a dictionary": _dictionary(LARGEST),
    "values of a dictionary": _dictionary(64),
    "size of the footer": {"footer_size": 2**31},
    "children": {"children": LARGEST},
    "no columns": {"chunks": [], "group_rows": LARGEST, "rows": LARGEST},
    "nested without end": _nested(20_000),
    "another codec": {"codec": 77},
}
"""What is planted, by what it lies about."""

honest: Final[Callable[[Path], None]] = write
