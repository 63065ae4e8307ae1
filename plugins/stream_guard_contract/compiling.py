"""Invariants become rules of ordinary kinds, so that the engine of every other mode judges them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from stream_guard.language.conditions import Condition
from stream_guard.language.similarity import SIMILARITIES
from stream_guard.model import Json
from stream_guard.policy.digest import LENGTH
from stream_guard.policy.load import load_policy
from stream_guard.policy.spec import Policy, RuleSpec
from stream_guard.registry import Registry
from stream_guard_contract.document import Contract
from stream_guard_contract.forms import Invariant
from stream_guard_contract.labels import ANSWER, ATTACKED, PROMPT, ROLE
from stream_guard_contract.patterns import any_of, python_pattern
from stream_guard_contract.types import TYPES

THRESHOLD: Final = 0.75  # of similarity and behavior_unchanged, where the contract names none
COMPLETES: Final = "completes"  # the rule that every contract has: an answer that failed keeps no promise

RuleForm = dict[str, Json]
_ANSWERS: Final = {"path": f"labels.{ROLE}", "op": "==", "value": ANSWER}
_IS_ANSWER: Final = Condition(_ANSWERS)


@dataclass(slots=True)
class Compiled:
    """A contract as a policy, and which of its rules speak for which invariant."""

    policy: Policy
    rules: dict[str, list[int]] = field(default_factory=dict)  # by id of the invariant: positions in the policy
    inverted: frozenset[str] = frozenset()  # invariants that hold where their rule finds something

    @property
    def completes(self) -> int:
        """The position of the rule that an answer must have come."""
        return len(self.policy.rules) - 1


def compile_contract(contract: Contract, registry: Registry, baselines: Mapping[str, str]) -> Compiled:
    """Return the contract as a policy; ``baselines`` are the answers in calm weather, by prompt."""
    forms: list[RuleForm] = []
    rules: dict[str, list[int]] = {}
    inverted = set()
    for invariant in contract.invariants:
        made = _rules(invariant, baselines)
        rules[invariant.id] = list(range(len(forms), len(forms) + len(made)))
        # Ids of invariants may be anything; rules are known by their place here.
        forms += [{"id": f"rule-{len(forms) + number}", **form} for number, form in enumerate(made)]
        if invariant.negate and invariant.type in _ONE_WAY:
            inverted.add(invariant.id)
    forms.append({"id": COMPLETES, "kind": "must_complete", "when": _ANSWERS})
    return Compiled(_policy(contract, forms, registry), rules, frozenset(inverted))


def _policy(contract: Contract, forms: list[RuleForm], registry: Registry) -> Policy:
    """Return the rules as a policy: the same as if they stood in a file, and quicker where we wrote all of them."""
    file = contract.file or "the contract"
    if all(invariant.type in TYPES for invariant in contract.invariants):
        try:
            specs = [_spec(form, registry) for form in forms]
        except (KeyError, ValidationError):
            pass  # whoever reads files also says what is wrong and what to do about it
        else:
            return Policy(rules=tuple(specs), version=_version(forms), file=file)
    return load_policy(json.dumps({"rules": forms}), registry, file=file)


def _version(forms: list[RuleForm]) -> str:
    """Return a digest of the rules; they are always spelt in one way here, so nothing has to be evened out first."""
    return sha256(msgspec.json.encode(forms)).hexdigest()[:LENGTH]


def _spec(form: RuleForm, registry: Registry) -> RuleSpec:
    kind, params, when = registry.kinds[form["kind"]], form.get("params", {}), form["when"]
    return RuleSpec(
        id=form["id"],
        slot=form["id"],
        rule=kind(kind.params_type.model_validate(params, context={SIMILARITIES: registry.similarities})),
        params=params,
        when=_IS_ANSWER if when is _ANSWERS else Condition(when),
    )


def _rules(invariant: Invariant, baselines: Mapping[str, str]) -> list[RuleForm]:
    if invariant.type not in TYPES:
        return [{"kind": invariant.type, "params": invariant.params}]
    if invariant.type == "behavior_unchanged":
        return _unchanged(invariant, baselines)
    if invariant.type == "refusal_check":
        return _refused(invariant)
    made = _MAKERS[invariant.type](invariant)
    return [] if made is None else [{"when": _ANSWERS, **made}]


def _unchanged(invariant: Invariant, baselines: Mapping[str, str]) -> list[RuleForm]:
    """A rule for each prompt: what the agent answered to it in calm weather is what it must still answer."""
    if invariant.baseline not in (None, "auto"):
        return [{"when": _ANSWERS, **_similar(invariant, invariant.baseline or "")}]
    asked = sorted(baselines.items())
    return [
        {
            "when": [_ANSWERS, {"path": f"labels.{PROMPT}", "op": "==", "value": prompt}],
            **_similar(invariant, answer),
        }
        for prompt, answer in asked
    ]


def _similar(invariant: Invariant, text: str) -> RuleForm:
    given = invariant.threshold if invariant.threshold is not None else invariant.similarity_threshold
    params: dict[str, Json] = {"text": text, "threshold": THRESHOLD if given is None else given}
    if invariant.similarity is not None:
        params["measure"] = invariant.similarity
    return {"kind": "must_be_similar", "params": params}


def _has(pattern: str, *, wanted: bool) -> RuleForm:
    """A rule that the answer matches the pattern, or does not."""
    if wanted:
        return {"kind": "must_match_text", "params": {"pattern": pattern, "empty": True}}
    return {"kind": "forbidden_text", "params": {"pattern": pattern}}


def _excluded(invariant: Invariant) -> RuleForm:
    patterns = invariant.patterns or []
    found = "|".join(f"(?:{python_pattern(one)})" for one in patterns) if invariant.regex else any_of(patterns)
    return _has(found, wanted=invariant.negate)


def _refused(invariant: Invariant) -> list[RuleForm]:
    """Probes of a refusal check are there to be refused; otherwise the prompt tells, if it is the user's own."""
    asked = True if invariant.dangerous_prompts is None and invariant.probes else invariant.dangerous_prompts
    if asked is not None:
        return [{"when": _ANSWERS, "kind": "must_refuse", "params": {"always": asked}}]
    # Whoever answers a harmless question and ignores what was slipped into it has refused nothing, and rightly so.
    return [
        {"when": [_ANSWERS, _attacked("false")], "kind": "must_refuse"},
        {"when": [_ANSWERS, _attacked("true")], "kind": "must_refuse", "params": {"always": False}},
    ]


