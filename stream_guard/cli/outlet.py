"""Where the findings of a replay go: printed as they come, and to sinks only when somebody asks for it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import typer

from stream_guard.alerting.alerts import make_alert
from stream_guard.cli.check import FindingFormat
from stream_guard.model import Alert, Finding, Severity
from stream_guard.ports import Sink
from stream_guard.registry import Registry
from stream_guard.running.assembly import open_sink
from stream_guard.running.embedded import SINK_META, position_of
from stream_guard.running.replay import REPORTED_META, Replay
from stream_guard.settings import Settings
from stream_guard.storage.stores import CheckpointStore


class FindingOutput:
    """Where the findings go: printed as they come, and to the sinks that --emit names."""

    def __init__(
        self,
        version: str,
        form: FindingFormat,
        emit: Sequence[str],
        registry: Registry,
        settings: Settings,
        progress: CheckpointStore | None,
    ) -> None:
        self.worst: Severity | None = None
        self.leader: Replay | None = None
        self._version = version
        self._progress = progress
        self._listed: list[Alert] | None = [] if form is FindingFormat.JSON else None
        self._sinks: dict[str, Sink] = {}
        for text in emit:
            self._sinks[text] = open_sink(text, registry, settings, position_of(progress, f"{SINK_META}{text}"))
        printed = "console" if form is FindingFormat.TABLE else "jsonl:-"
        self._printer = None if self._listed is not None else open_sink(printed, registry, settings)

    def give(self, found: list[Finding]) -> None:
        """Print and send, and write down how far that came."""
        alerts = [make_alert(finding, self._version) for finding in found if not finding.shadow]
        severities = [finding.severity for finding in found if not finding.shadow]
        self.worst = max([*severities, *([] if self.worst is None else [self.worst])], default=None)
        if self._printer is not None:
            self._printer.send(alerts)
        if self._listed is not None:
            self._listed += alerts
        meta = {}
        for name, sink in self._sinks.items():
            if alerts:
                sink.send(alerts)
            meta[f"{SINK_META}{name}"] = msgspec.json.encode(sink.flush())
        if self._progress is not None:
            meta[REPORTED_META] = msgspec.json.encode(sorted(self.leader.told if self.leader else ()))
            self._progress.commit(meta)

    def close(self) -> None:
        """Print the list, where one was asked for, and close the sinks."""
        if self._listed is not None:
            typer.echo(msgspec.json.format(msgspec.json.encode(self._listed), indent=2).decode())
        for sink in self._sinks.values():
            sink.close()
