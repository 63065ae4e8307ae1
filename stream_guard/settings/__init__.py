"""The settings of a process, section by section: defaults < YAML file < environment (STREAM_GUARD_...) < flags."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import re2
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings import SettingsError as UnreadableVariable
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode

from stream_guard.errors import SettingsError
from stream_guard.judge.limits import Duration, Limits
from stream_guard.judge.patterns import Regex

# What all sections of the settings are made of.


class Section(BaseModel):
    """A group of settings; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def split_list(value: Any) -> Any:
    """Split a list that is written with commas, as in environment variables; read one that is written as JSON."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json.loads(value)  # what it raises is a ValueError, which pydantic reports
    return [part.strip() for part in value.split(",") if part.strip()]


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(split_list)]


# The settings of plugins: which of those that are installed may be loaded.


class PluginSettings(Section):
    """Which installed plugins may be loaded."""

    allow: Annotated[tuple[str, ...] | None, NoDecode, BeforeValidator(split_list)] = Field(
        default=None, description="names to load; None loads every installed one and says which"
    )
    block: Names = Field(default=(), description="names never to load")


# The settings of the judge: who is asked, for how long, and what that may cost.


MOST_PRICE: Final = 1e6  # budgets are counted in whole numbers of 64 bits


class JudgeSettings(Section):
    """The model that decides what no rule can: any endpoint with OpenAI's chat completions."""

    url: str = Field(default="", description="the endpoint, such as http://127.0.0.1:8000/v1; empty: nobody is asked")
    model: str = Field(default="", description="the model's name, as the endpoint calls it")
    api_key_file: Path | None = Field(default=None, description="a file that holds the key, where one is asked for")
    concurrency: int = Field(default=4, ge=1, le=64, description="questions that are open at the same time")
    max_characters: int = Field(default=60_000, gt=0, description="how much of a trace is shown")
    cache: Path | None = Field(default=None, description="a folder for answers; the same question is asked once")
    input_price: float = Field(
        default=0.0, ge=0, le=MOST_PRICE, description="dollars for a million tokens of the question"
    )
    output_price: float = Field(
        default=0.0, ge=0, le=MOST_PRICE, description="dollars for a million tokens of the answer"
    )
    # Of rules that ask a judge:
    record: str = Field(
        default="", description="where their questions, answers and budgets are kept; empty: in the history"
    )
    timeout: Duration = Field(default=30.0, gt=0, description="how long an answer may take")
    patience: Duration = Field(default=60.0, description="how long the end of the input waits for answers")
    max_tokens: int = Field(default=400, gt=0, description="how long an answer may be")
    calls_per_day: int = Field(default=1000, ge=0, description="questions of all rules together, in a day of UTC")
    dollars_per_day: float | None = Field(default=None, ge=0, description="what they may cost; unset: no bound")
    tenant_calls_per_day: int | None = Field(default=None, ge=0, description="questions of one tenant; unset: as all")
    tenant_dollars_per_day: float | None = Field(default=None, ge=0, description="what those may cost; unset: as all")


# The settings of Kafka: where the brokers are, and how we log in.


# RFC 7628: a name of letters, and a value without the character that ends it.
_EXTENSION: Final = re.compile(r"[A-Za-z]+=[\x21-\x7e \t\r\n]*")


