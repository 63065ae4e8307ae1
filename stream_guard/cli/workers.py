"""``worker --processes``: the commands of the workers that one command starts and watches."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from stream_guard.cli.run import stop_on_signals
from stream_guard.errors import SettingsError
from stream_guard.settings import Settings
from stream_guard.worker.supervisor import USAGE, Supervisor, WorkersFailedError

_SET_DEATH_SIGNAL: Final = 1  # prctl(2): PR_SET_PDEATHSIG
_OUTBOX: Final = Path("stream-guard-outbox.db")


def run_workers(count: int, arguments: Sequence[str], settings: Settings) -> None:
    """Start and watch workers with these arguments until SIGINT or SIGTERM; each has names of its own."""
    with stop_on_signals() as stop:

        def start(number: int) -> subprocess.Popen[bytes]:
            return subprocess.Popen(  # noqa: S603  # our own command, with what the user gave
                [*_launcher(), *arguments, *own_options(number, settings)],
                env={**os.environ, **own_variables(number, settings)},
                stdin=subprocess.DEVNULL,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509  # no threads here
            )

        try:
            Supervisor(start, count, wait=stop.wait).run()
        except WorkersFailedError as error:
            if error.code == USAGE:  # what is wrong is what the user wrote
                raise SettingsError(str(error)) from None
            raise


def own_options(number: int, settings: Settings) -> list[str]:
    """Return the options in which the worker of a number differs from the others."""
    instance = settings.worker.instance
    return ["--instance", f"{instance}-{number}"] if instance else []


def own_variables(number: int, settings: Settings) -> Mapping[str, str]:
    """Return the variables in which it differs: its outbox, and its port where one was chosen."""
    outbox = settings.delivery.outbox or _OUTBOX
    variables = {"STREAM_GUARD_DELIVERY__OUTBOX": str(outbox.with_name(f"{outbox.stem}-{number}{outbox.suffix}"))}
    if port := settings.serve.port:
        variables["STREAM_GUARD_SERVE__PORT"] = str(port + number - 1)
    return variables


def check_ports(count: int, settings: Settings) -> None:
    """Raise SettingsError where the ports of the workers go beyond the last one there is."""
    if settings.serve.port and settings.serve.port + count - 1 > 65535:
        raise SettingsError(f"serve.port is {settings.serve.port}; {count} workers need as many ports from there on")


def _launcher() -> list[str]:
    safe = ["-P"] if sys.flags.safe_path else []
    return [sys.executable, *safe, "-m", "stream_guard.cli"]


def _die_with_parent() -> None:
    """Let the system end a worker whose supervisor was killed: another one may start workers of the same names."""
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGTERM)
