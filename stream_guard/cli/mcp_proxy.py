"""``mcp-proxy``: between an MCP client and its server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_guard.commands import SettingsFile
from stream_guard.distribution import install_line
from stream_guard.errors import SettingsError

if TYPE_CHECKING:
    from stream_guard.agent_hooks.asking import AskedGate
    from stream_guard.mcp_wire.relay import Relay
    from stream_guard.running.assembly import Assembly
    from stream_guard.settings import HookSettings, Settings


def mcp_proxy(  # noqa: PLR0913, PLR0917  # as many as a user may say
    command: Annotated[
        list[str] | None, typer.Argument(help="The server and its arguments, after --; or use --upstream.")
    ] = None,
    upstream: Annotated[str, typer.Option(help="Address of a server that speaks streamable HTTP.")] = "",
    port: Annotated[int, typer.Option(help="Port of 127.0.0.1 for the client, with --upstream; 0 takes one.")] = 8751,
    gate: Annotated[str | None, typer.Option(help="Address of the gate, of `stream-guard serve`.")] = None,
    token_file: Annotated[str | None, typer.Option(help="A file that holds an agent's token for the gate.")] = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", "-p", help="Judge in this process, by this policy, instead of --gate.")
    ] = None,
    history: Annotated[str | None, typer.Option(help="With --policy: where audit and reviews are kept.")] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="With --policy: keep what rules remember here, such as the tools they know.")
    ] = None,
    session: Annotated[str, typer.Option(help="The id of the session, where one proxy serves one session.")] = "",
    session_by: Annotated[
        str,
        typer.Option(
            help="What names a session, in order: meta, mcp-session, header:NAME, trace, principal, connection."
        ),
    ] = "meta,mcp-session,connection",
    agent: Annotated[str | None, typer.Option(help="The name of the agent in the policy.")] = None,
    on_error: Annotated[
        str | None, typer.Option(help="What passes that the gate could not judge: nothing (closed), or all (open).")
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds for each question to the gate.")] = None,
    settings_file: SettingsFile = None,
) -> None:
    """Stand between an MCP client and its server: calls, results and lists of tools pass a gate first."""
    from stream_guard.mcp_wire.judge import McpJudge, SessionKeys
    from stream_guard.mcp_wire.relay import Relay
    from stream_guard.running.assembly import Assembly
    from stream_guard.settings import load_settings

    if bool(command) == bool(upstream):
        raise SettingsError("say which server: its command after --, or --upstream and its address")
    if policy is not None and gate is not None:
        raise SettingsError("--policy judges in this process, --gate asks another one; leave one of them out")
    keys = SessionKeys(session_by, session)
    asked = {"gate": gate, "token_file": token_file, "on_error": on_error, "timeout": timeout, "agent": agent}
    settings = load_settings(settings_file, hook=asked, history={"url": history})
    with Assembly(settings) as assembly, _gate_of(policy, checkpoint, assembly) as known:
        relay = Relay(McpJudge(known, agent=settings.hook.agent, on_error=settings.hook.on_error), keys)
        if command:
            from stream_guard.mcp_proxy.stdio import run_stdio

            raise typer.Exit(run_stdio(command, relay, settings.api.max_body_bytes))
        _run_http(upstream, port, relay, settings)


@contextmanager
def _gate_of(policy: Path | None, checkpoint: str | None, assembly: Assembly) -> Iterator[AskedGate]:
    if policy is None:
        yield _running_gate(assembly.settings.hook)
        return
    try:
        from stream_guard.serve.app import OwnGate
        from stream_guard.serve.assembly import open_service
    except ModuleNotFoundError as error:
        raise SettingsError(f"--policy needs {error.name}; install it with: {install_line('serve')}") from None
    from stream_guard.judge.counts import Counts

    loaded = assembly.load_policy(policy)
    for warning in loaded.warnings:
        typer.echo(str(warning), err=True)
    service = open_service(loaded, assembly, Counts(), checkpoint=checkpoint)
    own = OwnGate(service, assembly.make_decoder("native", tenants=False))
    try:
        yield own
    finally:
        own.close()


def _running_gate(settings: HookSettings) -> AskedGate:
    from stream_guard.agent_hooks.client import GateClient, GateError, RunningGate
    from stream_guard.agent_hooks.command import read_token

    try:
        token = read_token(str(settings.token_file or ""))
        GateClient(settings.gate)
    except GateError as error:
        raise SettingsError(str(error)) from None
    return RunningGate(lambda: GateClient(settings.gate, token=token, timeout=settings.timeout))


def _run_http(upstream: str, port: int, relay: Relay, settings: Settings) -> None:
    try:
        from stream_guard.mcp_proxy.http_relay import run_http
    except ModuleNotFoundError as error:
        raise SettingsError(f"--upstream needs {error.name}; install it with: {install_line('mcp-proxy')}") from None
    run_http(upstream, port, relay, settings.api, lambda text: typer.echo(text, err=True))
