"""``compliance watch``: sessions held against the prompts that their own telemetry carries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from stream_guard.commands import (
    FINDINGS,
    INCONCLUSIVE,
    ListFormat,
    RecordingReader,
    SettingsFile,
    SourceFormat,
    load_plugins,
    print_text,
)

if TYPE_CHECKING:
    from stream_guard_compliance.live import PromptWatch
    from stream_guard_compliance.results import LiveViolation


def watch(
    sources: Annotated[
        list[str], typer.Argument(help="Files, folders, topics, or - for standard input.", show_default=False)
    ],
    from_format: SourceFormat = "auto",
    form: Annotated[ListFormat, typer.Option("--format", help="How to print violations.")] = ListFormat.TABLE,
    tool: Annotated[
        list[str] | None, typer.Option("--tool", help="A tool the agents have, beside declared ones.")
    ] = None,
    allow_inconclusive: Annotated[
        bool, typer.Option("--allow-inconclusive", help="Exit 0 although not everything could be judged.")
    ] = False,  # a flag
    settings_file: SettingsFile = None,
) -> None:
    """Hold sessions against the prompts that their own turns carry; exit 1 for violations, 4 when some stayed open."""
    from stream_guard_compliance.live import PromptWatch

    settings, registry = load_plugins(settings_file)
    reader = RecordingReader(from_format, registry, settings)
    prompts = PromptWatch(registry, tool or ())
    found = False
    for violation in _violations(prompts, reader, sources):
        found = True
        _print(violation, form)
    _say_what_was_read(prompts, reader)
    if found:
        raise typer.Exit(FINDINGS)
    judged = prompts.versions and not (prompts.without_prompt or prompts.left_out or reader.unread)
    if not judged and not allow_inconclusive:
        raise typer.Exit(INCONCLUSIVE)


def _violations(prompts: PromptWatch, reader: RecordingReader, sources: list[str]) -> Iterator[LiveViolation]:
    """Yield what sessions break, as soon as the event is there."""
    for source in sources:
        for event in reader.read(source):
            yield from prompts.feed(event)
    yield from prompts.finish()


def _say_what_was_read(prompts: PromptWatch, reader: RecordingReader) -> None:
    """Say on standard error how much of each prompt is checked, and what nothing was judged of."""
    for line in reader.summary():
        typer.echo(f"not read: {line}", err=True)
    for version in prompts.versions:
        found = version.extraction
        checked = sum(bool(rule.compiled.rules) for rule in found.rules)
        left = f"left to judgement: {len(found.rules) - checked}, not read: {len(found.unparsed)}"
        typer.echo(f"prompt {version.digest[:16]}: rules: {checked}, {left}", err=True)
    if prompts.without_prompt:
        typer.echo(f"sessions without a prompt: {len(prompts.without_prompt)}; not all of them was judged", err=True)
    if prompts.left_out:
        typer.echo(f"turns with a prompt beyond the first thousand versions: {prompts.left_out}", err=True)


def _print(violation: LiveViolation, form: ListFormat) -> None:
    from stream_guard.documents import printable

    if form is ListFormat.JSON:
        print_text(json.dumps(msgspec.to_builtins(violation), ensure_ascii=False))
    else:
        place = f"{violation.session_id} {violation.event_id} {violation.rule_id}"
        print_text(f"{violation.severity.upper()} {printable(place)}: {printable(violation.explanation)}")
