"""``watch``: a live page of what the agents on this machine do; reads their files, needs no gate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from stream_guard.commands import USAGE

_PAUSE: Final = 1.0  # seconds between two looks


def watch(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders of sessions; without any, those of agents that are here.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port of the page; 0 is any free one.")] = 0,
    days: Annotated[float, typer.Option(min=0, help="Pass over sessions that ended more days ago.")] = 1.0,
) -> None:
    """Show a live page of what the agents on this machine do, created, deleted and spent; no gate is needed."""
    import signal
    import time
    from threading import Event as Flag

    from stream_guard_shell.watching.watcher import AGENT_FOLDERS, Watcher, WatchPage, existing_folders

    chosen = list(folders) if folders else existing_folders(Path.home())
    missing = [folder for folder in chosen if not folder.is_dir()]
    if missing or not chosen:
        named = ", ".join(map(str, missing)) or f"none of {', '.join(AGENT_FOLDERS)} is below {Path.home()}"
        typer.echo(f"stream-guard: no folder of sessions: {named}; name one: stream-guard watch FOLDER", err=True)
        raise typer.Exit(USAGE)
    stop = Flag()
    before = [signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)]
    watcher = Watcher(chosen, time.time() - days * 86400)
    page = WatchPage(watcher.state, port)
    try:
        typer.echo(f"watching {', '.join(map(str, chosen))}", err=True)
        typer.echo(f"page at {page.url}/ until Ctrl-C", err=True)
        while not stop.is_set():
            watcher.look()
            stop.wait(_PAUSE)
    finally:
        page.close()
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)
