"""The application: commands that are imported when they are called, and one place where errors become exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from errno import EDQUOT, EFBIG, ENOSPC
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from stream_guard.cli.commands import COMMANDS
from stream_guard.commands import INFRASTRUCTURE, USAGE
from stream_guard.distribution import COMMAND, NAME, describe_build, other_build
from stream_guard.errors import PluginError, PolicyError, SettingsError, StreamGuardError
from stream_guard.ports import Command

_NO_ROOM: Final = (EDQUOT, EFBIG, ENOSPC)  # 1, with which Python would end, says of a check that it found something
_COMPLETING: Final = "_STREAM_GUARD_COMPLETE"  # set by the shell's completion


def make_commands(commands: Iterable[Command]) -> dict[str, Any]:
    """Return commands and groups as typer runs them, by name."""
    return {command.name: _group(command) if command.commands else LazyCommand(command) for command in commands}


def _group(command: Command) -> TyperGroup:
    return TyperGroup(
        name=command.name, help=command.help, no_args_is_help=True, commands=make_commands(command.commands)
    )


class LazyCommand(TyperCommand):
    """Stands for a command in lists. Once it is called, the command itself takes the arguments."""

    def __init__(self, command: Command) -> None:
        super().__init__(command.name, help=command.help)
        self._command = command

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Import the command and let it read its arguments."""
        return self.load().make_context(*args, **extra)

    def load(self) -> Any:
        """Import the command and return it; raises PluginError where that fails."""
        module, _, name = self._command.target.partition(":")
        try:
            target = getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise PluginError(f'command "{self._command.name}" cannot be imported: {error}') from error
        if not isinstance(target, typer.Typer):
            function, target = target, typer.Typer(add_completion=False)
            target.command(self._command.name)(function)
        loaded = typer.main.get_command(target)
        loaded.name = self._command.name
        return loaded


class RootGroup(TyperGroup):
    """The commands of the core, then those of plugins. Plugins are loaded when a name is not one of the core's."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands.update(make_commands(COMMANDS))
        self._with_plugins = False
        if _is_completing():
            _complete_quickly()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of this name; plugins are asked where the core has none."""
        if cmd_name not in self.commands and _is_completing():
            self.commands.update(make_commands(own_commands()))
        if cmd_name not in self.commands:
            self._add_plugins()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all names. A plugin that cannot be loaded is reported and does not hide the commands of the core."""
        if _is_completing():
            self.commands.update(make_commands(own_commands()))
            return super().list_commands(ctx)
        try:
            self._add_plugins()
        except StreamGuardError as error:
            typer.echo(f"commands of plugins are not listed: {error}", err=True)
        return super().list_commands(ctx)

    def _add_plugins(self) -> None:
        from stream_guard.registry import build_registry
        from stream_guard.settings import load_settings

        if self._with_plugins:
            return
        brought = build_registry(load_settings().plugins).commands
        taken = [name for name in brought if name in self.commands]
        if taken:
            raise PluginError(f'a plugin brings the command "{taken[0]}", which is one of the core; block the plugin')
        self.commands.update(make_commands(brought.values()))
        self._with_plugins = True


def _is_completing() -> bool:
    """Whether the shell asks how a line could go on."""
    return _COMPLETING in os.environ


def _complete_quickly() -> None:
    """Keep typer from what only a command that runs needs.

    It loads pydantic to check values, which nobody uses, and rich to find markup in help texts, which have none.
    """
    import typer._completion_classes as shells

    for kind in (TyperArgument, TyperOption):
        setattr(kind, "process_value", _as_written)  # noqa: B010  # of all that are made; the process ends with the answer
    if hasattr(shells, "_sanitize_help_text"):  # its own affair; without it, completion is only slower
        shells._sanitize_help_text = lambda text: text  # noqa: SLF001


def _as_written(_param: Any, _context: Any, value: Any) -> Any:
    return value


def own_commands() -> list[Command]:
    """Return the commands that the plugins of this distribution bring, without what takes long to import.

    For completion, which must not load other plugins either: whether they are allowed is only known from settings.
    """
    from importlib.metadata import distribution

    hook = "stream_guard_commands"
    found: list[Command] = []
    for point in distribution(NAME).entry_points.select(group="stream_guard"):
        spec = find_spec(point.module)
        if spec is not None and spec.origin and hook.encode() in Path(spec.origin).read_bytes():
            found += getattr(point.load(), hook)()
    return found


app = typer.Typer(
    name=COMMAND,
    cls=RootGroup,
    help="Watches what LLM agents do: one rule, the same verdict inline, on the stream and in batch.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:  # typer hands the flag's value over like this
    if wanted:
        typer.echo(f"{COMMAND} {describe_build()}\n{other_build()}")
        raise typer.Exit


@app.callback()
def _root(
    _version: bool = typer.Option(  # a flag is a boolean
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and the build, and leave."
    ),
) -> None:
    """Watches what LLM agents do: one rule, the same verdict inline, on the stream and in batch."""


def run_command_line() -> None:
    """Run the command line. Errors are printed on standard error and become exit codes."""
    try:
        app()
    except (PolicyError, SettingsError, PluginError) as error:
        _complain(str(error))
        sys.exit(USAGE)
    except StreamGuardError as error:
        _complain(f"stream-guard: {error}")
        sys.exit(INFRASTRUCTURE)
    except BrokenPipeError:
        # The reader of the output closed the pipe; do not complain into it.
        sys.stderr.close()
        sys.exit(INFRASTRUCTURE)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        _complain(f"stream-guard: {error.filename or 'the output'} cannot be written: {error.strerror}; make room")
        sys.exit(INFRASTRUCTURE)


def _complain(text: str) -> None:
    """Say it on standard error. Where that is a file on a full disk, the exit code says it alone."""
    with suppress(OSError):
        print(text, file=sys.stderr)
