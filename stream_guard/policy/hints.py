"""Where a key belongs that stands in the wrong place, and what this language has for words of other systems."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from pydantic import BaseModel

from stream_guard.judge.conditions import GROUPS, LEAF_KEYS, OPERATORS
from stream_guard.judge.model import Json
from stream_guard.judge.paths import ROOTS, Path
from stream_guard.judge.rule import RuleType
from stream_guard.policy.forms import (
    AgentForm,
    PolicyForm,
    RuleForm,
    RuleTestForm,
    SessionsForm,
    describe,
    names_at,
    spellings,
)
from stream_guard.policy.gates import RESULT_FIELDS, dead_end, fields_beside
from stream_guard.policy.message_parts import Steps, did_you_mean, listed, nearest, printable, show
from stream_guard.registry import Registry


class Advice(NamedTuple):
    """What to write instead of a key."""

    text: str
    word: str = ""  # the key that was meant; its absence is then no problem of its own


def _table(**words: str) -> dict[str, str]:
    """Turn ``right="wrong wrong"`` into a table from the wrong words to the right one."""
    return {wrong: right for right, wrongs in words.items() for wrong in wrongs.split()}


_RULE_KEYS: Final = _table(
    id="name title rule_id ruleid",
    kind="type rule check rule_type check_type assertion assert",
    params="parameters param args arguments config options with spec settings",
    when="if condition conditions match filter where only_if applies_to given",
    unless="except exceptions exclude excluding if_not ignore allow_if",
    severity="level priority criticality",
    then="action actions effect decision on_violation on_fail on_match enforcement do response verdict outcome",
    reason="message msg why explanation text_of_alert note comment rationale",
    mode="enforcement_mode status dry_run shadow",
    key="group_by by partition_by per keyed_by",
    cooldown="throttle debounce silence mute repeat_interval rate_limit",
    tags="labels categories category tag",
    set_labels="sets set_label sets_labels add_labels derived_labels then_label",
    tests="test examples cases test_cases",
    on_error="fail_mode on_failure fail_open fail_closed failure_policy",
) | {"duration": "for", "hold": "for", "pending": "for"}
_POLICY_KEYS: Final = _table(
    rules="rule policies policy checks invariants assertions guards",
    tool_classes="classes tools tool_groups groups toolsets",
    sessions="session",
    name="title id policy_name",
    agents="agent",
    masked_arguments="mask masked redact secrets hidden_arguments",
)
_TEST_KEYS: Final = _table(
    claim="name title description says note id",
    trace="events steps input given session messages",
    hits="expect expected expects findings alerts violations fires fires_at expected_findings output",
)
_CONDITION_KEYS: Final = _table(
    path="field key attribute attr property name selector jsonpath left",
    op="operator cmp comparison comparator operation",
    value="values val expected right than to",
    all_of="all and all_off every",
    any_of="any or one_of some",
) | {"none_of": "not", "neither": "not", "unless": "not"}
_OPERATORS: Final = _table(
    **{
        "==": "= eq equals equal is equal_to same",
        "!=": "ne <> neq not_equal not_equals is_not",
        ">": "gt greater greater_than above over more_than",
        ">=": "gte ge => at_least min",
        "<": "lt less less_than below under",
        "<=": "lte le =< at_most max",
        "matches": "=~ ~ regex regexp match pattern like",
        "not_in": "nin none_of",
        "in": "one_of any_of is_in",
        "contains": "includes has include contain",
        "not_contains": "excludes not_includes lacks",
        "exists": "present is_set defined has_value exist",
    }
) | {"not in": "not_in", "greater than": ">", "less than": "<", "starts_with": "matches", "ends_with": "matches"}
_VALUES: Final[Mapping[str, Mapping[str, str]]] = {
    "then": _table(
        block="deny denied reject refuse forbid stop prevent disallow drop fail error prohibit",
        pause="ask review approve approval require_approval escalate hold confirm human hitl wait interrupt",
        terminate_session="terminate kill abort end end_session halt shutdown quarantine",
        allow="permit pass accept log warn alert notify monitor audit ok",
    ),
    "mode": _table(
        shadow="audit monitor dry_run dryrun dry-run log observe warn passive test report detect disabled off true",
        enforce="active on enforced enforcing live block enabled prevent false",
    ),
    "severity": _table(
        critical="fatal blocker emergency severe urgent p0 p1",
        error="major err serious p2",
        warning="warn minor moderate p3",
        info="informational notice debug trivial none note p4",
    ),
    "scope": _table(
        session="recording conversation file",
        part="task user_turn request",
        run="agent agent_run subagent",
    ),
    "on_error": _table(open="allow fail_open ignore pass continue", closed="deny block fail_closed stop"),
    "if_first_absent": _table(ignore="skip pass allow"),
}


def known_value(key: str, value: Json) -> str:
    """Return the word that this language has for a value of a key, or nothing."""
    word = str(value).lower() if isinstance(value, str | bool) else ""
    return _VALUES.get(key, {}).get(word, "")


def value_advice(key: str, value: Json) -> str:
    """Return ``; write then: block`` for a value that another system has, or nothing."""
    known = known_value(key, value)
    return f"; write {key}: {known}" if known else ""


def rule_key(word: str, value: Json) -> Advice | None:
    """Return what to write for a key of a rule that other systems have."""
    if word.lower() in {"enabled", "active", "disabled", "enable"}:
        return Advice("every rule of a policy is in force; take it out, or write mode: shadow to have it watch only")
    return _renamed(word, value, _RULE_KEYS)


def _renamed(word: str, value: Json, table: Mapping[str, str]) -> Advice | None:
    meant = table.get(_folded(word))
    if meant is None:
        return None
    right = isinstance(value, str) and value in _VALUES.get(meant, {}).values()
    known = known_value(meant, value) or (value if right else "")
    return Advice(f"write {meant}: {known}" if known else f"write {show(meant)}", meant)


def _folded(word: str) -> str:
    """Return the word as the tables have it: ``onViolation`` is ``on_violation``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word[:100]).lower().replace("-", "_").replace(" ", "_")