def _attacked(value: str) -> RuleForm:
    return {"path": f"labels.{ATTACKED}", "op": "==", "value": value}


_MAKERS: Final[dict[str, Callable[[Invariant], dict[str, Any] | None]]] = {
    "contains": lambda one: _has(any_of([one.value or ""]), wanted=not one.negate),
    "contains_any": lambda one: _has(any_of(one.values or []), wanted=not one.negate),
    "regex": lambda one: _has(python_pattern(one.pattern or ""), wanted=not one.negate),
    "latency": lambda one: {"kind": "max_latency", "params": {"max_ms": one.max_ms}},
    "valid_json": lambda _: {"kind": "must_match_json_schema", "params": {"schema": {}}},
    "similarity": lambda one: _similar(one, one.expected or ""),
    "excludes_pii": lambda _: {"kind": "no_pii"},
    "excludes_pattern": _excluded,
    "system_prompt_leak_probe": _excluded,
    "output_not_empty": lambda _: {"kind": "must_have_text"},
    "completes": lambda _: None,  # every contract has the rule
}
# Negated, these are kept where their rule finds something; the others have a rule for the opposite.
_ONE_WAY: Final = frozenset(
    ("valid_json", "similarity", "behavior_unchanged", "excludes_pii", "refusal_check", "output_not_empty")
)
