from __future__ import annotations

from hashlib import sha256

import pytest

from stream_guard.serve.acs import entry_hash, is_signed, request_hash, session_key, sign

KEY = session_key(b"a secret of some length", "5c3f1b8e-9a0d-4c2e-8f4b-2d6a7e9c1b30")


def test_the_key_of_a_session_is_that_of_rfc_5869() -> None:
    # Test case 3 of the RFC: no salt, no info.
    assert (
        session_key(bytes([0x0B] * 22), "").hex() == "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"
    )
    # The example of the standard itself.
    session = "6b1f2c9e-4d7a-4e3b-8a51-9c0d2e7f1a36"
    assert (
        session_key(bytes(range(32)), session).hex()
        == "80f0dc8c611279bfc2af2d5f374c5cb685888192ce1af5c3e0673d8fa748e8a4"
    )


@pytest.mark.parametrize(
    "envelope",
    [
        {"jsonrpc": "2.0", "id": 1, "method": "steps/sessionStart", "params": {"b": 1.0, "a": "\u00e9"}},
        {"jsonrpc": "2.0", "id": 1, "result": {"decision": "allow", "chain_hash": "00"}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": -32004, "message": "no"}},
    ],
)
def test_a_signature_covers_the_whole_envelope_and_nothing_else_fits_it(envelope: dict[str, object]) -> None:
    signed = sign(envelope, KEY)
    assert is_signed(signed, KEY)
    assert not is_signed(signed, session_key(b"another secret", "x"))
    assert not is_signed({**signed, "id": 2}, KEY)
    assert not is_signed(envelope, KEY)
    part = next(name for name in ("params", "result", "error") if name in envelope)
    for broken in ({"value": "!"}, {"algorithm": "none"}, {"value": None}):
        inner = dict(signed[part], signature={**signed[part]["signature"], **broken})
        assert not is_signed({**signed, part: inner}, KEY)


def test_an_entry_is_bound_to_the_one_before() -> None:
    first = {"entry_id": "1", "step_id": "a", "step_type": "steps/sessionStart"}
    written = b'{"entry_id":"1","step_id":"a","step_type":"steps/sessionStart"}'
    assert entry_hash(first, "") == sha256(written).hexdigest()
    assert entry_hash(first, "ab" * 32) == sha256(written + bytes([0xAB] * 32)).hexdigest()
    assert entry_hash({**first, "entry_hash": "x", "previous_hash": "y"}, "") == entry_hash(first, "")


def test_the_hash_of_a_request_leaves_its_signature_out() -> None:
    assert request_hash({"b": 1, "a": 2, "signature": {}}) == sha256(b'{"a":2,"b":1}').hexdigest()
