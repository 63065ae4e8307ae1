"""Recorded sessions, as the commands that explain them read them: all at once in numbers, then one of them whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import typer

from stream_guard.cli.forms import find_name
from stream_guard.decoding.places import RecordPlaces
from stream_guard.errors import SettingsError
from stream_guard.explaining.survey import SessionSurvey
from stream_guard.explaining.timeline import SessionTimeline, follow_session
from stream_guard.judge.model import Event
from stream_guard.judge.spec import Policy
from stream_guard.policy.message_parts import did_you_mean
from stream_guard.running.assembly import Assembly
from stream_guard.running.recordings import RecordedEvents
from stream_guard.settings import load_settings


class RecordedSessions:
    """The sessions of recordings under a policy. They are read anew for each question: nothing is kept."""

    def __init__(self, traces: Sequence[str], form: str, assembly: Assembly, policy: Policy | None) -> None:
        if "-" in traces:
            raise SettingsError("standard input can be read only once; write it to a file first")
        self.policy = policy
        self.limits = assembly.settings.sessions
        self._traces, self._form, self._assembly = traces, form, assembly
        self._told = False

    def events(self, places: RecordPlaces | None = None) -> Iterator[Event]:
        """Yield all events; records that cannot be read are told of once, on standard error."""
        recorded: RecordedEvents = self._assembly.read_events(self._traces, self._form, places=places)
        yield from recorded
        if not self._told:
            for line in recorded.dead_letters.summary():
                typer.echo(line, err=True)
            self._told = True

    @cached_property
    def survey(self) -> SessionSurvey:
        """All sessions in numbers, with what the policy finds."""
        survey = SessionSurvey(self.policy, self.limits)
        survey.read(self.events())
        return survey

    def find_session(self, name: str) -> str | None:
        """Return the session that a name is or begins."""
        return find_name(name, self.survey.sessions, "sessions")

    def session(self, name: str) -> str:
        """Return the session that a name is or begins; SettingsError when there is none."""
        found = self.find_session(name)
        if found is None:
            known = self.survey.sessions
            raise SettingsError(f"no session {name[:80]!r} among {len(known)} recorded ones{did_you_mean(name, known)}")
        return found

    def timeline(self, session_id: str) -> SessionTimeline:
        """Return the timeline of a session, with files and lines; without a policy, only its events."""
        places = RecordPlaces(whole=session_id)
        return follow_session(
            self.events(places),
            self.policy or Policy(rules=(), version=""),
            session_id,
            places=places,
            limits=self.limits,
        )


@contextmanager
def open_recorded(
    traces: Sequence[str], form: str, policy: Path | None, settings_file: Path | None
) -> Iterator[RecordedSessions]:
    """Open recordings and the policy that they are held against, where there is one."""
    with Assembly(load_settings(settings_file)) as assembly:
        rules = assembly.load_policy(policy, form) if policy is not None else None
        yield RecordedSessions(traces, form, assembly, rules)
