"""Every golden case fires exactly where it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from stream_guard.registry import build_registry
from stream_guard.testing import find, one_rule_policy

KINDS = build_registry().kinds
FILES = sorted(Path(__file__).parent.glob("*.yaml"))
CASES = [
    pytest.param(path.stem, case, id=f"{path.stem}: {case['claim']}")
    for path in FILES
    for case in YAML(typ="safe").load(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_the_claim_holds(kind: str, case: dict[str, Any]) -> None:
    engine = {key: case[key] for key in ("when", "unless", "scope", "key") if key in case}
    placed = find(one_rule_policy(KINDS[kind], case["params"], **engine), case["trace"])
    assert [at for at, _ in placed] == [hit["event"] for hit in case["hits"]]
    for (_, finding), hit in zip(placed, case["hits"], strict=True):
        assert finding.detail == hit.get("detail", finding.detail)
        assert finding.index == hit.get("index", finding.index)


def test_every_kind_has_golden_cases() -> None:
    assert {path.stem for path in FILES} >= set(KINDS)
