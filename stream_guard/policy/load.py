"""Load policy files: find the dialect, check everything, and return the policy or all problems at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from stream_guard.errors import PolicyError
from stream_guard.judge.conditions import Condition, Leaf
from stream_guard.judge.model import Action, Json, Scope, SessionEnd
from stream_guard.judge.paths import Path as EventPath
from stream_guard.judge.patterns import TOOL_CLASSES
from stream_guard.judge.rule import Params, RuleType
from stream_guard.judge.spec import ALL_KEY, Agents, OnError, Policy, PolicyAgent, RuleSpec
from stream_guard.policy.classes import check_classes
from stream_guard.policy.document import read_document
from stream_guard.policy.forms import MAX_ID, SEVERITIES, AgentForm, PolicyForm, RuleForm, RuleTestForm, spellings
from stream_guard.policy.gates import (
    always_holds,
    dead_end,
    events_handled,
    events_holding,
    events_with_key,
    never_holds,
)
from stream_guard.policy.hints import (
    advice_for_missing,
    advice_for_params,
    advice_for_policy,
    advice_for_rule,
    advice_for_test,
    keys_of,
    params_key,
    with_path_advice,
)
from stream_guard.policy.message_parts import Code, Flaw, did_you_mean, listed, printable, show
from stream_guard.policy.native import ProblemReport, to_native
from stream_guard.policy.packs import with_packs, with_shared
from stream_guard.policy.translation import flaws, problems_of
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
    specs = [_with_agents(spec, agents) if spec.agent else spec for spec in specs]
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
        **(
            {"files": files} if (files := {name: one for name, one in rule.taken_in.items() if name[:1] != "@"}) else {}
        ),
        **({"set_labels": dict(rule.set_labels)} if rule.set_labels else {}),
        **({"on_unevaluable": rule.on_unevaluable} if rule.on_unevaluable != "stop" else {}),
    }


def _with_agents(rule: RuleSpec, agents: Agents) -> RuleSpec:
    """Return a rule with the agents that it applies to, and the tools that each may try."""
    below = {name: agent.operations for name, agent in agents.items() if rule.agent in agents.lineage(name)}
    taken_in = {name: None if tools is None else sorted(tools) for name, tools in below.items()}
    return replace(rule, taken_in={**rule.taken_in, "@": taken_in})


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


@dataclass(frozen=True, slots=True)
class RuleBuilder:
    """Builds the rules of one policy, and adds their problems to the report."""

    registry: Registry
    report: ProblemReport
    context: dict[str, Any]  # passed to the validators of parameters
    slots: Mapping[int, str]  # by number, for rules that share their id with another
    checks_tests: bool = False  # the tests beside rules too: they decide nothing, so only lint asks for it
    read: dict[int, list[Path]] = field(default_factory=dict)  # the files that the parameters of a rule are made of

    def build(self, number: int, raw: Json) -> RuleSpec | None:
        """Return the rule, or None after reporting why there is none."""
        at = ("rules", number)
        if not isinstance(raw, dict):
            self.report.add(at, f"a rule is a mapping with id, kind and params, not {show(raw)}", Code.WRONG_TYPE)
            return None
        rule_id = self._rule_id(number, raw)
        written = self._without_empty(number, raw, rule_id)
        kind = self._kind(number, written, rule_id)
        form, wrong = self._form(number, written, kind, rule_id)
        if self.checks_tests:
            self._check_tests(number, form.tests, rule_id)
        if kind is None:
            return None
        params = self._params(number, written, kind, {flaw.word for flaw in wrong}, rule_id)
        if not self._can_fire(number, form, kind, rule_id) or params is None or wrong:
            return None
        if "id" not in written:
            message = f"the rule has no id and is called {show(rule_id)}; give it one, its alerts are known by it"
            self.report.add(at, message, Code.NO_ID, rule_id=rule_id, warning=True)
        return self._spec(number, form, kind, params, rule_id)

    def _without_empty(self, number: int, raw: dict[str, Json], rule_id: str) -> dict[str, Json]:
        for key, value in raw.items():
            if value is None:
                message = f"{show(key)} has no value; give it one, or leave the key out"
                self.report.add(("rules", number, key), message, Code.WRONG_TYPE, rule_id=rule_id, on_key=True)
        return {key: value for key, value in raw.items() if value is not None}

    def _rule_id(self, number: int, raw: dict[str, Json]) -> str:
        """Return the rule's id, or ``rule-NUMBER`` when it has none that can be used."""
        rule_id = raw.get("id")
        if isinstance(rule_id, str) and rule_id.strip() and rule_id.isprintable() and len(rule_id) <= MAX_ID:
            return rule_id
        return f"rule-{number}"

    def _form(
        self, number: int, written: dict[str, Json], kind: RuleType | None, rule_id: str
    ) -> tuple[RuleForm, list[Flaw]]:
        """Return the form with the valid keys of the rule, and what is wrong with the others."""
        try:
            return RuleForm.model_validate(written), []
        except ValidationError as error:
            found = problems_of(
                error, written, RuleForm, "a rule", partial(advice_for_rule, kind=kind, registry=self.registry)
            )
            found = [_with_kind_below(flaw, written) for flaw in found]
        self.report.add_flaws(("rules", number), found, rule_id)
        # The valid keys are checked further, so that all problems are reported at once.
        bad = {flaw.at[0] for flaw in found if flaw.at}
        sound = {key: value for key, value in written.items() if key not in bad}
        try:
            return RuleForm.model_validate({"kind": "", **sound}), found
        except ValidationError:
            return RuleForm(kind=""), found

    def _check_tests(self, number: int, tests: list[dict[str, Json]], rule_id: str) -> None:
        for place, test in enumerate(tests):
            try:
                RuleTestForm.model_validate(test)
            except ValidationError as error:
                found = problems_of(error, test, RuleTestForm, "a test", advice_for_test)
                self.report.add_flaws(("rules", number, "tests", place), found, rule_id)

    def _kind(self, number: int, written: dict[str, Json], rule_id: str) -> RuleType | None:
        name = written.get("kind")
        if not isinstance(name, str):
            return None  # reported with the form
        if name not in self.registry.kinds:
            known = self.registry.kinds
            advice = did_you_mean(name, known) or f"; known: {', '.join(known) or 'none, no rule pack is loaded'}"
            self.report.add(
                ("rules", number, "kind"), f"unknown kind {show(name)}{advice}", Code.UNKNOWN_KIND, rule_id=rule_id
            )
            return None
        return self.registry.kinds[name]

    def _params(
        self, number: int, written: dict[str, Json], kind: RuleType, meant: Container[str], rule_id: str
    ) -> Params | None:
        """Return the parameters; those that a misspelt key of the rule meant are not missing as well."""
        holder = params_key(written)
        raw = written.get(holder, {})
        at = ("rules", number, holder)
        if not isinstance(raw, dict):
            return None  # reported with the form
        # Parameters beside `kind` are reported with the form. They are checked all the same.
        beside = {key: written[key] for key in keys_of(kind.params_type) - keys_of(RuleForm) if key in written}
        raw = {**beside, **raw}
        try:
            params = kind.params_type.model_validate(
                raw, context=self.context | {FILE_READ: partial(self._note, number)}
            )
        except ValidationError as error:
            advise = partial(advice_for_params, kind=kind, registry=self.registry)
            for flaw in problems_of(error, raw, kind.params_type, kind.kind, advise):
                is_beside = flaw.at and flaw.at[0] in beside
                if flaw.code != Code.MISSING_KEY or flaw.at or flaw.word not in meant:
                    self.report.add_flaws(at[:2] if is_beside else at, [_with_more(flaw, written, kind)], rule_id)
            return None
        except Exception as error:  # noqa: BLE001 - a plugin's validator may raise anything; lint must go on
            self._kind_failed(at, kind, error, rule_id)
            return None
        dead = list(_dead_ends(params, raw))
        self.report.add_flaws(at, dead, rule_id)
        return None if dead else params

    def _note(self, number: int, path: Path) -> None:
        self.read.setdefault(number, []).append(path)
        self.context[FILE_READ](path)

    def _taken_in(self, number: int, form: RuleForm) -> dict[str, Json]:
        """Return the members of the policy's classes that a rule names, and digests of its files."""
        classes, found = self.context[TOOL_CLASSES], dict[str, Json]()
        conditions = [condition.source for condition in (form.when, form.unless) if condition is not None]
        waiting = [json.dumps([form.params, *conditions])]
        for text in waiting:  # grows while it is walked: members may be classes
            for name in [name for name in classes if f"@{name}" in text and f"@{name}" not in found]:
                found[f"@{name}"] = list(classes[name])
                waiting.append(json.dumps(found[f"@{name}"]))
        for path in self.read.get(number, ()):
            found[path.name] = sha256(path.read_bytes()).hexdigest()
        return found

    def _kind_failed(self, at: tuple[str | int, ...], kind: RuleType, error: Exception, rule_id: str) -> None:
        what = f"{type(error).__name__}: {show(str(error))}"
        message = f"kind {kind.kind} failed on these parameters: {what}; report it to its author"
        self.report.add(at, message, Code.KIND_FAILED, rule_id=rule_id)

    def _can_fire(self, number: int, form: RuleForm, kind: RuleType, rule_id: str) -> bool:
        """Whether the rule can fire at all; each of its keys is valid on its own."""
        found = [*_gate_flaws(form, kind), *_key_flaws(form, kind), *_hold_flaws(form, kind)]
        found += [*_change_flaws(form), *_asking_flaws(form, kind)]
        self.report.add_flaws(("rules", number), found, rule_id)
        return not found

    def _spec(self, number: int, form: RuleForm, kind: RuleType, params: Params, rule_id: str) -> RuleSpec | None:
        try:
            rule = kind(params)
        except Exception as error:  # noqa: BLE001 - see _params
            self._kind_failed(("rules", number), kind, error, rule_id)
            return None
        # A call that cannot be changed, or that the change does not mend, must not run.
        then = Action.BLOCK if form.then == "modify" else None if form.then is None else Action[form.then.upper()]
        severity = SEVERITIES[form.severity]
        return RuleSpec(
            id=rule_id,
            slot=self.slots.get(number, rule_id),
            rule=rule,
            params=form.params,
            taken_in=self._taken_in(number, form),
            severity=severity,
            severity_word=form.severity if form.severity != severity.word else "",
            when=form.when,
            unless=form.unless,
            scope=Scope(form.scope),
            key=tuple(form.key),
            agent=form.agent or "",
            then=then,
            changes=tuple(change.build() for change in form.modify),
            reason=form.reason,
            shadow=form.mode == "shadow",
            on_error=form.on_error or _on_error(then),
            on_unevaluable=form.on_unevaluable or "stop",
            cooldown=form.cooldown,
            hold=form.hold,
            set_labels=form.set_labels,
            tags=tuple(form.tags),
            tests=tuple(form.tests),
            test_places=tuple(
                self.report.place(("rules", number, "tests", place)) for place, _ in enumerate(form.tests)
            ),
            place=self.report.place(("rules", number)),
        )


