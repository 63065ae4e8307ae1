"""``diff``: what changed between two recordings, and whether it may merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from stream_guard import SettingsError
from stream_guard.commands import (
    FINDINGS,
    INCONCLUSIVE,
    RecordingReader,
    Reports,
    SettingsFile,
    load_plugins,
    print_text,
    report_target,
    require_extra,
    write_report,
)
from stream_guard.reports import ReportForm
from stream_guard_diff.gate import MEASURED, FailOn, GateOn, PairBy

if TYPE_CHECKING:
    from stream_guard import Policy

Prices = Mapping[str, Mapping[str, float]]


def diff_command(  # noqa: PLR0913, PLR0917  # as many as a user may say
    baseline: Annotated[str, typer.Argument(help="The recording that is fine: a file or folder of sessions.")],
    candidate: Annotated[str, typer.Argument(help="The recording to compare with it.")],
    policy: Annotated[Path | None, typer.Option("--policy", "-p", help="Rules that both sides are held to.")] = None,
    gate: Annotated[
        GateOn, typer.Option(help="What may fail the build: rules of the policy, behaviour, or both.")
    ] = "all",
    fail_on: Annotated[
        FailOn | None,
        typer.Option(help="Ask nothing about chance: any change this severe, or more, makes the exit code 1."),
    ] = None,
    again: Annotated[
        list[str] | None,
        typer.Option("--baseline-again", help="A further run of the baseline, to know better what chance does."),
    ] = None,
    pair: Annotated[PairBy, typer.Option("--pair", help="How sessions are paired.")] = "auto",
    task_label: Annotated[
        str | None, typer.Option(help="The label that names a session's task; scenario unless you say otherwise.")
    ] = None,
    least: Annotated[
        list[str] | None,
        typer.Option(
            "--least",
            help="NAME=SHARE: the least change of an axis, or of a rule, that matters; 0 of a rule: any breach more.",
        ),
    ] = None,
    form: Annotated[ReportForm, typer.Option("--format", help="How to print the report.")] = ReportForm.TABLE,
    reports: Reports = None,
    prices: Annotated[
        Path | None, typer.Option(help='US dollars for a million tokens, JSON: {"model": {"input": 3, "output": 15}}.')
    ] = None,
    source_format: Annotated[
        str, typer.Option("--from-format", help="The format of the records; auto knows .agentlog files by their name.")
    ] = "auto",
    allow_inconclusive: Annotated[
        bool, typer.Option("--allow-inconclusive", help="Exit 0 although not everything could be compared.")
    ] = False,
    settings_file: SettingsFile = None,
) -> None:
    """Say what changed between two recordings; exit 1 when it is too much to merge, 4 when it cannot be told."""
    settings, registry = load_plugins(settings_file)
    require_extra("analysis", "numpy", "rapidfuzz", "rfc8785", "jinja2")
    from stream_guard import load_policy
    from stream_guard_diff.comparison import DiffOptions, diff
    from stream_guard_diff.deciding import decide
    from stream_guard_diff.judging import Thresholds
    from stream_guard_diff.report import write_diff

    rules = load_policy(policy, registry) if policy else None
    files = [report_target(text) for text in reports or ()]
    table = _read_prices(prices)
    thresholds = Thresholds(read_least(settings.diff.least, least or (), rules), settings.diff.level)
    options = DiffOptions(pair, task_label or settings.diff.task_label, thresholds)
    reader = RecordingReader(source_format, registry, settings)
    sides = [list(reader.read(side)) for side in (baseline, candidate)]
    further = [list(reader.read(run)) for run in again or ()]
    compared = diff(sides[0], sides[1], axes=registry.axes, policy=rules, prices=table, again=further, options=options)
    answer = decide(compared.report, gate, fail_on)
    names = {"baseline": Path(baseline).name, "candidate": Path(candidate).name}
    # Everything is written before the gate answers: a failed build without its reasons helps nobody.
    for kind, file in files:
        write_report(file, write_diff(compared, kind, answer, policy=rules, **names))
    print_text(write_diff(compared, form, answer, policy=rules, **names), newline=form is not ReportForm.TABLE)
    for line in reader.summary():
        typer.echo(line, err=True)
    if answer.trips:
        raise typer.Exit(FINDINGS)
    unsure = _unsure(compared.report.unevaluable + compared.report.rule_errors, reader.unread, answer.unsure)
    if unsure and not allow_inconclusive:
        typer.echo(f"inconclusive: {unsure}; --allow-inconclusive accepts that", err=True)
        raise typer.Exit(INCONCLUSIVE)


def _read_prices(file: Path | None) -> Prices:
    if file is None:
        return {}
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, dict[str, float]])
    except OSError as error:
        raise SettingsError(f"--prices {file}: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise SettingsError(
            f'--prices {file}: {error}; write {{"model": {{"input": 3.0, "output": 15.0}}}}, dollars a million tokens'
        ) from None


def read_least(usual: Mapping[str, float], flags: Sequence[str], policy: Policy | None) -> dict[str, float]:
    """Return the least effects that matter, by axis or rule; what is said on the command line wins."""
    least = dict(usual)
    known = {*MEASURED, *(rule.id for rule in policy.rules)} if policy else set(MEASURED)
    for text in flags:
        name, separator, value = text.rpartition("=")
        try:
            share = float(value)
        except ValueError:
            share = -1.0
        if not separator or not 0 <= share <= 1:
            raise SettingsError(f"--least {text}: write NAME=SHARE, with a share from 0 to 1, such as refusals=0.1")
        if name not in known:
            axes = ", ".join(MEASURED)
            raise SettingsError(
                f"--least {text}: no axis and no rule of the policy is called {name!r}; axes are {axes}"
            )
        least[name] = share
    return least


def _unsure(unjudged: int, unread: int, untold: str) -> str:
    reasons: Sequence[str] = [
        *([untold] if untold else []),
        *([f"{unread} records could not be read"] if unread else []),
        *([f"{unjudged} judgements of the policy could not be made"] if unjudged else []),
    ]
    return ", ".join(reasons)
