"""The contract file, a flakestorm.yaml, version 2.0: its sections, its checks, and how it is loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from stream_guard import Json, Place, PolicyError, Problem, Regex, Registry, literal
from stream_guard.documents import (
    Code,
    NativePolicy,
    ProblemReport,
    Steps,
    did_you_mean,
    listed,
    problems_of,
    read_document,
    show,
)

# The sections of a flakestorm.yaml, version 2.0, as pydantic models; defaults are those of Flakestorm.

WEIGHTS: Final = {"critical": 3, "high": 2, "medium": 1, "low": 1}
"""The weight of a cell in the score, by the severity of its invariant."""

When: TypeAlias = Literal["always", "tool_faults_active", "llm_faults_active", "any_chaos_active", "no_chaos"]


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _unquoted(value: Any) -> Any:
    """Return a number that was written in quotes: Flakestorm accepts those, so its files may have them."""
    try:
        return (
            float(value) if isinstance(value, str) and "." in value else int(value) if isinstance(value, str) else value
        )
    except ValueError:
        return value


Text: TypeAlias = Annotated[str, Field(min_length=1)]
Whole: TypeAlias = Annotated[int, BeforeValidator(_unquoted)]
Number: TypeAlias = Annotated[float, BeforeValidator(_unquoted)]
Count: TypeAlias = Annotated[Whole, Field(ge=0)]
Share: TypeAlias = Annotated[Number, Field(ge=0, le=1)]


Severity: TypeAlias = Annotated[Literal["critical", "high", "medium", "low"], BeforeValidator(_lower)]


class FileSection(BaseModel):
    """Base of all sections; an unknown key is an error, never dropped silently."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ToolFault(FileSection):
    """A fault in the calls of a tool; ``tool: "*"`` means every tool."""

    tool: Text
    mode: Literal["timeout", "error", "malformed", "slow", "malicious_response"]
    match_url: Text | None = None  # a glob over the address, for tools that are reached over HTTP
    delay_ms: Count | None = None  # 30000 for timeout, 5000 for slow
    error_code: Annotated[Whole, Field(ge=400, le=599)] | None = None  # an HTTP error status; 503 by default
    message: str | None = None  # "Service Unavailable"
    probability: Share | None = None
    after_calls: Count | None = None
    payload: str | None = None


class LlmFault(FileSection):
    """A fault in the answers of the model."""

    mode: Literal["timeout", "truncated_response", "rate_limit", "empty", "garbage", "response_drift"]
    max_tokens: Count | None = None  # 10; counted in words, as Flakestorm does
    delay_ms: Count | None = None  # 300000
    probability: Share | None = None
    after_calls: Count | None = None
    drift_type: (
        Literal["json_field_rename", "verbosity_shift", "format_change", "refusal_rephrase", "tone_shift"] | None
    ) = None
    severity: Literal["subtle", "moderate", "significant"] | None = None
    direction: Literal["expand", "compress"] | None = None
    factor: Annotated[Number, Field(gt=0)] | None = None  # 2.0


class ContextAttack(FileSection):
    """A text that is injected into what the agent reads."""

    type: Literal["overflow", "conflicting_context", "injection_via_context", "indirect_injection", "memory_poisoning"]
    inject_tokens: Count | None = None
    payloads: list[str] | None = None
    trigger_probability: Share | None = None
    inject_at: str | None = None
    payload: str | None = None
    strategy: Literal["prepend", "append", "replace"] | None = None


class Scenario(FileSection):
    """One set of faults under which the contract must hold; without any it is a calm scenario."""

    name: Text
    description: str = ""
    tool_faults: list[ToolFault] = []
    llm_faults: list[LlmFault] = []
    context_attacks: list[ContextAttack] = []

    @property
    def is_calm(self) -> bool:
        """Whether it has no faults."""
        return not (self.tool_faults or self.llm_faults or self.context_attacks)


