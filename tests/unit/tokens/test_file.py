"""Tokens in a file that somebody else renews."""

from __future__ import annotations

from pathlib import Path

import pytest
from stream_guard_tokens.command import MountedToken

from stream_guard.errors import SettingsError, TokenError
from stream_guard.kafka.tokens import token_keeper
from stream_guard.settings import KafkaSettings


def test_a_renewed_token_is_used_at_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    keeper = token_keeper(KafkaSettings(oauth_source="file", oauth_token_file=file))
    assert keeper.token() == "first"
    file.write_text("second")
    assert keeper.token() == "second"


def test_a_file_that_is_missing_or_no_text_is_named_and_not_quoted(tmp_path: Path) -> None:
    file = tmp_path / "token"
    source = MountedToken.open(KafkaSettings(oauth_token_file=file))
    with pytest.raises(TokenError, match=f"kafka.oauth_token_file: {file} cannot be read: No such file"):
        source.fetch()
    file.write_bytes(b"canary\xff")
    with pytest.raises(TokenError, match="not text in ASCII") as failed:
        source.fetch()
    assert "canary" not in str(failed.value)
    with pytest.raises(SettingsError, match=r"needs kafka\.oauth_token_file"):
        MountedToken.open(KafkaSettings())
