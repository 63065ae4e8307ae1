"""The committed vectors hold, case by case."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.vectors.__main__ import main, run_case
from tests.vectors.case import Case, LeftOut, read_cases
from tests.vectors.runners import RUNNERS

GOLDEN = Path(__file__).parent.parent / "golden" / "vectors"
CASES = [
    pytest.param(kind, case, id=f"{kind}-{case.name}")
    for kind in RUNNERS
    for path in sorted((GOLDEN / kind).glob("*.json*"))
    for case in read_cases(path)
]


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_the_case_holds(kind: str, case: Case) -> None:
    verdict = run_case(RUNNERS[kind], case.data)
    assert verdict is None or isinstance(verdict, LeftOut), verdict


def test_a_wrong_answer_fails_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = next(read_cases(GOLDEN / "policy" / "runtime.jsonl")).data | {"recommended": [[0, 0]]}
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps([case]), encoding="utf-8")
    assert main(["policy", str(wrong)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "0 passed, 1 failed"
