"""Assembly: the parts of a run, made from settings and plugins in one way for every mode, and closed again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Event as Flag
from types import TracebackType
from typing import Self

from stream_guard.alerting.delivery import Delivery
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.prices import PricedDecoder
from stream_guard.decoding.tenants import with_tenants
from stream_guard.decoding.topic_dead_letters import KafkaDeadLetters
from stream_guard.decoding.topic_formats import TopicDecoder
from stream_guard.errors import SettingsError
from stream_guard.kafka.address import SCHEME
from stream_guard.kafka.writer import TopicWriter
from stream_guard.observability.counts import Counts
from stream_guard.policy.load import load_policy, with_lateness
from stream_guard.policy.spec import Policy
from stream_guard.ports import ConfiguredDecoder, Decoder, Sink, Source
from stream_guard.registry import Registry, build_registry
from stream_guard.running.checkpoint import SINK_META, file_marks, position_of, source_positions
from stream_guard.running.recordings import RecordedEvents
from stream_guard.running.reload import ReloadingPolicy
from stream_guard.settings import Settings, load_settings
from stream_guard.sources import open_source
from stream_guard.sources.otlp import SCHEME as OTLP
from stream_guard.storage.stores import CheckpointStore


class Assembly:
    """Makes and opens parts. On leaving, it closes what it opened, the last one first."""

    def __init__(self, settings: Settings | None = None, registry: Registry | None = None) -> None:
        self.settings = settings if settings is not None else load_settings()
        self.registry = registry if registry is not None else build_registry(self.settings.plugins)
        self.opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.opened.__exit__(kind, error, trace)

    def load_policy(self, file: Path, form: str = "native") -> Policy:
        """Return the policy of a file, for records of a format; PolicyError lists everything that is wrong."""
        return self.fit(load_policy(file, self.registry), form)

    def follow_policy(self, file: Path, form: str = "native") -> ReloadingPolicy:
        """Return the policy of a file that may change while it is in force."""
        return ReloadingPolicy(file, self.registry, lateness=self.lateness(form))

    def fit(self, policy: Policy, form: str) -> Policy:
        """Return the policy for records of a format: where it is silent, events may be as late as the format's are."""
        return with_lateness(policy, self.lateness(form))

    def lateness(self, form: str) -> float:
        """Return how many seconds late events of a format may come; so for the formats that topics have."""
        decoders = [self.registry.decoders.get(name) for name in (form, *self.settings.decode.formats.values())]
        return max(float(getattr(decoder, "lateness", 0.0)) for decoder in decoders)

    def form_of(self, target: str, form: str) -> str:
        """Return the format to read a source in: what a receiver takes in can only be OTLP."""
        if form != "auto" or not target.startswith(OTLP):
            return form
        if "otlp" not in self.registry.decoders:
            raise SettingsError(f"{target} needs an extra: pip install 'stream-guard[otlp]'")
        return "otlp"

    def make_decoder(self, form: str, *, tenants: bool = True) -> Decoder:
        """Return the decoder of a format, and of those that topics have; SettingsError lists the formats there are.

        With ``tenants`` the names of sessions contain the tenant, where the settings say which label names it.
        """
        formats = self.settings.decode.formats
        decoders = {name: self._make_decoder(name) for name in (form, *formats.values())}
        decoder: Decoder = TopicDecoder(form, decoders, formats) if formats else decoders[form]
        prices = self.settings.decode.prices
        decoder = PricedDecoder(decoder, prices) if prices else decoder
        label = self.settings.sessions.tenant_label
        return with_tenants(decoder, label) if tenants and label else decoder

    def open_source(
        self,
        target: str,
        *,
        follow: bool = False,
        checkpoint: CheckpointStore | None = None,
        stop: Flag | None = None,
    ) -> Source:
        """Open a file, a folder, a pipe or topics, where the checkpoint says that reading stopped."""
        source = open_source(
            target,
            follow=follow,
            limits=self.settings.decode,
            positions=source_positions(checkpoint),
            marks=file_marks(checkpoint),
            stop=stop,
            kafka=self.settings.kafka,
            receiver=self.settings.receiver,
        )
        self.opened.callback(source.close)
        return source

    def open_checkpoint(self, file: Path | None, source: str = "") -> CheckpointStore | None:
        """Open the file that progress is kept in, if there is one; SettingsError where the source cannot be resumed."""
        if file is None:
            if source.startswith(OTLP):
                raise SettingsError(
                    f"{source} needs --checkpoint: exporters forget what was acknowledged, so it must survive a crash"
                )
            return None
        if source == "-":
            raise SettingsError("--checkpoint cannot be used with standard input: a pipe cannot be taken up again")
        store = CheckpointStore(file)
        self.opened.callback(store.close)
        return store

    def open_sink(self, text: str, position: int | None = None) -> Sink:
        """Open the sink that ``name`` or ``name:target`` means."""
        name, _, target = text.partition(":")
        sinks = self.registry.sinks
        if name not in sinks:
            raise SettingsError(f"unknown sink {name!r} in --alerts {text}; installed: {', '.join(sinks)}")
        sink = sinks[name].open(target, position=position, settings=getattr(self.settings, name, None))
        self.opened.callback(sink.close)
        return sink

    def open_delivery(
        self, targets: Iterable[str], counts: Counts, checkpoint: CheckpointStore | None = None
    ) -> Delivery:
        """Open the sinks that alerts go to, each where the checkpoint says that it stood."""
        sinks: Mapping[str, Sink] = {
            text: self.open_sink(text, position_of(checkpoint, f"{SINK_META}{text}")) for text in targets
        }
        return Delivery(sinks, counts)

    def open_dead_letters(
        self, target: str | Path | None, form: str, counts: Counts, position: int | None = None
    ) -> DeadLetters:
        """Open the place for records that cannot be read: a file, a topic, or none, and then they are only counted."""
        letters: DeadLetters
        if isinstance(target, str) and target.startswith(SCHEME):
            writer = TopicWriter.open(target, self.settings.kafka)
            letters = KafkaDeadLetters(writer, counts, format_name=form)
        else:
            file = None if target is None else Path(target)
            letters = DeadLetters(file, counts, format_name=form, position=position)
        self.opened.callback(letters.close)
        return letters

    def read_events(
        self,
        targets: Sequence[str],
        form: str,
        counts: Counts | None = None,
        *,
        dead_letters: str | Path | None = None,
        strict: bool = False,
        tenants: bool = True,
    ) -> RecordedEvents:
        """Return the events of recordings, in the order of the targets."""
        decoder = self.make_decoder(form, tenants=tenants)
        letters = self.open_dead_letters(dead_letters, form, counts if counts is not None else Counts())
        return RecordedEvents(targets, decoder, self.settings, letters, lateness=self.lateness(form), strict=strict)

    def _make_decoder(self, form: str) -> Decoder:
        decoders = self.registry.decoders
        if form not in decoders:
            raise SettingsError(f"unknown format {form!r}; installed: {', '.join(decoders)}")
        kind = decoders[form]
        if issubclass(kind, ConfiguredDecoder):
            return kind.configure(self.settings)
        return kind(strict_keys=self.settings.decode.strict_keys)
