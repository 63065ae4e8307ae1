"""``diff``: what changed between two recordings, and whether it may merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from stream_guard import SettingsError, load_policy
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
from stream_guard_diff.gate import FailOn

Prices = Mapping[str, Mapping[str, float]]


def diff_command(  # noqa: PLR0913, PLR0917  # as many as a user may say
    baseline: Annotated[str, typer.Argument(help="The recording that is fine: a file or folder of sessions.")],
    candidate: Annotated[str, typer.Argument(help="The recording to compare with it.")],
    policy: Annotated[Path | None, typer.Option("--policy", "-p", help="Rules that both sides are held to.")] = None,
    fail_on: Annotated[
        FailOn, typer.Option(help="A change this severe, or more, makes the exit code 1.")
    ] = FailOn.SEVERE,
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
    from stream_guard_diff.comparison import diff
    from stream_guard_diff.report import write_diff

    rules = load_policy(policy, registry) if policy else None
    files = [report_target(text) for text in reports or ()]
    table = _read_prices(prices)
    reader = RecordingReader(source_format, registry, settings)
    sides = [list(reader.read(side)) for side in (baseline, candidate)]
    compared = diff(sides[0], sides[1], axes=registry.axes, policy=rules, prices=table)
    names = {"baseline": Path(baseline).name, "candidate": Path(candidate).name}
    # Everything is written before the gate answers: a failed build without its reasons helps nobody.
    for kind, file in files:
        write_report(file, write_diff(compared, kind, fail_on, policy=rules, **names))
    print_text(write_diff(compared, form, fail_on, policy=rules, **names), newline=form is not ReportForm.TABLE)
    for line in reader.summary():
        typer.echo(line, err=True)
    if compared.report.trips(fail_on):
        raise typer.Exit(FINDINGS)
    unsure = _unsure(compared.report.unevaluable + compared.report.rule_errors, reader.unread, empty=not any(sides))
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


def _unsure(unjudged: int, unread: int, *, empty: bool) -> str:
    reasons: Sequence[str] = [
        *(["neither side holds an event"] if empty else []),
        *([f"{unread} records could not be read"] if unread else []),
        *([f"{unjudged} judgements of the policy could not be made"] if unjudged else []),
    ]
    return ", ".join(reasons)
