"""Tokens that a command prints, and what is said of one that prints none."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from stream_guard_tokens.command import TokenCommand

from stream_guard.errors import SettingsError, TokenError
from stream_guard.settings import KafkaSettings

SECRET = "canary-0a1b2c3d"


def command(tmp_path: Path, script: str, *arguments: str, timeout: float = 30.0) -> TokenCommand:
    """The source whose command is a script of Python; its secret is an argument."""
    file = tmp_path / "get token.py"
    file.write_text(script)
    written = f"{sys.executable} '{file}' {SECRET} {' '.join(arguments)}"
    return TokenCommand.open(KafkaSettings.model_validate({"oauth_command": written, "oauth_timeout": timeout}))


def test_a_token_is_what_the_command_prints(tmp_path: Path) -> None:
    token = command(tmp_path, "import sys; print(sys.argv[2])", "a.b-c").fetch()
    assert (token.text, token.expires) == ("a.b-c", None)


@pytest.mark.parametrize("lifetime", ["300", '"300"'])
def test_json_says_when_the_token_expires(tmp_path: Path, lifetime: str) -> None:
    script = f"""print('{{"access_token": "abc", "expires_in": {lifetime}, "token_type": "bearer"}}')"""
    before = time.time()
    token = command(tmp_path, script).fetch()
    assert token.text == "abc"
    assert token.expires is not None
    assert before + 300 <= token.expires <= time.time() + 300


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import sys; print(sys.argv[1], file=sys.stderr); sys.exit(7)", "ended with exit code 7"),
        ("import os; os.kill(os.getpid(), 9)", "ended with exit code -9"),
        ('import sys; print(\'{"error": "%s"}\' % sys.argv[1])', "printed JSON without an access_token"),
        ("import sys; print(chr(233) + sys.argv[1])", "printed something that is no token"),
    ],
)
def test_a_command_without_a_token_is_named_and_its_words_are_not(tmp_path: Path, script: str, said: str) -> None:
    with pytest.raises(TokenError, match=said) as failed:
        command(tmp_path, script).fetch()
    text = str(failed.value)
    assert text.startswith(f"kafka.oauth_command: {sys.executable} ")
    assert text.endswith("; run it by hand, as the same user, to see why")
    assert SECRET not in text


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(note)!r} + '.new', 'w').write(str(child.pid))\n"
        f"os.rename({str(note)!r} + '.new', {str(note)!r})\n"
        "time.sleep(600)"
    )
    with pytest.raises(TokenError, match=r"printed no token within 3 s \(kafka.oauth_timeout\)") as failed:
        command(tmp_path, script, timeout=3.0).fetch()
    assert failed.value.retryable
    while note.exists() and is_running(int(note.read_text())):
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_nothing_is_run_by_a_shell(tmp_path: Path) -> None:
    token = command(tmp_path, "import sys; print(len(sys.argv))", ";", "touch", str(tmp_path / "made"), "$(id)").fetch()
    assert token.text == "6"
    assert not (tmp_path / "made").exists()


def test_a_command_that_is_not_there_is_said() -> None:
    source = TokenCommand.open(KafkaSettings.model_validate({"oauth_command": f"no-such-program {SECRET}"}))
    with pytest.raises(TokenError, match="no-such-program cannot be started: No such file") as failed:
        source.fetch()
    assert not failed.value.retryable
    assert SECRET not in str(failed.value)


@pytest.mark.parametrize(("written", "said"), [("", "needs kafka.oauth_command"), ("'a", "cannot be split into words")])
def test_a_command_that_is_none_is_refused(written: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        TokenCommand.open(KafkaSettings.model_validate({"oauth_command": written}))
