"""Moments as people write them: a date, a date with a time, seconds since 1970, or so long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from stream_guard.errors import SettingsError


def moment_of(flag: str, text: str) -> float:
    """Return the seconds since 1970 of a moment; SettingsError, which names the flag, where it is none."""
    if re.fullmatch(r"\d{1,12}(\.\d+)?", text):
        return float(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError(
            f"{flag} {text[:40]} is no moment; write 2026-01-31, or 2026-01-31T12:00:00Z (UTC where no zone is given), "
            "or seconds since 1970"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def since_of(flag: str, text: str, now: float) -> float:
    """Return the seconds since 1970 of a moment, or of so long ago: 30m, 2h, 7d."""
    if not re.fullmatch(r"[\d.]+ ?(ms|s|m|h|d)", text):
        return moment_of(flag, text)
    from stream_guard.language.durations import parse_duration

    try:
        return now - parse_duration(text)
    except ValueError as error:
        raise SettingsError(f"{flag} {error}") from None
