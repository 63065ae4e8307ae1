"""The settings of a process, section by section."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from stream_guard.errors import SettingsError
from stream_guard.judge.durations import Duration
from stream_guard.judge.limits import Limits
from stream_guard.settings.alerting import DeliverySettings
from stream_guard.settings.judging import JudgeSettings
from stream_guard.settings.kafka import KafkaSettings
from stream_guard.settings.plugins import PluginSettings
from stream_guard.settings.text_protocols import TextProtocol
from stream_guard.settings.values import Names, Section

PREFIX: Final = "STREAM_GUARD_"
DELIMITER: Final = "__"
_SHORTEST_KEY: Final = 32


class ModelPrice(Section):
    """What a model costs, in US dollars for a million tokens."""

    input: float = Field(ge=0, description="tokens of the request")
    output: float = Field(ge=0, description="tokens of the answer")
    thinking: float | None = Field(default=None, ge=0, description="tokens of thinking; as the answer's without one")
    cache_read: float | None = Field(default=None, ge=0, description="cached tokens; as the request's without one")
    cache_write: float | None = Field(
        default=None, ge=0, description="tokens cached anew; as the request's without one"
    )


class DecodeSettings(Section):
    """How records are read."""

    max_record_bytes: int = Field(default=8 * 2**20, gt=0, description="a larger record is a dead letter")
    strict_keys: bool = Field(
        default=True, description="refuse an object that has a key twice; one more pass over every record"
    )
    trace_wait: Duration = Field(
        default=60.0,
        ge=0,
        description="how long, in event time, spans wait for the one that names their conversation",
    )
    parent_wait: Duration = Field(
        default=30.0,
        description="how long, in event time, spans wait for the spans around them; in a recording, until its end",
    )
    formats: dict[str, str] = Field(
        default={}, description="formats of topics, by topic; the others have that of --from-format"
    )
    prices: dict[str, ModelPrice] = Field(
        default={},
        description="what models cost, where records do not say: `{input: 3, output: 15}`, dollars a million tokens",
    )


class SessionLimits(Limits):
    """Limits on what is remembered; a metric counts each time one is reached."""

    end_from: Names = Field(
        default=(),
        description="agents whose `session_end` resets limits, `*` for all; after another's the session may go on",
    )


class DiffSettings(Section):
    """What ``diff`` takes for noise, and what for large."""

    level: float = Field(
        default=0.025,
        gt=0,
        lt=0.5,
        description="how often chance alone may fail behaviour; the policy, a third as often",
    )
    least: dict[str, float] = Field(
        default={}, description="the least change that matters, as a share from 0 to 1, by axis or by rule"
    )
    task_label: str = Field(default="scenario", min_length=1, description="the label that names a session's task")


class CommitSettings(Section):
    """How often a run commits its alerts and its progress; it also commits when the source is idle."""

    records: int = Field(default=5_000, gt=0, description="commit after this many records")
    seconds: float = Field(default=1.0, gt=0, description="commit after this many seconds")


class StatusSettings(Section):
    """The small HTTP server for /metrics and /healthz."""

    host: str = Field(default="127.0.0.1", description="address to listen on; loopback unless allow_remote is set")
    port: int = Field(default=0, ge=0, le=65535, description="0 takes a free port and prints it")
    allow_remote: bool = Field(
        default=False, description="listen on an address that other machines reach; nobody is asked who they are"
    )
    max_silence: Duration = Field(
        default=30.0, description="/healthz fails when the work has not come round for this long"
    )


class ReceiverSettings(Section):
    """The receiver of telemetry over HTTP: ``run otlp://HOST:PORT`` and ``serve --telemetry``."""

    spool: Path = Field(
        default=Path("stream-guard-spool"), description="a folder for what was taken in and is not judged yet"
    )
    max_bytes: int = Field(default=2**30, gt=0, description="bytes kept there; more is refused with 429")
    token: SecretStr | None = Field(
        default=None, description="what exporters must send; any address but loopback needs one"
    )