def _with_more(flaw: Flaw, written: dict[str, Json], kind: RuleType) -> Flaw:
    """Say of a parameter that is missing, or given twice, that the rule has a key of the same name."""
    if flaw.code == Code.MISSING_KEY and not flaw.at:
        return flaw._replace(message=flaw.message + advice_for_missing(flaw.word, written, kind.params_type))
    if flaw.code == Code.TWICE and len(flaw.at) == 1 and flaw.at[0] in keys_of(RuleForm) - written.keys():
        own = f'the rule\'s own {show(flaw.at[0])} stands beside "kind", not under "params"'
        return flaw._replace(message=f"{flaw.message}; {own}")
    return flaw


def _with_kind_below(flaw: Flaw, written: dict[str, Json]) -> Flaw:
    params = written.get("params")
    if flaw.code != Code.MISSING_KEY or flaw.at or not isinstance(params, dict) or flaw.word not in params:
        return flaw
    return flaw._replace(message=f'{flaw.message}; it stands under "params" and belongs beside it')


def _on_error(then: Action | None) -> OnError:
    # A gate whose rule fails must not let attempts through (spec of the guard).
    return "closed" if then is not None and then is not Action.ALLOW else "open"


def _dead_ends(params: Params, raw: dict[str, Json]) -> Iterator[Flaw]:
    """Yield the paths among the parameters that no event has a value at."""
    for parameter, names in spellings(type(params)).items():
        value, name = getattr(params, parameter), next((name for name in names if name in raw), parameter)
        if isinstance(value, EventPath) and (why := dead_end(value)):
            yield Flaw((name,), with_path_advice(why, value.text), Code.DEAD_PATH)
        elif isinstance(value, Condition):
            yield from flaws(value.source, (name,))


