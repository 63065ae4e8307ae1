"""Build a RuleSpec from one rule as written, or report everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import ValidationError

from stream_guard.judge.conditions import Condition
from stream_guard.judge.model import Action, Json, Scope
from stream_guard.judge.paths import Path
from stream_guard.judge.rule import Params, RuleType
from stream_guard.judge.spec import ALL_KEY, OnError, RuleSpec
from stream_guard.policy.forms import MAX_ID, SEVERITIES, RuleForm, RuleTestForm, spellings
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
    advice_for_rule,
    advice_for_test,
    keys_of,
    params_key,
    with_path_advice,
)
from stream_guard.policy.message_parts import Code, Flaw, did_you_mean, listed, show
from stream_guard.policy.native import ProblemReport
from stream_guard.policy.translation import flaws, problems_of
from stream_guard.registry import Registry


@dataclass(frozen=True, slots=True)
class RuleBuilder:
    """Builds the rules of one policy, and adds their problems to the report."""

    registry: Registry
    report: ProblemReport
    context: dict[str, Any]  # passed to the validators of parameters
    slots: Mapping[int, str]  # by number, for rules that share their id with another
    checks_tests: bool = False  # the tests beside rules too: they decide nothing, so only lint asks for it

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
            params = kind.params_type.model_validate(raw, context=self.context)
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
    for field, names in spellings(type(params)).items():
        value, name = getattr(params, field), next((name for name in names if name in raw), field)
        if isinstance(value, Path) and (why := dead_end(value)):
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