class Invariant(FileSection):
    """One rule that must hold: a type of Flakestorm, or any rule kind with its ``params``."""

    id: Text
    type: Text
    description: str = ""
    severity: Severity = "medium"
    when: When = "always"
    negate: bool = False
    value: str | None = None
    values: list[str] | None = None
    pattern: str | None = None
    patterns: list[str] | None = None
    regex: bool = False  # patterns of excludes_pattern are regular expressions, not texts
    max_ms: Annotated[Whole, Field(gt=0)] | None = None
    expected: str | None = None
    threshold: Share | None = None
    similarity_threshold: Share | None = None
    similarity: Text | None = None  # the measure of a plugin; without it, words are compared
    baseline: str | None = None  # "auto", or the text to compare with
    probes: list[Text] | None = None  # asked instead of the golden prompts
    dangerous_prompts: bool | None = None  # every prompt asks for what must be refused
    params: dict[str, Json] = {}  # where the type is a rule kind

    @property
    def weight(self) -> int:
        """The weight of one of its cells in the score."""
        return WEIGHTS[self.severity]


class ContractSection(FileSection):
    """The section ``contract``; its invariants and scenarios are validated one by one, so that all are reported."""

    name: Text
    description: str = ""
    invariants: list[Any] = []
    chaos_matrix: list[Any] = []


class AgentSection(FileSection):
    """How the agent is reached; ``$NAME`` in the endpoint and headers is replaced when the run starts."""

    endpoint: Text
    type: Literal["http", "python", "langchain"] = "http"
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "POST"
    request_template: str | None = None  # with {prompt}
    response_path: str | None = None  # a.b or $.a.b
    query_params: dict[str, str] = {}
    parse_structured_input: bool = True
    timeout: Annotated[Whole, Field(ge=1000, le=300_000)] = 30_000  # milliseconds
    headers: dict[str, str] = {}
    reset_endpoint: Text | None = None
    reset_function: Text | None = None  # module:callable


class ScoringWeights(FileSection):
    """The weight of each part in the overall score of ``contract ci``."""

    mutation: Share = 0.20
    chaos: Share = 0.35
    contract: Share = 0.35
    replay: Share = 0.10

    @model_validator(mode="after")
    def _adds_up(self) -> ScoringWeights:
        total = self.mutation + self.chaos + self.contract + self.replay
        if total and abs(total - 1) > 0.001:
            raise PydanticCustomError("weights", "the weights must add up to 1, not {total}", {"total": f"{total:g}"})
        return self


class WholeFile(FileSection):
    """The whole file; sections that a contract does not need are not validated."""

    version: str | float = "2.0"
    contract: ContractSection
    chaos_matrix: list[Any] = []
    agent: AgentSection | None = None
    golden_prompts: list[Text] = []
    scoring: ScoringWeights = ScoringWeights()
    model: Any = None
    mutations: Any = None
    invariants: Any = None
    output: Any = None
    advanced: Any = None
    chaos: Any = None
    replays: Any = None


# Translates Python regular expressions, as Flakestorm's files have them, for RE2, which runs in linear time.

_END: Final = r"(?:\n?\z)"  # Python's `$`: at the end, or before a line break at the end
# Python's classes are Unicode, RE2's only ASCII. The first translation is for outside brackets, the second for inside.
_WORD: Final = r"\p{L}\p{N}_"
_SPACE: Final = r"\s\p{Z}\x0b\x{1c}-\x{1f}\x{85}"
_ESCAPES: Final = {
    r"\d": (r"\p{Nd}", r"\p{Nd}"),
    r"\D": (r"\P{Nd}", r"\P{Nd}"),
    r"\w": (f"[{_WORD}]", _WORD),
    r"\W": (f"[^{_WORD}]", r"\W"),
    r"\s": (f"[{_SPACE}]", _SPACE),
    r"\S": (f"[^{_SPACE}]", r"\S"),
    r"\Z": (r"\z", r"\Z"),
}
# The tokens of a pattern; a "]" right after "[" or "[^" is a literal.
_PIECE: Final = re.compile(r"(?s)\\.|\[\^?\]?|\{,\d+\}|.")
# What follows a doubled backslash where a single one was meant: a class, an anchor, or a special character.
_DOUBLED: Final = re.compile(r"\\\\[dDwWsSbB.$^*+?()\[\]{}|/-]")


