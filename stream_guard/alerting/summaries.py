"""Summaries: many alerts as one, where a flood is summed up or a digest was asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from stream_guard.alerting.routes import AlertRoute, severity_of
from stream_guard.judge.cross_session import TENANT
from stream_guard.judge.model import Alert

SUMMARY: Final = "stream_guard_summary"
DIGEST: Final = "stream_guard_digest"
_NAMED: Final = 10  # rules, sessions and alerts that a summary names


def sum_up(alerts: Sequence[Alert], route: AlertRoute) -> list[Alert]:
    """Return summaries that count every alert once: one for each rule of a flood, one for a digest.

    None is about two tenants. The same alerts give the same ids, whatever their order.
    """
    groups: dict[tuple[str, str], list[Alert]] = {}
    for alert in alerts:
        rule = "" if route.digest else alert.rule_id
        groups.setdefault((rule, route.tenant_of(alert)), []).append(alert)
    return [_summary(rule, tenant, group, route) for (rule, tenant), group in groups.items()]


def _summary(rule: str, tenant: str, alerts: Sequence[Alert], route: AlertRoute) -> Alert:
    last, worst = alerts[-1], max(alerts, key=severity_of)
    ids = sorted(alert.alert_id for alert in alerts)
    name = sha256("\n".join(ids).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    sessions = Counter(alert.session_id for alert in alerts)
    rules = Counter(alert.rule_id for alert in alerts)
    severities = Counter(alert.severity for alert in alerts)
    times = [alert.time for alert in alerts if alert.time is not None]
    many = f"{len(alerts)} alerts" if len(alerts) > 1 else "1 alert"
    where = f"{len(sessions)} sessions" if len(sessions) > 1 else "1 session"
    if route.digest:
        listed = ", ".join(f"{number} x {one}" for one, number in rules.most_common(_NAMED))
        detail = f"{many} from {where}: {listed}" + (", and others" if len(rules) > _NAMED else "")
    else:
        detail = f"{len(alerts)} more from {where}: suppressed, because more than {route.flood} came at once"
    return Alert(
        alert_id=f"{'digest' if route.digest else 'summary'}-{name}",
        rule_id=rule or DIGEST,
        kind=DIGEST if route.digest else SUMMARY,
        severity=worst.severity,
        session_id="",
        event_id="",
        index=None,
        time=max(times, default=None),
        detail=detail,
        policy_version=last.policy_version,
        evidence={
            "alerts": len(alerts),
            "severities": dict(severities),
            "rules": dict(rules.most_common(_NAMED)),
            "sessions": dict(sessions.most_common(_NAMED)),
            "first": ids[:_NAMED],
            "from": min(times, default=None),
        },
        labels={TENANT: tenant} if tenant else {},
        suppressed=len(alerts),
    )
