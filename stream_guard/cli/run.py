"""``run``: the embedded runner over a file, a folder, standard input or Kafka topics."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Flag
from typing import TYPE_CHECKING, Annotated, Final, Protocol, TypeAlias

import typer

from stream_guard.cli.process import pass_over_loaded
from stream_guard.commands import INCONCLUSIVE, Checkpoint, LogForm, LogFormat, PolicyFile, SettingsFile, SourceFormat
from stream_guard.distribution import install_line
from stream_guard.errors import SettingsError

if TYPE_CHECKING:
    from stream_guard.judge.counts import Counts
    from stream_guard.judge.spec import Policy
    from stream_guard.page.app import PageServer
    from stream_guard.running.assembly import Assembly
    from stream_guard.running.embedded import EmbeddedRunner, RunOptions
    from stream_guard.worker.rollouts import ListedRollout

PageFlag: TypeAlias = Annotated[
    bool, typer.Option("--page", help="Show the web page while it runs; alerts go to the history too.")
]


def run(  # noqa: PLR0913, PLR0917  # as many as a user may say
    source: Annotated[
        str,
        typer.Argument(
            help="A file or folder of JSON, - for standard input, kafka://HOST:PORT/TOPIC or otlp://HOST:PORT."
        ),
    ],
    policy: PolicyFile,
    alerts: Annotated[
        list[str] | None,
        typer.Option(
            "--alerts",
            "-a",
            help="Where alerts go: console, jsonl:FILE, history:FILE, kafka:HOST:PORT/TOPIC; may be repeated.",
        ),
    ] = None,
    checkpoint: Checkpoint = None,
    dead_letters: Annotated[
        str | None, typer.Option(help="Keep records that cannot be read here: a file, or kafka://HOST:PORT/TOPIC.")
    ] = None,
    follow: Annotated[
        bool | None, typer.Option(help="Wait for more at the end. Default: yes for a folder or a topic, no otherwise.")
    ] = None,
    form: SourceFormat = "auto",
    serve: Annotated[bool, typer.Option(help="Serve /metrics and /healthz while it runs.")] = True,  # a flag
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve them at this port; else at serve.port, or a free one.")
    ] = None,
    reload: Annotated[
        bool | None, typer.Option(help="Follow changes of the policy file. Default: yes when following the source.")
    ] = None,
    page: PageFlag = False,
    log_format: LogForm = None,
    settings_file: SettingsFile = None,
) -> None:
    """Watch events as they come and send alerts; ends with its input, or on SIGINT and SIGTERM."""
    from stream_guard.cli.closing import say_at_end
    from stream_guard.judge.counts import Counts
    from stream_guard.running.embedded import RunOptions, open_run
    from stream_guard.sources import is_endless

    follow = is_endless(source) if follow is None else follow
    resumed = checkpoint is not None and checkpoint.exists()
    with stop_on_signals() as stop, set_up(settings_file, log_format, port) as assembly:
        form = assembly.form_of(source, form)
        reloading = assembly.follow_policy(policy, form) if (follow if reload is None else reload) else None
        loaded = reloading.current if reloading is not None else assembly.load_policy(policy, form)
        counts, targets = Counts(), tuple(alerts or ("console",))
        shown = None
        if page:
            shown = open_page(assembly, lambda: loaded if reloading is None else reloading.current, counts, policy)
            targets = with_history(targets)
        options = RunOptions(
            source=source,
            policy=loaded,
            alerts=targets,
            form=form,
            checkpoint=checkpoint,
            dead_letters=dead_letters,
            follow=follow,
            serve=serve,
            reloading=reloading,
            watch=shown.keeper.keep if shown is not None else None,
            counts=counts,
        )
        for warning in options.policy.warnings:
            typer.echo(str(warning), err=True)
        opened = open_run(options, assembly, stop)
        if opened.listening:
            typer.echo(f"telemetry at {opened.listening}/v1/traces and /v1/logs", err=True)
        if opened.url:
            typer.echo(f"metrics at {opened.url}/metrics", err=True)
        typer.echo(_watched(source, policy, options), err=True)
        if shown is not None:
            typer.echo("\n".join(page_lines(shown)), err=True)
            say_again(opened.runner, shown)
        pass_over_loaded()
        opened.runner.run(stopped=stop.is_set, reloading=reloading)
        say_counts(opened.counts, opened.dead_letters)
        say_at_end(opened.runner.policy, opened.counts, recorded=False, as_json=log_format is LogFormat.JSON)
    if not follow:
        _check_read(opened.counts, opened.dead_letters.total, resumed=resumed)


def _check_read(counts: Counts, unread: int, *, resumed: bool) -> None:
    """Leave with the exit code for what could not be judged where nothing was; what was resumed may have been read."""
    if sum(counts.events.values()) or (resumed and not unread):
        return
    what = "no record could be read" if counts.records else "there was no record to read"
    typer.echo(f"inconclusive: {what}, so nothing was judged", err=True)
    raise typer.Exit(INCONCLUSIVE)


def _watched(source: str, policy: Path, options: RunOptions) -> str:
    """Return what the run watches, by which rules, and whether it waits for more of either."""
    name = "standard input" if source == "-" else source
    rules = len(options.policy.rules)
    text = f"watching {name} by {rules} {'rule' if rules == 1 else 'rules'} of {policy}"
    waits = [*(["new records"] if options.follow else []), *(["a new policy"] if options.reloading is not None else [])]
    return f"{text}, and waiting for {' and '.join(waits)}" if waits else text


def open_page(
    assembly: Assembly,
    policy: Callable[[], Policy],
    counts: Counts,
    policy_file: Path | None,
    rollouts: Callable[[], Sequence[ListedRollout]] = tuple,
) -> PageServer:
    """Open the page on a port of its own; SettingsError where the extra is missing."""
    try:
        from stream_guard.page.app import PageServer
    except ModuleNotFoundError as error:
        raise SettingsError(f"the page needs {error.name}; install it with: {install_line('serve')}") from None
    return PageServer(assembly, policy, counts, policy_file, rollouts)


def page_lines(shown: PageServer) -> list[str]:
    """Return what a user is told of a page: who may see it, and last where it is."""
    return [*([f"warning: {shown.warning}"] if shown.warning else []), f"page at {shown.url}/"]


def say_again(runner: EmbeddedRunner, shown: PageServer) -> None:
    """Say where the page is once more when the alerts of all that was there have run over the screen."""
    runner.caught_up = lambda: typer.echo(f"the page is at {shown.url}/", err=True)


def with_history(targets: tuple[str, ...]) -> tuple[str, ...]:
    """Return the sinks with the history among them: the page shows what is in it."""
    return targets if any(target.partition(":")[0] == "history" for target in targets) else (*targets, "history")


def set_up(settings_file: Path | None, log_format: LogFormat | None = None, port: int | None = None) -> Assembly:
    """Return the parts that the settings and the plugins give; from here on the log is written as they say."""
    from stream_guard.observability.logs import set_up_logs
    from stream_guard.running.assembly import Assembly
    from stream_guard.settings import load_settings

    settings = load_settings(settings_file, log={"format": log_format}, serve={"port": port})
    put_back = set_up_logs(settings.log)
    assembly = Assembly(settings)
    assembly.opened.callback(put_back)  # first: it runs when everything else is closed and has said what it had to say
    return assembly


@contextmanager
def stop_on_signals() -> Iterator[Flag]:
    """Turn SIGINT and SIGTERM into a flag: a run ends at a commit, not in the middle of one."""
    stop = Flag()
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: stop.set()) for number in signals]
    try:
        yield stop
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


class DeadLetterSummary(Protocol):
    """What a user is told of dead letters."""

    @property
    def total(self) -> int:
        """How many there are."""

    def summary(self) -> list[str]:
        """Each reason, how often it was given, and where first."""


_UNJUDGED: Final = "events a rule could not judge"
_RULES_SHOWN: Final = 20


def say_lacking(counts: Counts) -> None:
    """Say which rules could not judge which events, and what the events lacked, the most frequent first."""
    ordered = sorted(counts.lacking.items(), key=lambda item: (-item[1], item[0]))
    for (rule_id, lacks), number in ordered[:_RULES_SHOWN]:
        typer.echo(f"  {number} x {rule_id}: without {lacks}", err=True)
    if len(ordered) > _RULES_SHOWN:
        typer.echo(f"  and {len(ordered) - _RULES_SHOWN} more rules and reasons", err=True)


def say_counts(counts: Counts, dead_letters: DeadLetterSummary) -> None:
    """Say on standard error what came in, what was found, and what could not be read."""
    events, findings = sum(counts.events.values()), counts.total("findings")
    typer.echo(f"{counts.records} records, {events} events, {findings} findings", err=True)
    counted = {
        "duplicates dropped": counts.duplicate_events,
        "late events": counts.late_events,
        "results without a call": counts.unpaired_results,
        _UNJUDGED: counts.total("unevaluable"),
        "errors inside rules": counts.total("rule_errors"),
        "states forgotten because a rule changed": counts.state_resets,
        "findings held back by a cooldown": counts.suppressed,
        "limits that were reached": sum(counts.evictions.values()),
    }
    for what, number in counted.items():
        if number:
            typer.echo(f"{number} {what}", err=True)
            if what == _UNJUDGED:
                say_lacking(counts)
    if dead_letters.total:
        typer.echo(f"{dead_letters.total} dead letters:", err=True)
        for line in dead_letters.summary():
            typer.echo(f"  {line}", err=True)
