"""Load policy files: find the dialect, check everything, and return the policy or all problems at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from stream_guard.errors import PolicyError
from stream_guard.judge.model import Json
from stream_guard.judge.patterns import TOOL_CLASSES
from stream_guard.judge.spec import Agents, Policy, PolicyAgent, RuleSpec
from stream_guard.policy.build import RuleBuilder
from stream_guard.policy.checks import check_agents, check_labels, warn_of_unlisted
from stream_guard.policy.classes import check_classes
from stream_guard.policy.document import read_document
from stream_guard.policy.forms import AgentForm, PolicyForm
from stream_guard.policy.hints import advice_for_policy
from stream_guard.policy.message_parts import Code, Flaw, printable, show
from stream_guard.policy.native import ProblemReport, to_native
from stream_guard.policy.packs import with_packs, with_shared
from stream_guard.policy.translation import problems_of
from stream_guard.registry import Registry
from stream_guard.similarity import SIMILARITIES

POLICY_FOLDER: Final = "policy_folder"  # the key under which validators find the folder of the policy file
FILE_READ: Final = "file_read"  # the key under which they find what they call with each file, before they read it
_VERSION_LENGTH: Final = 16  # digits of a policy's version
SUFFIXES: Final = (".yaml", ".yml", ".json")


def load_policy(
    source: Path | str | bytes,
    registry: Registry,
    *,
    file: str = "",
    folder: Path | None = None,
    check_tests: bool = False,
    file_read: Callable[[Path], None] = lambda _path: None,
) -> Policy:
    """Return the policy of a file (a ``Path``) or of a text (``str`` or ``bytes``), YAML or JSON, in any dialect.

    ``file`` is the name that problems give. ``folder`` is where files that rules name are looked for, by default
    the folder of the policy file. ``check_tests`` asks for the form of the tests beside rules too. ``file_read`` is
    called with every other file that the policy is made of, before it is read. Raises PolicyError with all problems in
    file order; warnings are in the policy.
    """
    document = read_document(source, file)
    if folder is None and isinstance(source, Path):
        folder = source.parent
    native = with_shared(to_native(document, registry), document, registry, folder, file_read)
    native = with_packs(native, document, registry, file_read)
    report = ProblemReport(document, [*document.problems, *native.problems], native)
    form, rules = _read_form(native.form, report)
    if form is None:
        raise PolicyError(report.in_order())
    classes = check_classes(form.tool_classes, report)
    context: dict[str, Any] = {
        TOOL_CLASSES: classes,
        POLICY_FOLDER: None if folder is None else str(folder),
        FILE_READ: file_read,
        SIMILARITIES: registry.similarities,
    }
    builder = RuleBuilder(registry, report, context, native.slots, check_tests)
    built = {number: spec for number, raw in enumerate(rules) if (spec := builder.build(number, raw)) is not None}
    specs = list(built.values())
    if len(built) == len(rules):  # otherwise labels may seem to lack rules that are only misspelt
        check_labels(built, report)
    _check_ids(rules, native.slots, report)
    agents = check_agents(form.agents, rules, report)
    if report.failed:
        raise PolicyError(report.in_order())
    warn_of_unlisted(specs, agents, native.origins, report)
    return _policy(form, specs, agents, report, file=document.file)


def with_version(policy: Policy) -> Policy:
    """Return the policy with the version that its rules and settings give it.

    So it does not depend on the name, the comments or the order of keys of the file.
    """
    content: dict[str, Json] = {
        "rules": [_rule_content(rule) for rule in policy.rules],
        "idle": policy.idle,
        "max_out_of_orderness": policy.max_out_of_orderness,
        "tool_classes": {name: list(members) for name, members in policy.tool_classes.items()},
    }
    if policy.agents:
        content["agents"] = {name: _agent_content(agent) for name, agent in policy.agents.items()}
    if policy.masked_arguments:
        content["masked_arguments"] = sorted(policy.masked_arguments)
    text = json.dumps(_plain(content), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return replace(policy, version=sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_VERSION_LENGTH])


def with_lateness(policy: Policy, seconds: float) -> Policy:
    """Return the policy with this lateness where its file gives none: events of some formats never come in order."""
    if policy.states_lateness or seconds == policy.max_out_of_orderness:
        return policy
    return with_version(replace(policy, max_out_of_orderness=seconds))


def _read_form(native: Json, report: ProblemReport) -> tuple[PolicyForm | None, list[Json]]:
    """Check all but the rules. Return the form with its valid keys, and the rules as written."""
    if not isinstance(native, dict):
        looks_like_a_name = isinstance(native, str) and native.endswith(SUFFIXES)
        advice = "; this is a text, pass a Path to read a file" if looks_like_a_name else ""
        message = f"a policy is a mapping with `rules:`, not {show(native)}{advice}"
        report.add((), message, Code.NOT_A_POLICY)
        return None, []
    for key in [key for key, value in native.items() if value is None]:
        report.add((key,), f"{show(key)} has no value; give it one, or leave the key out", Code.WRONG_TYPE, on_key=True)
    written = {key: value for key, value in native.items() if value is not None}
    rules = written.get("rules")
    listed_rules = rules if isinstance(rules, list) else []
    try:
        form = PolicyForm.model_validate(written)
    except ValidationError as error:
        if "rules" not in native or "rules" in written:
            found = problems_of(error, written, PolicyForm, "a policy", advice_for_policy)
            report.add_flaws((), [_with_list_advice(flaw, rules) for flaw in found])
        # The rules are checked anyway, so that all problems are reported at once.
        form = PolicyForm(rules=listed_rules, tool_classes=_readable_classes(written), agents=_readable_agents(written))
    if rules == []:
        report.add(("rules",), "the policy has no rules, so it finds nothing", Code.NO_RULES, warning=True)
    return form, listed_rules


def _with_list_advice(flaw: Flaw, rules: Json) -> Flaw:
    """Show how rules are listed to those who wrote a mapping of them."""
    if flaw.at != ("rules",) or not isinstance(rules, dict) or not rules:
        return flaw
    name = next(iter(rules))
    return flaw._replace(message=f"{flaw.message}; list them: - {{id: {printable(name, 60)}, kind: ..., params: ...}}")


def _readable_classes(written: dict[str, Json]) -> dict[str, list[str]]:
    """Return the readable tool classes of a broken form, so that rules that use them are not reported."""
    classes = written.get("tool_classes")
    if not isinstance(classes, dict):
        return {}
    texts = {name: [members] if isinstance(members, str) else members for name, members in classes.items()}
    return {
        name: [member for member in members if isinstance(member, str) and member] or ["*"]
        for name, members in texts.items()
        if isinstance(members, list)
    }


def _readable_agents(written: dict[str, Json]) -> dict[str, AgentForm]:
    """Return the readable agents of a broken form, so that rules that belong to them are not reported."""
    agents = written.get("agents")
    readable: dict[str, AgentForm] = {}
    for name, raw in agents.items() if isinstance(agents, dict) else ():
        try:
            readable[name] = AgentForm.model_validate(raw)
        except ValidationError:
            readable[name] = AgentForm()
    return readable


def _check_ids(rules: list[Json], slots: Mapping[int, str], report: ProblemReport) -> None:
    """Report rules that share an id, and so states and alerts. A dialect that allows it gives them slots."""
    first: dict[str, int] = {}
    for number, rule in enumerate(rules):
        if not isinstance(rule, dict):
            continue
        rule_id = rule.get("id") or f"rule-{number}"
        slot: Json = slots.get(number, rule_id)
        if not isinstance(slot, str):
            continue
        if slot in first:
            line = report.place(("rules", first[slot], "id")).line
            message = f"id {show(rule_id)} is taken by the rule in line {line}; ids are unique in a policy"
            report.add(("rules", number, "id"), message, Code.DUPLICATE_ID)
        first.setdefault(slot, number)


def _policy(form: PolicyForm, specs: list[RuleSpec], agents: Agents, report: ProblemReport, *, file: str) -> Policy:
    policy = Policy(
        rules=tuple(specs),
        version="",
        name=form.name or "",
        idle=form.sessions.idle,
        max_out_of_orderness=form.sessions.max_out_of_orderness,
        states_lateness="max_out_of_orderness" in form.sessions.model_fields_set,
        tool_classes=form.tool_classes,
        agents=agents,
        masked_arguments=tuple(form.masked_arguments),
        warnings=tuple(report.in_order()),
        file=file,
    )
    return with_version(policy)


def _rule_content(rule: RuleSpec) -> dict[str, Json]:
    return {
        "slot": rule.slot,
        "kind": rule.kind,
        "params": _params(rule),
        "when": rule.when.source if rule.when is not None else None,
        "unless": rule.unless.source if rule.unless is not None else None,
        "scope": rule.scope.stored_word,
        "key": list(rule.key),
        "severity": rule.severity.word,
        "then": rule.then_word,
        "reason": rule.reason,
        "shadow": rule.shadow,
        "on_error": rule.on_error,
        "cooldown": rule.cooldown,
        "for": rule.hold,
        "tags": list(rule.tags),
        **({"modify": [change.source for change in rule.changes]} if rule.changes else {}),
        **({"agent": rule.agent} if rule.agent else {}),
        **({"set_labels": dict(rule.set_labels)} if rule.set_labels else {}),
        **({"on_unevaluable": rule.on_unevaluable} if rule.on_unevaluable != "stop" else {}),
    }


def _agent_content(agent: PolicyAgent) -> dict[str, Json]:
    operations = None if agent.operations is None else sorted(agent.operations)
    return {"parent": agent.parent, "operations": operations, "execution_mode": agent.execution_mode}


def _params(rule: RuleSpec) -> Json:
    """Return the checked parameters: another spelling, or a default written out, makes no difference."""
    try:
        return rule.rule.params.model_dump(mode="json")
    except Exception:  # noqa: BLE001 - a plugin's type may not support this; then take what was written
        return dict(rule.params)


def _plain(value: Json) -> Json:
    """Return the value with 5.0 as 5: JSON has one sort of number."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
