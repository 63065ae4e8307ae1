"""Every golden case fires exactly where it says."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from stream_guard.registry import build_registry
from stream_guard.testing import find, one_rule_policy

KINDS = build_registry().kinds
FILES = sorted(Path(__file__).parent.glob("*.yaml"))
# The claims are found without reading YAML: every process of the tests lists the cases, and one of them needs them.
CLAIM = re.compile(r"^- claim: *(.*)", re.MULTILINE)
CASES = [
    pytest.param(path, place, id=f"{path.stem}: {claim}")
    for path in FILES
    for place, claim in enumerate(CLAIM.findall(path.read_text(encoding="utf-8")))
]


@cache
def cases_of(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    cases: list[dict[str, Any]] = YAML(typ="safe").load(text)
    assert len(cases) == len(CLAIM.findall(text)), f"{path.name}: every case begins with its claim"
    return cases


@pytest.mark.parametrize(("path", "place"), CASES)
def test_the_claim_holds(path: Path, place: int) -> None:
    case = cases_of(path)[place]
    engine = {key: case[key] for key in ("when", "unless", "scope", "key") if key in case}
    placed = find(one_rule_policy(KINDS[path.stem], case["params"], **engine), case["trace"])
    assert [at for at, _ in placed] == [hit["event"] for hit in case["hits"]]
    for (_, finding), hit in zip(placed, case["hits"], strict=True):
        assert finding.detail == hit.get("detail", finding.detail)
        assert finding.index == hit.get("index", finding.index)


def test_every_kind_has_golden_cases() -> None:
    assert {path.stem for path in FILES} >= set(KINDS)