class ApiSettings(Section):
    """The HTTP API for agents: ``stream-guard serve``."""

    host: str = Field(default="127.0.0.1", description="address to listen on; any but loopback needs a token")
    port: int = Field(default=8750, ge=0, le=65535, description="0 takes a free port and prints it")
    token: SecretStr | None = Field(default=None, description="one token for all callers and all roles")
    token_file: Path | None = Field(default=None, description="a file that holds that token")
    tokens_file: Path | None = Field(
        default=None, description="a file of tokens, each with a name and a role; made by `stream-guard tokens new`"
    )
    budget: Duration = Field(default=1.0, gt=0, description="a check that takes longer is answered by on_error")
    on_error: Literal["open", "closed"] = Field(
        default="closed", description="what an attempt gets that could not be judged: allow (open) or block (closed)"
    )
    max_body_bytes: int = Field(default=8 * 2**20, gt=0, description="a larger request is refused")
    header_timeout: Duration = Field(default=10.0, gt=0, description="a request whose head takes longer is dropped")
    body_timeout: Duration = Field(
        default=30.0,
        gt=0,
        description="a request that is not there by then is refused; so long an answer may take to leave",
    )
    max_connections: int = Field(
        default=512, gt=0, description="connections at once; one that waits for its caller makes room for another"
    )
    max_in_flight: int = Field(
        default=256, gt=0, description="checks at once, and so many events requests, and others; more get 503"
    )
    max_in_flight_bytes: int = Field(default=64 * 2**20, gt=0, description="bytes of those requests together")
    grpc_port: int | None = Field(
        default=None, ge=0, le=65535, description="port for gateways that ask over gRPC; it needs the extra grpc"
    )
    decisions_to: str = Field(
        default="", description="a collector, http://HOST:4318, that gets each decision as an OpenTelemetry log event"
    )
    acs_secret_file: Path | None = Field(
        default=None,
        description="a file with the secret that clients of the Agent Control Standard sign with, "
        "or a folder of such files, each named after the label of its secret",
    )
    acs_without_ask: Names = Field(
        default=(), description="agents of that standard whose client cannot ask a person, or *: a pause is a defer"
    )
    acs_without_modify: Names = Field(
        default=(), description="agents of that standard whose client cannot change a call, or *: a change is a deny"
    )
    session_by: str = Field(
        default="meta,mcp-session,trace,principal,connection",
        description="what names a session for gateways that pass MCP on, in order: these, or header:NAME",
    )

    def read_token(self) -> str:
        """Return the token, empty when there is none; SettingsError when its file cannot be used."""
        if self.token is not None:
            return self.token.get_secret_value()
        if self.token_file is None:
            return ""
        try:
            token = self.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{self.token_file}: the token of the api cannot be read: {error}") from None
        if not token:
            raise SettingsError(f"{self.token_file}: the file for the token of the api is empty")
        return token


class HookSettings(Section):
    """Hooks of agents' own programs: ``stream-guard hook``. In a file they count with ``--settings`` only."""

    gate: str = Field(default="http://127.0.0.1:8750", description="address of the gate that is asked")
    token_file: Path | None = Field(default=None, description="a file that holds an agent's token for the gate")
    on_error: Literal["closed", "ask", "open"] = Field(
        default="closed", description="what a call gets that the gate could not judge: refused, the user asked, or run"
    )
    timeout: float = Field(default=2.0, gt=0, le=600, description="seconds for everything that the gate is asked")
    pause_as: Literal["review", "ask"] = Field(
        default="review",
        description="what a paused call gets: a denial that names its review, or the agent's own prompt if it has one",
    )
    agent: str = Field(default="", description="the name of the agent in the policy")


class HistorySettings(Section):
    """Where audit, reviews and incidents are kept, and for how long."""

    url: str = Field(
        default="stream_guard_history.db", description="a file, or postgresql://host/name; libpq finds the password"
    )
    key_file: Path | None = Field(
        default=None, description="a file with a secret that records are signed with; keep it away from the database"
    )
    keep: Duration | None = Field(
        default=365 * 86_400.0,
        ge=3600,
        description="how long what is settled is kept, and refusals and ended sessions stay so; null: for ever",
    )
    max_records: int = Field(
        default=5_000_000, gt=0, description="records of the audit; beyond, the oldest go before their time"
    )

    def read_key(self) -> bytes:
        """Return the secret, empty when there is none; SettingsError when its file cannot be used."""
        if self.key_file is None:
            return b""
        try:
            key = self.key_file.read_bytes().strip()
        except OSError as error:
            raise SettingsError(f"{self.key_file}: the key of the history cannot be read: {error.strerror}") from None
        if len(key) < _SHORTEST_KEY:
            raise SettingsError(
                f"{self.key_file}: the key of the history needs {_SHORTEST_KEY} bytes or more; "
                "make one with: openssl rand -hex 32"
            )
        return key


class ReviewSettings(Section):
    """How long a person has, and what happens then."""

    timeout: Duration = Field(default=3600.0, gt=0, description="after this, an open review has its outcome")
    on_timeout: Literal["reject", "approve"] = Field(default="reject", description="the outcome when nobody answered")
    approvals: int = Field(default=1, ge=1, le=10, description="how many people have to approve an attempt")
    max_open: int = Field(default=1000, gt=0, description="attempts that wait for a person at once; others are blocked")
    max_bytes: int = Field(
        default=256 * 2**10, gt=0, description="an attempt with longer arguments is blocked: nobody could read them"
    )


