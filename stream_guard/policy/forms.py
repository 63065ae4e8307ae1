"""The native form of a policy, as pydantic checks it and as the JSON Schema describes it to editors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, SkipJsonSchema
from pydantic_core import PydanticCustomError, core_schema

from stream_guard.judge.conditions import GROUPS, OPERATORS, Condition
from stream_guard.judge.limits import Duration, parse_duration
from stream_guard.judge.model import Json, Severity
from stream_guard.judge.paths import ROOTS, Path
from stream_guard.judge.patterns import Regex
from stream_guard.judge.rule import RuleType
from stream_guard.judge.spec import ALL_KEY, DEFAULT_IDLE, ArgumentChange, ExecutionMode, OnError, OnUnevaluable
from stream_guard.policy.gates import dead_end
from stream_guard.policy.message_parts import did_you_mean, show
from stream_guard.registry import Registry


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


MAX_ID: Final = 200
KEY_WORDS: Final = ("session", "agent", "run", "tool", ALL_KEY)
MAX_REASON: Final = 2000
MAX_LABEL: Final = 64
MAX_LABELS: Final = 8
MAX_CHANGES: Final = 16

SEVERITIES: Final = {
    "info": Severity.INFO,
    "warning": Severity.WARNING,
    "error": Severity.ERROR,
    "critical": Severity.CRITICAL,
    "low": Severity.INFO,
    "medium": Severity.WARNING,
    "high": Severity.ERROR,
}
"""The four levels, and the words other systems use for them."""

SeverityWord: TypeAlias = Literal["info", "warning", "error", "critical", "low", "medium", "high"]


def check_id(value: str) -> str:
    """Return the id; refuse one that cannot be printed, searched for or distinguished from others."""
    if not value.strip() or len(value) > MAX_ID or not value.isprintable() or value != value.strip():
        message = "{shown} is not a usable id; write 1 to {most} printable characters without spaces around them"
        raise PydanticCustomError("rule_id", message, {"shown": show(value), "most": MAX_ID})
    return value


def check_key_part(value: str) -> str:
    """Return the part; refuse one that no event has a value for."""
    if value in KEY_WORDS:
        return value
    if "." in value and not _dead_end(f"tool.{value}" if value.startswith("args.") else value):
        return value
    near = did_you_mean(value, KEY_WORDS)
    advice = near or (f"; for a label write {show('labels.' + value)}" if value.isidentifier() else "")
    message = "{shown} is not a key; it takes session, agent, run, tool, args.NAME, labels.NAME or all{advice}"
    raise PydanticCustomError("state_key", message, {"shown": show(value), "advice": advice})


def check_label(name: str) -> str:
    """Return the name of a label that a rule sets; refuse one that no path can lead to, and that of tenants."""
    if not name.replace("-", "_").isidentifier() or len(name) > MAX_LABEL:
        message = "{shown} is not a usable label; write up to {most} letters, digits, hyphens and underscores"
        raise PydanticCustomError("label", message, {"shown": show(name), "most": MAX_LABEL})
    if name == "tenant":
        raise PydanticCustomError("label", "whose sessions they are is the source's to say: no rule sets the tenant")
    return name


def _dead_end(path: str) -> bool:
    try:
        return dead_end(Path(path)) != ""
    except ValueError:
        return True


def _in_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _lateness(value: Any) -> float:
    if value == 0 and isinstance(value, int | float) and not isinstance(value, bool):
        return 0.0
    try:
        return parse_duration(value)
    except ValueError as error:
        raise PydanticCustomError("duration", "{why}", {"why": str(error)}) from None


_TEXTS: Final = {"type": "array", "items": {"type": "string"}, "minItems": 1}
Text: TypeAlias = Annotated[str, Field(min_length=1)]
RuleId: TypeAlias = Annotated[
    str, AfterValidator(check_id), WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MAX_ID})
]
Key: TypeAlias = Annotated[
    list[Annotated[str, AfterValidator(check_key_part)]],
    BeforeValidator(_in_list),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [{"type": "string"}, _TEXTS]}),
]
LabelName: TypeAlias = Annotated[
    str, AfterValidator(check_label), WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MAX_LABEL})
]
LabelValue: TypeAlias = Annotated[str, Field(min_length=1, max_length=MAX_LABEL)]
ToolNames: TypeAlias = Annotated[
    list[Text], BeforeValidator(_in_list), Field(min_length=1), WithJsonSchema({"anyOf": [{"type": "string"}, _TEXTS]})
]
Lateness: TypeAlias = Annotated[
    float,
    BeforeValidator(_lateness),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": r"^\d"}]}),
]


class FormBase(BaseModel):
    """Base of all forms: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SessionsForm(FormBase):
    """When a session is over, and how late its events may come."""

    idle: Duration = Field(
        default=DEFAULT_IDLE, description="a session that has been silent this long, in event time, is over"
    )
    max_out_of_orderness: Lateness = Field(
        default=0.0, description="how late an event may come and still be put in its place; 5 s for OTLP if not said"
    )


