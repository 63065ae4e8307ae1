"""Known topics: whether the topic of a partition is still the one whose offsets are in the rows.

Offsets mean something for one topic only. A topic that was made anew, or that lost records, has other records under
the same offsets: they would look as if they had been applied. So a partition's rows name the id of each topic. Another
topic that is accepted under the name is its next incarnation, and offsets of an earlier one mean nothing for it.
"""

from __future__ import annotations

from typing import NamedTuple

from stream_guard.errors import SourceError
from stream_guard.worker.fetched_records import TopicPartition
from stream_guard.worker.rows import KnownTopic


class PresentTopic(NamedTuple):
    """A topic as the broker has it now."""

    topic_id: bytes  # empty when the broker has no ids
    end: int  # the end offset of the partition


def changed(known: KnownTopic | None, present: PresentTopic, next_offset: int | None) -> str:
    """Return what shows that it is not the topic that was read before; empty when nothing does."""
    if known is not None and known.topic_id and present.topic_id and known.topic_id != present.topic_id:
        return "it was deleted and made anew"
    if next_offset is not None and next_offset > present.end:
        return f"it ends at {present.end}, and {next_offset} is to be read next: it was made anew, or lost records"
    return ""


def recognise(
    source: TopicPartition, known: KnownTopic | None, present: PresentTopic, next_offset: int | None, *, accept: bool
) -> KnownTopic:
    """Return what is known of the topic from now on; SourceError when it has changed and that is not accepted."""
    what = changed(known, present, next_offset)
    incarnation = 0 if known is None else known.incarnation
    if what and not accept:
        raise refusal(source, what)
    return KnownTopic(present.topic_id or (b"" if known is None else known.topic_id), incarnation + bool(what))


def refusal(source: TopicPartition, what: str) -> SourceError:
    """Return the error for a topic that has changed."""
    return SourceError(
        f"{source.topic}/{source.partition}: this is not the topic that was read before: {what}; nothing of it was "
        f"judged. To read it from its first record, keeping all states, start the workers with "
        f"{source.topic}?gaps=accept once; to begin without states, use another group"
    )
