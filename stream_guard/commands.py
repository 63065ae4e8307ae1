"""What a command is made of: its name, exit codes, options, and recordings read as events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from stream_guard.distribution import NAME, install_line
from stream_guard.errors import SettingsError
from stream_guard.judge.model import Event
from stream_guard.ports import Command
from stream_guard.reports import ReportForm

if TYPE_CHECKING:
    from stream_guard.registry import Registry
    from stream_guard.settings import Settings

__all__ = [
    "CLEAN",
    "FINDINGS",
    "FORMATS",
    "INCONCLUSIVE",
    "INFRASTRUCTURE",
    "USAGE",
    "AllowUnjudged",
    "Checkpoint",
    "Command",
    "ListFormat",
    "LogForm",
    "LogFormat",
    "PolicyFile",
    "RecordingReader",
    "ReportTarget",
    "Reports",
    "SettingsFile",
    "SourceFormat",
    "load_plugins",
    "print_text",
    "report_target",
    "require_extra",
    "write_report",
]

# Exit codes, the same for every command.
CLEAN: Final = 0
FINDINGS: Final = 1  # at or over the gate
USAGE: Final = 2  # bad usage, policy or settings
INFRASTRUCTURE: Final = 3  # something outside would not work: a file, a disk, a sink
INCONCLUSIVE: Final = 4  # not everything could be judged

AGENTLOG: Final = ".agentlog"


class ListFormat(StrEnum):
    """How a list is printed."""

    TABLE = "table"
    JSON = "json"


class LogFormat(StrEnum):
    """How the log is written."""

    TEXT = "text"
    JSON = "json"


PolicyFile = Annotated[Path, typer.Option("--policy", "-p", help="The policy file.")]
FORMATS: Final = (
    *("action-steps", "ag2", "agentdojo", "agentlog", "anthropic", "atif", "auto", "claude-code", "claude-stream-json"),
    *("cloudevents", "codex-rollout", "copilot", "flat-spans", "inspect", "kimi", "langchain", "langfuse", "langsmith"),
    *("mini-swe-agent", "native", "openai-chat", "openai-responses", "openhands", "openinference", "otlp", "otlp-json"),
    *("otlp-proto", "pi", "steps", "swe-agent", "tau-bench", "tau2", "text-protocol"),
)
"""The formats that come with the project; plugins may bring more."""


def complete_format(begun: str) -> list[str]:
    """Return the formats whose names begin so, for the shell; other packages are asked only where there are some."""
    from importlib.metadata import distribution, entry_points

    names: Iterable[str] = FORMATS
    ours = {point.name for point in distribution(NAME).entry_points.select(group="stream_guard")}
    if any(point.name not in ours for point in entry_points(group="stream_guard")):
        from stream_guard.registry import build_registry

        names = build_registry().decoders
    return [name for name in names if name.startswith(begun)]


SourceFormat = Annotated[
    str,
    typer.Option(
        "--from-format",
        help=f"The format of the records; auto tells it by their shape. One of {', '.join(FORMATS)}.",
        autocompletion=complete_format,
    ),
]
Checkpoint = Annotated[Path | None, typer.Option(help="Remember progress and state here, and resume.")]
LogForm = Annotated[LogFormat | None, typer.Option(help="How the log is written, on standard error.")]
SettingsFile = Annotated[Path | None, typer.Option("--settings", help="A settings file.")]
AllowUnjudged = Annotated[
    bool, typer.Option("--allow-inconclusive", help="Exit 0 although not everything could be judged.")
]
Reports = Annotated[
    list[str] | None, typer.Option("--report", help="Write a report to a file too: FORM=FILE; may be repeated.")
]

ReportTarget: TypeAlias = tuple[ReportForm, Path]


def load_plugins(settings_file: Path | None) -> tuple[Settings, Registry]:
    """Return the settings in force and the plugins that they allow."""
    from stream_guard.registry import build_registry
    from stream_guard.settings import load_settings

    settings = load_settings(settings_file)
    return settings, build_registry(settings.plugins)


def require_extra(extra: str, *modules: str) -> None:
    """Raise SettingsError where modules of an optional dependency are not installed."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise SettingsError(f"this command needs {', '.join(missing)}; install the extra: {install_line(extra)}")


class RecordingReader:
    """Reads recordings as events. Records that cannot be read are counted with their reason."""

    def __init__(self, form: str, registry: Registry, settings: Settings) -> None:
        from stream_guard.decoding.dead_letters import DeadLetters
        from stream_guard.judge.counts import Counts
        from stream_guard.running.assembly import Assembly

        self._form = form
        self._assembly = Assembly(settings, registry)
        self._letters = DeadLetters(None, Counts(), format_name=form)

    def read(self, target: str) -> Iterator[Event]:
        """Yield the events of a file, or of every file of a folder."""
        from stream_guard.running.recordings import RecordedEvents

        for place in _files(target):
            name = "agentlog" if self._form == "auto" and _is_agentlog(place) else self._form
            decoder = self._assembly.make_decoder(name, recorded=True)
            yield from RecordedEvents([place], decoder, self._assembly.settings, self._letters)

    @property
    def unread(self) -> int:
        """How many records could not be read so far."""
        return self._letters.total

    def summary(self) -> list[str]:
        """Return a line for each reason why records could not be read, the most frequent first."""
        return self._letters.summary()


def _files(target: str) -> list[str]:
    """A folder of .agentlog files is read file by file: each is a recording of its own."""
    path = Path(target)
    logs = sorted(map(str, path.glob(f"*{AGENTLOG}"))) if path.is_dir() else []
    return logs or [target]


def _is_agentlog(place: str) -> bool:
    return place.endswith((AGENTLOG, f"{AGENTLOG}.gz"))


def report_target(text: str) -> ReportTarget:
    """Return the form and the file of ``FORM=FILE``; raises SettingsError where it is not that."""
    form, separator, file = text.partition("=")
    if not separator or not file or form not in list(ReportForm):
        raise SettingsError(f"--report {text}: write FORM=FILE, where FORM is one of {', '.join(ReportForm)}")
    return ReportForm(form), Path(file)


def write_report(file: Path, text: str) -> None:
    """Write a report, or leave with the exit code for what is outside and would not work."""
    try:
        file.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        typer.echo(f"stream-guard: --report {file}: {error.strerror}", err=True)
        raise typer.Exit(INFRASTRUCTURE) from None


def print_text(text: str, *, newline: bool = True) -> None:
    """Print a text on standard output; surrogates are spelled out."""
    typer.echo(text.encode("utf-8", "backslashreplace").decode(), nl=newline)
