"""``serve``: decisions over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_guard.commands import SettingsFile
from stream_guard.distribution import install_line
from stream_guard.errors import SettingsError


def serve(  # noqa: PLR0913, PLR0917  # as many as a user may say
    policy: Annotated[Path, typer.Option("--policy", "-p", help="The policy file.")],
    host: Annotated[str | None, typer.Option(help="Address to listen on; any but loopback needs a token.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.")] = None,
    history: Annotated[
        str | None, typer.Option(help="Where audit, reviews and incidents are kept: a file or postgresql://...")
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="Keep what rules remember of sessions here: a file, or postgresql://... for many servers."),
    ] = None,
    alerts: Annotated[
        list[str] | None, typer.Option("--alerts", "-a", help="Where alerts go, as for run; may be repeated.")
    ] = None,
    telemetry: Annotated[
        str, typer.Option(help="Take in telemetry too, at otlp://HOST:PORT, and judge it as recorded events.")
    ] = "",
    reload: Annotated[bool, typer.Option(help="Follow changes of the policy file.")] = True,  # a flag
    page: Annotated[bool, typer.Option(help="Show the web page, for reviewers and operators.")] = True,  # a flag
    settings_file: SettingsFile = None,
) -> None:
    """Answer agents over HTTP before their tools run; ends on SIGINT and SIGTERM."""
    from stream_guard.running.assembly import Assembly
    from stream_guard.settings import load_settings

    try:
        from stream_guard.page.mounting import mount
        from stream_guard.serve.assembly import open_server
    except ModuleNotFoundError as error:
        raise SettingsError(f"serving over HTTP needs {error.name}; install it with: {install_line('serve')}") from None
    settings = load_settings(settings_file, api={"host": host, "port": port}, history={"url": history})
    with Assembly(settings) as assembly:
        following = assembly.follow_policy(policy, settle=True)
        loaded = following.current
        for warning in loaded.warnings:
            typer.echo(str(warning), err=True)
        ready = open_server(
            loaded,
            assembly,
            alerts or (),
            checkpoint=checkpoint,
            telemetry=telemetry,
            page=page,
            following=following if reload else None,
        )
        if page:
            ready = mount(ready, assembly, policy)
        # The address first, for programs that wait for it; that of the page last, where a person looks.
        lines = [f"listening at {ready.url}", *([f"warning: {ready.warning}"] if ready.warning else [])]
        lines += [f"page at {ready.url}/"] if page else []
        ready.serve(lambda: typer.echo("\n".join(lines), err=True))
