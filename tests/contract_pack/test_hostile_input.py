"""Whatever a file or a recording holds, the outcome is a contract, a list of problems, or a matrix."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from stream_guard_contract.document import TYPES, Contract, load_contract
from stream_guard_contract.report import write_matrix
from stream_guard_contract.scoring.matrix import EVALUATED
from stream_guard_contract.scoring.score import score

from stream_guard.errors import PolicyError, Problem
from stream_guard.judge.model import Event, ToolResult, Turn, UserMessage
from tests.contract_pack.answers import registry

LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=6)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner))
FIELDS = {
    "id": st.text(max_size=3) | JSON,
    "type": st.sampled_from([*TYPES, "no_call", "must_call_before", "x"]) | JSON,
    "severity": st.sampled_from(["critical", "LOW", "x"]) | JSON,
    "when": st.sampled_from(["always", "no_chaos", "never"]) | JSON,
    "negate": st.booleans() | JSON,
    "value": st.text(max_size=3) | JSON,
    "values": st.lists(st.text(max_size=3), max_size=2) | JSON,
    "pattern": st.text(alphabet="ab([*$\\d", max_size=5) | JSON,
    "patterns": st.lists(st.text(alphabet="ab([*$\\d", max_size=4), max_size=2) | JSON,
    "regex": st.booleans(),
    "max_ms": st.integers(-1, 3) | JSON,
    "expected": st.text(max_size=3),
    "threshold": st.floats(0, 1) | JSON,
    "baseline": st.sampled_from(["auto", "a b"]) | JSON,
    "probes": st.lists(st.text(max_size=2), max_size=2) | JSON,
    "params": st.dictionaries(st.sampled_from(["tool", "first", "second", "x"]), LEAVES) | JSON,
    "dangerous_prompts": st.booleans(),
}
FAULTS = st.fixed_dictionaries({"tool": st.just("t"), "mode": st.sampled_from(["error", "slow", "x"])}) | JSON
SCENARIOS = st.fixed_dictionaries({"name": st.text(max_size=2)}, optional={"tool_faults": st.lists(FAULTS, max_size=2)})
FILES = st.fixed_dictionaries(
    {
        "contract": st.fixed_dictionaries(
            {"name": st.text(max_size=3)},
            optional={
                "invariants": st.lists(st.fixed_dictionaries({}, optional=FIELDS) | JSON, max_size=3) | JSON,
                "chaos_matrix": st.lists(SCENARIOS | JSON, max_size=2) | JSON,
            },
        )
        | JSON
    },
    optional={"golden_prompts": st.lists(st.text(max_size=2), max_size=2) | JSON, "agent": JSON, "scoring": JSON},
)


def load(text: str | bytes) -> Contract | tuple[Problem, ...]:
    try:
        return load_contract(text, registry())
    except PolicyError as error:
        return error.problems


@given(data=FILES | JSON)
def test_any_file_is_a_contract_or_problems_with_places(data: Any) -> None:
    read = load(json.dumps(data))
    assert isinstance(read, Contract) or (read and all(problem.place.line for problem in read))


@given(text=st.text(max_size=40) | st.binary(max_size=40))
def test_any_text_is_a_contract_or_problems(text: str | bytes) -> None:
    assert load(text)


LABELS = st.dictionaries(
    st.sampled_from(["scenario", "contract_prompt", "contract_fault", "contract_role", "contract_watched"]),
    st.sampled_from(["calm", "down", "p", "answer", "model", "tool_faults/0/error", "tool_faults", "//", ""]),
)
RESPONSES = st.fixed_dictionaries(
    {}, optional={"content": JSON, "latency_ms": LEAVES, "error": LEAVES, "stop_reason": LEAVES}
)
HEADER = {"session_id": st.sampled_from(["a", "b"]), "event_id": st.text(max_size=2), "labels": LABELS}
EVENTS: st.SearchStrategy[Event] = (
    st.builds(UserMessage, text=st.text(max_size=3), **HEADER)
    | st.builds(Turn, response=RESPONSES, captured=st.booleans(), **HEADER)
    | st.builds(ToolResult, tool=st.sampled_from(["t", ""]), status=st.sampled_from(["ok", "error"]), **HEADER)
)
PROMISE = {
    "contract": {
        "name": "c",
        "invariants": [
            {"id": "a", "type": "regex", "pattern": "x$"},
            {"id": "b", "type": "latency", "max_ms": 1, "when": "tool_faults_active"},
            {"id": "c", "type": "behavior_unchanged", "baseline": "auto"},
            {"id": "d", "type": "refusal_check", "negate": True, "probes": ["p"]},
            {"id": "e", "type": "must_call", "params": {"tool": "t"}},
        ],
        "chaos_matrix": [{"name": "calm"}, {"name": "down", "tool_faults": [{"tool": "t", "mode": "error"}]}],
    }
}


@given(events=st.lists(EVENTS, max_size=8))
def test_any_recording_gives_a_matrix_whose_cells_all_say_why(events: list[Event]) -> None:
    promise = load(json.dumps(PROMISE))
    assert isinstance(promise, Contract)
    matrix = score(promise, events, registry())
    assert len(matrix.cells) == 10
    assert all(cell.reason for cell in matrix.cells)
    assert (matrix.score is None) == (not any(cell.state in EVALUATED for cell in matrix.cells))
    for form in ("json", "junit", "sarif", "markdown"):
        assert write_matrix(promise, matrix, form)
