"""The rules of the policy packs as tables, for docs/packs.md."""

from __future__ import annotations

from stream_guard.policy.packs import read_pack
from stream_guard.registry import Registry
from tests.docs.tables import cell, code, table


def pack_rules(registry: Registry) -> str:
    """Return a table of rules for each pack, under a heading of its own."""
    headings = ("rule", "kind", "severity", "inline", "why")
    return "\n\n".join(
        f"### {name}\n\n{pack.summary}\n\n{table(headings, _rows(read_pack(pack)))}"
        for name, pack in registry.policy_packs.items()
    )


def _rows(pack: dict[str, list[dict[str, str]]]) -> list[tuple[str, ...]]:
    return [
        (
            code(rule["id"]),
            code(rule["kind"]),
            rule.get("severity", "error"),
            "shadow" if rule.get("mode") == "shadow" else rule.get("then", ""),
            cell(rule.get("reason", "")),
        )
        for rule in pack["rules"]
    ]
