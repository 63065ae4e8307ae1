"""Dialects come in by a hook: what the loader promises to them and asks of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import stream_guard as sg
from stream_guard.errors import PolicyError
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry, build_registry


class ForbiddenList:
    """A stranger's format: ``{"forbidden": ["tool", ...]}``."""

    name = "forbidden_list"

    def recognises(self, document: sg.Document) -> bool:
        return isinstance(document.data, dict) and "forbidden" in document.data

    def translate(self, document: sg.Document) -> tuple[dict[str, Any], Sequence[sg.Problem]]:
        rules = [
            {"id": f"no-{number}", "kind": "no_call", "params": {"tool": tool}, "_from": ("forbidden", number)}
            for number, tool in enumerate(document.data["forbidden"])
        ]
        odd = [key for key in document.data if key != "forbidden"]
        problems = [sg.Problem(document.key_place(key), f"what is {key}?", "X1") for key in odd]
        return {"rules": rules}, problems


class Rival(ForbiddenList):
    name = "rival"


class Pack:
    def __init__(self, *dialects: type[Any]) -> None:
        self.dialects = dialects

    @sg.hookimpl
    def stream_guard_dialects(self) -> list[type[sg.Dialect]]:
        return list(self.dialects)


@pytest.fixture(scope="module")
def registry() -> Registry:
    return build_registry(extra=[Pack(ForbiddenList)])


def test_a_dialect_of_a_stranger_is_read(registry: Registry) -> None:
    policy = load_policy("forbidden: [drop, delete]", registry)
    assert [(rule.id, rule.params["tool"]) for rule in policy.rules] == [("no-0", "drop"), ("no-1", "delete")]
    assert policy.rules[1].place.column == 19


def test_problems_lead_back_to_where_a_rule_came_from(registry: Registry) -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy("odd: 1\nforbidden:\n  - drop\n  - 5\n", registry)
    found = [(problem.place.line, problem.place.column, problem.code) for problem in caught.value.problems]
    assert found == [(1, 1, "X1"), (4, 5, "SG115")]


def test_a_file_that_two_dialects_claim_is_refused() -> None:
    registry = build_registry(extra=[Pack(ForbiddenList, Rival)])
    with pytest.raises(PolicyError, match=r"forbidden_list.*rival"):
        load_policy("forbidden: [drop]", registry)


class Broken(ForbiddenList):
    name = "broken"

    def translate(self, document: sg.Document) -> tuple[dict[str, Any], Sequence[sg.Problem]]:
        raise KeyError("oops")


class Nosy(ForbiddenList):
    name = "nosy"

    def recognises(self, document: sg.Document) -> bool:
        return bool(document.data["absent"])


@pytest.mark.parametrize("dialect", [Broken, Nosy])
def test_a_dialect_that_fails_is_named(dialect: type[Any]) -> None:
    with pytest.raises(PolicyError, match=f"dialect {dialect.name} failed .*KeyError"):
        load_policy("forbidden: [drop]", build_registry(extra=[Pack(dialect)]))


def test_what_dialects_say_beside_the_form_cannot_be_written_in_a_file(registry: Registry) -> None:
    text = "rules: [{id: a, kind: no_call, params: {tool: x}, _slot: b, _from: [x]}]"
    with pytest.raises(PolicyError) as caught:
        load_policy(text, registry)
    assert [problem.code for problem in caught.value.problems] == ["SG104", "SG104"]