class AgentForm(FormBase):
    """One agent, or one version of it (``name@version``)."""

    parent: Text | SkipJsonSchema[None] = Field(
        default=None, description="the agent above it, whose rules govern it too; a root has none"
    )
    operations: list[Text] | SkipJsonSchema[None] = Field(
        default=None,
        description="the tools it may try: rules of agents are asked about no others; without the list, about all",
    )
    execution_mode: ExecutionMode | SkipJsonSchema[None] = Field(
        default=None, description="in request mode nobody is there to review, so its rules cannot pause"
    )


class RuleTestForm(FormBase):
    """A test beside a rule: events in short form, and where the rule fires."""

    claim: Text | SkipJsonSchema[None] = Field(default=None, description="what the test shows, in a sentence")
    trace: list[dict[str, Json]] = Field(description="the events, in short: {call: refund, args: {amount: 5}}")
    hits: list[Annotated[int, Field(ge=0)] | Literal["end", "deadline"]] = Field(
        default=[],
        description="positions in the trace at which the rule fires, or end, or deadline; none: it is silent",
    )


class ChangeForm(FormBase):
    """One change of a call's arguments: a path, and one of cap, mask, drop and set."""

    path: str = Field(default="", max_length=MAX_ID, description="where, such as order.amount; none: all arguments")
    cap: int | float | SkipJsonSchema[None] = Field(default=None, description="the largest number that it may be")
    mask: Regex | Literal[True] | SkipJsonSchema[None] = Field(
        default=None, description="what is masked in its texts: a regular expression (RE2); true: all of it"
    )
    drop: Literal[True] | SkipJsonSchema[None] = Field(default=None, description="take it out")
    set: Json = Field(default=None, description="the value that it gets, whatever it was")

    @model_validator(mode="after")
    def _says_one_thing(self) -> ChangeForm:
        words = self._words()
        if len(words) != 1:
            raise PydanticCustomError("change", "write one of cap, mask, drop and set, beside the path")
        if not self.path and words != ["mask"]:
            raise PydanticCustomError("change", "say which argument: path")
        return self

    def _words(self) -> list[str]:
        said = [name for name in ("cap", "mask", "drop") if getattr(self, name) is not None]
        return said + (["set"] if "set" in self.model_fields_set else [])

    def build(self) -> ArgumentChange:
        """Return the change, ready to be applied."""
        [word] = self._words()
        value, pattern = getattr(self, word), self.mask if isinstance(self.mask, Regex) else None
        return ArgumentChange(self.path, word, value if pattern is None else pattern.pattern, pattern)


