"""Change the text of a policy file, and leave the rest of it as it is written."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ruamel.yaml import YAML

from stream_guard.errors import SettingsError

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
