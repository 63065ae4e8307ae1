"""What ``init`` does: looks at traces, or takes samples, writes the files to begin with, and tries them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

import typer

from stream_guard import demo as samples
from stream_guard.cli.first_look import FirstLook
from stream_guard.commands import INCONCLUSIVE
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.places import RecordPlaces
from stream_guard.demo.sessions import BAD, sample_events
from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Event
from stream_guard.learning.collecting import collect
from stream_guard.policy.forms import policy_schema
from stream_guard.policy.load import load_policy
from stream_guard.running.assembly import Assembly
from stream_guard.running.recordings import RecordedEvents
from stream_guard.starting.files import refuse_to_overwrite, write_files
from stream_guard.starting.first_policy import MODELINE, SCHEMA_FILE, propose, settle
from stream_guard.starting.survey import Survey
from stream_guard.starting.templates import SETTINGS
from stream_guard.starting.trial import try_policy

POLICY, SETTINGS_FILE = "policy.yaml", "settings.yaml"
GOOD, ODD = "events.jsonl", "bad_events.jsonl"
_SAMPLES: Final = 12  # sample sessions of a template


class Traces:
    """Recordings that are read more than once, up to a number of events."""

    def __init__(self, targets: Sequence[str], form: str, assembly: Assembly, most: int) -> None:
        self.targets = targets
        self.assembly = assembly
        self.detected: dict[str, float] = {}  # formats that were told by the shape of records, each with a confidence
        self.unread: list[str] = []  # why records could not be read, with their number
        self.records = self.lost = 0  # how many there were, and how many of them could not be read
        self.is_whole = True
        self._form = form
        self._most = most

    def read(self, places: RecordPlaces | None = None) -> Iterator[Event]:
        """Yield the events from the beginning; ``places`` learns where each stands."""
        decoder = self.assembly.make_decoder(self._form, recorded=True)
        letters = DeadLetters(None, Counts(), format_name=self._form)
        lateness = self.assembly.lateness(self._form)
        recorded = RecordedEvents(
            self.targets, decoder, self.assembly.settings, letters, lateness=lateness, places=places
        )
        events = iter(recorded)
        yield from islice(events, self._most)
        self.is_whole = next(events, None) is None
        self.detected = dict(getattr(decoder, "detected", {}))
        self.unread, self.records, self.lost = letters.summary(), recorded.records, letters.total

    def format(self) -> str:
        """Return what the records were read as. Of what could not be read nothing is claimed."""
        if self._form != "auto":
            shown = self._form
        elif self.records == self.lost or not self.detected:
            return "no format that is known here" if self.records else "there is no record"
        else:
            share = 1 - self.lost / self.records
            told = {name: confidence * share for name, confidence in self.detected.items()}
            shown = ", ".join(f"{name} (confidence {number:.2f})" for name, number in told.items())
        return f"{shown}; {self.lost:,} of {self.records:,} records could not be read" if self.lost else shown


def begin_from_traces(traces: Traces, into: Path, extra: dict[str, str], *, force: bool) -> None:
    """Survey traces, write a policy that fits them, and hold it against them."""
    if not force:  # before the work, not after it
        refuse_to_overwrite(into, (POLICY, SCHEMA_FILE, SETTINGS_FILE, *extra))
    registry, settings = traces.assembly.registry, traces.assembly.settings
    look = FirstLook()
    survey = Survey()
    facts = collect(survey.watch(traces.read()))
    look.recordings(traces.targets, traces.format(), survey, traces.unread, is_whole=traces.is_whole)
    if not survey.events:
        typer.echo("nothing to begin with: no record could be read; name the format with --from-format", err=True)
        raise typer.Exit(INCONCLUSIVE)
    look.tools(survey)
    first = propose(survey, facts, registry)
    tried = try_policy(traces.read(), load_policy(first.as_yaml(), registry, file=POLICY), settings)
    first = settle(first, registry, tried)
    look.policy(first, tried, survey)
    look.written(write_files(into, _files(first.as_yaml(), traces.assembly) | extra, force=force))
    policy = load_policy(into / POLICY, registry)
    places = RecordPlaces()
    checked = try_policy(traces.read(places), policy, settings, places)
    look.check(checked, traces.targets, into / POLICY, unread=bool(traces.unread))


def begin_from_template(assembly: Assembly, into: Path, extra: dict[str, str], *, force: bool) -> None:
    """Write a sample policy, events that keep it and some that do not, and check the good ones."""
    look = FirstLook()
    packaged = (Path(samples.__file__).parent / POLICY).read_text(encoding="utf-8")
    events = {GOOD: sample_events(_SAMPLES, bad_every=_SAMPLES + 1), ODD: sample_events(len(BAD), bad_every=1)}
    texts = {name: "".join(json.dumps(event) + "\n" for event in found) for name, found in events.items()}
    look.written(write_files(into, _files(f"{MODELINE}\n{packaged}", assembly) | texts | extra, force=force))
    good = Traces([str(into / GOOD)], "native", assembly, 10**6)
    checked = try_policy(good.read(), load_policy(into / POLICY, assembly.registry), assembly.settings)
    look.check(checked, good.targets, into / POLICY, unread=False)
    look.next_step("what alerts look like", f"stream-guard check {into / ODD} --policy {into / POLICY}")


def _files(policy: str, assembly: Assembly) -> dict[str, str]:
    schema = json.dumps(policy_schema(assembly.registry), indent=1, ensure_ascii=False)
    return {POLICY: policy, SCHEMA_FILE: f"{schema}\n", SETTINGS_FILE: SETTINGS}


@contextmanager
def without_notes() -> Iterator[None]:
    """Keep what decoders log off the screen: what was detected is said once, in its place."""
    logger = logging.getLogger("stream_guard_formats")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