def _gate_flaws(form: RuleForm, kind: RuleType) -> list[Flaw]:
    found: list[Flaw] = []
    for name, condition in (("when", form.when), ("unless", form.unless)):
        if condition is None:
            continue
        wrong = list(flaws(condition.source, (name,)))
        found.extend(wrong)
        if not wrong and (why := never_holds(condition)):
            found.append(Flaw((name,), f"{show(name)}: {why}", Code.NEVER_FIRES))
            return found
    if found:
        return found
    if form.unless is not None and always_holds(form.unless):
        found.append(Flaw(("unless",), '"unless" is always true, so the rule would never fire', Code.NEVER_FIRES))
    handled = events_handled(kind)
    if form.when is not None and handled and not handled & events_holding(form.when.tree):
        message = (
            f'"when" asks for what only a tool event has; {kind.kind} looks at {_words(handled)} and would never fire'
        )
        found.append(Flaw(("when",), message, Code.NEVER_FIRES))
    return found


def _key_flaws(form: RuleForm, kind: RuleType) -> list[Flaw]:
    found: list[Flaw] = []
    if form.scope != "session" and "session" not in form.key:
        message = (
            f'scope {form.scope} lies inside a session, but the key leaves "session" out; add it, or take the scope out'
        )
        found.append(Flaw(("key",), message, Code.KEY))
    handled = events_handled(kind)
    for number, part in enumerate(form.key):
        if part == ALL_KEY and len(form.key) > 1:
            message = f"{show(part)} is everything together, so it stands alone; leave it out, or the other parts"
            found.append(Flaw(("key", number), message, Code.KEY))
        elif part in form.key[:number]:
            found.append(Flaw(("key", number), f"{show(part)} is in the key twice", Code.KEY))
        elif handled and not handled & events_with_key(part):
            message = f"{kind.kind} looks at {_words(handled)}, which has no {show(part)}, and would never fire"
            found.append(Flaw(("key", number), message, Code.KEY))
    return found


