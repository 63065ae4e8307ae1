"""What ``doctor`` and ``--version`` say of the installation: the build, how to get the other, extras, the system."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stream_guard import distribution
from stream_guard.cli.app import app
from stream_guard.doctor import topics
from stream_guard.judge import fold


def ask() -> dict[str, Any]:
    done = CliRunner().invoke(app, ["doctor", "--format", "json"])
    assert done.exit_code == 0, done.output
    return {check["about"]: check for check in json.loads(done.stdout)}


def test_with_nothing_to_look_at_it_says_what_is_installed() -> None:
    checks = ask()
    assert list(checks) == ["build", "extras", "system"]
    assert checks["build"]["found"].startswith(f"{distribution.own_version()} (")
    assert "make compiled" in checks["build"]["advice"]  # in a clone
    assert "serve" in checks["extras"]["found"]


@pytest.mark.parametrize(
    ("compiled", "here", "other"), [(True, "compiled", "--no-binary"), (False, "plain", "compiled")]
)
def test_the_version_says_which_build_it_is_and_how_to_get_the_other(
    monkeypatch: pytest.MonkeyPatch, compiled: bool, here: str, other: str
) -> None:
    monkeypatch.setattr(distribution, "is_compiled", lambda: compiled)
    said, advice = CliRunner().invoke(app, ["--version"]).stdout.splitlines()
    assert said.startswith(f"stream-guard {distribution.own_version()} ({here} build, Python 3.")
    assert other in advice


@pytest.mark.parametrize(
    ("system", "said"), [("linux", "--only-binary"), ("freebsd14", "HATCH_BUILD_HOOK_ENABLE_CUSTOM=true")]
)
def test_where_there_is_no_wheel_the_command_builds_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, system: str, said: str
) -> None:
    monkeypatch.setattr(distribution, "is_compiled", lambda: False)
    monkeypatch.setattr(sys, "platform", system)
    advice = distribution.other_build(tmp_path / "stream_guard")
    assert said in advice
    assert advice.endswith(f" {distribution.NAME}")


def test_a_compiled_build_is_known_by_its_libraries(tmp_path: Path) -> None:
    _, room, module = fold.__name__.split(".")  # every event goes through it
    (tmp_path / room).mkdir()
    (tmp_path / room / f"{module}.py").touch()
    assert not distribution.is_compiled(tmp_path)
    (tmp_path / room / f"{module}.abi3.so").touch()
    assert distribution.is_compiled(tmp_path)


def test_an_extra_that_lacks_a_package_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topics, "_is_installed", lambda name: name not in ("psycopg", "numpy"))
    extras = ask()["extras"]
    assert extras["found"].endswith("; not installed: analysis, postgres")
    assert extras["advice"].endswith(f"pip install '{distribution.NAME}[NAME]'")


def test_sources_that_were_never_installed_are_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> Any:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(topics, "distribution", nothing)
    assert ask()["extras"]["status"] == "warn"


def test_a_mac_is_told_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    system = ask()["system"]
    assert system["status"] == "warn"
    assert "macOS" in system["found"]


def test_windows_is_told_so_without_a_traceback() -> None:
    program = "import sys; sys.platform = 'win32'; from stream_guard.cli.process import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("stream-guard runs on Linux and macOS")
    assert "Traceback" not in done.stderr
