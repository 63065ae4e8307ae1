"""``policy promote``: a rule that was tried out in shadow mode is taken into force."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_guard.commands import SettingsFile, load_plugins
from stream_guard.errors import SettingsError


def promote_rules(
    file: Annotated[Path, typer.Argument(help="The policy file, which is changed.", show_default=False)],
    rules: Annotated[list[str], typer.Argument(help="Ids of rules in shadow mode.", show_default=False)],
    settings_file: SettingsFile = None,
) -> None:
    """Take rules out of shadow mode: from now on their findings are alerts, and `then` holds."""
    from stream_guard.policy.editing import promote
    from stream_guard.policy.load import load_policy
    from stream_guard.starting.files import write_files

    registry = load_plugins(settings_file)[1]
    load_policy(file, registry)  # what is wrong with it now is said now
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: cannot be read: {error}") from None
    for rule in rules:
        text = promote(text, rule, registry.policy_packs)
    after = load_policy(text, registry, file=str(file), folder=file.parent)
    still = [spec.id for spec in after.rules if spec.id in rules and spec.shadow]
    if still:
        raise SettingsError(f"{file}: {', '.join(still)} would still be in shadow mode; edit the file by hand")
    write_files(file.parent, {file.name: text}, force=True)
    for rule in rules:
        typer.echo(f"{file}: {rule} is in force now")
