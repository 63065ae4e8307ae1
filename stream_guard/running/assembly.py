"""Putting the parts of a run together, and taking them apart again, whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event as Flag

from prometheus_client import CollectorRegistry

from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.topic_dead_letters import KafkaDeadLetters
from stream_guard.decoding.topic_formats import TopicDecoder
from stream_guard.engine import Engine
from stream_guard.errors import SettingsError
from stream_guard.kafka.address import SCHEME
from stream_guard.kafka.writer import TopicWriter
from stream_guard.observability.counts import Counts
from stream_guard.observability.metrics import Metrics
from stream_guard.observability.status import StallDetector, StatusServer
from stream_guard.pipeline import Pipeline
from stream_guard.policy.spec import Policy
from stream_guard.ports import ConfiguredDecoder, Decoder, Sink
from stream_guard.registry import Registry
from stream_guard.running.embedded import LETTERS_META, SINK_META, EmbeddedRunner, position_of, source_positions
from stream_guard.running.reload import ReloadingPolicy
from stream_guard.sessions.table import SessionTable
from stream_guard.settings import Settings, StatusSettings
from stream_guard.sources import open_source
from stream_guard.sources.kafka import KafkaSource
from stream_guard.storage.stores import CheckpointStore, MemoryStore


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a user says about one run."""

    source: str
    policy: Policy
    alerts: Sequence[str] = ("console",)
    form: str = "native"
    checkpoint: Path | None = None
    dead_letters: str | None = None  # a file, or kafka://...
    follow: bool = False
    serve: bool = True
    reloading: ReloadingPolicy | None = None  # follows the file that the policy came from


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is ready to start."""

    runner: EmbeddedRunner
    counts: Counts
    dead_letters: DeadLetters
    url: str  # of /metrics and /healthz; empty when they are not served


@contextmanager
def assemble(options: RunOptions, registry: Registry, settings: Settings, stop: Flag) -> Iterator[Run]:
    """Open everything a run needs, in an order that fails before anything is written."""
    with ExitStack() as opened:
        checkpoint = _open_checkpoint(options, opened)
        counts = Counts()
        if options.reloading is not None:
            counts.policy_reloads = options.reloading.results
        decoder = make_decoder(options.form, registry, settings)
        sinks: dict[str, Sink] = {}
        for text in options.alerts:
            sinks[text] = open_sink(text, registry, settings, position_of(checkpoint, f"{SINK_META}{text}"))
            opened.callback(sinks[text].close)
        letters = _open_dead_letters(options, settings, counts, position_of(checkpoint, LETTERS_META))
        opened.callback(letters.close)
        source = open_source(
            options.source,
            follow=options.follow,
            limits=settings.decode,
            positions=source_positions(checkpoint),
            stop=stop,
            kafka=settings.kafka,
        )
        opened.callback(source.close)
        engine = Engine(options.policy, counts, mode="stream", max_states=settings.sessions.max_states)
        table = SessionTable(engine, checkpoint or MemoryStore(), counts, settings.sessions)
        watch = _serve(options, settings, counts, opened)
        if watch is not None and isinstance(source, KafkaSource):
            watch.lag = source.lag
        runner = EmbeddedRunner(
            source=source,
            pipeline=Pipeline(decoder, table, letters),
            table=table,
            sinks=sinks,
            dead_letters=letters,
            checkpoint=checkpoint,
            observer=watch,
            often=settings.commit,
        )
        yield Run(runner, counts, letters, watch.url if watch is not None else "")


def _open_checkpoint(options: RunOptions, opened: ExitStack) -> CheckpointStore | None:
    if options.checkpoint is None:
        return None
    if options.source == "-":
        raise SettingsError("--checkpoint cannot be used with standard input: a pipe cannot be taken up again")
    store = CheckpointStore(options.checkpoint)
    opened.callback(store.close)
    return store


def _open_dead_letters(options: RunOptions, settings: Settings, counts: Counts, position: int | None) -> DeadLetters:
    target, form = options.dead_letters, options.form
    if target is not None and target.startswith(SCHEME):
        return KafkaDeadLetters(TopicWriter.open(target, settings.kafka), counts, format_name=form)
    return DeadLetters(None if target is None else Path(target), counts, format_name=form, position=position)


class Watch:
    """Tells Prometheus and the health check how the run goes."""

    def __init__(self, counts: Counts, policy: Policy, serve: StatusSettings) -> None:
        registry = CollectorRegistry()
        self._counts = counts
        self._metrics = Metrics(counts, registry)
        self._stall = StallDetector()
        self.lag: Callable[[], int] = int  # how many records wait; only topics can tell
        self._begun = False
        self._rules = len(policy.rules)
        self._status = StatusServer(serve, registry, unready=self._unready, stuck=self._stall.reason)
        self.url, self.close = self._status.url, self._status.close
        self.use_policy(policy)

    def use_policy(self, policy: Policy) -> None:
        """Hear of another policy."""
        self._rules = len(policy.rules)
        self._metrics.use_rules(policy.rules)

    def batch(self, records: int, seconds: float) -> None:
        """Hear of a batch of records."""
        self._begun = True
        self._status.beat()
        self._counts.lag = self.lag()
        self._stall.feed(self._counts.records, self._counts.lag)
        if records:
            self._metrics.batch_seconds.observe(seconds)

    def _unready(self) -> list[str]:
        reasons = {
            "the first look at the source is not over": not self._begun,
            "the policy has no rules": not self._rules,
        }
        return [reason for reason, holds in reasons.items() if holds]


def _serve(options: RunOptions, settings: Settings, counts: Counts, opened: ExitStack) -> Watch | None:
    if not options.serve:
        return None
    watch = Watch(counts, options.policy, settings.serve)
    opened.callback(watch.close)
    return watch


def make_decoder(form: str, registry: Registry, settings: Settings) -> Decoder:
    """Return the decoder of a format, and of those that topics have, or raise SettingsError that lists the formats."""
    formats = settings.decode.formats
    decoders = {name: _make_one(name, registry, settings) for name in (form, *formats.values())}
    return TopicDecoder(form, decoders, formats) if formats else decoders[form]


def lateness_of(form: str, registry: Registry, settings: Settings) -> float:
    """Return how late events of a format may come, in seconds, where a policy does not say; so for topics' formats."""
    kinds = [registry.decoders.get(name) for name in (form, *settings.decode.formats.values())]
    return max(float(getattr(kind, "lateness", 0.0)) for kind in kinds)


def _make_one(form: str, registry: Registry, settings: Settings) -> Decoder:
    if form not in registry.decoders:
        raise SettingsError(f"unknown format {form!r}; installed: {', '.join(registry.decoders)}")
    kind = registry.decoders[form]
    if issubclass(kind, ConfiguredDecoder):
        return kind.configure(settings)
    return kind(strict_keys=settings.decode.strict_keys)


def open_sink(text: str, registry: Registry, settings: Settings, position: int | None = None) -> Sink:
    """Return the sink that ``name`` or ``name:target`` means."""
    name, _, target = text.partition(":")
    if name not in registry.sinks:
        raise SettingsError(f"unknown sink {name!r} in --alerts {text}; installed: {', '.join(registry.sinks)}")
    return registry.sinks[name].open(target, position=position, settings=getattr(settings, name, None))
