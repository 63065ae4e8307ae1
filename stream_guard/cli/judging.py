"""Recordings judged whole, with a bar while it lasts; what was found names its file from here."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import typer
from msgspec.structs import replace

from stream_guard.asking.desk import NANOS, questions_in, worst_case
from stream_guard.cli.progress import extent_of_all, show_progress
from stream_guard.cli.sharing import Job, open_workers
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Finding
from stream_guard.judge.ports import Answer
from stream_guard.running.assembly import Assembly
from stream_guard.running.replay import Replay

_STRETCH: Final = 10_000  # records that each process reads before all of them wait for each other


class JudgedRecordings(NamedTuple):
    """What became of recordings."""

    found: list[Finding]
    counts: Counts
    dead_letters: DeadLetters


def judge(job: Job, assembly: Assembly) -> JudgedRecordings:
    """Run every record of every source; all sessions end with the input."""
    counts = Counts()
    letters = assembly.open_dead_letters(None, job.form, counts)
    found: list[Finding] = []

    def keep(given: list[Finding]) -> dict[str, int]:
        found.extend(given)
        return {}

    with show_progress(extent_of_all(job.sources, job.settings), "check", plain=False) as watch:
        workers = open_workers(job, assembly, may_copy=True)
        replay = Replay(workers, keep, letters, batch=_STRETCH, watch=watch)
        replay.run()
    counts.add(replay.summary().counts)
    if job.asks:
        found = ask_judge(found, Judge(job.load(assembly), counts=counts), assembly)
    return JudgedRecordings([from_here(finding) for finding in found], counts, letters)


def ask_judge(found: list[Finding], judge: Judge, assembly: Assembly) -> list[Finding]:
    """Return findings with those that a judge has the last word on as it answers; all others stay in their places."""
    asked = questions_in(found)
    desk = assembly.open_desk(judge.policy, f"check {secrets.token_hex(8)}", judge.counts) if asked else None
    if desk is None:
        return settle_all(found, judge, {})
    model, inquiries = assembly.settings.judge, {one.inquiry.digest: one.inquiry for one in asked if one.inquiry}
    most = sum(worst_case(one.words, one.excerpt, model) for one in inquiries.values()) / NANOS
    typer.echo(f"asking {model.model or 'the judge'} {len(inquiries)} questions, for ${most:.4f} at most", err=True)
    desk.start()
    try:
        desk.put(asked, judge.policy.version)
        desk.drain()
        settled = desk.take_all()
    finally:
        desk.close()
    return settle_all(found, judge, {one.finding.alert_id: one.answer for one in settled})


def settle_all(found: list[Finding], judge: Judge, answers: Mapping[str, Answer | None]) -> list[Finding]:
    """Return findings in their order, with what answers make of those that waited for one."""
    judged = [
        finding if finding.inquiry is None else judge.settle(finding, answers.get(finding.alert_id))
        for finding in found
    ]
    return [finding for finding in judged if finding is not None]


def from_here(finding: Finding) -> Finding:
    """Return the finding with its file named from the current folder, as readers of reports look files up."""
    file = Path(finding.file)
    here = Path.cwd()
    if not finding.file or not file.is_relative_to(here):
        return finding
    return replace(finding, file=file.relative_to(here).as_posix())
