"""``worker``: process Kafka topics together with the other workers of a group."""

from __future__ import annotations

import logging
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stream_guard.cli.process import pass_over_loaded
from stream_guard.cli.run import PageFlag, open_page, page_lines, say_counts, with_history
from stream_guard.commands import LogFormat, SettingsFile, SourceFormat
from stream_guard.distribution import install_line
from stream_guard.errors import SettingsError
from stream_guard.kafka.address import SCHEME, parse_address

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from stream_guard.decoding.dead_letters import DeadLetters
    from stream_guard.judge.counts import Counts
    from stream_guard.judge.judge import Judge
    from stream_guard.judge.spec import Policy
    from stream_guard.observability.metrics import Metrics
    from stream_guard.observability.status import StatusServer
    from stream_guard.page.app import PageServer
    from stream_guard.running.assembly import Assembly
    from stream_guard.running.reload import ReloadingPolicy
    from stream_guard.settings import LogSettings, Settings, StatusSettings
    from stream_guard.worker.assembly import Health
    from stream_guard.worker.rollouts import PreparedRollout, RolloutLog

_logger = logging.getLogger(__name__)


def worker(  # noqa: PLR0913, PLR0917  # as many as a user may say
    source: Annotated[str, typer.Argument(help="The topics: kafka://HOST:PORT/TOPIC, more of them with commas.")],
    policy: Annotated[Path, typer.Option("--policy", "-p", help="The policy file.")],
    alerts: Annotated[
        list[str], typer.Option("--alerts", "-a", help="Where alerts go: kafka:HOST:PORT/TOPIC; may be repeated.")
    ],
    dead_letters: Annotated[str, typer.Option(help="The topic for records that cannot be read: HOST:PORT/TOPIC.")],
    group: Annotated[str | None, typer.Option(help="The group; workers of one group share the partitions.")] = None,
    instance: Annotated[str | None, typer.Option(help="A name of its own that stays over restarts.")] = None,
    rekey: Annotated[
        bool | None, typer.Option("--rekey", help="The records' keys are not session ids: pass them on under those.")
    ] = None,
    processes: Annotated[
        int, typer.Option(min=1, max=64, help="Start this many workers here, and start again those that die.")
    ] = 1,
    # Not auto: no producer chooses the decoder of its records, and spans that wait exclude rules across sessions.
    form: SourceFormat = "native",
    policy_topic: Annotated[
        str | None, typer.Option(help="A topic with policies for the group; the file's is in force until the first.")
    ] = None,
    reload: Annotated[bool, typer.Option(help="Follow changes of the policy file.")] = True,  # a flag
    serve: Annotated[bool, typer.Option(help="Serve /metrics, /healthz, /readyz and /livez.")] = True,  # a flag
    page: PageFlag = False,
    log_format: Annotated[LogFormat | None, typer.Option(help="How the log is written, on standard error.")] = None,
    settings_file: SettingsFile = None,
) -> None:
    """Watch the topics together with the other workers of the group; ends on SIGINT and SIGTERM."""
    from prometheus_client import CollectorRegistry

    from stream_guard.judge.counts import Counts
    from stream_guard.observability.logs import set_up_logs
    from stream_guard.observability.metrics import Metrics
    from stream_guard.running.assembly import Assembly
    from stream_guard.settings import load_settings
    from stream_guard.worker.assembly import Health

    try:
        from stream_guard.worker.assembly import WorkerParts, refuse_change
        from stream_guard.worker.kafka.process import run_worker
    except ImportError as error:
        raise SettingsError(f"the worker needs an extra: {install_line('kafka')} ({error})") from None

    flags = {"group": group, "instance": instance, "rekey": rekey, "policy_topic": policy_topic}
    settings = load_settings(settings_file, worker=flags, log={"format": log_format})
    set_up_logs(settings.log, others=("aiokafka", "faust", "mode"))
    if processes > 1:
        given = {
            "--group": group,
            "--policy-topic": policy_topic,
            "--from-format": form,
            "--log-format": log_format,
            "--settings": settings_file,
        }
        switches = {
            "--rekey": rekey,
            "--reload": reload,
            "--no-reload": not reload,
            "--no-serve": not serve,
            "--page": page,
        }
        arguments = [source, "--policy", policy, "--dead-letters", dead_letters]
        arguments += [text for alert in alerts for text in ("--alerts", alert)]
        _start_all(processes, arguments, given, switches, settings)
        return
    assembly = Assembly(settings)
    following = assembly.follow_policy(policy, form)
    for warning in following.current.warnings:
        _logger.warning("%s", warning)
    try:
        address = parse_address(source)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    counts = Counts()
    counts.policy_reloads = following.results
    collected = CollectorRegistry()
    metrics = Metrics(counts, collected)
    health = Health(counts, patience=settings.worker.stall)
    with assembly:
        judge = _open_judge(assembly, following.current, counts)
        rollouts = _follow_topic(assembly, judge, form) if settings.worker.policy_topic else None
        shown = _open_page(assembly, following, rollouts, counts, policy) if page else None
        for line in page_lines(shown) if shown is not None else ():
            _logger.info("%s", line)
        targets = with_history(tuple(alerts)) if page else tuple(alerts)
        delivery = assembly.open_delivery(targets, counts, routes=True)

        adoption = PolicyAdoption(metrics, assembly, targets, rollouts)
        letters = assembly.open_dead_letters(topic_address(dead_letters), form, counts)
        status = _serve(settings.serve, collected, health, assembly.opened) if serve else None
        adoption.adopt(following.current)
        parts = WorkerParts(
            judge=judge,
            decoder=assembly.make_decoder(form),
            delivery=delivery,
            dead_letters=letters,
            settings=settings,
            health=health,
            observe=partial(_note_batch, metrics, counts),
            beat=status.beat if status is not None else _nothing,
            reload=following.poll if reload and rollouts is None else _nothing,
            adopted=adoption.adopt,
            watch=shown.keeper.keep if shown is not None else None,
            rollouts=rollouts,
        )
        following.accept = partial(refuse_change, parts.judge, settings, parts.decoder)
        _run(run_worker(address, parts))
        _say_end(counts, letters, settings.log, rollouts)