class RuleForm(FormBase):
    """One rule: a kind with parameters, and what the engine adds to every kind."""

    id: RuleId | SkipJsonSchema[None] = Field(
        default=None, description="names the rule in alerts; unique in the policy, and best never changed"
    )
    kind: str = Field(description="what the rule asks for")
    params: dict[str, Json] = Field(default={}, description="the parameters of the kind")
    when: Condition | SkipJsonSchema[None] = Field(
        default=None, description="the rule fires only at events for which this holds"
    )
    unless: Condition | SkipJsonSchema[None] = Field(
        default=None, description="exceptions: the rule does not fire at events for which this holds"
    )
    scope: Literal["session", "part", "run"] = Field(
        default="session",
        description="over what it is judged: the session, each part of it that a user began, or each agent's run",
    )
    key: Key = Field(
        default=["session"],
        description="one state per value of: session, agent, run, tool, args.X, labels.X; all: one for everything",
    )
    agent: Text | SkipJsonSchema[None] = Field(
        default=None, description="whose rule it is: it is asked about this agent and the ones below it"
    )
    severity: SeverityWord = Field(
        default="error", description="how bad a finding is; low, medium and high are read too"
    )
    then: Literal["allow", "modify", "pause", "block", "terminate_session"] | SkipJsonSchema[None] = Field(
        default=None, description="what the inline gate does about an attempt at which the rule fires"
    )
    modify: list[ChangeForm] = Field(
        default=[],
        max_length=MAX_CHANGES,
        description="with `then: modify`: how the arguments are changed, one after the other",
    )
    reason: Annotated[str, Field(max_length=MAX_REASON)] = Field(
        default="",
        validation_alias=AliasChoices("reason", "description"),
        description="why the rule exists, for those who read the alert",
    )
    mode: Literal["enforce", "shadow"] = Field(default="enforce", description="shadow: found and counted, never sent")
    on_error: OnError | SkipJsonSchema[None] = Field(
        default=None,
        description="what the inline gate does when the rule itself fails; closed where `then` is pause, block or "
        "terminate_session, else open",
    )
    on_unevaluable: OnUnevaluable | SkipJsonSchema[None] = Field(
        default=None,
        description="what the inline gate does about an attempt that the rule cannot judge: stop it where `then` "
        "stops, which is the default, or allow it",
    )
    cooldown: Duration | SkipJsonSchema[None] = Field(
        default=None, description="after a finding, hold further ones back this long and count them"
    )
    hold: Duration | SkipJsonSchema[None] = Field(
        default=None, alias="for", description="the rule must keep firing this long before it counts"
    )
    set_labels: dict[LabelName, LabelValue] = Field(
        default={},
        max_length=MAX_LABELS,
        description="labels that a hit sets on the session: rules read them at later events, as labels.NAME",
    )
    tags: list[Text] = Field(default=[], description="words for searching and routing")
    tests: list[dict[str, Json]] = Field(default=[], description="events and the findings expected of them")


class PackForm(FormBase):
    """A policy pack that the policy takes in; its name alone is enough."""

    pack: Text = Field(description="the name of the pack, as `stream-guard packs list` shows it")
    without: list[Text] = Field(default=[], description="ids of its rules that are left out")
    shadow: list[Text] = Field(default=[], description="ids of its rules that are found and counted, never sent")
    enforce: list[Text] = Field(
        default=[], description="ids of its rules that are in force although the pack has them in shadow mode"
    )
    mode: Literal["shadow"] | SkipJsonSchema[None] = Field(
        default=None, description="shadow: all its rules are found and counted, never sent"
    )


class PolicyForm(FormBase):
    """A policy: rules that are in force together."""

    name: Text | SkipJsonSchema[None] = Field(default=None, description="what people call the policy")
    version: Literal[1, 2] = Field(
        default=1, description="version of the policy language; in 1, `scope: session` is what 2 calls `part`"
    )
    sessions: SessionsForm = Field(default=SessionsForm(), description="when a session is over")
    tool_classes: dict[str, ToolNames] = Field(
        default={}, description="names for groups of tools; a rule says @name where it takes a tool"
    )
    masked_arguments: list[Text] = Field(
        default=[], description="names of arguments, at any depth, that reviewers are not shown"
    )
    agents: dict[str, AgentForm] = Field(
        default={}, description="the agents that rules can belong to, by name or name@version"
    )
    packs: list[PackForm | Text] = Field(
        default=[], description="rules that come from policy packs, by the name of the pack"
    )
    shared: list[Text] = Field(
        default=[], description="policy files of a team whose rules hold too, and which no rule here replaces"
    )
    rules: list[Any] = Field(description="the rules; may be left out where there are packs or shared files")


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
