"""``packs``: the policy packs that are installed, and the rules in them."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
import typer

from stream_guard.commands import ListFormat, SettingsFile, load_plugins, print_text
from stream_guard.errors import SettingsError
from stream_guard.judge.model import Json

if TYPE_CHECKING:
    from stream_guard.registry import PluginInfo


def list_packs(
    form: Annotated[ListFormat, typer.Option("--format", help="How to print the list.")] = ListFormat.TABLE,
    settings_file: SettingsFile = None,
) -> None:
    """List the packs, with how many of their rules are enforced and how many are in shadow mode."""
    from rich.console import Console
    from rich.table import Table

    from stream_guard.policy.packs import read_pack

    packs = load_plugins(settings_file)[1].policy_packs.values()
    rows = []
    for pack in packs:
        rules = read_pack(pack)["rules"]
        shadow = sum(rule.get("mode") == "shadow" for rule in rules)
        rows.append({"pack": pack.name, "rules": len(rules), "shadow": shadow, "summary": pack.summary})
    if form is ListFormat.JSON:
        print_text(msgspec.json.encode(rows).decode())
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("pack", no_wrap=True)
    table.add_column("rules", justify="right")
    table.add_column("shadow", justify="right")
    table.add_column("what it is for", overflow="fold")
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console().print(table)


def show_pack(
    name: Annotated[str, typer.Argument(help="The name of a pack.", show_default=False)],
    settings_file: SettingsFile = None,
) -> None:
    """Print a pack as it is written: a policy that can be read, tested, or copied and changed."""
    from stream_guard.policy.message_parts import did_you_mean, show

    packs = load_plugins(settings_file)[1].policy_packs
    if name not in packs:
        advice = did_you_mean(name, packs) or f"; there are {', '.join(packs) or 'none'}"
        raise SettingsError(f"no policy pack is called {show(name)}{advice}")
    print_text(packs[name].file.read_text(encoding="utf-8"), newline=False)


# ``plugins``: what is loaded, and from where.


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


# ``config show``: the settings that are in force, without their secrets.


_PASSWORD: Final = re.compile(r"(?<=://)([^\s/:@]*):[^\s@]*@")


def show(
    form: Annotated[Literal["yaml", "json"], typer.Option("--format", help="How to print the settings.")] = "yaml",
    settings_file: SettingsFile = None,
) -> None:
    """Print the settings in force: defaults, then the file, then the environment; secrets are masked."""
    from stream_guard.settings import load_settings

    # As JSON, because that is where pydantic masks secrets.
    shown = _mask_addresses(load_settings(settings_file).model_dump(mode="json"))
    if form == "json":
        typer.echo(msgspec.json.format(msgspec.json.encode(shown), indent=2).decode())
        return
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.representer.add_representer(
        type(None), lambda made, _: made.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    yaml.dump(shown, sys.stdout)


def _mask_addresses(value: Json) -> Json:
    """Return the value with the passwords masked that stand inside addresses."""
    if isinstance(value, dict):
        return {name: _mask_addresses(part) for name, part in value.items()}
    return _PASSWORD.sub(r"\1:**********@", value) if isinstance(value, str) else value