def operator_meant(word: str) -> str:
    """Return the operator that another spelling means, or nothing."""
    return _OPERATORS.get(word.lower(), "") or _OPERATORS.get(_folded(word), "")


def advice_for_condition(word: str, value: Json) -> Advice | None:
    """Return what to write for an unknown key of a condition: a path, an operator, or another system's key."""
    if word in keys_of(RuleForm) - {"key"}:
        return Advice('it belongs to the rule, beside "kind"')
    shown = show(value)
    op = word if word in OPERATORS else operator_meant(word)
    meant = _CONDITION_KEYS.get(_folded(word))
    if meant is not None and (not op or isinstance(value, list) == (meant in ("all_of", "any_of", "not"))):
        return Advice(f"write {show(meant)}", meant)
    if op:
        return Advice(f"write op: {show(op)}, value: {shown}")
    path = word if _resolves(word) else path_meant(word)
    if path in ("tool", "user"):
        path = f"{path}.name" if path == "tool" else "user.text"
    return Advice(f'write path: {path}, op: "==", value: {shown}') if path else None


_COMPARISON: Final = re.compile(r"\s*([\w$./\[\]'\"-]+)\s*(==|!=|<>|=~|>=|<=|=>|=<|>|<|=|\s[a-z_]+\s)\s*(\S.*?)\s*")


def text_advice(source: Json) -> str:
    """Return a condition written as a text, ``amount > 5``, in the form that it must have; or nothing."""
    compared = _COMPARISON.fullmatch(source[:200]) if isinstance(source, str) else None
    if compared is None:
        return ""
    written, op, value = (part.strip() for part in compared.groups())
    op = op if op in OPERATORS else operator_meant(op)
    path = written if _resolves(written) else path_meant(written)
    return f"; write {{path: {path}, op: {show(op)}, value: {printable(value)}}}" if op and path else ""


