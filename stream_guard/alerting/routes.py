"""Routes: which alerts go to a sink, which of them wait to be summed up, and the summaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Literal

from stream_guard.judge.identity import TENANT
from stream_guard.judge.model import Alert, Severity
from stream_guard.judge.patterns import ToolPattern
from stream_guard.settings import RouteSettings

_MOST_KEYS: Final = 10_000  # rules and tenants that a window counts apart; the others share one count


@dataclass(frozen=True, slots=True)
class AlertRoute:
    """What a sink wants: how severe at least, of which rules, labels and tenants, and how much at once."""

    severity: Severity = Severity.INFO
    rules: ToolPattern | None = None  # None: all
    labels: Mapping[str, str] = field(default_factory=dict)
    tenants: frozenset[str] | None = None  # None: all
    flood: int = 0  # alerts of one rule and tenant that are sent in a window; 0: all
    flood_window: float = 60.0
    digest: float = 0.0  # seconds that one message is about; 0: each alert is a message

    def accepts(self, alert: Alert) -> bool:
        """Whether the alert goes to this sink."""
        return (
            severity_of(alert) >= self.severity
            and (self.rules is None or self.rules.matches(alert.rule_id))
            and all(alert.labels.get(name) == value for name, value in self.labels.items())
            and (self.tenants is None or self.tenant_of(alert) in self.tenants)
        )

    def tenant_of(self, alert: Alert) -> str:
        """Return the tenant whose alert it is; empty without one."""
        return alert.labels.get(TENANT, "")

    @property
    def period(self) -> float:
        """Seconds that a held alert waits, so that others can join it."""
        return self.digest or self.flood_window


def make_route(settings: RouteSettings, flood: int) -> AlertRoute:
    """Return the route that the settings describe; ``flood`` is for one that does not say what a flood is."""
    return AlertRoute(
        severity=Severity[settings.severity.upper()],
        rules=ToolPattern(settings.rules) if settings.rules else None,
        labels=dict(settings.labels),
        tenants=frozenset(settings.tenants) if settings.tenants else None,
        flood=flood if settings.flood is None else settings.flood,
        flood_window=settings.flood_window,
        digest=settings.digest or 0.0,
    )


def queue_name(text: str) -> str:
    """Return the name that a sink of ``--alerts`` has in the outbox, in metrics and in the log.

    An address may hold a secret, so the name holds a short digest of it: the same in every run, of no use to others.
    """
    return f"{text.partition(':')[0]}-{sha256(text.encode('utf-8', 'replace')).hexdigest()[:6]}"


def severity_of(alert: Alert) -> Severity:
    """Return the severity of an alert; a word of a plugin's own is the highest, so that nobody misses it."""
    return Severity.__members__.get(alert.severity.upper(), Severity.CRITICAL)


class FloodGuard:
    """Lets the first alerts of each rule and tenant through in a window of time, and holds the others back.

    One thread at a time.
    """

    def __init__(self, route: AlertRoute, clock: Callable[[], float]) -> None:
        self._route = route
        self._clock = clock
        self._began = 0.0
        self._seen: dict[tuple[str, str], int] = {}

    def sort(self, alerts: Sequence[Alert]) -> list[tuple[Alert, Literal["waiting", "held"]]]:
        """Return the alerts that the route accepts, each with what is to be done with it."""
        route = self._route
        wanted = [alert for alert in alerts if route.accepts(alert)]
        if route.digest:
            return [(alert, "held") for alert in wanted]
        if not route.flood:
            return [(alert, "waiting") for alert in wanted]
        now = self._clock()
        if not self._began <= now < self._began + route.flood_window:
            self._began = now
            self._seen.clear()
        return [(alert, "waiting" if self._count(alert) <= route.flood else "held") for alert in wanted]

    def _count(self, alert: Alert) -> int:
        key = (alert.rule_id, self._route.tenant_of(alert))
        if key not in self._seen and len(self._seen) >= _MOST_KEYS:
            key = ("", "")
        self._seen[key] = self._seen.get(key, 0) + 1
        return self._seen[key]


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
