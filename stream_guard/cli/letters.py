"""``letters``: records that could not be read, and their way back."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import msgspec
import typer

from stream_guard.cli.forms import find_name, parse_since, show, show_one
from stream_guard.cli.history import HistoryOption, answered_by, open_history
from stream_guard.commands import FINDINGS, ListFormat, SettingsFile
from stream_guard.errors import SettingsError

if TYPE_CHECKING:
    from stream_guard.alerting.outbox import AlertOutbox
    from stream_guard.running.letters import Letter, LetterFilter

_COLUMNS: Final = ("id", "time", "place", "size", "reason")
_SHOWN: Final = 4096  # bytes of a record


LetterClass: TypeAlias = Literal["decode", "oversize"]
"""Why a record was buried."""


class ListedLetter(msgspec.Struct, frozen=True, rename={"about": "class"}):
    """A letter as it is listed."""

    id: str
    time: float
    about: str
    place: str
    size: int
    reason: str
    redriven: str  # the letter as which it went back before, and could not be read either


Letters = Annotated[str, typer.Argument(help="The file or the topic of --dead-letters, as kafka://host:port/topic.")]
Reason = Annotated[str, typer.Option("--reason", help="Only those whose reason has this text in it.")]
About = Annotated[LetterClass | None, typer.Option("--class", help="Only those of this class.")]
Topic = Annotated[str, typer.Option("--topic", help="Only those that came from this topic.")]
Since = Annotated[str, typer.Option("--since", help="Only from then on: a time, or how long ago, as 2h.")]
Until = Annotated[str, typer.Option("--until", help="Only before: a time, or how long ago.")]


def list_letters(  # noqa: PLR0913, PLR0917  # as many as a user may say
    letters: Letters,
    reason: Reason = "",
    about: About = None,
    topic: Topic = "",
    since: Since = "",
    until: Until = "",
    limit: Annotated[int, typer.Option(min=1, help="How many, the latest first.")] = 100,
    form: Annotated[ListFormat, typer.Option("--format", help="How to print them.")] = ListFormat.TABLE,
    settings_file: SettingsFile = None,
) -> None:
    """List dead letters, the latest first."""
    from collections import deque

    from stream_guard.running.letters import read_letters
    from stream_guard.settings import load_settings

    wanted = _filter(reason, about, topic, since, until)
    read = read_letters(letters, load_settings(settings_file))
    latest = deque((letter for letter in read if wanted.takes(letter)), maxlen=limit)
    show([_listed(letter) for letter in reversed(latest)], _COLUMNS, form)


def show_letter(
    letters: Letters,
    name: Annotated[str, typer.Argument(help="The id of the letter, or the beginning of it.")],
    settings_file: SettingsFile = None,
) -> None:
    """Show one dead letter: why it could not be read, and the record with its secrets masked."""
    from stream_guard.redaction import mask_secrets
    from stream_guard.running.letters import read_letters
    from stream_guard.settings import load_settings

    known = {letter.id: letter for letter in read_letters(letters, load_settings(settings_file))}
    found = find_name(name, known, "letters")
    if found is None:
        raise SettingsError(f"there is no letter {name[:40]!r}; list them with: stream-guard letters list {letters}")
    letter = known[found]
    text = letter.value[:_SHOWN].decode("utf-8", "backslashreplace")
    show_one(
        {**msgspec.to_builtins(_listed(letter)), "value": mask_secrets(text), "whole": len(letter.value) <= _SHOWN}
    )


def redrive(  # noqa: PLR0913, PLR0917  # as many as a user may say
    letters: Letters,
    names: Annotated[
        list[str] | None, typer.Argument(help="Ids of letters; all that the options take, without.")
    ] = None,
    reason: Reason = "",
    about: About = None,
    topic: Topic = "",
    since: Since = "",
    until: Until = "",
    to: Annotated[
        str, typer.Option(help="Another topic, as kafka://host:port/topic, or a file; default: where they came from.")
    ] = "",
    again: Annotated[bool, typer.Option("--again", help="Those too that went back before.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go where, and send nothing.")] = False,
    by: Annotated[str | None, typer.Option(help="Who does it; default: the name of this account.")] = None,
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """Send dead letters back to where they came from, each once; exit 1 when some could not go."""
    from stream_guard.running.letters import Redriver, check_target, read_letters

    check_target(to)
    wanted = _filter(reason, about, topic, since, until, tuple(names or ()))
    with open_history(history, settings_file, may_be_new=True) as (database, settings):
        redriver = Redriver(database, settings.kafka, letters, to=to, by=answered_by(by), clock=time.time, again=again)
        chosen = (letter for letter in read_letters(letters, settings) if wanted.takes(letter))
        if dry_run:
            redriver.sent.update(target for target, _ in redriver.choose(chosen))
        else:
            redriver.send(chosen)
    for target, number in sorted(redriver.sent.items()):
        typer.echo(f"{number} letters {'would go' if dry_run else 'went'} back to {target}", err=True)
    for why, number in sorted(redriver.left.items()):
        typer.echo(f"{number} letters stay: they {why}", err=True)
    if not redriver.sent and not redriver.left:
        typer.echo("no letter is meant; list them with: stream-guard letters list", err=True)
    if redriver.stuck:
        raise typer.Exit(FINDINGS)


def _filter(
    reason: str, about: LetterClass | None, topic: str, since: str, until: str, ids: tuple[str, ...] = ()
) -> LetterFilter:
    from stream_guard.running.letters import LetterFilter

    now = time.time()
    return LetterFilter(
        ids=ids,
        reason=reason,
        about=about or "",
        topic=topic,
        since=parse_since("--since", since, now) if since else None,
        until=parse_since("--until", until, now) if until else None,
    )


def _listed(letter: Letter) -> ListedLetter:
    place = f"{letter.origin}:{letter.line}" if letter.line else f"{letter.origin} @{letter.position}"
    return ListedLetter(letter.id, letter.time, letter.about, place, letter.size, letter.reason, letter.redriven)


# ``outbox``: alerts on their way to sinks, and those that a sink refused.


_OUTBOX_COLUMNS = ("number", "sink", "queued", "severity", "rule_id", "session_id", "problem")


ListedState: TypeAlias = Literal["waiting", "held", "active", "summed", "dead"]
"""What an alert in the outbox waits for, or what became of it."""

RetriedState: TypeAlias = Literal["summed", "dead"]
"""What can be sent once more, or forgotten."""


class QueuedAlert(msgspec.Struct, frozen=True):
    """An alert in the outbox, as it is listed."""

    number: int
    sink: str
    queued: str
    severity: str
    rule_id: str
    session_id: str
    problem: str
    detail: str
    alert_id: str


OutboxFile = Annotated[Path | None, typer.Argument(help="The outbox; that of the settings without one.")]
SinkOption = Annotated[str, typer.Option("--sink", help="Only what is for this sink.")]
StateOption = Annotated[RetriedState, typer.Option("--state", help="Which alerts.")]


def list_alerts(
    file: OutboxFile = None,
    state: Annotated[ListedState, typer.Option(help="What they wait for, or what became of them.")] = "dead",
    sink: SinkOption = "",
    limit: Annotated[int, typer.Option(min=1, help="How many, the latest first.")] = 100,
    form: Annotated[ListFormat, typer.Option("--format", help="How to print them.")] = ListFormat.TABLE,
    settings_file: SettingsFile = None,
) -> None:
    """List alerts in the outbox: dead letters, unless another state is asked for."""
    with closing(_open(file, settings_file)) as outbox:
        rows = outbox.listing(state, sink, limit)
    listed = [
        QueuedAlert(
            row.number,
            row.sink,
            time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(row.queued)),
            row.alert.severity,
            row.alert.rule_id,
            row.alert.session_id,
            row.problem,
            row.alert.detail,
            row.alert.alert_id,
        )
        for row in rows
    ]
    show(listed, _OUTBOX_COLUMNS, form)


def retry(
    file: OutboxFile = None,
    state: StateOption = "dead",
    sink: SinkOption = "",
    settings_file: SettingsFile = None,
) -> None:
    """Send dead letters once more, or one by one what was summed up; by the process that sends, or its next start."""
    with closing(_open(file, settings_file)) as outbox:
        number = outbox.retry(sink, time.time(), state)
    typer.echo(f"{number} alerts will be sent again", err=True)


def drop(
    file: OutboxFile = None,
    state: StateOption = "dead",
    sink: SinkOption = "",
    settings_file: SettingsFile = None,
) -> None:
    """Forget dead letters, or what was summed up."""
    with closing(_open(file, settings_file)) as outbox:
        number = outbox.drop(sink, state)
    typer.echo(f"{number} alerts forgotten", err=True)


def _open(file: Path | None, settings_file: Path | None) -> AlertOutbox:
    from stream_guard.alerting.outbox import AlertOutbox
    from stream_guard.settings import load_settings

    path = file or load_settings(settings_file).delivery.outbox or Path("stream-guard-outbox.db")
    if not path.exists():
        raise SettingsError(f"{path}: there is no outbox; a run with --checkpoint FILE has it at FILE.outbox")
    return AlertOutbox(path, shared=True)
