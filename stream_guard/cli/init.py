"""``init``: from traces, or from nothing, to a policy that runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from stream_guard.commands import FINDINGS, INCONCLUSIVE, SettingsFile, SourceFormat, load_plugins
from stream_guard.errors import SettingsError

if TYPE_CHECKING:
    from stream_guard.analysis.labels import Labels
    from stream_guard.judge.model import Event
    from stream_guard.running.assembly import Assembly

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
    from stream_guard.cli.first_look import Traces, begin_from_template, begin_from_traces, without_notes
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


# ``learn``: rules that recorded sessions keep, and what new recordings no longer keep.


def learn(  # noqa: PLR0913, PLR0917  # as many as a user may say
    traces: Annotated[list[str], typer.Argument(help="Files or folders of sessions that went well.")],
    labels: Annotated[
        Path | None, typer.Option(help="Which sessions are bad, as for check; those that are fine are learned from.")
    ] = None,
    diff: Annotated[
        list[str] | None, typer.Option("--diff", help="New recordings: say what they no longer keep; may be repeated.")
    ] = None,
    policy: Annotated[
        Path, typer.Option("--policy", "-p", help="The policy that accepted rules go into; answers are kept beside it.")
    ] = Path("policy.yaml"),
    accept: Annotated[
        list[str] | None,
        typer.Option(help="Take this rule into the policy, in shadow mode; `all`: every proposed one."),
    ] = None,
    refuse: Annotated[list[str] | None, typer.Option(help="Do not propose this rule again.")] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Ask about each rule that nobody has answered to.")] = False,
    save: Annotated[
        bool,
        typer.Option("--save", help="Show the rules on the page, and take what people said there into the policy."),
    ] = False,
    alarms: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="The share of unseen fine sessions that may have an alarm.")
    ] = 0.05,
    show_all: Annotated[
        bool, typer.Option("--all", help="List rules that are not proposed too, with the reason.")
    ] = False,
    source_format: SourceFormat = "auto",
    settings_file: SettingsFile = None,
) -> None:
    """Learn rules from sessions that went well, in shadow mode; exit 4 without any, with --diff 1 when some broke."""
    from stream_guard.cli.first_look import without_notes
    from stream_guard.cli.lessons import Lessons
    from stream_guard.learning.drift import find_drift
    from stream_guard.learning.learning import learn as learn_rules
    from stream_guard.running.assembly import Assembly
    from stream_guard.settings import load_settings

    if "-" in (*traces, *(diff or ())):
        raise SettingsError("learn reads traces more than once, and standard input comes once; write it to a file")
    told = _labels(labels)
    with Assembly(load_settings(settings_file)) as assembly, without_notes():
        limits = assembly.settings.sessions
        read = _reader(traces, source_format, assembly, told)
        learned = learn_rules(read, assembly.registry, limits, most_alarms=alarms)
        lessons = Lessons(learned, policy, assembly.registry)
        lessons.show(show_all=show_all)
        if diff:
            new = list(_reader(diff, source_format, assembly, {})())
            if lessons.show_drift(find_drift(learned, new, assembly.registry, limits)):
                raise typer.Exit(FINDINGS)
            return
        if accept or refuse or ask:
            lessons.answer(accept or (), refuse or (), ask=ask)
        if save:
            with closing(assembly.open_history()) as history:
                lessons.save(history)
    if not learned.proposed:
        raise typer.Exit(INCONCLUSIVE)


def _labels(file: Path | None) -> Labels:
    from stream_guard.analysis.labels import read_labels

    if file is None:
        return {}
    try:
        return read_labels(file.read_bytes(), str(file))
    except OSError as error:
        raise SettingsError(f"{file}: cannot be read: {error.strerror or error}") from None


def _reader(targets: Sequence[str], form: str, assembly: Assembly, labels: Labels) -> Callable[[], Iterator[Event]]:
    """Return a function that reads the events of fine sessions from the beginning; with labels, of labelled ones."""
    from stream_guard.analysis.labels import ANY_RULE, is_bad
    from stream_guard.cli.first_look import Traces

    recorded = Traces(targets, form, assembly, 10**12)

    def read() -> Iterator[Event]:
        for event in recorded.read():
            label = labels.get(event.session_id)
            if not labels or (label is not None and not is_bad(label, ANY_RULE)):
                yield event
        for line in recorded.unread:
            typer.echo(f"not read: {line}", err=True)
        recorded.unread.clear()

    return read


# ``policy promote``: a rule that was tried out in shadow mode is taken into force.


def promote_rules(
    file: Annotated[Path, typer.Argument(help="The policy file, which is changed.", show_default=False)],
    rules: Annotated[list[str], typer.Argument(help="Ids of rules in shadow mode.", show_default=False)],
    settings_file: SettingsFile = None,
) -> None:
    """Take rules out of shadow mode: from now on their findings are alerts, and `then` holds."""
    from stream_guard.policy.editing import promote
    from stream_guard.policy.load import load_policy
    from stream_guard.starting.templates import write_files

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
