"""Loads a flakestorm.yaml, version 2.0, as a contract, and reports every mistake with its line and column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from stream_guard import Json, Place, PolicyError, Problem, Registry
from stream_guard.documents import Code, NativePolicy, ProblemReport, Steps, problems_of, read_document, show
from stream_guard_contract.document.checks import check_invariant, check_reach, check_scenario, check_unique
from stream_guard_contract.document.sections import (
    AgentSection,
    ContractSection,
    FileSection,
    Invariant,
    Scenario,
    ScoringWeights,
    WholeFile,
)

F = TypeVar("F", bound=FileSection)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """A loaded contract: the invariants, and the scenarios in which they must hold."""

    name: str
    invariants: tuple[Invariant, ...]
    scenarios: tuple[Scenario, ...]
    description: str = ""
    golden_prompts: tuple[str, ...] = ()
    agent: AgentSection | None = None
    scoring: ScoringWeights = field(default_factory=ScoringWeights)
    places: Mapping[str, Place]  # by id of the invariant: its place in the file
    warnings: tuple[Problem, ...] = ()
    file: str = ""

    def prompts(self, invariant: Invariant) -> tuple[str, ...]:
        """Return the prompts of this invariant: its probes, or else the golden prompts."""
        return tuple(invariant.probes or self.golden_prompts)


def load_contract(source: Path | str | bytes, registry: Registry, *, file: str = "") -> Contract:
    """Return the contract of a file (a ``Path``) or of a text (``str`` or ``bytes``), YAML or JSON.

    ``file`` is the name in messages. Raises PolicyError with everything that is wrong, in file order. Warnings are in
    the contract.
    """
    return _ContractReader(source, file, registry).read()


class _ContractReader:
    """Reads one file section by section, so that one mistake does not hide another."""

    def __init__(self, source: Path | str | bytes, file: str, registry: Registry) -> None:
        try:
            document = read_document(source, file)
        except PolicyError as error:
            if error.problems[-1].code != Code.NOT_A_POLICY:
                raise
            place = error.problems[-1].place
            raise PolicyError([Problem(place, "the file is empty; it needs `contract:`", Code.NOT_A_POLICY)]) from None
        self._registry = registry
        self._file = document.file
        self._data: Json = document.data
        self._report = ProblemReport(document, document.problems, NativePolicy(document.data))

    def read(self) -> Contract:
        """Return the contract, or raise PolicyError with everything that is wrong."""
        if not isinstance(self._data, dict) or "contract" not in self._data:
            found = "" if isinstance(self._data, dict) else f", not {show(self._data)}"
            message = f"no contract is defined here; the file is a mapping with `contract:`{found}"
            self._report.add((), message, Code.NOT_A_POLICY)
            raise PolicyError(self._report.in_order())
        whole = self._section(WholeFile, {**self._data, "contract": {"name": "-"}}, (), "the file")
        contract = self._section(ContractSection, self._data["contract"], ("contract",), "the contract")
        invariants = self._invariants()
        scenarios = self._scenarios()
        if self._report.failed or whole is None or contract is None:
            raise PolicyError(self._report.in_order())
        check_reach(invariants, scenarios, ("contract", "invariants"), self._report)
        self._warn(whole)
        return Contract(
            name=contract.name,
            description=contract.description,
            invariants=tuple(invariants),
            scenarios=tuple(scenarios),
            golden_prompts=tuple(whole.golden_prompts),
            agent=whole.agent,
            scoring=whole.scoring,
            places={
                invariant.id: self._report.place(("contract", "invariants", number))
                for number, invariant in enumerate(invariants)
            },
            warnings=tuple(self._report.in_order()),
            file=self._file,
        )

    def _invariants(self) -> list[Invariant]:
        at: Steps = ("contract", "invariants")
        raw = self._listed(at)
        read = []
        for number, item in enumerate(raw):
            invariant = self._section(Invariant, item, (*at, number), "an invariant")
            if invariant is not None:
                read.append(invariant)
            check_invariant(item, invariant or _sound_part(item), (*at, number), self._report, self._registry)
        check_unique(raw, at, "id", self._report)
        return read

    def _scenarios(self) -> list[Scenario]:
        at = self._matrix_at()
        raw = self._listed(at)
        read = []
        for number, item in enumerate(raw):
            scenario = self._section(Scenario, item, (*at, number), "a scenario")
            if scenario is not None:
                check_scenario(scenario, (*at, number), self._report)
                read.append(scenario)
        check_unique(raw, at, "name", self._report)
        return read

    def _matrix_at(self) -> Steps:
        """Return the path of the scenarios: Flakestorm's own example has them at the top, so both places are read."""
        inside, outside = ("contract", "chaos_matrix"), ("chaos_matrix",)
        in_contract = self._listed(inside)
        at_top = self._listed(outside)
        if in_contract and at_top and in_contract != at_top:
            message = '"chaos_matrix" stands here and inside "contract", and they differ; keep one of them'
            self._report.add(outside, message, Code.TWICE, on_key=True)
        return inside if in_contract else outside

    def _listed(self, at: Steps) -> list[Json]:
        """Return the list at the path; another type was reported with the section around it."""
        value = self._data
        for step in at:
            value = value.get(step) if isinstance(value, dict) else None
        return value if isinstance(value, list) else []

    def _section(self, section: type[F], raw: Json, at: Steps, owner: str) -> F | None:
        """Return the validated section, or None after reporting what is wrong with it."""
        cleaned = self._without_empty(raw, at)
        for _ in range(2):
            try:
                return section.model_validate(cleaned)
            except ValidationError as error:
                flaws = problems_of(error, cleaned, section, owner)
            # A misspelt key is refused: ignoring `serverity: critical` changes the score. Other keys get a warning.
            foreign = [flaw for flaw in flaws if flaw.code == Code.UNKNOWN_KEY and not flaw.word]
            wrong = [flaw for flaw in flaws if flaw not in foreign]
            for flaw in foreign:
                message = f"{flaw.message.partition(';')[0]}; it is not read"
                self._report.add((*at, *flaw.at), message, flaw.code, on_key=True, warning=True)
                cleaned = _without(cleaned, flaw.at)
            if wrong:
                self._report.add_flaws(at, wrong)
                return None
        return None

    def _without_empty(self, value: Json, at: Steps) -> Json:
        """Return the value without keys that have no value; each of them is reported."""
        if isinstance(value, list):
            return [self._without_empty(item, (*at, number)) for number, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        kept: dict[str, Any] = {}
        for key, inner in value.items():
            if inner is None:
                message = f"{show(key)} has no value and counts as left out"
                self._report.add((*at, key), message, Code.WRONG_TYPE, on_key=True, warning=True)
            else:
                # The kind checks its own parameters.
                kept[key] = inner if key == "params" else self._without_empty(inner, (*at, key))
        return kept

    def _warn(self, whole: WholeFile) -> None:
        if str(whole.version).split(".")[0] != "2" and "version" in self._data:
            message = f"contracts belong to version 2.0; this file says {show(whole.version)}"
            self._report.add(("version",), message, Code.NOT_ALLOWED, warning=True)
        if whole.chaos is not None:
            message = '"chaos" is no part of a contract and is not read; scenarios alone say what breaks'
            self._report.add(("chaos",), message, Code.UNKNOWN_KEY, on_key=True, warning=True)
        for at, what in ((("contract", "invariants"), "invariant"), (self._matrix_at(), "scenario")):
            if not self._listed(at):
                message = f"the contract has no {what}, so nothing can be evaluated"
                self._report.add(at, message, Code.NO_RULES, warning=True)


def _sound_part(raw: Json) -> Invariant | None:
    """Return an invariant with only the valid fields, so that the checks of the whole also run and report."""
    if not isinstance(raw, dict):
        return None
    try:
        Invariant.model_validate(raw)
    except ValidationError as error:
        bad = {item["loc"][0] for item in error.errors(include_url=False) if item["loc"]}
        raw = {"id": "-", "type": "-", **{key: value for key, value in raw.items() if key not in bad}}
    try:
        return Invariant.model_validate(raw)
    except ValidationError:
        return None


def _without(value: Json, at: Steps) -> Json:
    """Return the value without the key or item at the path."""
    step, *rest = at
    if isinstance(value, dict):
        if not rest:
            return {key: inner for key, inner in value.items() if key != step}
        return {key: _without(inner, tuple(rest)) if key == step else inner for key, inner in value.items()}
    return [_without(inner, tuple(rest)) if number == step else inner for number, inner in enumerate(value)]
