"""``diff``: what changed between two recordings, and whether it may merge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from stream_guard.cli.exits import FINDINGS, INCONCLUSIVE
from stream_guard.cli.options import SettingsFile
from stream_guard.cli.reports import Reports, report_target, write_report
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.recordings import decode_records, decode_rest, holding
from stream_guard.errors import SettingsError
from stream_guard.model import Event
from stream_guard.observability.counts import Counts
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry, build_registry
from stream_guard.reports import ReportForm
from stream_guard.running.assembly import make_decoder
from stream_guard.settings import Settings, load_settings
from stream_guard.sources import open_source

AGENTLOG = ".agentlog"
Prices = Mapping[str, Mapping[str, float]]


class Gate(StrEnum):
    """From which severity on a difference fails the gate."""

    NONE = "none"
    MINOR = "minor"
    MODERATE = "moderate"
    SEVERE = "severe"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("diff")(diff_command)


def diff_command(  # noqa: PLR0913, PLR0917  # as many as a user may say
    baseline: Annotated[str, typer.Argument(help="The recording that is fine: a file or folder of sessions.")],
    candidate: Annotated[str, typer.Argument(help="The recording to compare with it.")],
    policy: Annotated[Path | None, typer.Option("--policy", "-p", help="Rules that both sides are held to.")] = None,
    fail_on: Annotated[Gate, typer.Option(help="A change this severe, or more, makes the exit code 1.")] = Gate.SEVERE,
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
    settings = load_settings(settings_file)
    registry = build_registry(settings.plugins)
    require_analysis()
    from stream_guard_diff import FailOn, diff, trips
    from stream_guard_diff.report import write_diff

    rules = load_policy(policy, registry) if policy else None
    files = [report_target(text) for text in reports or ()]
    table = _read_prices(prices)
    letters = DeadLetters(None, Counts(), format_name=source_format)
    sides = [list(read_events(side, source_format, registry, settings, letters)) for side in (baseline, candidate)]
    compared = diff(sides[0], sides[1], axes=registry.axes, policy=rules, prices=table)
    gate = FailOn(fail_on.value)
    names = {"baseline": Path(baseline).name, "candidate": Path(candidate).name}
    # Everything is written before the gate answers: a failed build without its reasons helps nobody.
    for kind, file in files:
        write_report(file, write_diff(compared, kind, gate, policy=rules, **names))
    _print(write_diff(compared, form, gate, policy=rules, **names), form)
    for line in letters.summary():
        typer.echo(line, err=True)
    if trips(compared.report, gate):
        raise typer.Exit(FINDINGS)
    unsure = _unsure(compared.report.unevaluable + compared.report.rule_errors, letters, empty=not any(sides))
    if unsure and not allow_inconclusive:
        typer.echo(f"inconclusive: {unsure}; --allow-inconclusive accepts that", err=True)
        raise typer.Exit(INCONCLUSIVE)


def require_analysis() -> None:
    """Raise SettingsError where the packages of the extra are not installed."""
    from importlib.util import find_spec

    missing = [name for name in ("numpy", "rapidfuzz", "rfc8785", "jinja2") if find_spec(name) is None]
    if missing:
        raise SettingsError(
            f"this command needs {', '.join(missing)}; install the extra: pip install 'stream-guard[analysis]'"
        )


def read_events(
    target: str, form: str, registry: Registry, settings: Settings, letters: DeadLetters
) -> Iterator[Event]:
    """Yield the events of a file, or of every file of a folder; what cannot be read becomes a dead letter."""
    for place in _files(target):
        name = "agentlog" if form == "auto" and _is_agentlog(place) else form
        decoder = holding(make_decoder(name, registry, settings))
        with closing(open_source(place, limits=settings.decode, kafka=settings.kafka)) as source:
            yield from decode_records(source, decoder, letters.add)
        yield from decode_rest(decoder)


def _files(target: str) -> list[str]:
    """A folder of .agentlog files is read file by file: each is a recording of its own."""
    path = Path(target)
    logs = sorted(map(str, path.glob(f"*{AGENTLOG}"))) if path.is_dir() else []
    return logs or [target]


def _is_agentlog(place: str) -> bool:
    return place.endswith((AGENTLOG, f"{AGENTLOG}.gz"))


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


def _print(text: str, form: ReportForm) -> None:
    typer.echo(text.encode("utf-8", "backslashreplace").decode(), nl=form is not ReportForm.TABLE)


def _unsure(unjudged: int, letters: DeadLetters, *, empty: bool) -> str:
    said: Sequence[str] = [
        *(["neither side holds an event"] if empty else []),
        *([f"{letters.total} records could not be read"] if letters.total else []),
        *([f"{unjudged} judgements of the policy could not be made"] if unjudged else []),
    ]
    return ", ".join(said)
