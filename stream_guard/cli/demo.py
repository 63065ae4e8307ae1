"""``demo``: sample agents' events through the real engine, no broker, in a few seconds."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from threading import Event as Flag
from typing import TYPE_CHECKING, Annotated, Final

import typer

from stream_guard import demo as samples
from stream_guard.cli.run import open_page, say_again, say_counts, stop_on_signals
from stream_guard.errors import SettingsError

if TYPE_CHECKING:
    from stream_guard.judge.counts import Counts
    from stream_guard.judge.spec import Policy
    from stream_guard.page.app import PageServer
    from stream_guard.running.assembly import Assembly
    from stream_guard.settings import KafkaSettings, Settings

_TOGETHER: Final = 500  # events that are acknowledged together


def demo(
    sessions: Annotated[int, typer.Option(min=1, max=10_000, help="How many sample sessions to run.")] = 60,
    keep: Annotated[Path | None, typer.Option(help="Write the sample events and the policy into this folder.")] = None,
    produce: Annotated[
        str | None, typer.Option(help="Only write the sample events to this topic: kafka://HOST:PORT/TOPIC.")
    ] = None,
    stay: Annotated[
        bool, typer.Option("--stay", help="Keep the page open, with more sessions coming in, until Ctrl-C.")
    ] = False,
) -> None:
    """Watch a refund agent's sample sessions: alerts, a table of rules, metrics; no broker needed."""
    from stream_guard.demo.sessions import LiveSessions
    from stream_guard.judge.counts import Counts
    from stream_guard.running.assembly import Assembly
    from stream_guard.running.embedded import RunOptions, open_run
    from stream_guard.settings import load_settings

    settings = load_settings()
    if produce is not None:
        written = produce_samples(produce, sessions, settings.kafka)
        typer.echo(f"{written} events of {sessions} sample sessions written to {produce}", err=True)
        return
    with tempfile.TemporaryDirectory(prefix="stream-guard-demo-") as temporary:
        folder = keep or Path(temporary)
        events, policy_file = write_samples(folder, sessions, recent=stay)
        stop = Flag()
        used = _demo_settings(settings, Path(temporary), stay=stay)
        with Assembly(used) as assembly, stop_on_signals() as told_to_stop:
            policy = assembly.load_policy(policy_file)
            typer.echo(f"{sessions} sample sessions of a refund agent, {len(policy.rules)} rules", err=True)
            counts = Counts()
            shown = _page(assembly, policy, counts, policy_file, needed=stay)
            if shown is not None and used.page.reports == _reports_of(Path(temporary)):
                write_sample_report(_reports_of(Path(temporary)), events, policy)
            options = RunOptions(
                source=str(events),
                policy=policy,
                alerts=("console",) if shown is None else ("console", "history"),
                serve=True,
                follow=stay,
                watch=None if shown is None else shown.keeper.keep,
                counts=counts,
            )
            opened = open_run(options, assembly, told_to_stop)
            if stay and shown is not None:
                typer.echo(f"page at {shown.url}/ until Ctrl-C", err=True)
                say_again(opened.runner, shown)
                more = LiveSessions(events, sessions, stop)
                opened.runner.run(stopped=told_to_stop.is_set)
                stop.set()
                more.close()
            else:
                opened.runner.run()
            _show_rules(policy, opened.counts)
            say_counts(opened.counts, opened.dead_letters)
            _show_metrics(opened.url)
            if shown is not None and not stay:
                typer.echo(
                    f"the page was at {shown.url}/ ; to look around in it: make run STAY=1, or demo --stay", err=True
                )
    if keep is not None:
        typer.echo(f"kept in {keep}: try `stream-guard check {events} --policy {policy_file}`", err=True)