@lru_cache(maxsize=128)  # each is translated twice: when the contract is checked, and when it is compiled
def python_pattern(pattern: str) -> str:
    r"""Return the pattern for RE2 with the meaning that ``re.search(pattern, text, re.DOTALL)`` gives it.

    Only ``\b``, and ``\W`` and ``\S`` inside brackets, stay ASCII. Raises ValueError with the reason where it is no
    pattern, or cannot run in linear time.
    """
    translated = "(?s)" + "".join(_pieces(pattern))
    try:
        Regex(translated)
    except ValueError:
        Regex(pattern)  # raises the error in terms of the original pattern
        raise
    return translated


def _pieces(pattern: str) -> Iterator[str]:
    """Yield the tokens of the pattern, translated where RE2 has another spelling."""
    lines = re.match(r"\(\?[a-zA-Z]*m", pattern) is not None  # with (?m), `$` is the end of a line in both
    inside = False
    position = 0
    while match := _PIECE.match(pattern, position):
        piece = match.group()
        if inside and piece[0] in "[{":
            piece = piece[0]
        position += len(piece)
        if piece in _ESCAPES:
            yield _ESCAPES[piece][inside]
        elif piece.startswith("{,"):
            yield f"{{0{piece[1:]}"
        elif piece == "$" and not inside and not lines:
            yield _END
        elif inside and piece == "[":
            yield r"\["  # RE2 could read it as the start of a named class
        else:
            inside = piece[0] == "[" if not inside else piece != "]"
            yield piece


def any_of(texts: list[str]) -> str:
    """Return the RE2 pattern that finds any of the texts, ignoring case; an empty text is always found."""
    return f"(?i)(?:{'|'.join(literal(text) for text in texts)})"


def has_doubled_backslashes(pattern: str) -> bool:
    """Whether every backslash in the pattern is doubled, as happens in YAML's single quotes."""
    single = pattern.replace("\\\\", "")
    return _DOUBLED.search(pattern) is not None and "\\" not in single


# The invariant types of Flakestorm: the fields each needs, the fields it takes, and whether it can be negated.


@dataclass(frozen=True, slots=True)
class InvariantType:
    """The fields of one invariant type."""

    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()  # optional fields
    negate: str = ""  # why it cannot be negated; empty where it can be


_SIMILAR: Final = ("threshold", "similarity_threshold", "similarity")

TYPES: Final[dict[str, InvariantType]] = {
    "contains": InvariantType(("value",)),
    "contains_any": InvariantType(("values",)),
    "regex": InvariantType(("pattern",)),
    "latency": InvariantType(("max_ms",), negate="an answer that must be slow is no promise"),
    "valid_json": InvariantType(),
    "similarity": InvariantType(("expected",), _SIMILAR),
    "excludes_pii": InvariantType(),
    "excludes_pattern": InvariantType(("patterns",), ("regex",)),
    "refusal_check": InvariantType((), ("dangerous_prompts",)),
    "completes": InvariantType(negate="an answer that must fail is no promise"),
    "output_not_empty": InvariantType(),
    "behavior_unchanged": InvariantType((), ("baseline", *_SIMILAR)),
    "system_prompt_leak_probe": InvariantType(("patterns", "probes"), ("regex",)),
}

TYPE_FIELDS: Final = frozenset(name for one in TYPES.values() for name in (*one.needs, *one.takes) if name != "probes")
"""The fields that belong to certain types and not to every invariant."""


