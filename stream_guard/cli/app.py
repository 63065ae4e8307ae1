"""The application: every command, and one place where errors become exit codes."""

from __future__ import annotations

import sys
from importlib.metadata import version

import typer
from stream_guard_compliance.command import register as register_compliance
from stream_guard_contract.commands import register as register_contract
from stream_guard_contract.run_command import register as register_contract_run
from stream_guard_diff.command import register as register_diff

from stream_guard.cli.audit import register as register_audit
from stream_guard.cli.check import register as register_check
from stream_guard.cli.config import register as register_config
from stream_guard.cli.convert import register as register_convert
from stream_guard.cli.demo import register as register_demo
from stream_guard.cli.doctor import register as register_doctor
from stream_guard.cli.exits import INFRASTRUCTURE, USAGE
from stream_guard.cli.incidents import register as register_incidents
from stream_guard.cli.plugins import register as register_plugins
from stream_guard.cli.policy import register as register_policy
from stream_guard.cli.replay import register as register_replay
from stream_guard.cli.reviews import register as register_reviews
from stream_guard.cli.run import register as register_run
from stream_guard.cli.serve import register as register_serve
from stream_guard.cli.worker import register as register_worker
from stream_guard.errors import PluginError, PolicyError, SettingsError, StreamGuardError

app = typer.Typer(
    name="stream-guard",
    help="Watches what LLM agents do: one rule, the same verdict inline, on the stream and in batch.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for register in (
    register_demo,
    register_run,
    register_worker,
    register_check,
    register_compliance,
    register_contract,
    register_contract_run,  # into the group that the one before makes
    register_diff,
    register_replay,
    register_convert,
    register_serve,
    register_reviews,
    register_incidents,
    register_audit,
    register_policy,
    register_plugins,
    register_config,
    register_doctor,
):
    register(app)


def _print_version(wanted: bool) -> None:  # typer hands the flag's value over like this
    if wanted:
        typer.echo(version("stream-guard"))
        raise typer.Exit


@app.callback()
def _root(
    _version: bool = typer.Option(  # a flag is a boolean
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and leave."
    ),
) -> None:
    """Watches what LLM agents do: one rule, the same verdict inline, on the stream and in batch."""


def main() -> None:
    """Run the command line; what went wrong is said on standard error, and the exit code says which sort it was."""
    try:
        app()
    except (PolicyError, SettingsError, PluginError) as error:
        print(error, file=sys.stderr)
        sys.exit(USAGE)
    except StreamGuardError as error:
        print(f"stream-guard: {error}", file=sys.stderr)
        sys.exit(INFRASTRUCTURE)
    except BrokenPipeError:
        # Whoever read our output has seen enough; do not complain into a closed pipe.
        sys.stderr.close()
        sys.exit(INFRASTRUCTURE)
