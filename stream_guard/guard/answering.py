"""Who may answer a review: a person, by name, who is not the one that asked."""

from __future__ import annotations

import re
from typing import Final

from stream_guard.history.review_rows import Review, Status
from stream_guard.judge.patterns import fold_all

TIMEOUT: Final = "timeout"  # stands for the person when nobody answered in time
ITSELF: Final = "stream_guard"  # stands for the person when nobody could be asked
_RESERVED: Final = frozenset((TIMEOUT, ITSELF))
_VERSION: Final = re.compile(r"@v?[0-9][0-9A-Za-z.+_-]*$")  # of an agent; an address of mail has a name there


def objection(known: Review, status: Status, by: str, arguments_digest: str, *, genuine: bool) -> str:
    """Return why an answer is refused; empty when it is not."""
    if not genuine:
        return (
            f"review {known.id} was changed outside stream_guard and cannot be answered; run: stream-guard audit verify"
        )
    if (status == "acknowledged") != (known.kind == "anomaly_alert"):
        fitting = "acknowledge" if known.kind == "anomaly_alert" else "approve or reject"
        return f"review {known.id} is an {known.kind}: {fitting} it"
    if known.status != "open":
        return f"review {known.id} is {known.status} already{f', by {known.by}' if known.by else ''}"
    if arguments_digest and arguments_digest != known.arguments_digest:
        return f"review {known.id} is about other arguments: their digest is {known.arguments_digest}"
    return _objection_to_name(known, status, by)


def _objection_to_name(known: Review, status: Status, by: str) -> str:
    person = same_name(by)
    if not person:
        return "say who answers: a name with letters or digits"
    if person in _RESERVED:
        return f"{by!r} stands for an answer that no person gave; answer under your own name"
    if status == "approved" and asks(known, by):
        return f"{by!r} asked for this; somebody else has to answer review {known.id}"
    if status == "approved" and person in map(same_name, known.approvals):
        return f"{by!r} has approved review {known.id} already; it needs another person as well"
    return ""


def asks(known: Review, by: str) -> bool:
    """Whether this is the name of the agent that asked, or of one above it, in any version."""
    asking = {
        same_name(form) for agent in (known.agent, *known.agent_path) for form in (agent, agent.rpartition("@")[0])
    }
    return bool({same_name(by), same_name(_VERSION.sub("", by))} & (asking - {""}))


def same_name(name: str) -> str:
    """Return the name as people tell names apart: case, look-alikes, invisible signs and spaces make no other."""
    return " ".join(fold_all(name).casefold().split())
