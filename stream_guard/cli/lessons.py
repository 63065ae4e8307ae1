"""What ``learn`` prints and asks: rules with what they rest on, and what is done with the answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import typer

from stream_guard.cli.forms import plain
from stream_guard.errors import SettingsError
from stream_guard.history import lessons
from stream_guard.history.database import Database
from stream_guard.history.lessons import SHOWN_SESSIONS, KeptLesson, LessonState
from stream_guard.judge.model import Json
from stream_guard.learning.candidates import Learned, Lesson, answers_file, read_answers
from stream_guard.learning.drift import RecordingDrift
from stream_guard.policy.convert import write_yaml
from stream_guard.policy.editing import add_rules
from stream_guard.policy.load import load_policy
from stream_guard.policy.message_parts import did_you_mean, show
from stream_guard.registry import Registry
from stream_guard.starting.templates import write_files

_MOST_SESSIONS: Final = 3  # that are named
_MOST_ODD: Final = 10
_ALL: Final = "all"


class Lessons:
    """Shows what was learned and remembers answers. Names come from the traces: they are escaped."""

    def __init__(self, learned: Learned, policy: Path, registry: Registry) -> None:
        self._learned = learned
        self._policy = policy
        self._registry = registry
        self._answers = read_answers(answers_file(policy))

    def show(self, *, show_all: bool) -> None:
        """List the rules that are proposed and that nobody has answered to, the best first."""
        learned, open_ones = self._learned, self._open()
        expected = learned.alarmed / learned.judged if learned.judged else 0.0
        _say(f"{learned.sessions:,} sessions of {learned.tasks:,} tasks: {len(learned.proposed)} rules, in shadow mode")
        if learned.proposed:
            _say(
                f"expected on unseen fine sessions: {expected:.1%} with an alarm of any of them "
                f"({learned.alarmed:,} of {learned.judged:,} when they were left out)"
            )
        answered = len(learned.proposed) - len(open_ones)
        if answered:
            _say(f"{answered} of them have an answer in {answers_file(self._policy)}")
        for number, lesson in enumerate(open_ones, 1):
            self._rule(f"{number}. ", lesson)
        if not learned.proposed:
            _say("nothing to propose: more sessions may help; --all lists what was looked at")
        if show_all:
            for lesson in learned.lessons:
                if lesson.refused_for:
                    self._rule(f"not proposed, {lesson.refused_for}: ", lesson)
        self._odd()

    def _open(self) -> list[Lesson]:
        return [lesson for lesson in self._learned.proposed if not self._answers.are_given(lesson.candidate.id)]

    def _rule(self, head: str, lesson: Lesson) -> None:
        rule = lesson.candidate
        _say(f"\n{head}{rule.words}")
        kept = f"about {rule.support:,} sessions; broken in {len(lesson.broken):,}{_named(lesson.broken)}"
        _say(f"   {rule.id} ({rule.kind}): {kept}")
        left_out = f"{len(lesson.alarms):,} of {self._learned.judged:,} sessions when they were left out"
        _say(f"   alarms on fine sessions: {left_out}{_named(lesson.alarms)}; at most {lesson.at_most:.1%}")

    def _odd(self) -> None:
        odd = self._learned.odd
        if odd:
            _say(f"\n{len(odd):,} sessions are unlike nearly all others; look at them:")
        for one in odd[:_MOST_ODD]:
            _say(f"   {one.session_id}: {', '.join(one.reasons[:_MOST_SESSIONS])}{_more(one.reasons)}")

    def show_drift(self, drift: RecordingDrift) -> bool:
        """Say what new recordings no longer keep, and whether there is anything."""
        _say(f"\n{drift.now:,} new sessions, {drift.rules} rules of the {drift.before:,} old ones")
        for change in drift.not_kept:
            rule = change.lesson.candidate
            _say(f"no longer kept: {rule.words}")
            old = len(change.lesson.broken | change.lesson.alarms)
            _say(
                f"   {rule.id}: {len(change.broken):,} of {drift.now:,} new sessions{_named(change.broken)}; "
                f"{old:,} of {self._learned.judged:,} old ones"
            )
        for tool in drift.tools:
            before = f"{tool.before:,} of {drift.before:,} before"
            _say(f"{tool.tool} is called in {tool.now:,} of {drift.now:,} sessions; {before}")
        if drift.is_empty:
            _say("the new sessions keep what was learned from the old ones")
        return not drift.is_empty

    def answer(self, accept: Sequence[str], refuse: Sequence[str], *, ask: bool) -> None:
        """Take answers from options or from the terminal, write accepted rules into the policy, and remember all."""
        proposed = {lesson.candidate.id: lesson for lesson in self._learned.lessons}
        taken = [lesson.candidate.id for lesson in self._open()] if _ALL in accept else list(accept)
        for rule_id in (*taken, *refuse):
            if rule_id not in proposed:
                raise SettingsError(f"no rule {show(rule_id)} was learned{did_you_mean(rule_id, list(proposed))}")
        for rule_id in refuse:
            self._answers.refuse(rule_id, proposed[rule_id].candidate.words)
        if ask:
            taken += self._ask()
        for rule_id in taken:
            self._answers.accept(rule_id, proposed[rule_id].candidate.words)
        accepted = [proposed[rule_id] for rule_id in dict.fromkeys(taken)]
        self._write([lesson.candidate.as_rule(self._reason(lesson)) for lesson in accepted])

    def save(self, history: Database) -> None:
        """Keep what is proposed for the page, and take over what people said there."""
        kept = lessons.save(history, (self._as_kept(lesson) for lesson in self._learned.proposed))
        accepted = [one for one in kept if one.state == "accepted" and one.id not in self._answers.accepted]
        for one in kept:
            if one.state == "refused":
                self._answers.refuse(one.id, one.words)
        for one in accepted:
            self._answers.accept(one.id, one.words)
        self._write([one.rule for one in accepted])
        _say(f"{sum(one.state == 'open' for one in kept)} rules wait for an answer on the page, under Learned")

    def _as_kept(self, lesson: Lesson) -> KeptLesson:
        """Return a lesson for the page; an answer from the terminal counts there too."""
        rule, said = lesson.candidate, self._answers
        state: LessonState = "open"
        if said.are_given(rule.id):
            state = "accepted" if rule.id in said.accepted else "refused"
        return KeptLesson(
            id=rule.id,
            words=rule.words,
            rule=rule.as_rule(self._reason(lesson)),
            support=rule.support,
            sessions=self._learned.sessions,
            broken=len(lesson.broken),
            broken_in=tuple(sorted(lesson.broken)[:SHOWN_SESSIONS]),
            alarms=len(lesson.alarms),
            judged=self._learned.judged,
            at_most=lesson.at_most,
            state=state,
        )

    def _ask(self) -> list[str]:
        taken: list[str] = []
        for lesson in self._open():
            _say(f"\n{lesson.candidate.words}")
            said = typer.prompt("take it into the policy? yes, no, later, or stop", default="later").strip().lower()
            if said[:1] == "s":
                break
            if said[:1] == "y":
                taken.append(lesson.candidate.id)
            elif said[:1] == "n":
                self._answers.refuse(lesson.candidate.id, lesson.candidate.words)
        return taken

    def _write(self, rules: Sequence[dict[str, Json]]) -> None:
        """Write the policy first: a rule that counts as accepted and is nowhere would never be proposed again."""
        file, memory = self._policy, answers_file(self._policy)
        if rules:
            try:
                text = add_rules(file.read_text(encoding="utf-8"), rules)
            except FileNotFoundError:
                text = write_yaml({"name": file.stem, "version": 2, "rules": rules})
            except (OSError, UnicodeDecodeError) as error:
                raise SettingsError(f"{file}: cannot be read: {error}") from None
            load_policy(text, self._registry, file=str(file), folder=file.parent)
            write_files(file.parent, {file.name: text}, force=True)
            _say(f"\n{file}: {len(rules)} rules, in shadow mode; `stream-guard policy promote` takes one into force")
        write_files(memory.parent, {memory.name: self._answers.as_text()}, force=True)
        _say(f"{memory}: {len(self._answers.accepted)} accepted, {len(self._answers.refused)} refused")

    def _reason(self, lesson: Lesson) -> str:
        rule = lesson.candidate
        about = f"About {rule.support} of {self._learned.sessions} sessions, broken in {len(lesson.broken)}."
        return f"Learned: {rule.words}. {about}"


def _named(sessions: Iterable[str]) -> str:
    names = sorted(sessions) if not isinstance(sessions, tuple) else list(sessions)
    return f" ({', '.join(names[:_MOST_SESSIONS])}{_more(names)})" if names else ""


def _more(names: Sequence[str]) -> str:
    more = len(names) - _MOST_SESSIONS
    return f" and {more} more" if more > 0 else ""


def _say(text: str) -> None:
    head, tail = ("\n", text[1:]) if text.startswith("\n") else ("", text)
    typer.echo(head + plain(tail))