# Checks of invariants and scenarios that go beyond the types of their fields.


def check_invariant(
    raw: Json, invariant: Invariant | None, at: Steps, report: ProblemReport, registry: Registry
) -> None:
    """Report what is wrong with an invariant; ``invariant`` is None where its fields were refused already."""
    name = raw.get("type") if isinstance(raw, dict) else None
    if not isinstance(name, str):
        return  # reported with the fields
    if name not in TYPES and name not in registry.kinds:
        known = (*TYPES, *registry.kinds)
        near = did_you_mean(name, known) or f"; it takes {listed(TYPES, 'or')}, or the name of a rule kind"
        report.add((*at, "type"), f"unknown type {show(name)}{near}", Code.UNKNOWN_KIND)
    elif invariant is not None and name in TYPES:
        _check_fields(invariant, set(raw), at, report)
        _check_texts(invariant, at, report)
        _check_measure(invariant, at, report, registry)
    elif invariant is not None:
        _check_kind(invariant, at, report, registry)


def _check_fields(invariant: Invariant, keys: set[str], at: Steps, report: ProblemReport) -> None:
    """Report fields that the type needs and that are missing, and fields that it does not read."""
    type_of = TYPES[invariant.type]
    written = {name for name in invariant.model_fields_set if getattr(invariant, name) not in (None, "", [])}
    for name in type_of.needs:
        if name not in keys:
            report.add(at, f"{invariant.type} needs {show(name)}", Code.MISSING_KEY)
        elif name in invariant.model_fields_set - written:
            report.add((*at, name), f"{show(name)} must not be empty", Code.NOT_ALLOWED)
    if invariant.negate and type_of.negate:
        message = f"{invariant.type} cannot be negated: {type_of.negate}; leave it out"
        report.add((*at, "negate"), message, Code.NOT_ALLOWED)
    for name in sorted(written & TYPE_FIELDS - {*type_of.needs, *type_of.takes}):
        message = f"{invariant.type} does not read {show(name)}"
        report.add((*at, name), message, Code.UNKNOWN_KEY, on_key=True, warning=True)
    if invariant.type == "behavior_unchanged" and invariant.baseline is None:
        message = (
            "there is no baseline to compare with, so the cells stay inconclusive; write `baseline: auto`, or a text"
        )
        report.add(at, message, Code.MISSING_KEY, warning=True)
    if invariant.params:
        message = f'"params" belongs to rule kinds; {invariant.type} has its fields beside its id'
        report.add((*at, "params"), message, Code.NOT_ALLOWED, on_key=True)


def _patterns(invariant: Invariant) -> Iterator[tuple[Steps, str]]:
    """Yield the regular expressions of an invariant with their places."""
    if invariant.type == "regex" and invariant.pattern is not None:
        yield ("pattern",), invariant.pattern
    if invariant.regex:
        yield from ((("patterns", number), pattern) for number, pattern in enumerate(invariant.patterns or ()))


def _check_texts(invariant: Invariant, at: Steps, report: ProblemReport) -> None:
    for steps, pattern in _patterns(invariant):
        try:
            python_pattern(pattern)
        except ValueError as error:
            message = f"{show(steps[0])}: not a usable regular expression: {error}"
            report.add((*at, *steps), message, Code.REGEX)
            continue
        if has_doubled_backslashes(pattern):
            message = (
                f"{show(steps[0])} has every backslash twice, as single quotes keep them, and so can never match "
                f"what it seems to mean; write '{pattern.replace(chr(92) * 2, chr(92))}' in single quotes"
            )
            report.add((*at, *steps), message, Code.NEVER_FIRES, warning=True)
    for name in ("values", "patterns"):
        for number, text in enumerate(getattr(invariant, name) or ()):
            if text == "" and name in TYPES[invariant.type].needs:
                outcome = "always passes" if (name == "values") != invariant.negate else "always fails"
                message = f"an empty text is in every answer, so the invariant {outcome}; leave it out"
                report.add((*at, name, number), message, Code.NEVER_FIRES, warning=True)


