"""Alerts: made from findings, and encoded as JSON."""

from __future__ import annotations

import json
from sys import intern
from typing import Final

import msgspec

from stream_guard.judge.model import Alert, Finding
from stream_guard.redaction import mask_id, mask_secrets, redact

_LONG: Final = 1000  # characters: of a longer name only the beginning is kept

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Alert).decode


def make_alert(finding: Finding, policy_version: str) -> Alert:
    """Return the alert of a finding: short, without secrets, and with the same id every time."""
    return Alert(
        alert_id=finding.alert_id,
        rule_id=finding.rule_id,
        kind=finding.kind,
        severity=finding.severity.word,
        session_id=finding.session_id,
        event_id=mask_id(finding.event_id),
        index=finding.index,
        time=finding.time,
        detail=redact(finding.detail),
        policy_version=policy_version,
        evidence=redact(finding.evidence),
        part=finding.part if len(finding.part) < _LONG else mask_id(finding.part),
        # A default is left out of JSON by identity: a finding from another process must not look different.
        at=intern(finding.at),
        reason=finding.reason,
        tags=finding.tags,
        run_id=mask_id(finding.run_id),
        agent=mask_secrets(finding.agent) if len(finding.agent) < _LONG else mask_id(finding.agent),
        labels=redact(finding.labels),
        suppressed=finding.suppressed,
        file=finding.file,
        line=finding.line,
        shadow=finding.shadow,
    )


def for_outside(alert: Alert) -> Alert:
    """Return the alert for receivers outside: the session's id, which is kept as it is inside, has no secret there."""
    shown = (mask_id(alert.session_id), mask_id(alert.event_id), mask_id(alert.run_id))
    said = (mask_secrets(alert.agent), mask_secrets(alert.reason))
    if (*shown, *said) == (alert.session_id, alert.event_id, alert.run_id, alert.agent, alert.reason):
        return alert
    (session, event, run), (agent, reason) = shown, said
    return msgspec.structs.replace(alert, session_id=session, event_id=event, run_id=run, agent=agent, reason=reason)


def encode_alert(alert: Alert) -> bytes:
    """Return the alert as JSON on one line."""
    try:
        return _encode(alert)
    except (UnicodeEncodeError, TypeError, OverflowError, RecursionError):
        # A plugin's evidence, or a lone surrogate in an id: an odd alert is better than none.
        shown = {field: getattr(alert, field) for field in alert.__struct_fields__}
        return json.dumps(shown, ensure_ascii=False, default=str).encode("utf-8", "replace")


def decode_alert(line: bytes) -> Alert:
    """Return the alert that ``encode_alert`` wrote."""
    try:
        return _decode(line)
    except msgspec.DecodeError:
        # An odd one: Python's reader takes numbers that strict JSON does not have.
        fields = json.loads(line)
        return Alert(**fields | {"tags": tuple(fields.get("tags", ()))})
