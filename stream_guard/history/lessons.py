"""Rules that were learned, for people to accept or refuse on the page. What they said stays, also in the audit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import msgspec

from stream_guard.history import chain
from stream_guard.history.alert_rows import column
from stream_guard.history.database import Database
from stream_guard.history.records import AnswerRefusedError, from_text, to_text
from stream_guard.judge.model import Json, resolved

LessonState: TypeAlias = Literal["open", "accepted", "refused"]
SHOWN_SESSIONS: Final = 5  # that break a rule, by name


@resolved
class KeptLesson(msgspec.Struct, frozen=True, kw_only=True):
    """A learned rule as it is kept: what it says, what it rests on, and what a person said to it."""

    id: str
    words: str
    rule: dict[str, Json]  # as a policy writes it
    support: int  # sessions that it is about
    sessions: int  # that were learned from
    broken: int
    broken_in: tuple[str, ...]  # some of the sessions that break it
    alarms: int  # of sessions that were left out
    judged: int
    at_most: float
    state: LessonState = "open"
    by: str = ""
    decided: float = 0.0
    note: str = ""


def listing(database: Database) -> list[KeptLesson]:
    """Return all of them, in the order in which they were proposed."""
    rows = database.read("SELECT body, state FROM sg_lessons ORDER BY number")
    return [_read(body, state) for body, state in rows]


def save(database: Database, proposed: Iterable[KeptLesson]) -> list[KeptLesson]:
    """Keep what was learned now. What people said stands; what is not proposed any more, and nobody answered to, goes.

    Returns all that are kept.
    """
    with database.transaction() as statements:
        rows = statements.run("SELECT body, state FROM sg_lessons WHERE state <> 'open' ORDER BY number")
        answered = {lesson.id: lesson for lesson in (_read(body, state) for body, state in rows)}
        merged: dict[str, KeptLesson] = {}
        for lesson in proposed:
            old = answered.pop(lesson.id, None)
            said = {} if old is None else {"state": old.state, "by": old.by, "decided": old.decided, "note": old.note}
            merged[lesson.id] = msgspec.structs.replace(lesson, **said)
        kept = [*merged.values(), *answered.values()]
        statements.run("DELETE FROM sg_lessons")
        for number, lesson in enumerate(kept):
            statements.run(
                "INSERT INTO sg_lessons VALUES (?, ?, ?, ?)", column(lesson.id), number, lesson.state, to_text(lesson)
            )
    return kept


def decide(
    database: Database, name: str, state: LessonState, *, by: str, time: float, note: str = "", via: str = ""
) -> KeptLesson:
    """Accept or refuse a rule; a later answer takes the place of an earlier one. AnswerRefusedError without a rule."""
    with database.transaction(durable=True) as statements:
        rows = statements.run("SELECT body, state FROM sg_lessons WHERE id = ?", column(name))
        if not rows:
            raise AnswerRefusedError(f"no rule {name[:120]!r} was learned", missing=True)
        lesson = msgspec.structs.replace(_read(*rows[0]), state=state, by=by, decided=time, note=note)
        statements.run(
            "UPDATE sg_lessons SET state = ?, body = ? WHERE id = ?", state, to_text(lesson), column(lesson.id)
        )
        entry = {"rule_id": lesson.id, "words": lesson.words, "answer": state, "by": by, "via": via, "note": note}
        chain.append(statements, "lesson", time, entry)
    return lesson


def _read(body: str, state: LessonState) -> KeptLesson:
    return msgspec.structs.replace(from_text(body, KeptLesson), state=state)
