"""``serve``: decisions over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_guard.cli.forms import show
from stream_guard.commands import ListFormat, SettingsFile
from stream_guard.distribution import install_line
from stream_guard.errors import SettingsError
from stream_guard.serve.tokens import Role, TokenEntry, check_entry, make_token, read_tokens, write_tokens


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
        from stream_guard.page.app import mount
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


# ``tokens``: who may ask and who may answer, over HTTP.


FileOption = Annotated[Path | None, typer.Option("--file", help="The file of tokens; default: api.tokens_file.")]
OwnerArgument = Annotated[str, typer.Argument(help="Whose token it is.", show_default=False)]


def new(
    name: OwnerArgument,
    role: Annotated[Role, typer.Option(help="What it lets its owner do.", show_default=False)],
    tenant: Annotated[str, typer.Option(help="The only tenant that it is good for.")] = "",
    agents: Annotated[
        list[str] | None,
        typer.Option("--agent", help="Of an agent's token: another agent it speaks for; may be repeated."),
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option("--label", help="Of an agent's token: NAME=VALUE that its events have; may be repeated."),
    ] = None,
    file: FileOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """Make a token and print it; the file keeps only its digest."""
    path = _path(file, settings_file)
    token, digest = make_token()
    said = dict(map(_label, labels or ()))
    entry = TokenEntry(name=name, role=role, tenant=tenant, agents=tuple(agents or ()), labels=said, sha256=digest)
    check_entry(entry, str(path))
    write_tokens(path, [*(read_tokens(path) if path.exists() else ()), entry])
    typer.echo(token)
    typer.echo(f"this is the only time that the token of {name} ({role}) is shown", err=True)


def list_tokens(
    form: Annotated[ListFormat, typer.Option("--format", help="How to print them.")] = ListFormat.TABLE,
    file: FileOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """List whose tokens there are, and their roles."""
    show(read_tokens(_path(file, settings_file)), ("name", "role", "tenant", "agents", "labels"), form)


def remove(
    name: OwnerArgument,
    role: Annotated[Role | None, typer.Option(help="Only the token for this role.")] = None,
    file: FileOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """Take somebody's tokens away; a server that runs refuses them from then on."""
    path = _path(file, settings_file)
    entries = read_tokens(path)
    kept = [entry for entry in entries if entry.name != name or role not in (None, entry.role)]
    if len(kept) == len(entries):
        raise SettingsError(f"{path}: there is no token of {name!r}; list them with: stream-guard tokens list")
    write_tokens(path, kept)
    typer.echo(f"{len(entries) - len(kept)} removed", err=True)


def _label(written: str) -> tuple[str, str]:
    name, equals, value = written.partition("=")
    if not name or not equals:
        raise SettingsError(f"--label {written}: write NAME=VALUE")
    return name, value


def _path(file: Path | None, settings_file: Path | None) -> Path:
    from stream_guard.settings import load_settings

    path = file or load_settings(settings_file).api.tokens_file
    if path is None:
        raise SettingsError("say where the tokens are: --file, or api.tokens_file in the settings")
    return path
