"""Change the text of a policy file, and leave the rest of it as it is written."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ruamel.yaml import YAML

from stream_guard.errors import SettingsError
from stream_guard.judge.model import Json
from stream_guard.policy.message_parts import did_you_mean, show
from stream_guard.policy.packs import read_pack
from stream_guard.ports import PolicyPack

_FIRST_RULE: Final = re.compile(r"^(?:rules|packs):[^\n]*\n(?:\s*#[^\n]*\n)*( *)- ", re.MULTILINE)


def edit(text: str, change: Callable[[Any], None]) -> str:
    """Return the text of a policy after a change of its data; comments and the order of keys stay."""
    writer = _writer(text)
    data: Any = writer.load(text)
    if not isinstance(data, dict) or "apiVersion" in data:
        raise SettingsError("policies are changed in the native form; `stream-guard policy convert FILE` writes it")
    change(data)
    if _is_json(text):
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    written = io.StringIO()
    writer.dump(data, written)
    return written.getvalue()


def add_rules(text: str, rules: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a policy with rules behind its own.

    A rule with an id that is there takes its place, and is in shadow mode only if that one was.
    """

    def add(data: Any) -> None:
        own = data.get("rules")
        if own is None:
            own = data["rules"] = []
        places = {rule.get("id"): place for place, rule in enumerate(own) if isinstance(rule, dict)}
        for rule in rules:
            if rule["id"] in places:
                was = own[places[rule["id"]]]
                own[places[rule["id"]]] = {key: rule[key] for key in rule if key != "mode" or "mode" in was}
            else:
                own.append(dict(rule))

    return edit(text, add)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _writer(text: str) -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 120
    first = _FIRST_RULE.search(text)
    offset = len(first.group(1)) if first else 2
    yaml.indent(mapping=2, sequence=offset + 2, offset=offset)
    return yaml


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
