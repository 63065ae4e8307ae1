"""SARIF 2.1.0: results of rules, each at its line, for tools that show them beside the code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

import sarif_pydantic as sarif

from stream_guard.errors import Place
from stream_guard.reports import SarifResult
from stream_guard.reports.safe import visible

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def write_sarif(results: Sequence[SarifResult], rules: Iterable[str]) -> str:
    """Return a run with these results; ``rules`` are the ids of all rules that could have spoken."""
    descriptors = [sarif.ReportingDescriptor(id=name) for name in rules]
    tool = sarif.Tool(driver=sarif.ToolDriver(name="stream-guard", rules=descriptors))
    run = sarif.Run(tool=tool, results=[_result(result) for result in results])
    document = sarif.Sarif(schema_uri=_SCHEMA, runs=[run])
    written: str = document.model_dump_json(by_alias=True, exclude_none=True, indent=2)
    return written


def _result(result: SarifResult) -> sarif.Result:
    return sarif.Result(
        ruleId=result.rule_id,
        level=sarif.Level(result.level),
        message=sarif.Message(text=visible(result.message)),
        locations=_locations(result.place),
        partialFingerprints=dict(result.fingerprints) if result.fingerprints is not None else None,
    )


def _locations(place: Place | None) -> list[sarif.Location] | None:
    """None where the place is not known."""
    if place is None or not place.file:
        return None
    region = sarif.Region(startLine=place.line, startColumn=max(1, place.column)) if place.line else None
    where = sarif.ArtifactLocation(uri=PurePosixPath(place.file).as_posix())
    return [sarif.Location(physicalLocation=sarif.PhysicalLocation(artifactLocation=where, region=region))]