def _check_measure(invariant: Invariant, at: Steps, report: ProblemReport, registry: Registry) -> None:
    name = invariant.similarity
    if name is not None and name not in registry.similarities:
        known = ", ".join(registry.similarities) or "none, no plugin brings one"
        message = f"no measure is called {show(name)}{did_you_mean(name, registry.similarities)}; known: {known}"
        report.add((*at, "similarity"), message, Code.NOT_ALLOWED)


def _check_kind(invariant: Invariant, at: Steps, report: ProblemReport, registry: Registry) -> None:
    """Check an invariant whose type is a rule kind: the kind validates its own parameters."""
    kind = registry.kinds[invariant.type]
    for name in sorted(invariant.model_fields_set & TYPE_FIELDS):
        message = f'{show(name)} does not belong to the kind {kind.kind}; its parameters stand under "params"'
        report.add((*at, name), message, Code.UNKNOWN_KEY, on_key=True)
    if invariant.negate:
        message = f"a rule kind cannot be negated: that {kind.kind} is silent may mean that it was not asked"
        report.add((*at, "negate"), message, Code.NOT_ALLOWED)
    try:
        registry.make_rule(invariant.type, invariant.params)
    except ValidationError as error:
        report.add_flaws((*at, "params"), problems_of(error, invariant.params, kind.params_type, kind.kind))
    except Exception as error:  # noqa: BLE001 - a stranger's validator may raise anything; the check must go on
        what = f"{type(error).__name__}: {show(str(error))}"
        message = f"kind {kind.kind} failed on these parameters: {what}; report it to its author"
        report.add((*at, "params"), message, Code.KIND_FAILED)


def check_scenario(scenario: Scenario, at: Steps, report: ProblemReport) -> None:
    """Warn of faults that can never trigger."""
    faults = [("tool_faults", number, fault.probability) for number, fault in enumerate(scenario.tool_faults)]
    faults += [("llm_faults", number, fault.probability) for number, fault in enumerate(scenario.llm_faults)]
    for name, number, probability in faults:
        if probability == 0:
            message = "with probability 0 the fault never comes, so the scenario is not exercised by it"
            report.add((*at, name, number, "probability"), message, Code.NEVER_FIRES, warning=True)


def check_reach(invariants: list[Invariant], scenarios: list[Scenario], at: Steps, report: ProblemReport) -> None:
    """Warn of invariants whose ``when`` holds in no scenario: they are never evaluated."""
    holds = {
        "always": True,
        "no_chaos": any(one.is_calm for one in scenarios),
        "any_chaos_active": any(not one.is_calm for one in scenarios),
        "tool_faults_active": any(one.tool_faults for one in scenarios),
        "llm_faults_active": any(one.llm_faults for one in scenarios),
    }
    for number, invariant in enumerate(invariants):
        if scenarios and not holds[invariant.when]:
            message = f"no scenario is one for {show(invariant.when)}, so the invariant may never be evaluated"
            report.add((*at, number, "when"), message, Code.NEVER_FIRES, warning=True)


def check_unique(items: list[Json], at: Steps, key: str, report: ProblemReport) -> None:
    """Report every item with the id or name of an earlier one: cells are identified by them."""
    first: dict[str, int] = {}
    for number, item in enumerate(items):
        name = item.get(key) if isinstance(item, dict) else None
        if not isinstance(name, str):
            continue
        if name in first:
            line = report.place((*at, first[name], key)).line
            message = f"{key} {show(name)} is taken in line {line}; it must be unique, cells are known by it"
            report.add((*at, number, key), message, Code.DUPLICATE_ID)
        first.setdefault(name, number)


# Loads a flakestorm.yaml, version 2.0, as a contract, and reports every mistake with its line and column.

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
