"""Load policy files: find the dialect, check everything, and return the policy or all problems at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from stream_guard.errors import PolicyError
from stream_guard.judge.model import Json
from stream_guard.judge.patterns import TOOL_CLASSES
from stream_guard.judge.spec import Agents, Policy, RuleSpec, version_of
from stream_guard.policy.build import RuleBuilder
from stream_guard.policy.checks import check_agents, check_classes, check_labels, warn_of_unlisted
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


def with_lateness(policy: Policy, seconds: float) -> Policy:
    """Return the policy with this lateness where its file gives none: events of some formats never come in order."""
    if policy.states_lateness or seconds == policy.max_out_of_orderness:
        return policy
    version = version_of(
        policy.rules, policy.idle, seconds, policy.tool_classes, policy.agents, policy.masked_arguments
    )
    return replace(policy, version=version, max_out_of_orderness=seconds)


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
    idle, late = form.sessions.idle, form.sessions.max_out_of_orderness
    return Policy(
        rules=tuple(specs),
        version=version_of(specs, idle, late, form.tool_classes, agents, form.masked_arguments),
        name=form.name or "",
        idle=idle,
        max_out_of_orderness=late,
        states_lateness="max_out_of_orderness" in form.sessions.model_fields_set,
        tool_classes=form.tool_classes,
        agents=agents,
        masked_arguments=tuple(form.masked_arguments),
        warnings=tuple(report.in_order()),
        file=file,
    )
