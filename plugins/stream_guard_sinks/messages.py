"""Alerts in words: a title, a text, a link, and a time that every receiver takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

from stream_guard import Alert, Json, encode_alert, redact
from stream_guard_sinks.console import make_visible

REVIEW: Final = "stream_guard_review"  # the kind of an alert that asks for a person's answer
DIGEST: Final = "stream_guard_digest"
_SUMMARIES: Final = ("stream_guard_summary", DIGEST)  # the kinds of alerts that are about others
_LONGEST: Final = 1000  # characters of evidence in a message for people


def title_of(alert: Alert) -> str:
    """Return a line that says how bad it is and what it is about."""
    return f"[{make_visible(alert.severity).upper()}] {make_visible(alert.rule_id)}"


def text_of(alert: Alert, link: str = "") -> str:
    """Return what a person needs to decide whether to look: what is wrong, where, why, and where to look."""
    lines = [make_visible(alert.detail)]
    if alert.reason and alert.reason != alert.detail:
        lines.append(make_visible(alert.reason))
    where = {"session": alert.session_id, "agent": alert.agent, "tenant": tenant_of(alert)}
    lines += [f"{name}: {make_visible(value)}" for name, value in where.items() if value]
    if alert.evidence:
        lines.append(f"evidence: {evidence_of(alert)}")
    if alert.suppressed:
        lines.append(f"suppressed: {alert.suppressed}")
    return "\n".join([*lines, *([link] if link else [])])


def evidence_of(alert: Alert) -> str:
    """Return the evidence on one line, short, with nothing in it that cannot be seen."""
    written = json.dumps(redact(dict(alert.evidence)), default=str)  # ASCII: what is odd is spelled out
    return written if len(written) <= _LONGEST else f"{written[: _LONGEST - 1]}…"


def tenant_of(alert: Alert) -> str:
    """Return whose alert it is; empty where no label says."""
    return alert.labels.get("tenant", "")


def link_of(alert: Alert, settings: Any) -> str:
    """Return where the page shows the alert, the review that it asks for, or what it sums up; empty without a page."""
    page = (getattr(settings, "page_url", "") or "").rstrip("/")
    if not page:
        return ""
    if alert.kind in _SUMMARIES:  # it is in no history: what it sums up is
        named = {"rule": "" if alert.kind == DIGEST else alert.rule_id, "tenant": tenant_of(alert)}
        query = urlencode({name: value for name, value in named.items() if value}, errors="replace")
        return f"{page}/?{query}" if query else f"{page}/"
    if alert.kind == REVIEW:
        return f"{page}/reviews/{_step(alert.alert_id.removeprefix('review-'))}"
    return f"{page}/alerts/{_step(alert.alert_id)}"


def _step(name: str) -> str:
    return quote(name, safe="", errors="replace")


def plain_alert(alert: Alert) -> dict[str, Json]:
    """Return the alert as JSON that every reader takes, also where a plugin's evidence is odd."""
    shown: dict[str, Json] = json.loads(encode_alert(alert), parse_constant=str)
    return shown


def written_time(seconds: float | None) -> str:
    """Return the time as RFC 3339 has it, in UTC; empty for none, or for one that has no date."""
    try:
        return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):  # in-process callers may say anything
        return ""


def epoch(seconds: float | None, now: float) -> float:
    """Return a time that has a date: the alert's own, or else now."""
    return seconds if seconds is not None and written_time(seconds) else now


def to_json(value: Mapping[str, Json] | list[Json]) -> bytes:
    """Return JSON in UTF-8; half a surrogate pair becomes a question mark."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str).encode("utf-8", "replace")