class KafkaSettings(Section):
    """How brokers are reached; an address that names servers itself is used instead of ``bootstrap_servers``."""

    bootstrap_servers: Names = Field(default=(), description="host:port of one broker or more")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="whether the connection is encrypted (SSL) and who we are is asked (SASL)"
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = Field(
        default="SCRAM-SHA-512", description="how the password, or with OAUTHBEARER a token, is shown to the broker"
    )
    sasl_username: str = Field(default="", description="who we are")
    sasl_password: SecretStr | None = Field(default=None, description="the password; a file is safer")
    sasl_password_file: Path | None = Field(default=None, description="a file that holds the password")
    oauth_source: str = Field(
        default="",
        description="where tokens come from: client_credentials, file, command, msk_iam, or what a plugin adds",
    )
    oauth_url: str = Field(default="", description="client_credentials: the endpoint that gives tokens, by HTTPS")
    oauth_client_id: str = Field(default="", description="client_credentials: who we are there")
    oauth_client_secret: SecretStr | None = Field(default=None, description="our secret there; a file is safer")
    oauth_client_secret_file: Path | None = Field(
        default=None, description="a file that holds the secret; read again for every token"
    )
    oauth_client_login: Literal["header", "body"] = Field(
        default="header", description="where the endpoint looks for the id and the secret"
    )
    oauth_scope: str = Field(default="", description="client_credentials: what the token is asked for")
    oauth_audience: str = Field(default="", description="client_credentials: for whom, where the endpoint wants that")
    oauth_ca_file: Path | None = Field(
        default=None, description="PEM of the authority of the endpoint's certificate; the system's own without it"
    )
    oauth_token_file: Path | None = Field(
        default=None, description="file: holds the token, which somebody else renews; read for every connection"
    )
    oauth_command: SecretStr | None = Field(
        default=None,
        description="command: prints a token, or JSON with access_token and expires_in; runs without a shell",
    )
    oauth_region: str = Field(default="", description="msk_iam: the cluster's region; AWS's variables without it")
    oauth_extensions: Names = Field(
        default=(), description="name=value, sent with the token: logicalCluster=lkc-1 for Confluent Cloud"
    )
    oauth_timeout: Duration = Field(default=10.0, gt=0, description="how long getting a token may take")
    ssl_ca_file: Path | None = Field(default=None, description="PEM of the authority; the system's own without it")
    ssl_certificate_file: Path | None = Field(default=None, description="PEM of our certificate, if one is asked for")
    ssl_key_file: Path | None = Field(default=None, description="PEM of its key, where that is not in the same file")
    ssl_key_password_file: Path | None = Field(default=None, description="a file that holds the key's password")
    ssl_check_hostname: bool = Field(default=True, description="whether the certificate must be for the broker's name")
    patience: Duration = Field(default=60.0, description="a broker that is away for longer ends the run")

    _plugins: PluginSettings = PrivateAttr(default=PluginSettings())

    @field_validator("oauth_extensions")
    @classmethod
    def _are_extensions(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            if not _EXTENSION.fullmatch(value) or value.lower().startswith("auth="):
                raise ValueError("write name=value, where the name has letters only and is not auth")
        return values

    @property
    def plugins(self) -> PluginSettings:
        """Which plugins may give tokens: the section of that name, beside this one."""
        return self._plugins

    def beside(self, plugins: PluginSettings) -> Self:
        """Return these settings beside a section ``plugins``."""
        copy = self.model_copy()
        copy._plugins = plugins  # noqa: SLF001  # of the same class
        return copy

    def read_password(self) -> str:
        """Return the password; SettingsError when there is none."""
        if self.sasl_password_file is not None:
            return read_secret(self.sasl_password_file, "kafka.sasl_password_file")
        if self.sasl_password is None:
            raise SettingsError(
                f"kafka.security_protocol {self.security_protocol} needs kafka.sasl_password_file or "
                "kafka.sasl_password"
            )
        return self.sasl_password.get_secret_value()

    def read_client_secret(self) -> str:
        """Return the secret for the endpoint of tokens; SettingsError when there is none."""
        if self.oauth_client_secret_file is not None:
            return read_secret(self.oauth_client_secret_file, "kafka.oauth_client_secret_file")
        if self.oauth_client_secret is None:
            raise SettingsError(
                "kafka.oauth_source client_credentials needs kafka.oauth_client_secret_file or "
                "kafka.oauth_client_secret"
            )
        return self.oauth_client_secret.get_secret_value()


def read_secret(file: Path, setting: str) -> str:
    """Return what a file holds, without the end of its line; SettingsError names the setting and the file."""
    try:
        # Editors end a file with a newline, which is not part of the secret.
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise SettingsError(f"{setting}: {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{setting}: {file} cannot be read: it is not UTF-8") from None


# The settings of delivery: the outbox, and the routes that alerts take.


class RouteSettings(Section):
    """One way out for alerts: a sink, and which alerts it gets."""

    to: SecretStr | None = Field(default=None, description="the sink, as in --alerts: alertmanager:http://host:9093")
    to_file: Path | None = Field(default=None, description="a file that holds that; for an address with a secret in it")
    severity: Literal["info", "warning", "error", "critical"] = Field(
        default="info", description="alerts less severe are not sent"
    )
    rules: Names = Field(default=(), description="ids of rules, * for any characters; all without one")
    labels: dict[str, str] = Field(default={}, description="labels that an alert must have")
    tenants: Names = Field(default=(), description="tenants whose alerts are sent; all without one")
    flood: int | None = Field(
        default=None,
        ge=0,
        description="alerts of one rule and tenant in a window, the rest is summed up; 0: all; unset: delivery.flood",
    )
    flood_window: Duration = Field(default=60.0, gt=0, description="the window")
    digest: Duration | None = Field(default=None, description="one message for all alerts of so long; unset: one each")
    timeout: Duration = Field(default=10.0, gt=0, description="how long a receiver may take to answer")
    token: SecretStr | None = Field(default=None, description="what a receiver over HTTP is shown as a bearer token")
    token_file: Path | None = Field(default=None, description="a file that holds the token")
    secret: SecretStr | None = Field(default=None, description="what webhooks are signed with: whsec_ and base64")
    secret_file: Path | None = Field(default=None, description="a file that holds the secret")
    ca_file: Path | None = Field(default=None, description="PEM of the authority of the receiver's certificate")
    resend: Duration = Field(default=60.0, gt=0, description="how often Alertmanager is reminded of what lasts")
    resolve_after: Duration = Field(
        default=3600.0, gt=0, description="a finding that nobody solved is over when nothing more was found for so long"
    )
    page_url: str = Field(default="", description="where alerts link to; as delivery.page_url without one")

    def read_to(self) -> str:
        """Return the sink and its target; SettingsError when there is none, or its file cannot be used."""
        return _read_secret(self.to, self.to_file, "to") or _none("to")

    def read_token(self) -> str:
        """Return the bearer token, empty without one; SettingsError when its file cannot be used."""
        return _read_secret(self.token, self.token_file, "token")

    def read_secret(self) -> str:
        """Return the secret for signatures, empty without one; SettingsError when its file cannot be used."""
        return _read_secret(self.secret, self.secret_file, "secret")


class DeliverySettings(Section):
    """How alerts get to sinks that are not on this machine."""

    outbox: Path | None = Field(
        default=None,
        description="a file for alerts on their way; unset: beside the checkpoint, or stream-guard-outbox.db",
    )
    max_bytes: int = Field(default=2**30, gt=0, description="bytes kept there; what needs more stops the run, unlost")
    give_up: Duration = Field(
        default=86_400.0, gt=0, description="an alert that its sink does not take for this long is a dead letter"
    )
    keep: Duration = Field(
        default=604_800.0, gt=0, description="how long ids of sent alerts, and alerts that were summed up, are kept"
    )
    drain: Duration = Field(default=10.0, gt=0, description="how long the end of a run waits for slow sinks")
    timeout: Duration = Field(
        default=300.0, gt=0, description="how long a file, a screen or a topic may take alerts before that is an error"
    )
    flood: int = Field(
        default=100, ge=0, description="alerts of one rule and tenant that a sink for people gets in a window; 0: all"
    )
    page_url: str = Field(
        default="",
        pattern=r"^(https?://[^\s]+)?$",
        description="where people reach the page, such as https://guard.example.com; alerts link there",
    )
    secret: SecretStr | None = Field(
        default=None, description="what webhooks that --alerts names are signed with: whsec_ and base64"
    )
    secret_file: Path | None = Field(default=None, description="a file that holds that secret")
    routes: dict[str, RouteSettings] = Field(
        default={}, description="sinks by name, each with the alerts it gets: see [alerts out](alerts.md)"
    )


def _none(name: str) -> str:
    raise SettingsError(f"a route needs {name} or {name}_file: the sink it leads to")


def _read_secret(value: SecretStr | None, file: Path | None, name: str) -> str:
    if value is not None:
        return value.get_secret_value()
    if file is None:
        return ""
    try:
        text = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingsError(f"{file}: the {name} of a route cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{file}: the {name} of a route cannot be read: it is not UTF-8") from None
    if not text:
        raise SettingsError(f"{file}: the file for the {name} of a route is empty")
    return text


# Patterns that find tool calls in the text of agents that have no other way to call tools.


# "Action:" and behind it an object with name and arguments, or a name and, on the next line, "Action Input:".
_CALL: Final = r"(?m)^\s*Action:\s*(?:(?P<json>\{)|(?P<name>[^\s{}\[\]:]+)[ \t]*$)"
_ARGUMENTS: Final = r"(?s)^\s*Action Input:[ \t]*(?P<args>.*)$"
_RESULT: Final = r"(?s)^\s*(?:API output|Observation|Tool result):[ \t]*(?P<output>.*)$"
_ERROR: Final = r"^(?i:error)\b"


def _with_group(*groups: str) -> AfterValidator:
    """Return a check that a pattern is a linear-time regular expression with one of these groups."""

    def check(pattern: str) -> str:
        Regex(pattern)  # raises ValueError, in words
        found = re2.compile(pattern).groupindex
        if groups and not any(group in found for group in groups):
            wanted = " or ".join(f"(?P<{group}>...)" for group in groups)
            raise ValueError(f"the pattern needs a group {wanted}, which says what is taken from the text")
        return pattern

    return AfterValidator(check)


class TextProtocol(BaseModel):
    """How the format ``text-protocol`` finds calls and results in texts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    call: Annotated[str, _with_group("name", "json")] = Field(
        default=_CALL,
        description="where a call begins in what the model said: a group `name`, or `json` at the object of the call",
    )
    arguments: Annotated[str, _with_group("args")] = Field(
        default=_ARGUMENTS, description="the arguments in what follows a call's name: a group `args`"
    )
    result: Annotated[str, _with_group("output")] = Field(
        default=_RESULT, description="a message of the user's that is a result: a group `output`"
    )
    error: Annotated[str, _with_group()] = Field(
        default=_ERROR, description="what the output of a call that failed matches"
    )
    answer: str = Field(
        default="respond", description="a tool that is none: its argument `content` is what the agent said"
    )


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


# Load the settings: read the file, put the layers over each other, and explain what is wrong.


def load_settings(file: Path | None = None, **flags: Any) -> Settings:
    """Return the settings, or raise SettingsError that names each wrong one and where it was set.

    A flag is a section with some of its settings, ``serve={"port": 9464}``. A setting that is None was not set.
    """
    in_file = {} if file is None else read_file(file)
    by_flag = _without_none(flags)
    refuse_unknown_variables()

    class Layered(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            *sources: PydanticBaseSettingsSource,
            **named: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            layers = super().settings_customise_sources(settings_cls, *sources, **named)
            return (*layers, InitSettingsSource(settings_cls, init_kwargs=in_file))

    try:
        layered = Layered(**by_flag)
    except ValidationError as error:
        lines = [explain(item, by_flag, in_file, file) for item in error.errors()]
        raise SettingsError("\n".join(lines)) from None
    except UnreadableVariable as error:
        raise SettingsError(
            f"environment: {error}; set one setting per variable, as in {PREFIX}SERVE{DELIMITER}PORT=9464"
        ) from None
    return Settings.model_construct(**{name: getattr(layered, name) for name in Settings.model_fields})


def _without_none(flags: Mapping[str, Any]) -> dict[str, Any]:
    by_flag = {
        section: {name: value for name, value in values.items() if value is not None}
        if isinstance(values, dict)
        else values
        for section, values in flags.items()
    }
    return {section: values for section, values in by_flag.items() if values not in (None, {})}


def read_file(file: Path) -> dict[str, Any]:
    """Return the sections that a file has, or raise SettingsError."""
    try:
        data = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{file}: the settings file cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{file}: the settings file is not UTF-8: {error}") from None
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise SettingsError(f"{file}{place}: not YAML: {error.problem}") from None
    except (YAMLError, RecursionError) as error:
        raise SettingsError(f"{file}: not YAML: {error}") from None
    if data is None:
        return {}
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        known = ", ".join(Settings.model_fields)
        raise SettingsError(f"{file}: a settings file is a mapping of the sections {known}")
    return {section: values for section, values in data.items() if values is not None}


def line_of(file: Path, steps: list[str]) -> int:
    """Return the line of the deepest step that the file has."""
    node, line = YAML(typ="safe", pure=True).compose(file.read_text(encoding="utf-8")), 1
    for step in steps[:2]:
        pairs = node.value if isinstance(node, MappingNode) else []
        for key, value in pairs:
            if key.value == step:
                node, line = value, key.start_mark.line + 1
    return line


def refuse_unknown_variables() -> None:
    """Raise SettingsError for a variable that names a section that does not exist.

    Only names with the delimiter: an orchestrator sets STREAM_GUARD_SERVICE_HOST and the like for a
    service of that name, and those are not meant for us.
    """
    for name in sorted(os.environ):
        section, delimiter, _ = name.upper().removeprefix(PREFIX).partition(DELIMITER)
        if name.upper().startswith(PREFIX) and delimiter and section.lower() not in Settings.model_fields:
            raise SettingsError(
                f'environment variable {name}: unknown section "{section.lower()}"'
                f"{_meant(section.lower(), Settings.model_fields)}; sections: {', '.join(Settings.model_fields)}"
            )


def explain(item: ErrorDetails, by_flag: dict[str, Any], in_file: dict[str, Any], file: Path | None) -> str:
    """Return what is wrong with a setting, and where it was set: by a flag, a variable or in the file."""
    steps = [str(step) for step in item["loc"]]
    where = _where(steps, by_flag, in_file, file)
    name = ".".join(steps)
    if item["type"] != "extra_forbidden":
        secret = any(word in steps[-1] for word in ("password", "token", "secret")) or "routes" in steps
        found = "a value that is not shown" if secret else _short(item["input"])
        return f"{where}: setting {name}: {_lower(item['msg'])}; found {found}"
    prefix, known = "", list(Settings.model_fields)
    if len(steps) > 3 and steps[1] == "routes":
        prefix, known = ".".join(steps[:3]) + ".", list(RouteSettings.model_fields)
    elif len(steps) > 1:
        prefix, known = f"{steps[0]}.", list(getattr(Settings.model_fields[steps[0]].annotation, "model_fields", ()))
    listed = ", ".join(prefix + one for one in known)
    return f'{where}: unknown setting "{name}"{_meant(steps[-1], known, prefix)}; known: {listed}'


def _where(steps: list[str], by_flag: dict[str, Any], in_file: dict[str, Any], file: Path | None) -> str:
    """Return the layer that the value came from: the highest that has it."""
    if _has(by_flag, steps):
        return "flag"
    variables = {PREFIX + DELIMITER.join(steps[:depth]).upper() for depth in (1, 2)}
    for name in os.environ:
        if name.upper() in variables:
            return f"environment variable {name}"
    return f"{file}:{line_of(file, steps)}" if file is not None and _has(in_file, steps) else "settings"


def _has(data: Any, steps: list[str]) -> bool:
    for step in steps[:2]:
        if not isinstance(data, dict) or step not in data:
            return not isinstance(data, dict)
        data = data[step]
    return True


def _meant(found: str, known: Any, prefix: str = "") -> str:
    close = get_close_matches(found, list(known), 1)
    return f'; did you mean "{prefix}{close[0]}"?' if close else ""


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
