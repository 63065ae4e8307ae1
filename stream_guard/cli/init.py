"""``init``: from traces, or from nothing, to a policy that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from stream_guard.commands import SettingsFile, SourceFormat
from stream_guard.errors import SettingsError

_COMPOSE_FILE: Final = "docker-compose.yml"


def init(
    traces: Annotated[
        list[str] | None, typer.Argument(help="Files or folders of recorded sessions.", show_default=False)
    ] = None,
    into: Annotated[Path, typer.Option(help="The folder to write into.")] = Path(),
    template: Annotated[
        bool, typer.Option("--template", help="Write a sample policy and sample events; so too without TRACES.")
    ] = False,
    compose: Annotated[
        bool, typer.Option("--compose", help="Write a docker-compose.yml with a broker and a worker too.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
    sample: Annotated[int, typer.Option(min=1, help="How many events of the traces to look at.")] = 200_000,
    source_format: SourceFormat = "auto",
    settings_file: SettingsFile = None,
) -> None:
    """Look at traces and write a policy, settings and an editor schema that fit them; then check the traces."""
    from stream_guard.cli.beginning import Traces, begin_from_template, begin_from_traces, without_notes
    from stream_guard.running.assembly import Assembly
    from stream_guard.settings import load_settings
    from stream_guard.starting.templates import COMPOSE

    if traces and template:
        raise SettingsError("--template writes sample events of its own; leave it out, or leave TRACES out")
    if traces and "-" in traces:
        raise SettingsError("init reads traces more than once, and standard input comes once; write it to a file")
    extra = {_COMPOSE_FILE: COMPOSE} if compose else {}
    with Assembly(load_settings(settings_file)) as assembly, without_notes():
        if traces:
            begin_from_traces(Traces(traces, source_format, assembly, sample), into, extra, force=force)
        else:
            begin_from_template(assembly, into, extra, force=force)
