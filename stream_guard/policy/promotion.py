"""Take rules out of shadow mode in a policy file, and leave the rest of it as it is written."""

from __future__ import annotations

from collections.abc import Mapping

from stream_guard.errors import SettingsError
from stream_guard.judge.model import Json
from stream_guard.policy.editing import edit
from stream_guard.policy.message_parts import did_you_mean, show
from stream_guard.policy.packs import read_pack
from stream_guard.ports import PolicyPack


def promote(text: str, rule_id: str, packs: Mapping[str, PolicyPack]) -> str:
    """Return the text of a policy with a rule of it in force; SettingsError where it has no such rule in shadow mode.

    A rule of a pack is taken off the list ``shadow`` of its pack, or put on the list ``enforce`` where the pack itself
    has it in shadow mode. Comments and the order of keys stay.
    """
    rules = {name: read_pack(pack)["rules"] for name, pack in packs.items()}
    return edit(text, lambda data: _promote(data, rule_id, rules))


def _promote(data: Json, rule_id: str, packs: Mapping[str, list[dict[str, Json]]]) -> None:
    own = [rule for rule in data.get("rules") or () if isinstance(rule, dict)]
    known = [str(rule.get("id")) for rule in own]
    for rule in own:
        if rule.get("id") == rule_id:
            if rule.pop("mode", None) != "shadow":
                raise SettingsError(f"{show(rule_id)} is in force already")
            return
    for place, entry in enumerate(data.get("packs") or ()):
        name = entry.get("pack") if isinstance(entry, dict) else entry
        rules = {str(rule["id"]): rule for rule in packs.get(str(name), ())}
        known += rules
        if rule_id in rules:
            _promote_in_pack(data["packs"], place, rules, rule_id)
            return
    raise SettingsError(f"the policy has no rule {show(rule_id)}{did_you_mean(rule_id, known)}")


def _promote_in_pack(entries: Json, place: int, rules: Mapping[str, dict[str, Json]], rule_id: str) -> None:
    entry = entries[place]
    if not isinstance(entry, dict):
        entry = entries[place] = {"pack": entry}
    if rule_id in (entry.get("without") or ()):
        raise SettingsError(f"{show(rule_id)} is left out (`without`); take it off that list first")
    quiet = entry.get("shadow") or []
    if entry.get("mode") == "shadow":  # then every other one stays so
        del entry["mode"]
        entry["shadow"] = [other for other in rules if other != rule_id]
    elif rule_id in quiet:
        quiet.remove(rule_id)
        if not quiet:
            del entry["shadow"]
    elif rules[rule_id].get("mode") != "shadow" or rule_id in (entry.get("enforce") or ()):
        raise SettingsError(f"{show(rule_id)} is in force already")
    if rules[rule_id].get("mode") == "shadow":
        entry["enforce"] = [*(entry.get("enforce") or ()), rule_id]
