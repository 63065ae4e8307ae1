"""Commands of the core and of plugins: listed by name, imported when they are called."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator

import pytest
import typer
from typer.testing import CliRunner

import stream_guard as sg
from stream_guard.cli.app import app, make_commands
from stream_guard.cli.commands import COMMANDS
from stream_guard.registry import build_registry

HEAVY = ("faust", "httpx", "jinja2", "junitparser", "kafka", "numpy", "rapidfuzz", "sarif_pydantic", "starlette")
# What takes a tenth of a second or more: parameters and settings, the rules, tables on the terminal.
SLOW = ("pydantic", "pydantic_settings", "rich", "ruamel.yaml", "stream_guard.settings", "stream_guard_rules")
PROGRAM = """
import sys
from typer.testing import CliRunner
from stream_guard.cli.app import app
outcome = CliRunner().invoke(app, {arguments!r})
assert outcome.exit_code == 0, outcome.output
print([name for name in {heavy!r} if name in sys.modules])
"""


def leaves(commands: Iterable[sg.Command], prefix: str = "") -> Iterator[tuple[str, sg.Command]]:
    for command in commands:
        name = f"{prefix} {command.name}".strip()
        if command.commands:
            yield from leaves(command.commands, name)
        else:
            yield name, command


ALL = dict(leaves((*COMMANDS, *build_registry().commands.values())))


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["diff", "--help"], ["contract", "run", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    program = PROGRAM.format(arguments=arguments, heavy=HEAVY)
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"


def test_version_loads_no_plugin_and_none_of_the_program() -> None:
    program = PROGRAM.format(arguments=["--version"], heavy=(*SLOW, "stream_guard_diff"))
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"


def test_completion_of_commands_loads_no_rules_and_no_settings() -> None:
    # All but pydantic, which typer itself loads to complete.
    shell = {"_STREAM_GUARD_COMPLETE": "complete_bash", "COMP_WORDS": "stream-guard c", "COMP_CWORD": "1"}
    program = f"""
import atexit, sys
atexit.register(lambda: print([name for name in {SLOW[1:]!r} if name in sys.modules]))
sys.argv = ["stream-guard"]
from stream_guard.cli import main
main()
"""
    environment = {**os.environ, **shell}
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment)
    *names, loaded = done.stdout.split("\n")[:-1]
    assert {"check", "convert", "compliance", "contract"} <= set(names)
    assert loaded == "[]"


@pytest.mark.parametrize("name", ALL)
def test_list_of_commands_says_what_the_command_says_of_itself(name: str) -> None:
    listed = make_commands([ALL[name]])[ALL[name].name]
    assert listed.help == listed.load().help


def test_products_come_in_as_plugins() -> None:
    assert {"compliance", "contract", "diff"} <= set(build_registry().commands)


def test_command_of_a_plugin_that_is_blocked_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_GUARD_PLUGINS__BLOCK", '["diff"]')
    outcome = CliRunner().invoke(app, ["diff", "--help"])
    assert outcome.exit_code == 2
    assert "No such command 'diff'" in outcome.output
    assert "contract" in CliRunner().invoke(app, ["--help"]).output


def test_plugin_that_cannot_be_loaded_does_not_hide_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_GUARD_PLUGINS__ALLOW", '["no_such_pack"]')
    outcome = CliRunner().invoke(app, ["--help"])
    assert outcome.exit_code == 0
    assert "no_such_pack" in outcome.output
    assert "replay" in outcome.output


def test_command_that_the_core_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bringer:
        @sg.hookimpl
        def stream_guard_commands(self) -> list[sg.Command]:
            return [sg.Command(name="run", help="", target="no_such_module:main")]

    crowded = build_registry(extra=[Bringer()])
    monkeypatch.setattr("stream_guard.registry.build_registry", lambda _settings: crowded)
    assert 'brings the command "run"' in CliRunner().invoke(app, ["--help"]).output
    assert CliRunner().invoke(app, ["run", "--help"]).exit_code == 0


def test_target_that_does_not_exist_is_an_error_that_names_the_command() -> None:
    lost = make_commands([sg.Command(name="lost", help="", target="stream_guard_diff.nowhere:main")])["lost"]
    with pytest.raises(sg.PluginError, match='"lost" cannot be imported'):
        lost.load()


group = typer.Typer()


@group.command()
def first() -> None:
    """The first."""
    print("one")


@group.command()
def second() -> None:
    """The second."""


def test_target_may_be_an_application_of_typer() -> None:
    command = make_commands([sg.Command(name="mine", help="", target=f"{__name__}:group")])["mine"]
    sys.modules.setdefault(__name__, sys.modules[__name__])
    assert sorted(command.load().commands) == ["first", "second"]
