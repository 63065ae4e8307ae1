"""Assembly: the parts of a run, made from settings and plugins in one way for every mode, and closed again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from math import inf
from pathlib import Path
from threading import Event as Flag
from types import TracebackType
from typing import Any, Self

from pydantic import SecretStr

from stream_guard.alerting.delivery import Delivery, close_sink
from stream_guard.alerting.outbox import AlertOutbox
from stream_guard.alerting.queues import IsSolved, QueueLimits, SinkQueue, nothing_solved
from stream_guard.alerting.routes import make_route, queue_name
from stream_guard.asking.desk import AnswerRecord, QuestionDesk
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.places import RecordPlaces
from stream_guard.decoding.topic_dead_letters import KafkaDeadLetters
from stream_guard.decoding.wrapping import PricedDecoder, TenantDecoder, TopicDecoder
from stream_guard.distribution import install_line
from stream_guard.errors import SettingsError, SinkError
from stream_guard.guard.follow_up import settled_in
from stream_guard.history import policies
from stream_guard.history.database import Database, is_postgres, open_database
from stream_guard.history.retention import Pruner
from stream_guard.judge.counts import Counts
from stream_guard.judge.ports import NO_ANSWERS, JudgeAnswers
from stream_guard.judge.spec import Policy
from stream_guard.kafka.address import SCHEME
from stream_guard.kafka.writer import TopicWriter
from stream_guard.policy.convert import to_native
from stream_guard.policy.load import load_policy, with_lateness
from stream_guard.policy.message_parts import did_you_mean
from stream_guard.ports import Decoder, Sink, Source
from stream_guard.registry import Registry, build_registry
from stream_guard.running.checkpoint import SINK_META, file_marks, position_of, source_positions
from stream_guard.running.recordings import RecordedEvents
from stream_guard.running.reload import ReloadingPolicy
from stream_guard.settings import RouteSettings, Settings, load_settings
from stream_guard.sources import open_source
from stream_guard.sources.otlp import SCHEME as OTLP
from stream_guard.storage.stores import CheckpointStore

_logger = logging.getLogger(__name__)


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

    def follow_policy(self, file: Path, form: str = "native", *, settle: bool = False) -> ReloadingPolicy:
        """Return the policy of a file that may change while it is in force."""
        by_tenant, lateness = bool(self.settings.sessions.tenant_label), self.lateness(form)
        return ReloadingPolicy(file, self.registry, lateness=lateness, by_tenant=by_tenant, settle=settle)

    def fit(self, policy: Policy, form: str) -> Policy:
        """Return the policy for records of a format: where it is silent, events may be as late as the format's are.

        Where events have tenants, its rules keep them apart.
        """
        fitted = with_lateness(policy, self.lateness(form))
        return replace(fitted, by_tenant=True) if self.settings.sessions.tenant_label else fitted

    def lateness(self, form: str) -> float:
        """Return how many seconds late events of a format may come; so for the formats that topics have."""
        decoders = [self.registry.decoders.get(name) for name in (form, *self.settings.decode.formats.values())]
        return max(float(getattr(decoder, "lateness", 0.0)) for decoder in decoders)

    def form_of(self, target: str, form: str) -> str:
        """Return the format to read a source in: what a receiver takes in can only be OTLP."""
        if form != "auto" or not target.startswith(OTLP):
            return form
        if "otlp" not in self.registry.decoders:
            raise SettingsError(f"{target} needs an extra: {install_line('otlp')}")
        return "otlp"

    def make_decoder(self, form: str, *, tenants: bool = True, recorded: bool = False) -> Decoder:
        """Return the decoder of a format, and of those that topics have; SettingsError lists the formats there are.

        With ``tenants`` the names of sessions contain the tenant, where the settings say which label names it. What is
        ``recorded`` is read to its end, so spans may wait that long for those around them.
        """
        settings = self.settings
        if recorded:
            decode = settings.decode.model_copy(update={"parent_wait": inf})
            settings = settings.model_copy(update={"decode": decode})
        formats = settings.decode.formats
        decoders = {name: self._make_decoder(name, settings) for name in (form, *formats.values())}
        decoder: Decoder = TopicDecoder(form, decoders, formats) if formats else decoders[form]
        prices = self.settings.decode.prices
        decoder = PricedDecoder(decoder, prices) if prices else decoder
        label = self.settings.sessions.tenant_label
        return TenantDecoder(decoder, label) if tenants and label else decoder

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

    def open_checkpoint(self, file: Path | None, source: str = "", *, synced: bool = False) -> CheckpointStore | None:
        """Open the file that progress is kept in, if there is one; SettingsError where the source cannot be resumed."""
        if file is None:
            if source.startswith(OTLP):
                raise SettingsError(
                    f"{source} needs --checkpoint: exporters forget what was acknowledged, so it must survive a crash"
                )
            return None
        if source == "-":
            raise SettingsError("--checkpoint cannot be used with standard input: a pipe cannot be taken up again")
        store = CheckpointStore(file, synced=synced)
        self.opened.callback(store.close)
        return store

    def open_sink(self, text: str, position: int | None = None, route: RouteSettings | None = None) -> Sink:
        """Open the sink that ``name`` or ``name:target`` means, for a route of the settings where one leads to it."""
        name, _, target = text.partition(":")
        sink = self._sink_type(text).open(target, position=position, settings=self._sink_settings(name, route))
        self.opened.callback(close_sink, text, sink, self.settings.delivery.drain)
        return sink

    def open_delivery(
        self,
        targets: Iterable[str],
        counts: Counts,
        checkpoint: CheckpointStore | None = None,
        *,
        routes: bool = False,
        is_solved: IsSolved = nothing_solved,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Delivery:
        """Open the sinks that alerts go to; with ``routes``, also those of the settings.

        Direct ones are opened where the checkpoint says that they stood. The others share an outbox.
        """
        listed = list(dict.fromkeys(targets))
        direct = {text: bool(getattr(self._sink_type(text), "direct", False)) for text in listed}
        sinks: Mapping[str, Sink] = {
            text: self.open_sink(text, position_of(checkpoint, f"{SINK_META}{text}")) for text in listed if direct[text]
        }
        ways = {queue_name(text): self.route_to(text) for text in listed if not direct[text]}
        if routes:
            ways |= self.settings.delivery.routes
        waits: dict[str, Any] = {
            "drain": self.settings.delivery.drain,
            "timeout": self.settings.delivery.timeout,
            "stopped": stopped,
        }
        if not ways:
            return Delivery(sinks, counts, **waits)
        if is_solved is nothing_solved:
            is_solved = self._settled(listed)
        outbox = self._open_outbox(checkpoint)
        queues = [self._open_queue(name, way, outbox, counts, is_solved) for name, way in ways.items()]
        delivery = Delivery(sinks, counts, outbox=outbox, queues=queues, **waits)
        self.opened.callback(delivery.close)
        return delivery

    def _sink_type(self, text: str) -> type[Sink]:
        name, sinks = text.partition(":")[0], self.registry.sinks
        if name not in sinks:
            raise SettingsError(f"unknown sink {name[:40]!r} in --alerts; installed: {', '.join(sinks)}")
        return sinks[name]

    def _sink_settings(self, name: str, route: RouteSettings | None) -> object:
        section: object = getattr(self.settings, name, None)
        if section is not None:
            return section
        route = route or RouteSettings()
        return route.model_copy(update={"page_url": route.page_url or self.settings.delivery.page_url})

    def note_policy(self, policy: Policy, targets: Iterable[str]) -> None:
        """Write down, in the histories that alerts go to, that this policy is in force from now on."""
        for address in _histories(targets):
            with closing(self.open_history(address)) as database:
                policies.note(database, policy.version, to_native(policy), time.time())

    def _settled(self, targets: Sequence[str]) -> IsSolved:
        """Return what tells which alerts a person has settled, from the history that alerts go to, if they do."""
        for address in _histories(targets):
            return settled_in(self._keep_open(self.open_history(address)))
        return nothing_solved

    def route_to(self, text: str) -> RouteSettings:
        """Return the route to a sink that is named on the command line; a webhook is signed with delivery.secret."""
        delivery = self.settings.delivery
        return RouteSettings(to=SecretStr(text), secret=delivery.secret, secret_file=delivery.secret_file)

    def _open_queue(
        self, name: str, way: RouteSettings, outbox: AlertOutbox, counts: Counts, is_solved: IsSolved
    ) -> SinkQueue:
        try:
            sink = self.open_sink(way.read_to(), route=way)
        except (SettingsError, SinkError) as error:
            raise SettingsError(f"route {name}: {error}") from None
        limits = QueueLimits(give_up=self.settings.delivery.give_up, keep=self.settings.delivery.keep)
        flood = 0 if getattr(sink, "takes_all", False) else self.settings.delivery.flood
        return SinkQueue(name, sink, make_route(way, flood), outbox, counts, limits=limits, is_solved=is_solved)

    def _open_outbox(self, checkpoint: CheckpointStore | None) -> AlertOutbox:
        beside = Path(f"{checkpoint.path}.outbox") if checkpoint is not None else Path("stream-guard-outbox.db")
        settings = self.settings.delivery
        outbox = AlertOutbox(settings.outbox or beside, max_bytes=settings.max_bytes)
        self.opened.callback(outbox.close)
        return outbox

    def open_answers(self, policy: Policy, *, asks: bool = False) -> JudgeAnswers:
        """Return what judges have answered, for a policy that asks them; nobody is asked.

        ``asks``: the caller wants to know what is not answered.
        """
        address = self.settings.judge.record or self.settings.history.url
        if not policy.asks or not (asks or is_postgres(address) or Path(address).exists()):
            return NO_ANSWERS
        return AnswerRecord(self._open_record(), self.settings.judge.model, asks=asks)

    def open_desk(self, policy: Policy, owner: str, counts: Counts) -> QuestionDesk | None:
        """Return the desk where questions of a policy to a judge wait, if it has any and a judge is set up.

        The caller starts and closes it.
        """
        if not policy.asks:
            return None
        judge = self.settings.judge
        if not judge.url:
            asking = ", ".join(rule.id for rule in policy.rules if rule.rule.asks)
            _logger.warning("%s: nobody can be asked, as judge.url is not set; answers on record count", asking)
            return None
        self.prune_history(judge.record)
        hook = self.registry.manager.hook.stream_guard_judge
        return QuestionDesk(
            self._open_record(), judge, lambda question: hook(question=question), owner=owner, counts=counts
        )

    def open_history(self, address: str = "") -> Database:
        """Open a history, that of the settings without an address, over a connection that the caller closes."""
        settings = self.settings.history
        return open_database(address or settings.url, settings.read_key())

    def prune_history(self, address: str = "") -> None:
        """Keep a history to its limits while this process runs."""
        pruner = Pruner(self.open_history(address), self.settings.history)
        self.opened.callback(pruner.close)

    def _open_record(self) -> Database:
        """Open what keeps questions and answers, over a connection of its own."""
        return self._keep_open(self.open_history(self.settings.judge.record))

    def _keep_open(self, database: Database) -> Database:
        self.opened.callback(database.close)
        return database

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
        *,
        dead_letters: str | Path | None = None,
        strict: bool = False,
        tenants: bool = True,
        places: RecordPlaces | None = None,
    ) -> RecordedEvents:
        """Return the events of recordings, in the order of the targets. ``places`` learns where each stands."""
        decoder = self.make_decoder(form, tenants=tenants, recorded=True)
        letters = self.open_dead_letters(dead_letters, form, Counts())
        return RecordedEvents(
            targets, decoder, self.settings, letters, lateness=self.lateness(form), strict=strict, places=places
        )

    def _make_decoder(self, form: str, settings: Settings) -> Decoder:
        decoders = self.registry.decoders
        if form not in decoders:
            near = did_you_mean(form, decoders)
            raise SettingsError(f"unknown format {form!r}{near}; installed: {', '.join(decoders)}")
        return decoders[form].configure_among(settings, decoders)


def _histories(targets: Iterable[str]) -> list[str]:
    """Return the addresses of the histories that alerts go to; an empty one is that of the settings."""
    named = (text.partition(":") for text in targets)
    return [address for name, _, address in named if name == "history"]


def start_desk(desk: QuestionDesk | None, assembly: Assembly) -> None:
    """Let a desk ask from now on, where there is one, and end before what it needs is closed."""
    if desk is not None:
        assembly.opened.callback(desk.close)
        desk.start()
