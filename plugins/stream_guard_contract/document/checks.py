"""Checks of invariants and scenarios that go beyond the types of their fields."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from stream_guard import Json, Registry
from stream_guard.documents import Code, ProblemReport, Steps, did_you_mean, listed, problems_of, show
from stream_guard_contract.document.invariant_types import TYPE_FIELDS, TYPES
from stream_guard_contract.document.patterns import has_doubled_backslashes, python_pattern
from stream_guard_contract.document.sections import Invariant, Scenario


def check_invariant(
    raw: Json, invariant: Invariant | None, at: Steps, report: ProblemReport, registry: Registry
) -> None:
    """Report what is wrong with an invariant; ``invariant`` is None where its fields were refused already."""
    name = raw.get("type") if isinstance(raw, dict) else None
    if not isinstance(name, str):
        return  # reported with the fields
    if name not in TYPES and name not in registry.kinds:
        known = (*TYPES, *registry.kinds)
        near = did_you_mean(name, known) or f"; it takes {listed(TYPES, 'or')}, or the name of a rule kind"
        report.add((*at, "type"), f"unknown type {show(name)}{near}", Code.UNKNOWN_KIND)
    elif invariant is not None and name in TYPES:
        _check_fields(invariant, set(raw), at, report)
        _check_texts(invariant, at, report)
        _check_measure(invariant, at, report, registry)
    elif invariant is not None:
        _check_kind(invariant, at, report, registry)


def _check_fields(invariant: Invariant, keys: set[str], at: Steps, report: ProblemReport) -> None:
    """Report fields that the type needs and that are missing, and fields that it does not read."""
    type_of = TYPES[invariant.type]
    written = {name for name in invariant.model_fields_set if getattr(invariant, name) not in (None, "", [])}
    for name in type_of.needs:
        if name not in keys:
            report.add(at, f"{invariant.type} needs {show(name)}", Code.MISSING_KEY)
        elif name in invariant.model_fields_set - written:
            report.add((*at, name), f"{show(name)} must not be empty", Code.NOT_ALLOWED)
    if invariant.negate and type_of.negate:
        message = f"{invariant.type} cannot be negated: {type_of.negate}; leave it out"
        report.add((*at, "negate"), message, Code.NOT_ALLOWED)
    for name in sorted(written & TYPE_FIELDS - {*type_of.needs, *type_of.takes}):
        message = f"{invariant.type} does not read {show(name)}"
        report.add((*at, name), message, Code.UNKNOWN_KEY, on_key=True, warning=True)
    if invariant.type == "behavior_unchanged" and invariant.baseline is None:
        message = (
            "there is no baseline to compare with, so the cells stay inconclusive; write `baseline: auto`, or a text"
        )
        report.add(at, message, Code.MISSING_KEY, warning=True)
    if invariant.params:
        message = f'"params" belongs to rule kinds; {invariant.type} has its fields beside its id'
        report.add((*at, "params"), message, Code.NOT_ALLOWED, on_key=True)


def _patterns(invariant: Invariant) -> Iterator[tuple[Steps, str]]:
    """Yield the regular expressions of an invariant with their places."""
    if invariant.type == "regex" and invariant.pattern is not None:
        yield ("pattern",), invariant.pattern
    if invariant.regex:
        yield from ((("patterns", number), pattern) for number, pattern in enumerate(invariant.patterns or ()))


def _check_texts(invariant: Invariant, at: Steps, report: ProblemReport) -> None:
    for steps, pattern in _patterns(invariant):
        try:
            python_pattern(pattern)
        except ValueError as error:
            message = f"{show(steps[0])}: not a usable regular expression: {error}"
            report.add((*at, *steps), message, Code.REGEX)
            continue
        if has_doubled_backslashes(pattern):
            message = (
                f"{show(steps[0])} has every backslash twice, as single quotes keep them, and so can never match "
                f"what it seems to mean; write '{pattern.replace(chr(92) * 2, chr(92))}' in single quotes"
            )
            report.add((*at, *steps), message, Code.NEVER_FIRES, warning=True)
    for name in ("values", "patterns"):
        for number, text in enumerate(getattr(invariant, name) or ()):
            if text == "" and name in TYPES[invariant.type].needs:
                outcome = "always passes" if (name == "values") != invariant.negate else "always fails"
                message = f"an empty text is in every answer, so the invariant {outcome}; leave it out"
                report.add((*at, name, number), message, Code.NEVER_FIRES, warning=True)


def _check_measure(invariant: Invariant, at: Steps, report: ProblemReport, registry: Registry) -> None:
    name = invariant.similarity
    if name is not None and name not in registry.similarities:
        known = ", ".join(registry.similarities) or "none, no plugin brings one"
        message = f"no measure is called {show(name)}{did_you_mean(name, registry.similarities)}; known: {known}"
        report.add((*at, "similarity"), message, Code.NOT_ALLOWED)


def _check_kind(invariant: Invariant, at: Steps, report: ProblemReport, registry: Registry) -> None:
    """Check an invariant whose type is a rule kind: the kind validates its own parameters."""
    kind = registry.kinds[invariant.type]
    for name in sorted(invariant.model_fields_set & TYPE_FIELDS):
        message = f'{show(name)} does not belong to the kind {kind.kind}; its parameters stand under "params"'
        report.add((*at, name), message, Code.UNKNOWN_KEY, on_key=True)
    if invariant.negate:
        message = f"a rule kind cannot be negated: that {kind.kind} is silent may mean that it was not asked"
        report.add((*at, "negate"), message, Code.NOT_ALLOWED)
    try:
        registry.make_rule(invariant.type, invariant.params)
    except ValidationError as error:
        report.add_flaws((*at, "params"), problems_of(error, invariant.params, kind.params_type, kind.kind))
    except Exception as error:  # noqa: BLE001 - a stranger's validator may raise anything; the check must go on
        what = f"{type(error).__name__}: {show(str(error))}"
        message = f"kind {kind.kind} failed on these parameters: {what}; report it to its author"
        report.add((*at, "params"), message, Code.KIND_FAILED)


def check_scenario(scenario: Scenario, at: Steps, report: ProblemReport) -> None:
    """Warn of faults that can never trigger."""
    faults = [("tool_faults", number, fault.probability) for number, fault in enumerate(scenario.tool_faults)]
    faults += [("llm_faults", number, fault.probability) for number, fault in enumerate(scenario.llm_faults)]
    for name, number, probability in faults:
        if probability == 0:
            message = "with probability 0 the fault never comes, so the scenario is not exercised by it"
            report.add((*at, name, number, "probability"), message, Code.NEVER_FIRES, warning=True)


def check_reach(invariants: list[Invariant], scenarios: list[Scenario], at: Steps, report: ProblemReport) -> None:
    """Warn of invariants whose ``when`` holds in no scenario: they are never evaluated."""
    holds = {
        "always": True,
        "no_chaos": any(one.is_calm for one in scenarios),
        "any_chaos_active": any(not one.is_calm for one in scenarios),
        "tool_faults_active": any(one.tool_faults for one in scenarios),
        "llm_faults_active": any(one.llm_faults for one in scenarios),
    }
    for number, invariant in enumerate(invariants):
        if scenarios and not holds[invariant.when]:
            message = f"no scenario is one for {show(invariant.when)}, so the invariant may never be evaluated"
            report.add((*at, number, "when"), message, Code.NEVER_FIRES, warning=True)


def check_unique(items: list[Json], at: Steps, key: str, report: ProblemReport) -> None:
    """Report every item with the id or name of an earlier one: cells are identified by them."""
    first: dict[str, int] = {}
    for number, item in enumerate(items):
        name = item.get(key) if isinstance(item, dict) else None
        if not isinstance(name, str):
            continue
        if name in first:
            line = report.place((*at, first[name], key)).line
            message = f"{key} {show(name)} is taken in line {line}; it must be unique, cells are known by it"
            report.add((*at, number, key), message, Code.DUPLICATE_ID)
        first.setdefault(name, number)
