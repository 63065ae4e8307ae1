"""The settings of Kafka: where the brokers are, and how we log in."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, PrivateAttr, SecretStr, field_validator

from stream_guard.errors import SettingsError
from stream_guard.judge.durations import Duration
from stream_guard.settings.plugins import PluginSettings
from stream_guard.settings.values import Names, Section

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