class PageSettings(Section):
    """The web page, in ``serve``, ``run --page`` and ``worker --page``; who may see it is in ``api``."""

    host: str = Field(default="127.0.0.1", description="address of `--page`; any but loopback needs a token of `api`")
    port: int = Field(default=8751, ge=0, le=65535, description="its port; 0 takes a free one and prints it")
    sessions: int = Field(default=2_000, gt=0, description="sessions whose recent events are kept, the latest ones")
    session_events: int = Field(default=20_000, gt=0, description="events kept of one session, the latest ones")
    reports: Path | None = Field(
        default=None, description="a folder of reports, as diff, contract and compliance write them in JSON"
    )


class LogSettings(Section):
    """The log of a process, on standard error."""

    format: Literal["text", "json"] = Field(default="text", description="lines for people, or one JSON object a line")
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="what is less important is not said"
    )


class ComplianceSettings(Section):
    """How ``check_compliance`` behaves."""

    require_flag: bool = Field(
        default=False,
        description="refuse to run unless PISAMA_ENABLE_CHECK_COMPLIANCE is 1, true or yes, as that SDK does",
    )
    propose: bool = Field(
        default=False,
        description="let the endpoint of `judge` propose readings for sentences that are left open; a verifier decides",
    )


class WorkerSettings(Section):
    """The worker on Kafka; workers of one group share the partitions of its topics."""

    group: str = Field(default="stream-guard", pattern=r"^[A-Za-z0-9._-]{1,200}$", description="name of the group")
    instance: str = Field(
        default="",
        description="a name that stays the same over restarts, so that partitions wait for it; each worker its own",
    )
    rekey: bool = Field(
        default=False, description="pass records on under their sessions' ids: their keys are something else"
    )
    policy_topic: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9._-]{0,249}$",
        description="a topic with one partition whose policies the whole group takes over; without, the file's is used",
    )
    session_timeout: Duration = Field(
        default=30.0, gt=0, description="a worker not heard of for this long has lost its partitions"
    )
    poll_records: int = Field(default=10_000, gt=0, description="records judged before states are written")
    idle_grace: Duration = Field(
        default=10.0,
        description="a partition on which nothing comes for this long goes by the wall clock; one whose stamps lag "
        "holds others back for no longer",
    )
    stall: Duration = Field(
        default=60.0, gt=0, description="a worker that judges nothing for this long, though records wait, ends"
    )
    copies: int = Field(
        default=1,
        ge=0,
        description="how many other workers keep a copy of the states of a partition, to take it over at once; 0: none",
    )
    replication_factor: int = Field(
        default=-1, ge=-1, description="copies of the topics that the workers make; -1: as many as the brokers' default"
    )

    @field_validator("replication_factor")
    @classmethod
    def _is_a_number_of_copies(cls, value: int) -> int:
        if value == 0:
            raise ValueError("0 is no number of copies; write 1 or more, or -1 for the brokers' default")
        return value


class Settings(BaseSettings):
    """All settings of a process."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter=DELIMITER,
        extra="forbid",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    plugins: PluginSettings = PluginSettings()
    decode: DecodeSettings = DecodeSettings()
    receiver: ReceiverSettings = ReceiverSettings()
    sessions: SessionLimits = SessionLimits()
    serve: StatusSettings = StatusSettings()
    commit: CommitSettings = CommitSettings()
    log: LogSettings = LogSettings()
    kafka: KafkaSettings = KafkaSettings()
    compliance: ComplianceSettings = ComplianceSettings()
    diff: DiffSettings = DiffSettings()
    judge: JudgeSettings = JudgeSettings()
    api: ApiSettings = ApiSettings()
    hook: HookSettings = HookSettings()
    history: HistorySettings = HistorySettings()
    reviews: ReviewSettings = ReviewSettings()
    delivery: DeliverySettings = DeliverySettings()
    page: PageSettings = PageSettings()
    worker: WorkerSettings = WorkerSettings()
    text_protocol: TextProtocol = TextProtocol()

    def model_post_init(self, context: Any, /) -> None:
        """Let the section ``kafka`` know which plugins may give it tokens."""
        del context
        self.__dict__["kafka"] = self.kafka.beside(self.plugins)  # the settings themselves are frozen

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags win over the environment; files come in through ``load_settings``."""
        del cls, settings_cls, dotenv_settings, file_secret_settings
        return init_settings, env_settings
