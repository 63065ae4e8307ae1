"""The committed vectors hold, case by case; those that do not hold yet are listed, and the lists are true."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.vectors.__main__ import main
from tests.vectors.case import Case, LeftOut, read_cases, run_case
from tests.vectors.runners import RUNNERS

GOLDEN = Path(__file__).parent.parent / "golden" / "vectors"
NOT_YET = "not_yet.txt"
EITHER = "?"  # before a name: whether it holds is a race of the product, so neither is asserted
LONG = ("first_line/", "receiver_clock/", "tenants/", "topic/")  # attacks that take processes of their own and seconds
SLOW = 30  # seconds that a step may wait, or its process run, before the case is one for the nightly run


def listed(kind: str) -> dict[str, bool]:
    """Return the cases of a kind that need not hold, and whether they may hold all the same."""
    file = GOLDEN / kind / NOT_YET
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    names = [line.partition("#")[0].strip() for line in lines]
    return {name.removeprefix(EITHER).strip(): name.startswith(EITHER) for name in names if name}


def files(kind: str) -> list[Path]:
    return sorted(path for path in (GOLDEN / kind).iterdir() if path.suffix in (".json", ".jsonl", ".yaml"))


def parameters() -> Iterator[Any]:
    for kind in RUNNERS:
        for path in files(kind):
            for case in read_cases(path):
                marks = [pytest.mark.slow] if is_slow(case.data) else []
                marks += [pytest.mark.long] if case.name.startswith(LONG) else []
                yield pytest.param(kind, case, id=f"{kind}-{case.name}", marks=marks)


def is_slow(data: dict[str, Any]) -> bool:
    waits = [step.get("half_open", {}).get("wait", 0) for step in data.get("steps", ()) if isinstance(step, dict)]
    run = data.get("settings", {}).get("run", {}) if isinstance(data.get("settings"), dict) else {}
    return bool(max([0, *waits, run.get("seconds", 0)]) >= SLOW)


@pytest.mark.parametrize(("kind", "case"), list(parameters()))
def test_the_case_holds(kind: str, case: Case, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if case.data.get("needs") == "broker":
        monkeypatch.setenv("STREAM_GUARD_TEST_KAFKA", request.getfixturevalue("kafka"))
    verdict = run_case(RUNNERS[kind], case.data)
    need_not_hold = listed(kind)
    if case.name not in need_not_hold:
        assert verdict is None or isinstance(verdict, LeftOut), verdict
    elif not need_not_hold[case.name]:
        assert isinstance(verdict, str), f"{case.name} does hold; take it off {kind}/{NOT_YET}"


@pytest.mark.parametrize("kind", RUNNERS)
def test_only_cases_are_listed_as_not_holding_yet(kind: str) -> None:
    assert set(listed(kind)) <= {case.name for path in files(kind) for case in read_cases(path)}


def test_a_wrong_answer_fails_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = next(read_cases(GOLDEN / "policy" / "runtime.jsonl")).data | {"recommended": [[0, 0]]}
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps([case]), encoding="utf-8")
    assert main(["policy", str(wrong)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "0 passed, 1 failed"