def _hold_flaws(form: RuleForm, kind: RuleType) -> list[Flaw]:
    if form.hold is None or not kind.fires_once:
        return []
    message = f'{kind.kind} fires once, so it cannot keep firing for a while and would never fire; leave "for" out'
    return [Flaw(("for",), message, Code.NEVER_FIRES)]


def _asking_flaws(form: RuleForm, kind: RuleType) -> list[Flaw]:
    """A judge's answer comes after the event: what the engine would do at the event cannot wait for it."""
    names = [name for name in ("set_labels", "modify") if kind.asks and getattr(form, name)]
    message = "{} is done at the event, before a judge has answered; leave it out, or use a kind that asks nobody"
    return [Flaw((name,), message.format(show(name)), Code.NOT_ALLOWED) for name in names]


def _change_flaws(form: RuleForm) -> list[Flaw]:
    if (form.then == "modify") == bool(form.modify):
        return []
    if form.modify:
        return [
            Flaw(("modify",), '"modify" says how calls are changed; write then: modify beside it', Code.NEVER_FIRES)
        ]
    message = '"then": modify needs "modify", a list of changes such as {path: amount, cap: 100}'
    return [Flaw(("then",), message, Code.MISSING_KEY)]


def _words(events: frozenset[str]) -> str:
    return listed(sorted(events)).replace('"', "").replace("_", " ")


def check_agents(forms: Mapping[str, AgentForm], rules: Sequence[Json], report: ProblemReport) -> Agents:
    """Return the agents. Report wrong parents, rules of unknown agents, and pauses that nobody could review."""
    agents = Agents({name: _agent(form) for name, form in forms.items()})
    for name, form in forms.items():
        if form.parent is None:
            continue
        if form.parent not in forms:
            message = f"agent {show(name)}: no agent is called {show(form.parent)}{_advice(form.parent, forms)}"
            report.add(("agents", name, "parent"), message, Code.AGENT)
        elif forms[agents.lineage(name)[0]].parent in forms:
            message = f"agent {show(name)}: its parents lead back to it; one agent must be the root, without a parent"
            report.add(("agents", name, "parent"), message, Code.AGENT)
    for number, rule in enumerate(rules):
        if isinstance(rule, dict):
            _check_rule(number, rule, forms, report)
    return agents


def warn_of_unlisted(rules: Sequence[RuleSpec], agents: Agents, foreign: Container[int], report: ProblemReport) -> None:
    """Warn of tools that a rule waits for and none of its agents may try, except for ``foreign`` rules."""
    for number, spec in enumerate(rules):
        tools, listed_tools = spec.rule.tools(), agents.tools_below(spec.agent) if spec.agent else None
        if number in foreign or tools is None or tools.exact is None or listed_tools is None:
            continue
        for tool in sorted(tools.exact - listed_tools):
            message = f"no agent that this rule governs may try {show(tool)}: it is on no operations list"
            report.add(("rules", number), message, Code.NOT_LISTED, rule_id=spec.id, warning=True)


