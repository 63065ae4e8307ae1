"""The JSON Schema of the native form, for editors: its keys, and the parameters of each kind, described."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from pydantic.json_schema import JsonSchemaValue

from stream_guard.judge.conditions import GROUPS, OPERATORS
from stream_guard.judge.paths import ROOTS
from stream_guard.judge.rule import RuleType
from stream_guard.policy.forms import PolicyForm, RuleForm, describe
from stream_guard.registry import Registry

# Every version of the editors' language server reads draft 7; 2020-12 gave the same diagnostics in 1.19 and 1.25.
DIALECT: Final = "http://json-schema.org/draft-07/schema#"


_REF: Final = {"$ref": "#/$defs/condition"}
CONDITION_DEFINITION: Final[JsonSchemaValue] = {
    "description": "A condition: {path, op, value}, a list of them (all must hold), or all_of, any_of, not.",
    "anyOf": [
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "pattern": f"^({'|'.join(ROOTS)})(\\.|$)"},
                "op": {"enum": list(OPERATORS)},
                "value": {},
            },
            "required": ["path", "op"],
            "additionalProperties": False,
        },
        {"type": "array", "items": _REF},
        *(
            {"type": "object", "properties": {group: _REF}, "required": [group], "additionalProperties": False}
            for group in GROUPS
        ),
    ],
}


def policy_schema(registry: Registry) -> JsonSchemaValue:
    """Return the schema of policies with the kinds of the registry. Every policy that loads is valid in it."""
    definitions: dict[str, JsonSchemaValue] = {"condition": CONDITION_DEFINITION}
    policy = _adopt(describe(PolicyForm), "policy", definitions)
    definitions["rule"] = _rule(registry.kinds, definitions)
    policy["properties"]["rules"] = {
        "type": "array",
        "items": {"$ref": "#/$defs/rule"},
        "description": "the rules; all are in force together",
    }
    _offer_packs(policy, definitions, registry)
    return {"$schema": DIALECT, **policy, "title": "stream_guard policy", "$defs": definitions}


def _offer_packs(policy: JsonSchemaValue, definitions: dict[str, JsonSchemaValue], registry: Registry) -> None:
    """Let editors complete the names of packs; a policy has rules of its own, or packs, or both."""
    packs = registry.policy_packs
    name = {
        "type": "string",
        "enum": list(packs),
        "enumDescriptions": [pack.summary for pack in packs.values()],
        "description": "the name of the pack",
    }
    definitions["policy.PackForm"]["properties"]["pack"] = name
    policy["properties"]["packs"]["items"]["anyOf"] = [{"$ref": "#/$defs/policy.PackForm"}, name]
    policy["required"].remove("rules")
    policy["anyOf"] = [{"required": ["rules"]}, {"required": ["packs"]}, {"required": ["shared"]}]


def _rule(kinds: Mapping[str, RuleType], definitions: dict[str, JsonSchemaValue]) -> JsonSchemaValue:
    rule = _adopt(describe(RuleForm), "rule", definitions)
    rule["properties"]["kind"] = {
        "type": "string",
        "enum": list(kinds),
        "enumDescriptions": [_summary(kind) for kind in kinds.values()],
        "description": "what the rule asks for",
    }
    rule["properties"]["params"] = {"type": "object", "description": "the parameters of the kind"}
    rule["allOf"] = [*rule.get("allOf", ()), *(_branch(name, kind, definitions) for name, kind in kinds.items())]
    return rule


def _branch(name: str, kind: RuleType, definitions: dict[str, JsonSchemaValue]) -> JsonSchemaValue:
    """Return the part of the schema for rules of one kind."""
    try:
        described = describe(kind.params_type)
    except Exception:  # noqa: BLE001 - a plugin's type may have no schema; the other kinds still have theirs
        described = {"type": "object"}
    params = _adopt(described, name, definitions)
    definitions[f"params.{name}"] = {**params, "description": _summary(kind)}
    needs_params = bool(params.get("required") or params.get("allOf"))
    return {
        "if": {"properties": {"kind": {"const": name}}, "required": ["kind"]},
        "then": {
            "properties": {"params": {"$ref": f"#/$defs/params.{name}"}},
            **({"required": ["params"]} if needs_params else {}),
        },
    }


def _summary(kind: RuleType) -> str:
    """Return the first line of the kind's docstring."""
    return (kind.__doc__ or kind.kind).strip().partition("\n")[0]


def _adopt(schema: JsonSchemaValue, owner: str, definitions: dict[str, JsonSchemaValue]) -> JsonSchemaValue:
    """Return a copy whose definitions are moved to ``definitions``, under the name of their owner."""
    copied: JsonSchemaValue = _rewrite(deepcopy(schema), owner)
    for name, definition in copied.pop("$defs", {}).items():
        definitions[f"{owner}.{name}"] = definition
    return copied


def _is_noise(key: str, item: Any) -> bool:
    if key == "discriminator":
        return isinstance(item, dict) and "propertyName" in item
    return (key == "title" and isinstance(item, str)) or (key == "default" and item is None)


def _rewrite(value: Any, owner: str) -> Any:
    if isinstance(value, list):
        return [_rewrite(item, owner) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("format") == "condition":
        return {"$ref": "#/$defs/condition", **{key: value[key] for key in ("description",) if key in value}}
    # Titles made from names say nothing that the keys do not; the rest is for other readers of schemas.
    noise = [key for key, item in value.items() if _is_noise(key, item)]
    kept = {key: item for key, item in value.items() if key not in noise}
    if isinstance(reference := kept.get("$ref"), str):
        kept["$ref"] = f"#/$defs/{owner}.{reference.rpartition('/')[2]}"
    return {key: item if key in ("default", "const", "enum") else _rewrite(item, owner) for key, item in kept.items()}