class PolicyAdoption:
    """Tells the metrics, and the history that the page shows, of policies before they are used."""

    def __init__(
        self, metrics: Metrics, assembly: Assembly, targets: tuple[str, ...], rollouts: RolloutLog | None
    ) -> None:
        self._metrics = metrics
        self._assembly = assembly
        self._targets = targets
        self._rollouts = rollouts
        if rollouts is not None:
            rollouts.adopted, rollouts.retired = self._adopt_rollout, self._retire_rollout

    def adopt(self, policy: Policy) -> None:
        """Tell of the file's policy, in place of the one before."""
        self._metrics.use_rules(policy.rules)
        self._assembly.note_policy(policy, self._targets)

    def _adopt_rollout(self, prepared: PreparedRollout) -> None:
        """Tell of a rollout's policies, which are in force beside others for a while."""
        latest = self._rollouts is not None and self._rollouts.latest is prepared
        for judge in prepared.judges:
            self._metrics.add_rules(judge.policy.rules, judge.counts, latest=latest)
            if latest:
                self._assembly.note_policy(judge.policy, self._targets)

    def _retire_rollout(self, prepared: PreparedRollout) -> None:
        for judge in prepared.judges:
            self._metrics.end_rules(judge.counts)


def _open_page(
    assembly: Assembly, following: ReloadingPolicy, rollouts: RolloutLog | None, counts: Counts, policy: Path
) -> PageServer:
    """Open the page; it shows the policy that is to be in force for everybody."""
    if rollouts is None:
        return open_page(assembly, lambda: following.current, counts, policy)
    return open_page(assembly, lambda: rollouts.latest.judge.policy, counts, policy, rollouts.listed)


def _follow_topic(assembly: Assembly, file: Judge, form: str) -> RolloutLog:
    """Return what takes in the policies of a topic; until the first, that of the file is in force."""
    from stream_guard.policy.load import load_policy
    from stream_guard.worker.assembly import prepare_rollouts
    from stream_guard.worker.rollouts import RolloutLog, refuse_for_rollouts

    refuse_for_rollouts(file.policy)

    def load(text: str) -> Policy:
        return load_policy(text, assembly.registry, file="rollout")

    prepare = prepare_rollouts(load, lambda policy: assembly.fit(policy, form), assembly.settings)
    return RolloutLog(file, prepare, file.counts)


def _open_judge(assembly: Assembly, policy: Policy, counts: Counts) -> Judge:
    """Return the rules, ready to run, with the desk where their questions to a judge wait, if they have any."""
    from stream_guard.judge.judge import Judge
    from stream_guard.running.assembly import start_desk

    desk = assembly.open_desk(policy, f"worker {assembly.settings.worker.group}", counts)
    start_desk(desk, assembly)
    answers = desk or assembly.open_answers(policy)
    return Judge(policy, assembly.settings.sessions, mode="stream", counts=counts, answers=answers)


def _note_batch(metrics: Metrics, counts: Counts, seconds: float, _records: int) -> None:
    """Tell the metrics that a batch is durable."""
    metrics.batch_seconds.observe(seconds)
    counts.durable_at = time.time()


def _start_all(
    processes: int,
    arguments: Sequence[object],
    options: Mapping[str, object],
    switches: Mapping[str, bool | None],
    settings: Settings,
) -> None:
    """Be the one that starts and watches the workers, and is none itself."""
    from stream_guard.cli.workers import check_ports, run_workers

    if switches["--page"]:
        raise SettingsError("--page belongs to one worker; show the page beside them with stream-guard serve")
    check_ports(processes, settings)
    given = [text for name, value in options.items() if value is not None for text in (name, value)]
    chosen = [name for name, is_on in switches.items() if is_on]
    run_workers(processes, ["worker", *map(str, (*arguments, *given, *chosen))], settings)


def _say_end(counts: Counts, letters: DeadLetters, log: LogSettings, rollouts: RolloutLog | None) -> None:
    """Print the totals as text, or log them as one JSON line."""
    if rollouts is not None:
        rollouts.collect_counts(ended=True)
    if log.format == "text":
        say_counts(counts, letters)
        return
    totals = {"records": counts.records, "events": sum(counts.events.values()), "findings": counts.total("findings")}
    _logger.info("ended", extra=totals | {"dead_letters": letters.total, "state_resets": counts.state_resets})


def _serve(serve: StatusSettings, collected: CollectorRegistry, health: Health, opened: ExitStack) -> StatusServer:
    from stream_guard.observability.status import StatusServer

    status = StatusServer(serve, collected, unready=health.unready, stuck=health.stuck)
    opened.callback(status.close)
    _logger.info("metrics at %s/metrics", status.url)
    return status


def topic_address(text: str) -> str:
    """Return the address of a topic, which may be given without its scheme, and without servers."""
    if text.startswith(SCHEME):
        return text
    return f"{SCHEME}{text}" if "/" in text else f"{SCHEME}/{text}"


def _nothing() -> None:
    """Do nothing, in place of an option that is off."""


def _run(work: Coroutine[Any, Any, None]) -> None:
    import asyncio

    pass_over_loaded()
    if find_spec("uvloop") is not None:
        import uvloop

        uvloop.run(work)
    else:
        asyncio.run(work)
