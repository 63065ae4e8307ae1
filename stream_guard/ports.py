"""The edges of the core: where records come from, how they are read, where state and alerts go."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import msgspec

from stream_guard.errors import DecodeError, Place, Problem
from stream_guard.judge.model import Alert, Event, Json

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


class Record(msgspec.Struct, frozen=True, gc=False):
    """Raw bytes as they came, and where they came from."""

    value: bytes  # a line of a file has its line end with it
    origin: str = ""  # the file, or the topic and partition
    position: int = 0  # byte offset in the file, or offset in the partition
    line: int = 0  # 1 for the first line of a file, 0 where there are no lines
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    truncated: int = 0  # the record's true size, when only its head was read because it is over the limit
    time: float | None = None  # when it was written to its topic, as the topic says; rules never see it
    problem: str = ""  # of a truncated one: why nothing of it could be read

    def check_whole(self) -> None:
        """Raise DecodeError if only the head of the record was read, or nothing."""
        if self.problem:
            raise DecodeError(self.problem)
        if self.truncated:
            raise DecodeError(
                f"the record has {self.truncated} bytes, more than decode.max_record_bytes allows; "
                "raise that setting, or keep large payloads out of events"
            )


class Source(Protocol):
    """A sequence of records that can be taken up again where it was left."""

    def __iter__(self) -> Iterator[Record | None]:
        """Yield records; None says that nothing is there right now (a good moment to commit)."""

    def positions(self) -> Mapping[str, int]:
        """Where the next record of each origin starts, for the checkpoint."""

    def close(self) -> None:
        """Release what is open."""


@runtime_checkable
class BatchedSource(Protocol):
    """A source that can give many records at once, which takes less than one after the other."""

    def batches(self, most: int) -> Iterator[list[Record]]:
        """Yield the records in lists of at most so many; an empty one says that nothing is there right now.

        ``positions`` is then behind the whole list.
        """


class Memory(Protocol):
    """Rows that a decoder keeps between records, under names of its own. They are saved together with the sessions."""

    def get(self, name: str) -> bytes | None:
        """Return what was put last, or None."""

    def put(self, name: str, blob: bytes, at: float) -> None:
        """Keep the bytes; ``at`` orders the rows when they are listed."""

    def drop(self, name: str) -> None:
        """Forget the row."""

    def rows(self) -> Iterator[str]:
        """Yield the names of all rows, in the order of ``at`` (used once, at the start)."""

    def part(self, name: str) -> Memory:
        """Return a memory of its own inside this one."""

    def count_orphans(self, spans: int) -> None:
        """Count spans that became events although a span around them has not come."""

    def note_origin(self, event: Event, origin: str, line: int) -> None:
        """Tell where the record stood that brought an event. It may have waited for a later record."""


class Decoder(Protocol):
    """The base of every decoder: reads the records of one format. One instance is made per run.

    A format has to write ``decode``. The other methods have defaults, and are for formats that can do more. A decoder
    of JSON derives from ``JsonDecoder``.
    """

    def __init__(self, *, strict_keys: bool = True) -> None:
        """Take the setting ``decode.strict_keys``: whether an object that gives a key twice is refused."""
        del strict_keys  # a format that is not JSON has no keys

    @classmethod
    def configure(cls, settings: Any) -> Self:
        """Return a decoder for all settings, or raise SettingsError."""
        return cls(strict_keys=settings.decode.strict_keys)

    @classmethod
    def configure_among(cls, settings: Any, decoders: Mapping[str, type[Decoder]]) -> Self:
        """Return a decoder for all settings that knows the installed formats too, or raise SettingsError.

        ``decoders`` are all decoders that are registered, by format. Only a decoder that passes records on to others,
        or names their formats, needs to write this method.
        """
        del decoders
        return cls.configure(settings)

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence, from 0 to 1, that a parsed record is of this format. It is quick and never raises.

        The format ``auto`` asks all decoders and lets the one with the greatest confidence read the record.
        """
        del data
        return 0.0

    @property
    def waits(self) -> bool:
        """Whether it may hold events back until a later record names their session (``remember``)."""
        return False

    @abstractmethod
    def decode(self, record: Record) -> Sequence[Event]:
        """Return the record's events in order. Raise DecodeError, and nothing else, whatever the bytes."""

    def session_at_glance(self, record: Record) -> bytes | None:
        """Return the id, in UTF-8, of the one session that all events of a record belong to, without decoding it.

        None where only decoding tells. If such a record cannot be decoded, a call that it still tells of belongs to
        that session too, and decoding it or leaving it out changes no later answer of the decoder: where other
        processes judge some of the sessions, this one leaves their records out.
        """
        del record
        return None

    def keeps(self, event: Event) -> bool:
        """Whether an event is one that this decoder returns; a selection of another one's returns only some."""
        del event
        return True

    def remember(self, memory: Memory) -> Decoder:
        """Return a copy that holds events back and keeps them in ``memory``. This decoder itself holds nothing back."""
        del memory
        return self

    def elapse(self, seconds: float) -> Sequence[Event]:
        """Advance the clock by seconds in which no record came. Return the events whose wait is over."""
        del seconds
        return ()

    def finish(self) -> Sequence[Event]:
        """Return all events that are held back. No further record will come."""
        return ()

    def advice(self) -> Sequence[str]:
        """Return what can be done about inputs that could not be read, a text for each; after ``finish``."""
        return ()


