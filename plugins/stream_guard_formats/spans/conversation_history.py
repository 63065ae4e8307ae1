"""What has become events of a conversation so far, so that a message that is sent again gives no event."""

from __future__ import annotations

from typing import Final

import msgspec

from stream_guard import Json
from stream_guard_formats.reading import digest

# Messages of one conversation that are recognised when they are sent again; the oldest are dropped.
_MAX_MESSAGES: Final = 4096
# What was retrieved and is kept for the answers that follow.
_MAX_CHUNKS: Final = 100
_MAX_CHUNK_BYTES: Final = 1 << 16


class AnnouncedCall(msgspec.Struct, array_like=True):
    """A tool call that a model announced and that has no result yet."""

    call_id: str
    tool: str
    args: str  # a digest: arguments may be long, and are only compared


class ConversationHistory(msgspec.Struct, array_like=True):
    """What has become events of a conversation so far. It is stored, so the order of the fields stays as it is."""

    messages: dict[str, int] = {}  # how often each message became an event, by digest
    ids: dict[str, int] = {}  # how often each event id was given
    calls: dict[str, bool] = {}  # ids of calls that were announced
    open: list[AnnouncedCall] = []
    turns: dict[str, int] = {}  # by run
    retrieved: list[Json] = []  # chunks that were retrieved for what a user asked last
    answered: int = 0  # how many of them an answer could use already

    def add_message(self, key: str) -> None:
        """Count a message that becomes an event."""
        name = digest_of(key)
        self.messages[name] = self.messages.get(name, 0) + 1

    def count_of(self, key: str) -> int:
        """Return how often a message became an event."""
        return self.messages.get(digest_of(key), 0)

    def take(self, key: str) -> bool:
        """Whether a message was counted; it is counted once less from now on."""
        name = digest_of(key)
        left = self.messages.get(name, 0) - 1
        if left < 0:
            return False
        if left:
            self.messages[name] = left
        else:
            del self.messages[name]
        return True

    def add_chunks(self, chunks: list[Json]) -> None:
        """Add what was retrieved for the next answers; the oldest is dropped where it becomes too much."""
        self.retrieved += chunks
        while len(self.retrieved) > _MAX_CHUNKS or len(msgspec.json.encode(self.retrieved)) > _MAX_CHUNK_BYTES:
            del self.retrieved[0]
            self.answered = max(0, self.answered - 1)

    def use_chunks(self) -> list[Json]:
        """Return what was retrieved, for an answer."""
        self.answered = len(self.retrieved)
        return list(self.retrieved)

    def begin_question(self) -> None:
        """Forget what was retrieved for the question before. What came since the last answer is for the new one."""
        del self.retrieved[: self.answered]
        self.answered = 0

    def trim(self) -> None:
        """Drop the oldest entries of each table that is too large."""
        for table in (self.messages, self.ids, self.calls, self.turns):
            for name in list(table)[: max(0, len(table) - _MAX_MESSAGES)]:
                del table[name]


def digest_of(key: str) -> str:
    """Return the digest by which a message is counted."""
    return digest(key.encode("utf-8", "surrogatepass"))