_ARGUMENTS: Final = frozenset(
    ("args", "arguments", "input", "inputs", "tool_input", "tool_args", "toolinput", "parameters", "params", "kwargs")
) | {"arg", "argument", "tool_arguments", "tool_parameters", "tool_params"}
_CALLS: Final = frozenset(("tool", "function", "tool_call", "call", "toolcall", "tools", "tool_use"))
_RESULTS: Final = frozenset(("result", "results", "output", "outputs", "tool_result", "tool_output", "tool_response"))
_WHOLE: Final = {
    **dict.fromkeys(("tool_name", "toolname", "function", "name", "tool_id", "operation"), "tool.name"),
    **dict.fromkeys(("text", "message", "prompt", "user_message", "query", "user_input", "user_text"), "user.text"),
    **dict.fromkeys(("user.message", "user.content", "user.input", "user.prompt", "user.query"), "user.text"),
    **dict.fromkeys(("session_id", "conversation_id", "thread_id", "sessionid", "trace_id"), "session.id"),
    **dict.fromkeys(("turn", "index", "turn_index", "session.index", "session.turns"), "session.turn"),
    **dict.fromkeys(("agent_id", "agent_name", "agent.name", "agent.id", "agentid"), "agent"),
    **dict.fromkeys(("run", "run.id", "runid"), "run_id"),
    **dict.fromkeys(("status", "tool.status", "result.status", "success"), "tool.result.status"),
    **dict.fromkeys(("latency_ms", "latency", "duration_ms"), "tool.result.latency_ms"),
    **dict.fromkeys(("finish_reason", "response.finish_reason", "stopreason"), "stop_reason"),
    **dict.fromkeys(("response.message", "response.output", "response.output_text", "response.body"), "response.text"),
    **dict.fromkeys(("response.message.content", "response.answer", "response.reply"), "response.text"),
    **dict.fromkeys(("response.tool_calls", "response.tools", "response.tool", "response.tool_name"), "tool.name"),
    **dict.fromkeys(("response.usage.prompt_tokens", "response.prompt_tokens"), "response.usage.input_tokens"),
    **dict.fromkeys(("response.usage.completion_tokens", "response.tokens"), "response.usage.output_tokens"),
    **dict.fromkeys(("response.cost", "response.cost_usd", "response.usage.cost"), "response.usage.cost_usd"),
    **dict.fromkeys(("response.latency", "response.duration_ms"), "response.latency_ms"),
}
_OTHER_ROOTS: Final = {
    **dict.fromkeys(("label", "metadata", "meta", "tags", "tag", "attributes", "attrs"), "labels"),
    **dict.fromkeys(("completion", "assistant", "reply", "answer", "generation"), "response"),
    "usage": "response.usage",
    "content": "response.content",
    "messages": "request.messages",
}


def with_path_advice(why: str, path: str) -> str:
    """Return why a path never resolves, with what to write instead, unless it says so already."""
    return why if "; write" in why else why + path_advice(path)


def path_advice(text: str) -> str:
    """Return ``; write "tool.args.command"`` for a path that can never resolve, or the nearest thing to say."""
    if meant := path_meant(text):
        return f"; write {show(meant)}"
    if beside := fields_beside(text):
        return did_you_mean(text, beside)
    root = text.partition(".")[0]
    if text.isidentifier() and not did_you_mean(root, ROOTS):
        return f"; for an argument write {show(f'tool.args.{text}')}, for a label {show(f'labels.{text}')}"
    return did_you_mean(root, ROOTS)


def path_meant(text: str) -> str:
    """Return the path that another spelling means, or nothing."""
    plain = _dotted(text)
    found = plain if plain != text and _resolves(plain) else _translated(plain)
    return found if found and found != text and _resolves(found) else ""


def _dotted(text: str) -> str:
    """Return JSONPath, JSON pointers and brackets as a dotted path."""
    plain = text.strip().removeprefix("$").removeprefix(".")
    if plain.startswith("/"):
        plain = plain[1:].replace("/", ".")
    return re.sub(r"\[\s*['\"]?([^\]'\"]+)['\"]?\s*\]", r".\1", plain).strip(".")


