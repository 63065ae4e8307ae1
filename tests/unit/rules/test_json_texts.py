"""Every text of a JSON value is read, and every number as text."""

from __future__ import annotations

from stream_guard_rules.shared.json_values import texts_in


def test_a_number_too_long_for_decimal_is_read_in_hexadecimal() -> None:
    assert list(texts_in([10**5000, -(10**5000), 12, 1.5, True])) == [f"{10**5000:x}", f"{-(10**5000):x}", "12", "1.5"]
