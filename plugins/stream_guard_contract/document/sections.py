"""The sections of a flakestorm.yaml, version 2.0, as pydantic models; defaults are those of Flakestorm."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from stream_guard import Json

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