def _translated(text: str) -> str:
    lowered = text.lower()
    if lowered in _WHOLE:
        return _WHOLE[lowered]
    root, *steps = text.split(".")
    root = root.lower()
    if root in _CALLS and steps:
        return _in_a_call(root, steps)
    if root in _ARGUMENTS:
        return ".".join(("tool.args", *steps))
    if root in _RESULTS:
        return _in_a_result(root, steps)
    if root in _OTHER_ROOTS:
        return ".".join((_OTHER_ROOTS[root], *steps))
    return ""


def _in_a_call(root: str, steps: list[str]) -> str:
    first, *rest = steps
    if first.lower() in _ARGUMENTS:
        return ".".join(("tool.args", *rest))
    if first.lower() in _RESULTS:
        return _in_a_result(first.lower(), rest)
    if first.lower() in ("name", "id", "tool"):
        return "tool.name"
    if first in RESULT_FIELDS:
        return f"tool.result.{first}"
    return ".".join(("tool.args", *steps)) if root == "tool" else ""


def _in_a_result(word: str, steps: list[str]) -> str:
    if word not in ("output", "outputs", "tool_output") and (not steps or steps[0] in RESULT_FIELDS):
        return ".".join(("tool.result", *steps))
    return ".".join(("tool.result.output", *steps))


def _resolves(text: str) -> bool:
    try:
        return not dead_end(Path(text))
    except ValueError:
        return False


_MOST_DEPTH: Final = 4  # of mappings inside parameters
_KINDS_NAMED: Final = 3


@lru_cache(maxsize=256)
def keys_of(model: type[BaseModel]) -> frozenset[str]:
    """Return every key that a mapping of this form may have."""
    return frozenset(name for names in spellings(model).values() for name in names)


def advice_for_policy(key: str, value: Json, container: Steps) -> Advice | None:
    """Return where an unknown key of a policy, outside its rules, belongs."""
    if container and key in keys_of(PolicyForm):
        return Advice('it belongs at the top of the policy, beside "rules"')
    if key in keys_of(RuleForm):
        return Advice('it belongs to a rule, under "rules"')
    return (_renamed(key, value, _POLICY_KEYS) if not container else None) or _elsewhere(key)


def advice_for_rule(
    key: str, value: Json, container: Steps, kind: RuleType | None, registry: Registry
) -> Advice | None:
    """Return where an unknown key of a rule belongs; of what is inside its own values, nothing."""
    if container:
        return None
    if kind is not None and key in keys_of(kind.params_type):
        return Advice('it is a parameter and belongs under "params"')
    if key in registry.kinds:
        return Advice(f'it is a kind: write kind: {key}, and what is below it under "params"', "kind")
    if (found := rule_key(key, value)) is not None:
        return found
    if kind is not None and (inner := _inside_params(key, kind)):
        return Advice(f'it belongs under "params", in {show(inner)}')
    misspelt = None if kind is None else _misspelt_parameter(key, kind)
    others = None if kind is None or nearest(key, keys_in_order(RuleForm)) else _of_other_kinds(key, kind, registry)
    return misspelt or _elsewhere(key) or others


def _misspelt_parameter(key: str, kind: RuleType) -> Advice | None:
    near = "" if nearest(key, keys_in_order(RuleForm)) else nearest(key, sorted(keys_of(kind.params_type)))
    return Advice(f'did you mean the parameter {show(near)}? it belongs under "params"', near) if near else None


def advice_for_missing(word: str, written: Mapping[str, Json], model: type[BaseModel]) -> str:
    """Return what to say of a missing parameter whose name stands beside ``kind``, where it means something else."""
    names = next((names for names in spellings(model).values() if word in names), (word,))
    taken = next((name for name in names if name in written and name in keys_of(RuleForm)), "")
    return f'; the {show(taken)} beside "kind" is the rule\'s own, the parameter goes under "params"' if taken else ""


def params_key(written: Mapping[str, Json]) -> str:
    """Return the key under which a rule has its parameters: ``params``, or the word of another system for it."""
    if "params" not in written:
        for key, value in written.items():
            if key not in keys_of(RuleForm) and isinstance(value, dict):
                meant = rule_key(key, value)
                if meant is not None and meant.word == "params":
                    return key
    return "params"


