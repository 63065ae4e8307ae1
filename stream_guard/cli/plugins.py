"""``plugins``: what is loaded, and from where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from stream_guard.commands import ListFormat, SettingsFile, load_plugins

if TYPE_CHECKING:
    from stream_guard.registry import PluginInfo


def plugins(
    form: Annotated[ListFormat, typer.Option("--format", help="How to print the list.")] = ListFormat.TABLE,
    settings_file: SettingsFile = None,
) -> None:
    """Show the plugins that are loaded, the package each came in, and what it provides."""
    from rich.console import Console
    from rich.table import Table

    infos = load_plugins(settings_file)[1].plugins
    if form is ListFormat.JSON:
        typer.echo(msgspec.json.encode([_row(info) for info in infos]).decode())
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("plugin", "package", "version", "provides"):
        table.add_column(heading, overflow="fold")
    for info in infos:
        provided = "\n".join(f"{what}: {', '.join(names)}" for what, names in info.provides.items())
        table.add_row(info.name, info.distribution, info.version, provided)
    Console().print(table)


def _row(info: PluginInfo) -> dict[str, object]:
    return {
        "name": info.name,
        "distribution": info.distribution,
        "version": info.version,
        "provides": {what: list(names) for what, names in info.provides.items()},
    }
