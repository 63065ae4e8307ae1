"""Commands of the core and of plugins: listed by name, imported when they are called."""

from __future__ import annotations

import os
import re
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


# Names and options are completed by what declares them: typer, the values of the core, the lists of commands.
DECLARING = {"annotated_doc", "click", "msgspec", "pluggy", "rfc8785", "shellingham", "typer", "typing_extensions"}
ALSO_SLOW = (
    "asyncio",
    "http",
    "multiprocessing",
    "ssl",
    "urllib.request",
    "stream_guard.registry",
    "stream_guard.judge.fold",
)
LOADED = f"""
def loaded():
    packages = {{name.partition(".")[0] for name in sys.modules}} - set(sys.stdlib_module_names)
    strangers = {{name for name in packages if not name.startswith(("stream_guard", "_"))}} - {DECLARING!r}
    return sorted(strangers | {{name for name in {(*SLOW, *ALSO_SLOW)!r} if name in sys.modules}})
"""
WAYS = {
    "bash": lambda line: {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))},
    "zsh": lambda line: {"_TYPER_COMPLETE_ARGS": line},
    "fish": lambda line: {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
}


LINES = {
    "stream-guard c": {"check", "convert", "compliance", "contract", "config"},
    "stream-guard contract run --min": {"--min-score"},
    "stream-guard check --from-format open": {"openai-chat", "openai-responses", "openhands", "openinference"},
    "stream-guard check --fo": {"--format"},
    "stream-guard check events.jsonl --policy p.yaml --format ju": {"junit"},
    "stream-guard sessions ": {"list", "show"},
    "stream-guard reviews list --limit 5 --status e": {"expired"},
}
ASKED = [*((shell, line) for shell in WAYS for line in list(LINES)[:3]), *(("bash", line) for line in list(LINES)[3:])]


@pytest.mark.parametrize(("shell", "line"), ASKED)
def test_completion_loads_only_what_declares_commands(shell: str, line: str) -> None:
    program = f"""
import atexit, sys
{LOADED}
atexit.register(lambda: print(loaded(), file=sys.stderr))
sys.argv = ["stream-guard"]
from stream_guard.cli.process import main
main()
"""
    environment = {**os.environ, "_STREAM_GUARD_COMPLETE": f"complete_{shell}", **WAYS[shell](line)}
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment)
    said = done.stdout.replace("_arguments '*: :((", "").replace("))'", "").splitlines()
    assert {re.split(r'"?[:\t]|"$', row.lstrip('"'))[0] for row in said} == LINES[line]
    assert done.stderr == "[]\n"


def test_options_of_every_command_are_declared_without_what_runs_it() -> None:
    program = f"""
import sys
{LOADED}
from stream_guard.cli.app import make_commands, own_commands
from stream_guard.cli.commands import COMMANDS

def declare(commands):
    for command in commands:
        declare(command.commands)
        if command.target:
            assert make_commands([command])[command.name].load().params
            if loaded():
                sys.exit(f"{{command.target}} loads {{loaded()}}")

declare((*COMMANDS, *own_commands()))
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


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
