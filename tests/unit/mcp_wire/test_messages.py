from __future__ import annotations

import json

import pytest

from stream_guard.mcp_wire.messages import BadMessageError, check_headers, read_message, write_message

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read", "arguments": {}}}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"7",
        b'[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"drop"}}]',
        b'{"id":1,"method":"ping","method":"tools/call"}',
        b'{"id":1,"method":"tools/call","params":{"name":"read","name":"drop"}}',
        b'{"id":1,"method":"tools/call","params":{"name":"read","Name":"drop"}}',
        b'{"id":1,"method":"tools/call","params":{"name":"read","argument\xc5\xbf":{}}}',  # a long s
        b'{"id":1,"Method":"tools/call"}',
        b'{"id":1,"method":"ping","METHOD":"tools/call"}',
        b'{"id":null,"method":"tools/call"}',
        b'{"id":1.5,"method":"tools/call"}',
        b'{"id":true,"method":"tools/call"}',
        b'{"id":{},"method":"tools/call"}',
        b'{"id":1,"method":["tools/call"]}',
        b'{"id":1,"method":"tools/call","result":{}}',
        b'{"id":1,"method":"tools/call","params":[1]}',
        b'{"id":1,"method":"tools/call","params":{"x":NaN}}',
        b'{"id":1,"method":"tools/call","params":{"x":1e999}}',
        b'{"id":1,"method":"tools/call","params":' + b'{"a":' * 5000 + b"1" + b"}" * 5001,
        b'{"id":1,"method":"\xff"}',
    ],
)
def test_what_two_readers_may_take_for_two_things_is_refused(raw: bytes) -> None:
    with pytest.raises(BadMessageError):
        read_message(raw)


def test_what_was_read_is_what_is_written() -> None:
    said = {**CALL, "params": {"name": "read\u2028", "arguments": {"n": 2**53, "f": 0.1}}}
    raw = json.dumps(said).encode()
    assert read_message(write_message(read_message(raw))) == said
    assert b"\n" not in write_message(said)


@pytest.mark.parametrize(
    ("headers", "agree"),
    [
        ({}, True),
        ({"mcp-method": "tools/call", "mcp-name": "read"}, True),
        ({"mcp-name": "=?base64?cmVhZA==?="}, True),
        ({"mcp-name": "drop"}, False),
        ({"mcp-name": "=?base64?ZHJvcA==?="}, False),
        ({"mcp-name": "=?base64?*?="}, False),
        ({"mcp-method": "tools/list"}, False),
    ],
)
def test_headers_that_name_another_tool_than_the_body_are_refused(headers: dict[str, str], agree: bool) -> None:
    if agree:
        check_headers(CALL, headers)
    else:
        with pytest.raises(BadMessageError, match="says something else"):
            check_headers(CALL, headers)
