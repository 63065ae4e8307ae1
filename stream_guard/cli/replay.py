"""``replay``: archives and topic ranges through a policy, as often as you like, without sending anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_guard.cli.forms import FailOn, FindingFormat, Pace, ReplayJobs
from stream_guard.cli.run import say_counts, set_up, stop_on_signals
from stream_guard.commands import AllowUnjudged, Checkpoint, LogForm, PolicyFile, SettingsFile, SourceFormat
from stream_guard.errors import SettingsError


def replay(  # noqa: PLR0913, PLR0917  # as many as a user may say
    source: Annotated[
        str, typer.Argument(help="An archive: a file or folder of JSON lines, or kafka://HOST:PORT/TOPIC.")
    ],
    policy: PolicyFile,
    start: Annotated[
        str | None, typer.Option("--from", help="Only events from this time on; of a topic, records, or an offset.")
    ] = None,
    stop: Annotated[
        str | None, typer.Option("--to", help="Only events before this time; of a topic, records, or an offset.")
    ] = None,
    pace: Annotated[Pace, typer.Option(help="As fast as possible, or as it happened.")] = "full",
    speed: Annotated[float, typer.Option(min=0.001, help="With --pace original: this many times faster.")] = 1.0,
    jobs: ReplayJobs = "1",
    checkpoint: Checkpoint = None,
    compare_policy: Annotated[
        Path | None, typer.Option(help="Show which alerts --policy adds and removes against this one.")
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="With --compare-policy: JSON of sessions: true if bad, or the rules it breaks."),
    ] = None,
    emit: Annotated[
        list[str] | None, typer.Option("--emit", help="Send the alerts to this sink too, as run does; may be repeated.")
    ] = None,
    form: Annotated[FindingFormat, typer.Option("--format", help="How to print the findings.")] = "table",
    fail_on: FailOn = "none",
    allow_inconclusive: AllowUnjudged = False,
    source_format: SourceFormat = "auto",
    log_format: LogForm = None,
    settings_file: SettingsFile = None,
) -> None:
    """Judge an archive again, with the same result every time; nothing is sent anywhere without --emit."""
    from stream_guard.cli.backtest import backtest
    from stream_guard.cli.closing import say_at_end
    from stream_guard.cli.replaying import bounds_of, end, jobs_for, run_job
    from stream_guard.cli.sharing import Job

    target, span = bounds_of(source, start, stop)
    if labels is not None and compare_policy is None:
        raise SettingsError("--labels says how right the rules are, and goes with --compare-policy")
    with stop_on_signals() as stopping, set_up(settings_file, log_format) as assembly:
        rules = assembly.load_policy(policy, source_format)
        if compare_policy is not None:
            policies = (rules, assembly.load_policy(compare_policy, source_format))
            recording = assembly.read_events([target], source_format)
            raise typer.Exit(backtest(recording, span, policies, labels, form, assembly.settings.sessions))
        job = Job(
            sources=(target,),
            policy=policy.read_bytes(),
            policy_file=policy,
            form=source_format,
            jobs=jobs_for(jobs, rules, target, pace),
            settings=assembly.settings,
            span=span,
            checkpoint=checkpoint,
        )
        for warning in rules.warnings:
            typer.echo(str(warning), err=True)
        replayed = run_job(job, assembly, emit or (), form, (pace, speed), stopping)
        say_counts(replayed.summary.counts, replayed.dead_letters)
        say_at_end(rules, replayed.summary.counts, recorded=True, as_json=form != "table")
    end(replayed, fail_on, allow_inconclusive=allow_inconclusive, checkpoint=checkpoint)
