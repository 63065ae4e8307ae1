"""``worker``: the Faust worker, one of as many as the topics have partitions."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from prometheus_client import CollectorRegistry

from stream_guard.cli.assembly import make_decoder, open_sink
from stream_guard.counts import Counts
from stream_guard.engine import Engine
from stream_guard.errors import SettingsError
from stream_guard.kafka.address import parse_address
from stream_guard.kafka.writer import TopicWriter
from stream_guard.kafka_dead_letters import KafkaDeadLetters
from stream_guard.metrics import Metrics
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.settings import load_settings
from stream_guard.status import StatusServer


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("worker")(worker)


def worker(  # noqa: PLR0913, PLR0917  # as many as a user may say
    source: Annotated[str, typer.Argument(help="The topics: kafka://HOST:PORT/TOPIC, more of them with commas.")],
    policy: Annotated[Path, typer.Option("--policy", "-p", help="The policy file.")],
    alerts: Annotated[
        list[str], typer.Option("--alerts", "-a", help="Where alerts go: kafka:HOST:PORT/TOPIC; may be repeated.")
    ],
    dead_letters: Annotated[str, typer.Option(help="The topic for records that cannot be read: HOST:PORT/TOPIC.")],
    group: Annotated[str | None, typer.Option(help="The group; workers of one group share the partitions.")] = None,
    instance: Annotated[str | None, typer.Option(help="A name of its own that stays over restarts.")] = None,
    form: Annotated[str, typer.Option("--from-format", help="The format of the records.")] = "native",
    serve: Annotated[bool, typer.Option(help="Serve /metrics and /healthz while it runs.")] = True,  # a flag
    settings_file: Annotated[Path | None, typer.Option("--settings", help="A settings file.")] = None,
) -> None:
    """Watch the topics together with the other workers of the group; ends on SIGINT and SIGTERM."""
    if importlib.util.find_spec("faust") is None:
        raise SettingsError('the worker needs an extra: pip install "stream-guard[kafka]"')
    from stream_guard.stream.worker import Parts, run_worker

    settings = load_settings(settings_file, worker={"group": group, "instance": instance})
    registry = build_registry(settings.plugins)
    chosen = load_policy(policy, registry)
    for warning in chosen.warnings:
        typer.echo(str(warning), err=True)
    try:
        address = parse_address(source)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    counts = Counts()
    with ExitStack() as opened:
        sinks = {text: open_sink(text, registry, settings) for text in alerts}
        for sink in sinks.values():
            opened.callback(sink.close)
        letters = KafkaDeadLetters(TopicWriter.open(dead_letters, settings.kafka), counts, format_name=form)
        opened.callback(letters.close)
        beat: Callable[[], None] = lambda: None  # noqa: E731  # nobody asks
        if serve:
            collected = CollectorRegistry()
            Metrics(counts, collected).use_rules(chosen.rules)
            status = StatusServer(settings.serve, collected)
            opened.callback(status.close)
            beat = status.beat
            typer.echo(f"metrics at {status.url}/metrics", err=True)
        engine = Engine(chosen, counts, mode="stream", max_states=settings.sessions.max_states)
        parts = Parts(engine, make_decoder(form, registry, settings), sinks, letters, settings, beat)
        _run(run_worker(address, parts))


def _run(work: Coroutine[Any, Any, None]) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if importlib.util.find_spec("uvloop") is not None:
        import uvloop

        uvloop.run(work)
    else:
        asyncio.run(work)
