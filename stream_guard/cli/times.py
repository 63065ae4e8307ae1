"""Times as people write them: a date, a date with a time, seconds since 1970, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from stream_guard.errors import SettingsError


def parse_time(flag: str, text: str) -> float:
    """Return a time as seconds since 1970; SettingsError names the flag when the text is not a time."""
    if re.fullmatch(r"\d{1,12}(\.\d+)?", text):
        return float(text)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError(
            f"{flag} {text[:40]} is not a time; write 2026-01-31, or 2026-01-31T12:00:00Z (UTC where no zone is "
            "given), or seconds since 1970"
        ) from None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def parse_since(flag: str, text: str, now: float) -> float:
    """Return a time, or how long ago (30m, 2h, 7d), as seconds since 1970."""
    if not re.fullmatch(r"[\d.]+ ?(ms|s|m|h|d)", text):
        return parse_time(flag, text)
    from stream_guard.judge.durations import parse_duration

    try:
        return now - parse_duration(text)
    except ValueError as error:
        raise SettingsError(f"{flag} {error}") from None
