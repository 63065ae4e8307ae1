"""Rules whose key spans sessions: one index for each key, one ``KeyState`` for each value of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stream_guard.judge.bound import BoundRule, key_paths, key_text
from stream_guard.judge.index import Index
from stream_guard.judge.model import RESERVED, Event
from stream_guard.judge.paths import MISSING
from stream_guard.judge.rule import Params

TENANT: Final = "tenant"  # the label that names it


def session_prefix(tenant: str) -> str:
    """Return what the names of a tenant's sessions begin with, and nobody else's."""
    return f"{tenant.replace('%', '%25').replace('/', '%2F')}/"


class CrossSessionRules:
    """The rules of one key that leaves ``session`` out: ``[agent]``, ``[labels.tenant, tool]``, ``all``.

    With ``by_tenant`` equal values of two tenants are two values: what one does counts for no other.
    """

    __slots__ = ("_by_tenant", "_paths", "_prefix", "index", "key", "memory")

    def __init__(self, key: tuple[str, ...], bounds: Sequence[BoundRule], *, by_tenant: bool = False) -> None:
        self.key = key
        self._by_tenant = by_tenant
        self._paths = key_paths(key)
        self._prefix = f"{RESERVED}{'+'.join(key)}{RESERVED}"
        self.index = Index(bounds)
        # A window over sessions is as long as it says, however long nothing happens in between.
        self.memory = max((_longest_window(bound.rule.params) for bound in bounds), default=0.0)

    def key_id(self, event: Event) -> str | None:
        """Return the id of the event's key value, or None when the event has no value for the key."""
        values = []
        for path in self._paths:
            value = path.find(event)
            if value is MISSING or value is None or value == "":
                return None
            values.append(key_text(value))
        if len(values) > 1:
            # No two lists of values have the same id: a tenant "a/b" is not the tenant "a" with a tool "b/...".
            values = [value.replace("%", "%25").replace("/", "%2F") for value in values]
        tenant = event.labels.get(TENANT, "") if self._by_tenant else ""
        if tenant and not event.session_id.startswith(session_prefix(tenant)):
            tenant = ""  # a label that a caller wrote: whose session it is says who vouches for the tenant
        return self._prefix + "/".join(values) + (f"{RESERVED}{key_text(tenant)}" if tenant else "")

    def owns(self, key_id: str) -> bool:
        """Whether the id is a value of this key."""
        return key_id.startswith(self._prefix)


def _longest_window(params: Params) -> float:
    """Return the longest span of time among parameters, in seconds; 0 without any."""
    spans = [getattr(params, name) for name in type(params).model_fields if name.endswith("_seconds")]
    return max((span for span in spans if isinstance(span, float)), default=0.0)


def by_key(bounds: Sequence[BoundRule], *, by_tenant: bool) -> Iterator[CrossSessionRules]:
    """Yield the rules that span sessions, for each key those that have it."""
    for key in {bound.spec.key: None for bound in bounds if "session" not in bound.spec.key}:
        yield CrossSessionRules(key, [bound for bound in bounds if bound.spec.key == key], by_tenant=by_tenant)