class Sink(Protocol):
    """The base of every sink: a place to send alerts. One instance is opened per run.

    Deriving is optional: any class with these methods is a sink. Alerts reach it through the outbox, in a thread of its
    own. A class whose attribute ``direct`` is True is handed them in the commit itself, which waits: only for what is
    as near as the checkpoint. One whose attribute ``takes_all`` is True gets every alert of a flood.
    """

    @classmethod
    @abstractmethod
    def open(cls, target: str, *, position: int | None = None, settings: Any = None) -> Self:
        """Return the sink for a target, or raise SinkError.

        ``target`` is the text behind the sink's name in ``--alerts name:target``. ``settings`` is the section of the
        settings that has the sink's name; where there is none, the ``RouteSettings`` it is opened for. ``position`` is
        what ``flush`` returned before the last checkpoint, None without a checkpoint and for a sink that is not direct.
        Alerts that were sent after it will be sent again.
        """

    @abstractmethod
    def send(self, alerts: Sequence[Alert]) -> None:
        """Deliver all alerts or raise SinkError. Sending an alert again with the same id is harmless."""

    def flush(self) -> int:
        """Make what was sent durable, and return the position for the checkpoint, 0 where there is none.

        It is called before every checkpoint: a state on disk proves that its alerts are out.
        """
        return 0

    def close(self) -> None:
        """Deliver what is buffered and release what is open. Closing twice is harmless."""
        self.flush()


@runtime_checkable
class ResolvingSink(Protocol):
    """A sink whose receiver shows an alert as long as it lasts, and is told when it is over.

    What a rule found lasts until its incident is solved, or until nothing more was found for ``resolve_after`` seconds.
    """

    resend: float  # seconds after which the receiver is sent what lasts again: it may have forgotten it
    resolve_after: float

    def resolve(self, alerts: Sequence[Alert]) -> None:
        """Tell the receiver that these are over, or raise SinkError. Telling it again is harmless."""


@runtime_checkable
class ProbedSink(Protocol):
    """A sink that can tell, without sending an alert, whether alerts would arrive: ``stream-guard doctor`` asks it."""

    def probe(self) -> str:
        """Return what the receiver answered, in words without secrets; SinkError where alerts would not arrive."""


class LoginToken(msgspec.Struct, frozen=True):
    """What brokers are shown instead of a password. Its text is in no message and no log."""

    text: str
    expires: float | None = None  # as ``time.time`` counts; None where the source does not say

    def __repr__(self) -> str:
        return f"LoginToken(expires={self.expires})"


class TokenSource(Protocol):
    """The base of every source of tokens for brokers that log in by OAUTHBEARER. One instance is made per process.

    A source whose attribute ``cheap`` is True is asked for every connection. The token of another one is used until a
    fifth of its time is left, and while a new one cannot be had, until it expires.
    """

    cheap: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def open(cls, settings: Any) -> Self:
        """Return the source for the section ``kafka`` of the settings, or raise SettingsError; do not fetch yet."""

    @abstractmethod
    def fetch(self) -> LoginToken:
        """Return a token, or raise TokenError, within ``settings.oauth_timeout`` seconds. Calls do not overlap."""


class Document(Protocol):
    """A policy file as data that remembers where each piece of it stood."""

    file: str
    data: Json

    def place(self, *path: str | int) -> Place:
        """Return where the value at the path stands; where its nearest ancestor does, if it is absent."""

    def key_place(self, *path: str | int) -> Place:
        """Return where the key of the last step stands."""


class Dialect(Protocol):
    """A way to read policy files that were written for another system."""

    name: str

    def recognises(self, document: Document) -> bool:
        """Whether this file is written in the dialect; must be cheap and never raise."""

    def translate(self, document: Document) -> tuple[dict[str, Any], Sequence[Problem]]:
        """Return the native form and what is wrong beyond what checking that will find.

        A rule of the form may carry ``_from``, the path in the document it was made from, so that problems
        lead back there; ``_flat``, when its parameters stand there beside its id; and ``_slot``, a name of its own
        where the dialect lets two rules share an id. An agent of the form may carry ``_from`` too.
        """


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge is asked: a rule no machine can decide, and the text to hold against it."""

    rule: str
    text: str
    settings: Any = None  # the section ``judge`` of the settings
    timeout: float | None = None  # seconds in which an answer is of use
    id: str = ""  # an answer must repeat it, where it is given: text that an agent wrote cannot know it


class PolicyPack(msgspec.Struct, frozen=True, kw_only=True):
    """Rules that policies take in by name. The file is itself a policy, so that it can be read, linted and tested."""

    name: str
    summary: str  # one sentence, as a list of packs shows it
    file: Traversable


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command of the command line, or a group of them. Its module is imported when it is called.

    A command has a ``target``: ``package.module:name``, where the name is a function as typer takes it, or a
    ``typer.Typer``. A group has ``commands`` instead.
    """

    name: str
    help: str  # as a list of commands shows it
    target: str = ""
    commands: tuple[Command, ...] = ()