def advice_for_test(key: str, value: Json, _container: Steps) -> Advice | None:
    """Return where an unknown key of a test belongs, or what to write for it."""
    meant = _renamed(key, value, _TEST_KEYS)
    if meant is None and key in keys_of(RuleForm) - {"id"}:
        return Advice('it belongs to the rule, beside "kind"')
    return meant


def advice_for_params(key: str, value: Json, container: Steps, kind: RuleType, registry: Registry) -> Advice | None:
    """Return where an unknown key among the parameters belongs."""
    if container and key in keys_of(kind.params_type):
        return Advice('it belongs one level up, directly under "params"')
    if not container and (inner := _inside_params(key, kind)):
        return Advice(f"it belongs in {show(inner)}")
    if key in keys_of(RuleForm):
        return Advice('it belongs to the rule, beside "kind", not under "params"')
    if container and nearest(key, names_at(kind.params_type, container)):
        return None  # misspelt, and said so
    found = _elsewhere(key) or (_of_other_kinds(key, kind, registry) if not container else None)
    return found or _foreign_among_params(key, value, kind)


def _foreign_among_params(key: str, value: Json, kind: RuleType) -> Advice | None:
    """Return what to write, beside ``kind``, for a rule's key that is misspelt or a word of another system."""
    if nearest(key, keys_in_order(kind.params_type)):
        return None  # a misspelt parameter is likelier
    foreign = rule_key(key, value)
    if foreign is not None and foreign.word not in {"", "id", "kind", "params", "when", "key"}:
        return Advice(f'{foreign.text}, beside "kind"')
    near = nearest(key, keys_in_order(RuleForm))
    return Advice(f'did you mean {show(near)}? it belongs beside "kind"') if near else None


def _elsewhere(key: str) -> Advice | None:
    """Return the place of a key that is known at another level, whatever the kind."""
    places: dict[str, frozenset[str]] = {
        'at the top of the policy, beside "rules"': keys_of(PolicyForm),
        'under "sessions", at the top of the policy': keys_of(SessionsForm),
        'to an agent, under "agents"': keys_of(AgentForm) - keys_of(RuleForm),
        'to a test, under "tests"': keys_of(RuleTestForm),
        'to a condition, under "when" or "unless"': frozenset((*LEAF_KEYS, *GROUPS)),
    }
    return next((Advice(f"it belongs {place}") for place, known in places.items() if key in known), None)


def _inside_params(key: str, kind: RuleType) -> str:
    """Return the parameter inside which the kind takes the key, or nothing."""
    return next((path for path, names in _nested(kind.params_type) if key in names), "")


@lru_cache(maxsize=256)
def _nested(model: type[BaseModel]) -> tuple[tuple[str, frozenset[str]], ...]:
    return tuple(_walk(model, ()))


def _walk(model: type[BaseModel], container: tuple[str, ...]) -> Iterator[tuple[str, frozenset[str]]]:
    if len(container) > _MOST_DEPTH:
        return
    for name in names_at(model, container) if container else describe(model).get("properties", ()):
        below = (*container, name)
        if known := names_at(model, below):
            yield ".".join(below), frozenset(known)
            yield from _walk(model, below)


def _of_other_kinds(key: str, kind: RuleType, registry: Registry) -> Advice | None:
    """Say which kinds have a parameter that this one does not."""
    others = [name for name, other in registry.kinds.items() if key in keys_of(other.params_type)]
    if not others:
        return None
    more = f" and {len(others) - _KINDS_NAMED} more kinds have it" if len(others) > _KINDS_NAMED else ""
    shown = ", ".join(others[:_KINDS_NAMED]) if more else listed(others).replace('"', "")
    has = more or (" have it" if len(others) > 1 else " has it")
    takes = listed(keys_in_order(kind.params_type))
    return Advice(f"{kind.kind} takes {takes or 'no parameters'}; {shown}{has}")


def keys_in_order(model: type[BaseModel]) -> list[str]:
    """Return the keys to recommend, in the order of the form."""
    return [names[0] for names in spellings(model).values()]
