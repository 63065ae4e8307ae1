"""What ``init`` says: what is in the traces, what it proposes, what it wrote, and how the check went."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from shlex import quote
from textwrap import wrap
from typing import Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stream_guard import demo as samples
from stream_guard.cli.forms import plain
from stream_guard.cli.judging import from_here
from stream_guard.commands import INCONCLUSIVE
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.places import RecordPlaces
from stream_guard.demo.sessions import BAD, sample_events
from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Event, Finding
from stream_guard.learning.candidates import LEARNED
from stream_guard.learning.collecting import collect
from stream_guard.learning.facts import is_plain_name
from stream_guard.policy.forms import policy_schema
from stream_guard.policy.load import load_policy
from stream_guard.reports.safe import excerpt
from stream_guard.running.assembly import Assembly
from stream_guard.running.recordings import RecordedEvents
from stream_guard.starting.first_policy import (
    MODELINE,
    SCHEMA_FILE,
    FirstPolicy,
    FittingPack,
    Trial,
    propose,
    ranked,
    settle,
    try_policy,
)
from stream_guard.starting.survey import Survey, guess_class
from stream_guard.starting.templates import SETTINGS, refuse_to_overwrite, write_files

_MOST_ROWS: Final = 20
_MOST_NAMES: Final = 6
_WIDTH: Final = 40  # of one name
_MOST_TARGETS: Final = 3
_MOST_RULES: Final = 8  # whose findings are shown
_MOST_SHOWN: Final = 3  # findings of one rule that are shown, each of another session


class FirstLook:
    """Prints one step after the other. Names come from the traces: they are escaped, and never read as markup."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)

    def recordings(
        self,
        targets: Sequence[str],
        form: str,
        survey: Survey,
        unread: Sequence[str],
        *,
        is_whole: bool,
    ) -> None:
        """Say what the recordings are."""
        more = f" and {len(targets) - _MOST_TARGETS} more" if len(targets) > _MOST_TARGETS else ""
        self._say(f"{', '.join(targets[:_MOST_TARGETS])}{more}: {form}")
        part = "" if is_whole else "; more were not looked at, see --sample"
        self._say(f"{len(survey.sessions):,} sessions, {survey.events:,} events{part}")
        for line in unread:
            self._say(f"not read: {line}")
        agents = [f"{name or 'without a name'} ({count:,} events)" for name, count in survey.agents.most_common()]
        self._say(f"agents: {_names(agents)}")

    def tools(self, survey: Survey) -> None:
        """List the tools with their class, as it is guessed, and the names of their arguments."""
        used = survey.by_calls()
        if not used:
            self._say("no tool was called; rules about tools would have nothing to judge")
            return
        table = Table(box=None, pad_edge=False, title="\nTools", title_justify="left", title_style="bold")
        table.add_column("tool", no_wrap=True)  # a name stays whole; the arguments give way
        table.add_column("calls", justify="right", no_wrap=True)
        table.add_column("sessions", justify="right", no_wrap=True)
        table.add_column("class", no_wrap=True)
        table.add_column("arguments", overflow="fold")
        for name, use in used[:_MOST_ROWS]:
            arguments = _names(argument for argument, _ in use.arguments.most_common())
            cells = (
                _short(name),
                f"{use.calls:,}",
                f"{len(use.sessions):,}",
                guess_class(name, use.arguments, use.described),
                arguments,
            )
            table.add_row(*map(Text, cells))
        self._console.print(table)
        if len(used) > _MOST_ROWS:
            self._say(f"and {len(used) - _MOST_ROWS} more tools")
        odd = sum(not is_plain_name(name) for name, _ in used)
        if odd:
            self._say(f"{odd} names are not written into the policy: they have signs that a policy reads as patterns")

    def policy(self, policy: FirstPolicy, tried: Trial, survey: Survey) -> None:
        """Say which packs fit, what is in shadow mode because of the traces, and how many rules were learned."""
        self._heading("Proposed")
        for pack in policy.packs:
            self._pack(pack, tried)
        own = [str(rule["id"]) for rule in policy.rules]
        learned = sum(rule.startswith(LEARNED) for rule in own)
        for rule in own:
            if not rule.startswith(LEARNED):
                self._say(f"  {rule} is about the tools of these traces")
        if learned:
            self._say(f"{learned} rule{'s' * (learned != 1)} learned from the order of calls, in shadow mode")
        if policy.idle:
            hours = survey.longest_silence / 3600
            self._say(f"sessions.idle: {policy.idle}, because a session here was silent for {hours:.1f} h and went on")

    def _pack(self, pack: FittingPack, tried: Trial) -> None:
        self._say(f"{pack.name}: {_names(pack.tools) if pack.tools else 'for any agent'}")
        for rule in pack.shadow:
            fired = len(tried.fired[rule])
            self._say(f"  {rule} fires in {fired:,} of {len(tried.sessions):,} sessions: in shadow mode")
        for rule in pack.enforce:
            fired = len(tried.fired[rule])
            self._say(f"  {rule} fires in {fired:,} of {len(tried.sessions):,} sessions: taken out of shadow mode")
        for rule in pack.without:
            self._say(f"  {rule} is left out: these traces lack what it needs")

    def written(self, files: Iterable[Path]) -> None:
        """Say what was written."""
        self._heading("Written")
        for file in files:
            self._say(f"  {file}")

    def check(self, checked: Trial, targets: Sequence[str], policy: Path, *, unread: bool) -> None:
        """Show what the policy found in the traces: the worst and rarest first, with the session and the line."""
        alerts = [finding for finding in checked.findings if not finding.shadow]
        quiet = [finding for finding in checked.findings if finding.shadow]
        self._heading("Checked")
        self._say(
            f"{len(checked.sessions):,} sessions, {len(checked.policy.rules)} rules: {len(alerts):,} alerts, "
            f"{len(quiet):,} findings in shadow mode"
        )
        for found in ranked(alerts)[:_MOST_RULES]:
            self._rule(found)
        left = " --allow-inconclusive" if unread or checked.counts.unevaluable else ""
        if left:
            self._say("not everything could be judged; check says what and why")
        command = f"stream-guard check {' '.join(map(quote, targets))} --policy {quote(str(policy))}{left}"
        self.next_step("look at them" if alerts else "check more traces", command)
        if quiet:
            self._quiet(quiet, command, policy)

    def _rule(self, found: Sequence[Finding]) -> None:
        """Show what one rule found."""
        first, sessions = found[0], len({finding.session_id for finding in found})
        self._say(f"  {first.rule_id}: {len(found):,} in {sessions:,} session{'s' * (sessions != 1)}")
        if first.reason:
            self._say(f"    {excerpt(first.reason)}", indent=4)
        one_each: dict[str, Finding] = {}
        for finding in found:
            one_each.setdefault(finding.session_id, from_here(finding))
        for finding in list(one_each.values())[:_MOST_SHOWN]:
            place = f" ({finding.file}:{finding.line})" if finding.line else ""
            turn = "" if finding.index is None else f" turn {finding.index}"
            self._say(f"    {finding.session_id}{turn}{place}: {excerpt(finding.detail)}", indent=6)

    def _quiet(self, quiet: Sequence[Finding], command: str, policy: Path) -> None:
        by_rule = ranked(quiet)
        listed = [f"{found[0].rule_id} ({len(found):,})" for found in by_rule]
        self._say(f"\nIn shadow mode: {_names(listed)}")
        self.next_step("list what they found", f"{command} --shadow")
        promoted = quote(by_rule[0][0].rule_id)
        self.next_step("take one into force", f"stream-guard policy promote {quote(str(policy))} {promoted}")

    def next_step(self, why: str, command: str) -> None:
        """Print a command to go on with, on lines of its own, as it is typed."""
        self._say(f"\nTo {why}:" if not why.startswith("what") else f"\nTo see {why}:")
        line = f"  {plain(command)}"
        head, _, last = line.rpartition(" ")
        if len(line) > self._console.width >= len(head) + 2:
            line = f"{head} \\\n    {last}"
        self._console.print(Text(line), soft_wrap=True)

    def _heading(self, text: str) -> None:
        self._console.print(Text(f"\n{text}", style="bold"))

    def _say(self, text: str, indent: int = 0) -> None:
        head, tail = ("\n", text[1:]) if text.startswith("\n") else ("", text)
        shown = plain(tail)
        if indent:  # what does not fit goes on below, under the text and not under its beginning
            width, below = self._console.width, " " * indent
            lines = wrap(shown, width, subsequent_indent=below, break_on_hyphens=False, break_long_words=False)
            self._console.print(Text(head + "\n".join(lines)), soft_wrap=True)  # an id longer than a line stays whole
            return
        self._console.print(Text(head + shown), overflow="fold")


def _short(name: str) -> str:
    shown = plain(name)
    return shown if len(shown) <= _WIDTH else f"{shown[: _WIDTH - 3]}..."


def _names(names: Iterable[str]) -> str:
    listed = [_short(name) for name in names]
    more = len(listed) - _MOST_NAMES
    return ", ".join(listed[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


# What ``init`` does: looks at traces, or takes samples, writes the files to begin with, and tries them.


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
