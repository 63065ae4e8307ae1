"""The settings of delivery: the outbox, and the routes that alerts take."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from stream_guard.errors import SettingsError
from stream_guard.judge.durations import Duration
from stream_guard.settings.values import Names, Section


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
