"""Which keys a form or a kind's parameters take, other spellings included."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema


def spellings(model: type[BaseModel]) -> dict[str, tuple[str, ...]]:
    """Return, by field, every key that may be written for it; the one to recommend comes first."""
    by_name = bool(model.model_config.get("validate_by_name") or model.model_config.get("populate_by_name"))
    return {name: _spellings(name, field, by_name=by_name) for name, field in model.model_fields.items()}


def _spellings(name: str, field: FieldInfo, *, by_name: bool) -> tuple[str, ...]:
    alias = field.validation_alias if field.validation_alias is not None else field.alias
    if alias is None:
        return (name,)
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    others = [choice for choice in choices if isinstance(choice, str) and choice != name]
    return (name, *others) if by_name or name in choices else tuple(others)


class AllSpellings(GenerateJsonSchema):
    """Makes the schema of a model with every key it takes; pydantic's own has either the names or the aliases."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Add the other spellings of each field beside the first."""
        described = super().model_schema(schema)
        model: type[BaseModel] = schema["cls"]
        properties = described.get("properties", {})
        complete: dict[str, Any] = {}
        choices: list[JsonSchemaValue] = []
        required = set(described.get("required", ()))
        for name, names in spellings(model).items():
            field_schema = properties.get(name, {})
            first, *others = names
            complete[first] = field_schema
            for other in others:
                complete[other] = {**field_schema, "description": f"another name of {first}"}
            if name in required and (others or first != name):
                required.discard(name)
                choices.append({"oneOf": [{"required": [each]} for each in names]} if others else {"required": [first]})
        described["properties"] = complete
        described.pop("required", None)
        if required:
            described["required"] = sorted(required)
        if choices:
            described["allOf"] = choices
        return described


@lru_cache(maxsize=256)
def describe(model: type[BaseModel]) -> JsonSchemaValue:
    """Return the model's JSON Schema with every spelling in it. Callers must not change it."""
    return model.model_json_schema(by_alias=False, schema_generator=AllSpellings)


def names_at(model: type[BaseModel], container: Sequence[str | int]) -> list[str]:
    """Return the keys that the mapping at the steps may have; none when they are not fixed."""
    schema = describe(model)
    found = [schema]
    for step in container:
        found = [inner for outer in found for inner in _step(outer, step, schema)]
    return list(dict.fromkeys(name for part in found for name in part.get("properties", {})))


def _step(outer: JsonSchemaValue, step: str | int, root: JsonSchemaValue) -> list[JsonSchemaValue]:
    inner = (
        outer.get("items")
        if isinstance(step, int)
        else outer.get("properties", {}).get(step, outer.get("additionalProperties"))
    )
    return _members(inner, root) if isinstance(inner, dict) else []


def _members(schema: JsonSchemaValue, root: JsonSchemaValue) -> list[JsonSchemaValue]:
    """Return the schema and the members of its union, if it is one."""
    if "$ref" in schema:
        target = root.get("$defs", {}).get(schema["$ref"].rpartition("/")[2])
        return _members(target, root) if isinstance(target, dict) else []
    members = [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())]
    return [schema, *(inner for member in members if isinstance(member, dict) for inner in _members(member, root))]
