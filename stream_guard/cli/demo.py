"""``demo``: sample agents' events through the real engine, no broker, in a few seconds."""

from __future__ import annotations

import json
import tempfile
from importlib.resources import as_file, files
from pathlib import Path
from threading import Event as Flag
from typing import Annotated, Final
from urllib.request import urlopen

import typer
from rich.console import Console
from rich.table import Table

from stream_guard import demo as samples
from stream_guard.cli.run import say_counts
from stream_guard.demo.sessions import sample_events
from stream_guard.kafka.writer import Outgoing, TopicWriter
from stream_guard.observability.counts import Counts
from stream_guard.policy.spec import Policy
from stream_guard.running.assembly import Assembly
from stream_guard.running.embedded import RunOptions, open_run
from stream_guard.settings import KafkaSettings, load_settings

_TOGETHER: Final = 500  # events that are acknowledged together


def demo(
    sessions: Annotated[int, typer.Option(min=1, max=10_000, help="How many sample sessions to run.")] = 60,
    keep: Annotated[Path | None, typer.Option(help="Write the sample events and the policy into this folder.")] = None,
    produce: Annotated[
        str | None, typer.Option(help="Only write the sample events to this topic: kafka://HOST:PORT/TOPIC.")
    ] = None,
) -> None:
    """Watch a refund agent's sample sessions: alerts, a table of rules, metrics; no broker needed."""
    settings = load_settings()
    if produce is not None:
        written = produce_samples(produce, sessions, settings.kafka)
        typer.echo(f"{written} events of {sessions} sample sessions written to {produce}", err=True)
        return
    with tempfile.TemporaryDirectory(prefix="stream-guard-demo-") as temporary:
        folder = keep or Path(temporary)
        events, policy_file = write_samples(folder, sessions)
        with Assembly(settings) as assembly:
            policy = assembly.load_policy(policy_file)
            typer.echo(f"{sessions} sample sessions of a refund agent, {len(policy.rules)} rules", err=True)
            opened = open_run(RunOptions(source=str(events), policy=policy, serve=True), assembly, Flag())
            opened.runner.run()
            _show_rules(policy, opened.counts)
            say_counts(opened.counts, opened.dead_letters)
            _show_metrics(opened.url)
    if keep is not None:
        typer.echo(f"kept in {keep}: try `stream-guard check {events} --policy {policy_file}`", err=True)


def write_samples(folder: Path, sessions: int) -> tuple[Path, Path]:
    """Write the sample events and the policy into a folder, and return the two files."""
    folder.mkdir(parents=True, exist_ok=True)
    events, policy_file = folder / "events.jsonl", folder / "policy.yaml"
    with events.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(event) + "\n" for event in sample_events(sessions))
    with as_file(files(samples) / "policy.yaml") as packaged:
        policy_file.write_bytes(packaged.read_bytes())
    return events, policy_file


def produce_samples(target: str, sessions: int, kafka: KafkaSettings) -> int:
    """Write the sample events to a topic, keyed by session; return how many."""
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
    with urlopen(f"{url}/metrics") as answer:  # noqa: S310  # our own server on loopback
        lines = answer.read().decode().splitlines()
    shown = [line for line in lines if line.startswith(("stream_guard_events_total", "stream_guard_sessions"))]
    typer.echo(f"metrics were at {url}/metrics:", err=True)
    for line in shown:
        typer.echo(f"  {line}", err=True)