def _demo_settings(settings: Settings, folder: Path, *, stay: bool) -> Settings:
    """Return the settings with a history of its own; a page that ends by itself takes any free port."""
    history = settings.history.model_copy(update={"url": str(folder / "history.db"), "key_file": None})
    place = {} if stay else {"host": "127.0.0.1", "port": 0}
    page = settings.page.model_copy(update={"reports": settings.page.reports or _reports_of(folder), **place})
    return settings.model_copy(update={"history": history, "page": page})


def _reports_of(folder: Path) -> Path:
    return folder / "reports"


def write_sample_report(folder: Path, events: Path, policy: Policy) -> None:
    """Write what ``check`` says of the sample events into a folder, so that the page has a report to show."""
    import msgspec

    from stream_guard.judge.counts import Counts
    from stream_guard.judge.judge import Judge
    from stream_guard.judge.model import Event, Finding
    from stream_guard.reports.findings import FindingReport, to_html

    counts, found = Counts(), list[Finding]()
    judge = Judge(policy, counts=counts)
    decoder = msgspec.json.Decoder(Event)
    for line in events.read_bytes().splitlines():
        found += judge.feed(decoder.decode(line)).findings
    found += judge.end()
    folder.mkdir(exist_ok=True)
    (folder / "check-samples.html").write_text(to_html(FindingReport(policy, found, counts)), encoding="utf-8")


def _page(assembly: Assembly, policy: Policy, counts: Counts, policy_file: Path, *, needed: bool) -> PageServer | None:
    try:
        return open_page(assembly, lambda: policy, counts, policy_file)
    except SettingsError as error:
        if needed:
            raise
        typer.echo(f"without the page: {error}", err=True)
        return None


def write_samples(folder: Path, sessions: int, *, recent: bool = False) -> tuple[Path, Path]:
    """Write the sample events and the policy into a folder, and return the two files; ``recent``: of the last hours."""
    from importlib.resources import as_file, files

    from stream_guard.demo.sessions import sample_events, spread

    folder.mkdir(parents=True, exist_ok=True)
    events, policy_file = folder / "events.jsonl", folder / "policy.yaml"
    samples_of_day = sample_events(sessions)
    with events.open("w", encoding="utf-8") as file:
        written = spread(samples_of_day, time.time()) if recent else samples_of_day
        file.writelines(json.dumps(event) + "\n" for event in written)
    with as_file(files(samples) / "policy.yaml") as packaged:
        policy_file.write_bytes(packaged.read_bytes())
    return events, policy_file


def produce_samples(target: str, sessions: int, kafka: KafkaSettings) -> int:
    """Write the sample events to a topic, keyed by session; return how many."""
    from stream_guard.demo.sessions import sample_events
    from stream_guard.kafka.writer import Outgoing, TopicWriter

    writer = TopicWriter.open(target, kafka)
    try:
        events = list(sample_events(sessions))
        for begin in range(0, len(events), _TOGETHER):
            writer.send(
                [
                    Outgoing(event["session_id"].encode(), json.dumps(event).encode())
                    for event in events[begin : begin + _TOGETHER]
                ]
            )
    finally:
        writer.close()
    return len(events)


def _show_rules(policy: Policy, counts: Counts) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, title="Rules", title_justify="left")
    for heading in ("rule", "kind", "severity", "findings"):
        table.add_column(heading, justify="right" if heading == "findings" else "left")
    for number, spec in enumerate(policy.rules):
        table.add_row(spec.id, spec.kind, spec.severity.word, str(counts.findings.get(number, 0)))
    console = Console()
    console.print()
    console.print(table)


def _show_metrics(url: str) -> None:
    """Ask our own server, as Prometheus would."""
    from urllib.request import urlopen

    with urlopen(f"{url}/metrics") as answer:  # noqa: S310  # our own server on loopback
        lines = answer.read().decode().splitlines()
    shown = [line for line in lines if line.startswith(("stream_guard_events_total", "stream_guard_sessions"))]
    typer.echo(f"metrics were at {url}/metrics:", err=True)
    for line in shown:
        typer.echo(f"  {line}", err=True)
