"""Shadow policies: ``apiVersion: shadow.dev/...`` with rules, or a bare list of rules.

The rules themselves are written as in the native form. What differs is at the edges: rules may lack
an id or share one, and keys may be there without a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import stream_guard as sg

API_VERSIONS: Final = ("shadow.dev/v1alpha1",)
_FAMILY: Final = "shadow.dev/"
_SCOPES: Final = {"trace": "session", "session": "part"}


class ShadowDialect:
    """Reads the policies of Shadow 3."""

    name = "shadow"

    def recognises(self, document: sg.Document) -> bool:
        """Whether its apiVersion is one of Shadow's, or it is a bare list of rules with a kind."""
        data = document.data
        if isinstance(data, dict):
            version = data.get("apiVersion")
            return isinstance(version, str) and version.startswith(_FAMILY)
        return isinstance(data, list) and any(isinstance(rule, dict) and "kind" in rule for rule in data)

    def translate(self, document: sg.Document) -> tuple[dict[str, Any], Sequence[sg.Problem]]:
        """Return the native form, and the problems that checking the native form does not find."""
        data = document.data
        if isinstance(data, list):
            return {"rules": _rules(data, ())}, []
        native = {key: value for key, value in data.items() if key != "apiVersion"}
        if isinstance(native.get("rules"), list):
            native["rules"] = _rules(native["rules"], ("rules",))
        if data["apiVersion"] in API_VERSIONS:
            return native, []
        message = f'unknown apiVersion "{data["apiVersion"]}"; known: {", ".join(API_VERSIONS)}'
        return native, [sg.Problem(document.place("apiVersion"), message, "SG118")]


def _rules(listed: list[Any], above: tuple[str, ...]) -> list[Any]:
    used: set[str] = set()
    return [
        _rule(rule, number, (*above, number), used) if isinstance(rule, dict) else rule
        for number, rule in enumerate(listed)
    ]


def _rule(rule: dict[str, Any], number: int, origin: tuple[str | int, ...], used: set[str]) -> dict[str, Any]:
    native = {key: value for key, value in rule.items() if value is not None}
    native["_from"] = origin
    native["scope"] = _SCOPES.get(str(native.get("scope", "trace")), native.get("scope"))
    rule_id = native.get("id")
    if isinstance(rule_id, int) and not isinstance(rule_id, bool):
        native["id"] = str(rule_id)
    elif rule_id == "":
        del native["id"]
    slot = _free_slot(str(native.get("id", f"rule-{number}")), used)
    used.add(slot)
    native["_slot"] = slot
    params = native.get("params")
    if native.get("kind") == "required_stop_reason" and isinstance(params, dict):
        # The original loads a bare string here and then never fires; one reason is what was meant.
        allowed = params.get("allowed")
        native["params"] = {**params, "allowed": [allowed]} if isinstance(allowed, str) else params
    return native


def _free_slot(rule_id: str, used: set[str]) -> str:
    """Return the id, with a number if an earlier rule has it. Shadow lets two rules share an id."""
    slot, count = rule_id, 1
    while slot in used:
        count += 1
        slot = f"{rule_id}#{count}"
    return slot
