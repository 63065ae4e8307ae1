"""The front door for library users: load a policy, read events, evaluate them, run a stream. One call each.

Plugins and settings are found as the command line finds them. Nothing is printed and no port is opened unless asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event as Flag

from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Event, Finding
from stream_guard.judge.ports import NO_ANSWERS, JudgeAnswers
from stream_guard.judge.spec import Policy
from stream_guard.policy import load as policies
from stream_guard.registry import Registry, build_registry
from stream_guard.running import batch
from stream_guard.running.assembly import Assembly
from stream_guard.running.embedded import RunOptions, open_run
from stream_guard.running.recordings import RecordedEvents
from stream_guard.settings import load_settings


def load_policy(file: str | Path, registry: Registry | None = None) -> Policy:
    """Return the policy of a file, YAML or JSON, in any installed dialect; PolicyError lists everything wrong.

    ``registry`` says which plugins there are, where the installed ones are not meant.
    """
    return policies.load_policy(Path(file), registry or _installed())


def parse_policy(
    text: str | bytes, registry: Registry | None = None, *, file: str = "", folder: str | Path | None = None
) -> Policy:
    """Return the policy of a text. ``file`` is the name that problems give; rules find their files in ``folder``."""
    return policies.load_policy(
        text, registry or _installed(), file=file, folder=None if folder is None else Path(folder)
    )


def _installed() -> Registry:
    return build_registry(load_settings().plugins)


def read_events(*sources: str | Path, form: str = "auto", dead_letters: str | Path | None = None) -> RecordedEvents:
    """Return the events of files, folders or topics; the format ``auto`` recognises each record by its shape.

    Records that cannot be read go to the file ``dead_letters``. Without one, reading ends with SourceError.
    """
    targets = [str(source) for source in sources]
    return Assembly().read_events(targets, form, dead_letters=dead_letters, strict=True)


def evaluate(
    events: Iterable[Event],
    policy: Policy | str | Path,
    *,
    counts: Counts | None = None,
    answers: JudgeAnswers = NO_ANSWERS,
) -> list[Finding]:
    """Return everything the policy finds in the events. Sessions may be mixed; the end of the input ends them.

    ``answers`` are those that judges gave; without one, a rule that asks a judge could not judge.
    """
    loaded = _loaded(policy)
    if isinstance(events, RecordedEvents):
        loaded = policies.with_lateness(loaded, events.lateness)
    return batch.evaluate(events, loaded, counts=counts, answers=answers)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run did."""

    records: int
    events: int
    findings: int
    dead_letters: int


def run(  # noqa: PLR0913  # as many as a user may say
    source: str | Path,
    policy: Policy | str | Path,
    *,
    alerts: Sequence[str] = (),
    form: str = "auto",
    checkpoint: str | Path | None = None,
    dead_letters: str | Path | None = None,
    follow: bool = False,
    metrics: bool = False,
    stop: Flag | None = None,
) -> RunSummary:
    """Judge a file, a folder, ``-`` or ``kafka://...`` until it ends or ``stop`` is set; send alerts to sinks.

    ``alerts`` names sinks as the command line does: ``console``, ``jsonl:FILE``. With ``checkpoint``, a later run
    resumes where this one stopped. ``metrics`` serves /metrics and /healthz, at the address of the settings.
    """
    stop = stop or Flag()
    options = RunOptions(
        source=str(source),
        policy=_loaded(policy),
        alerts=tuple(alerts),
        form=form,
        checkpoint=None if checkpoint is None else Path(checkpoint),
        dead_letters=dead_letters,
        follow=follow,
        serve=metrics,
    )
    with Assembly() as assembly:
        opened = open_run(options, assembly, stop)
        opened.runner.run(stopped=stop.is_set)
        counts = opened.counts
        return RunSummary(
            counts.records, sum(counts.events.values()), counts.total("findings"), opened.dead_letters.total
        )


def _loaded(policy: Policy | str | Path) -> Policy:
    return policy if isinstance(policy, Policy) else load_policy(policy)
