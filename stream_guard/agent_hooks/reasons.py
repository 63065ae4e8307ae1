"""What the model and the user are told: why a call did not run, what rules found, what is still to be done."""

from __future__ import annotations

from stream_guard.agent_hooks.gateless import plain

TYPE_CHECKING = False  # typing would take longer to import than the rest
if TYPE_CHECKING:
    from typing import Any

MOST = 20  # of obligations, findings: more would bury the first ones


def refusal(ruling: dict[str, Any]) -> str:
    """Return what the model is told: what became of the call, why, and which rule says so."""
    action, reason = ruling.get("action"), str(ruling.get("reason") or "")
    review = ruling.get("review")
    if action == "pause":
        name = f" {review['id']}" if isinstance(review, dict) else ""
        began = f"Not run: a person has to approve this first (review{name})."
    else:
        began = f"Not run: {'the session is over' if action == 'terminate_session' else 'this is not allowed'}."
    found = [finding(alert) for alert in (ruling.get("alerts") or [])[:MOST]]
    listed = f"[{'; '.join(found)}]" if found else ""
    # What was found stands in the list; a reason without words of the policy's own has the way already.
    way = str(ruling.get("advice") or "").partition("to pass: ")[2] if "to pass: " not in reason else ""
    return " ".join(plain(part) for part in (began, reason, listed, f"To pass: {way}." if way else "") if part)


def doubts(ruling: dict[str, Any]) -> list[str]:
    """Return why an allowed call was not judged, or not by all rules; nothing where no rule was to be asked."""
    if ruling.get("judged"):
        return []
    rules = (ruling.get("rules") or {}).get("unevaluable") or []
    if rules:
        return [f"this call was allowed although rules could not judge it: {', '.join(map(str, rules[:MOST]))}"]
    reason = ruling.get("reason")
    return [f"this call was allowed, {reason}"] if reason else []


def modified(ruling: dict[str, Any]) -> list[str]:
    """Return which rules changed the arguments of a call that runs."""
    return [f"the arguments of this call were changed by {', '.join(map(str, ruling.get('modified_by') or []))}"]


def unfinished(missing: list[str]) -> str:
    """Return what is left to do before the agent may stop."""
    lines = [f"- {one}" for one in missing[:MOST]]
    more = [f"- and {len(missing) - MOST} more"] if len(missing) > MOST else []
    return "\n".join(["stream_guard: not finished yet.", *lines, *more])


def finding(alert: Any) -> str:
    """Return one finding in a line: the rule, its own reason, and what it found."""
    said = [str(alert.get(name) or "") for name in ("reason", "detail")]
    return plain(f"{alert.get('rule_id')}: {' '.join(dict.fromkeys(filter(None, said)))}")
