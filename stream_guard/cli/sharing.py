"""Recordings shared among processes: how many there are, and what each of them reads."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event as Flag
from typing import Final
from urllib.parse import parse_qs

import typer

from stream_guard.cli.process import YOUNG_OBJECTS, pass_over_loaded
from stream_guard.decoding.selection import EventSelection, Pacer, Share, TimeSpan
from stream_guard.errors import SettingsError
from stream_guard.judge.judge import Judge
from stream_guard.judge.spec import Policy
from stream_guard.kafka.address import SCHEME
from stream_guard.policy.load import load_policy
from stream_guard.ports import Source
from stream_guard.running.assembly import Assembly
from stream_guard.running.replay import (
    LocalWorker,
    ProcessWorker,
    ShareReader,
    ShareWorker,
    can_be_shared,
    without_eviction,
)
from stream_guard.settings import Settings
from stream_guard.sources import is_written, open_source
from stream_guard.sources.chaining import ChainedSource
from stream_guard.storage.stores import CheckpointStore, MemoryStore

MOST_JOBS: Final = 64
# All shares read all records; the first one says what there is to say of them.
_OF_RECORDS: Final = ("stream_guard.sources", "stream_guard.decoding", "stream_guard_formats")


@dataclass(frozen=True, slots=True)
class Job:
    """What is judged; the same in every process."""

    sources: tuple[str, ...]
    policy: bytes
    policy_file: Path
    form: str
    jobs: int
    settings: Settings
    span: TimeSpan = TimeSpan()  # noqa: RUF009  # frozen
    checkpoint: Path | None = None  # of one source only
    asks: bool = False  # whether a judge will be asked what its answers on record leave open

    def load(self, assembly: Assembly) -> Policy:
        """Return the policy as it was when the work began, whatever has become of the file."""
        file = self.policy_file
        loaded = load_policy(self.policy, assembly.registry, file=str(file), folder=file.parent)
        return assembly.fit(loaded, self.form)


def count_jobs(wanted: str, policy: Policy, sources: Sequence[str]) -> int:
    """Return how many processes share the work, and say why when they are fewer than wanted."""
    jobs = _read_jobs(wanted)
    if jobs == 1:
        return 1
    spanning = [spec.id for spec in policy.rules if "session" not in spec.key]
    if not can_be_shared(policy):
        typer.echo(f"one process: the key of {', '.join(spanning)} spans sessions, which cannot be shared", err=True)
        return 1
    for source in sources:
        if not is_written(source):
            typer.echo(f"one process: {source} can be read once, so processes cannot share it", err=True)
            return 1
        if source.startswith(SCHEME) and "to" not in parse_qs(source.partition("?")[2]):
            raise SettingsError(
                "a topic has no settled end for several processes to agree on; say where it is with --to, "
                "or with ?to= in its address"
            )
    return jobs


def _read_jobs(wanted: str) -> int:
    if wanted == "auto":
        return min(len(os.sched_getaffinity(0)), MOST_JOBS) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not wanted.isdecimal() or not 1 <= int(wanted) <= MOST_JOBS:
        raise SettingsError(f"--jobs is {wanted}; give a number from 1 to {MOST_JOBS}, or auto")
    return int(wanted)


def open_workers(
    job: Job, assembly: Assembly, pacer: Pacer | None = None, stop: Flag | None = None, *, may_copy: bool = False
) -> list[ShareWorker]:
    """Return the workers of all shares: the first in this process, each of the others in a process of its own.

    ``may_copy`` says that nothing is open here which a copy of this process must not have.
    """
    workers: list[ShareWorker] = []
    for number in range(1, job.jobs):
        name = f"share {number + 1} of {job.jobs}"
        share, resumes = Share(number, job.jobs), job.checkpoint is not None
        remote = ProcessWorker(_open_apart, job, share, name=name, resumes=resumes, may_copy=may_copy)
        assembly.opened.callback(remote.close)
        workers.append(remote)
    # The others start while this one is opened.
    own = LocalWorker(open_reader(job, Share(0, job.jobs), assembly, pacer, stop))
    pass_over_loaded()
    return [own, *workers]


def _open_apart(job: Job, share: Share) -> ShareReader:
    """Return the reader of a share in a process of its own; called there."""
    gc.set_threshold(YOUNG_OBJECTS)
    for name in _OF_RECORDS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    reader = open_reader(job, share, Assembly(job.settings))
    pass_over_loaded()
    return reader


def open_reader(
    job: Job, share: Share, assembly: Assembly, pacer: Pacer | None = None, stop: Flag | None = None
) -> ShareReader:
    """Return the reader of one share."""
    store = None
    if job.checkpoint is not None:
        suffix = f".{share.number + 1}-of-{share.of}"
        store = CheckpointStore(job.checkpoint.with_name(job.checkpoint.name + suffix))
        assembly.opened.callback(store.close)
    decoder = assembly.make_decoder(job.form, recorded=pacer is None)
    policy = job.load(assembly)
    answers = assembly.open_answers(policy, asks=job.asks)
    return ShareReader(
        _open_sources(job, assembly, store, stop),
        EventSelection(decoder, share, job.span, pacer),
        Judge(
            policy,
            without_eviction(job.settings.sessions),
            store=store if store is not None else MemoryStore(),
            answers=answers,
        ),
        progress=store,
        stopped=stop.is_set if stop is not None and pacer is not None else lambda: False,
    )


def _open_sources(job: Job, assembly: Assembly, store: CheckpointStore | None, stop: Flag | None) -> Source:
    if len(job.sources) == 1:
        return assembly.open_source(job.sources[0], checkpoint=store, stop=stop)
    settings = job.settings
    openers = [partial(open_source, source, limits=settings.decode, kafka=settings.kafka) for source in job.sources]
    chained = ChainedSource(openers)
    assembly.opened.callback(chained.close)
    return chained
