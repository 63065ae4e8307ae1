"""Matrices that machines read: JSON, JUnit, SARIF and GitHub's annotations."""

from __future__ import annotations

from io import BytesIO

import msgspec
from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite
from sarif_pydantic import Level, Message, ReportingDescriptor, Result, Run, Sarif, Tool, ToolDriver
from stream_guard_diff.report_machines import annotation, locations

from stream_guard.reports.safe import visible
from stream_guard_contract.document import Contract
from stream_guard_contract.matrix import Cell, Matrix, State
from stream_guard_contract.report_words import exercised, place, title, verdict

_LEVELS = {"critical": Level.ERROR, "high": Level.ERROR, "medium": Level.WARNING, "low": Level.NOTE}
_COMMANDS = {"critical": "error", "high": "error", "medium": "warning", "low": "notice"}


def to_json(matrix: Matrix) -> str:
    """Return the whole matrix as data."""
    data = msgspec.to_builtins(matrix) | {"verdict": verdict(matrix)}
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode()


def to_junit(matrix: Matrix) -> str:
    """Return a suite for each scenario and a case for each cell; what was not evaluated is skipped, with the reason."""
    document = JUnitXml("stream-guard contract")
    for scenario in matrix.scenarios:
        suite = TestSuite(visible(scenario.name))
        for cell in (one for one in matrix.cells if one.scenario == scenario.name):
            case = TestCase(visible(cell.invariant), visible(f"contract.{scenario.name}"))
            if cell.state is State.FAIL:
                case.result = [Failure(_said(cell))]
            elif cell.state is not State.PASS:
                case.result = [Skipped(visible(f"{title(cell.state)}: {cell.reason}"))]
            suite.add_testcase(case)
        document.add_testsuite(suite)
    written = BytesIO()
    document.write(written)
    return written.getvalue().decode()


def to_sarif(contract: Contract, matrix: Matrix) -> str:
    """Return the failures, each at the line of its invariant in the contract's file."""
    results = [
        Result(
            ruleId=cell.invariant,
            level=_LEVELS[cell.severity],
            message=Message(text=visible(f"{cell.scenario}: ") + _said(cell)),
            locations=locations(contract.places.get(cell.invariant)),
            partialFingerprints={"cell": f"{cell.invariant}/{cell.scenario}"},
        )
        for cell in matrix.cells
        if cell.state is State.FAIL
    ]
    rules = [ReportingDescriptor(id=invariant.id) for invariant in contract.invariants]
    tool = Tool(driver=ToolDriver(name="stream-guard", rules=rules))
    document = Sarif(schema_uri="https://json.schemastore.org/sarif-2.1.0.json", runs=[Run(tool=tool, results=results)])
    written: str = document.model_dump_json(by_alias=True, exclude_none=True, indent=2)
    return written


def to_github(contract: Contract, matrix: Matrix) -> str:
    """Return a line for each failure and for each scenario that was not exercised, as GitHub shows them."""
    lines = [
        annotation(
            _COMMANDS[cell.severity],
            f"{cell.invariant} in {cell.scenario}",
            _said(cell),
            contract.places.get(cell.invariant),
        )
        for cell in matrix.cells
        if cell.state is State.FAIL
    ]
    lines += [
        annotation("warning", f"scenario {one.name}", exercised(one), None)
        for one in matrix.scenarios
        if one.exercised == "no"
    ]
    return "\n".join(lines)


def _said(cell: Cell) -> str:
    excerpt = f' Answer: "{cell.excerpt}"' if cell.excerpt else ""
    return visible(f"{cell.reason} ({place(cell)}).{excerpt}")