def _agent(form: AgentForm) -> PolicyAgent:
    operations = None if form.operations is None else frozenset(form.operations)
    return PolicyAgent(parent=form.parent or "", operations=operations, execution_mode=form.execution_mode)


def _check_rule(number: int, rule: dict[str, Json], forms: Mapping[str, AgentForm], report: ProblemReport) -> None:
    owner = rule.get("agent")
    if not isinstance(owner, str):
        return
    rule_id = str(rule.get("id") or f"rule-{number}")
    if owner not in forms:
        message = f"no agent is called {show(owner)}{_advice(owner, forms)}"
        report.add(("rules", number, "agent"), message, Code.AGENT, rule_id=rule_id)
    elif rule.get("then") == "pause" and forms[owner].execution_mode == "request":
        message = (
            f'"then": pause waits for a review, and agent {show(owner)} runs in request mode, where nobody gives one; '
            "use block, or execution_mode hitl or sub_agent"
        )
        report.add(("rules", number, "then"), message, Code.AGENT, rule_id=rule_id)


def _advice(name: str, forms: Mapping[str, AgentForm]) -> str:
    known = f"; declared under agents: {listed(forms)}" if forms else "; declare it under agents"
    return did_you_mean(name, forms) or known


Setters: TypeAlias = Mapping[str, list[RuleSpec]]
"""The rules that set a label, by its name."""

_EVENT: Final = SessionEnd(session_id="")


def check_labels(rules: Mapping[int, RuleSpec], report: ProblemReport) -> None:
    """Report labels that cannot be set or used as a key, and rules that wait for labels that nobody sets first."""
    setters: dict[str, list[RuleSpec]] = {}
    for spec in rules.values():
        for name in spec.set_labels:
            setters.setdefault(name, []).append(spec)
    if not setters:
        return
    values = _reachable(list(rules.values()), setters)
    for number, spec in rules.items():
        if spec.set_labels and "session" not in spec.key:
            message = (
                'labels are set on a session, and the key leaves "session" out; add it, or let another rule set them'
            )
            report.add(("rules", number, "set_labels"), message, Code.KEY, rule_id=spec.id)
        for place, part in enumerate(spec.key):
            if part.removeprefix("labels.") in setters and part.startswith("labels."):
                message = f"{show(part)} is set by rules, and most events are without it; ask for it in `when` instead"
                report.add(("rules", number, "key", place), message, Code.KEY, rule_id=spec.id)
        if not _can_open(spec.when, values, setters):
            message = _explain(spec, values, setters)
            report.add(("rules", number, "when"), message, Code.NEVER_FIRES, rule_id=spec.id)


def _reachable(rules: Sequence[RuleSpec], setters: Setters) -> dict[str, set[str]]:
    """Return the values that each label can get, from rules whose own gates can open."""
    values: dict[str, set[str]] = {name: set() for name in setters}
    waiting = [spec for spec in rules if spec.set_labels]
    while ready := [spec for spec in waiting if _can_open(spec.when, values, setters)]:
        waiting = [spec for spec in waiting if spec not in ready]
        for spec in ready:
            for name, value in spec.set_labels.items():
                values[name].add(value)
    return values


def _can_open(condition: Condition | None, values: Mapping[str, Set[str]], setters: Setters) -> bool:
    def is_open(leaf: Leaf) -> bool:
        return _label(leaf, setters) == "" or len(_answers(leaf, values)) > 1

    return condition is None or condition.judge(_EVENT, frozenset(), is_open) is not False


def _answers(leaf: Leaf, values: Mapping[str, Set[str]]) -> set[bool]:
    """Return what a leaf about a label can be: without the label, and with each value that it can get."""
    name = leaf.path.steps[0]
    events = [_EVENT, *(SessionEnd(session_id="", labels={name: value}) for value in values[name])]
    return {leaf.test(event, frozenset()) for event in events}


def _label(leaf: Leaf, setters: Setters) -> str:
    """Return the label that a leaf is about, if rules set it."""
    root, _, name = leaf.path.text.partition(".")
    return name if root == "labels" and name in setters else ""


def _explain(spec: RuleSpec, values: Mapping[str, Set[str]], setters: Setters) -> str:
    names = dict.fromkeys(name for leaf in spec.when.leaves if (name := _label(leaf, setters))) if spec.when else {}
    reasons = []
    for name in names:
        others = listed(setter.id for setter in setters[name])
        known = f"to {listed(sorted(values[name]))}" if values[name] else "only after it has been set"
        reasons.append(f"labels.{name} is set by {others}, {known}")
    return f'"when" is never true: {"; ".join(reasons)}'
