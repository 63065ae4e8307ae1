"""The server behind ``tests.processes``: forks copies of itself that become processes of ``stream-guard``."""

from __future__ import annotations

import faulthandler
import gc
import json
import logging
import multiprocessing
import os
import select
import signal
import site
import socket
import struct
import sys
import threading
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from runpy import run_module
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
COMMAND = "stream_guard.cli"
# What every process imports, and what those of one command import once they run.
MODULES = ("stream_guard.cli.app", "stream_guard.running.assembly", "stream_guard.running.embedded", "typer.rich_utils")
CLOSING = ("stream_guard.cli.closing", "stream_guard.cli.findings")
MODULES_OF = {
    "check": ("stream_guard.cli.check", "stream_guard.cli.judging", "stream_guard.cli.backtest", *CLOSING),
    "diff": ("stream_guard_diff.comparison", "stream_guard_diff.deciding", "stream_guard_diff.report"),
    "lint": ("stream_guard.cli.lint", "stream_guard.cli.linting"),
    "replay": ("stream_guard.cli.replay", "stream_guard.cli.replaying", "stream_guard.cli.backtest", *CLOSING),
    "run": ("stream_guard.cli.run", *CLOSING),
    "serve": ("stream_guard.cli.serve", "stream_guard.serve.assembly", "uvicorn.protocols.http.h11_impl"),
    "worker": (
        "stream_guard.cli.worker",
        "stream_guard.observability.status",
        "stream_guard.worker.assembly",
        "stream_guard.worker.kafka.app",
        "aiokafka.admin",
        "faust.assignor.partition_assignor",
        "faust.tables.recovery",
        "faust.worker",
        "kafka.admin",
    ),
}
LENGTH = struct.Struct("!I")
ANSWER = struct.Struct("!ii")  # a process id, and its status when it has ended


class Start(NamedTuple):
    """What a process is started with."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    packages: str = ""  # a folder of installed packages that only this process sees
    module: str = COMMAND  # what `python -m` would run


def send(connection: socket.socket, start: Start, files: list[int]) -> None:
    """Ask for a process that has these files as its streams; the last one is where its id and its end are answered."""
    body = json.dumps(start).encode()
    socket.send_fds(connection, [LENGTH.pack(len(body))], files)
    connection.sendall(body)


def receive(connection: socket.socket, size: int) -> bytes:
    """Return exactly so many bytes."""
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            raise EOFError("the server of test processes has ended")
        found += part
    return found


def serve(connection: socket.socket) -> Start | None:
    """Fork a copy for each start and answer when it ends; returns in every copy, and with None after the tests."""
    running: dict[int, socket.socket] = {}
    wake, waker = socket.socketpair()
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's; the tests decide when this ends
    while True:
        ready, _, _ = select.select([connection, wake], [], [])
        if wake in ready:
            wake.recv(4096)
            _answer_ends(running)
        if connection not in ready:
            continue
        header, files, _, _ = socket.recv_fds(connection, LENGTH.size, 4)
        if not header:
            return None
        start = Start(*json.loads(receive(connection, *LENGTH.unpack(header))))
        _import(start)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for end in (connection, wake, waker, *running.values()):
                end.close()
            _become(start, files)
            return start
        answers = running[pid] = socket.socket(fileno=files.pop())
        answers.sendall(ANSWER.pack(pid, 0))
        for file in files:
            os.close(file)


def _answer_ends(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with running.pop(pid) as answers, suppress(BrokenPipeError):  # a test need not wait
            answers.sendall(ANSWER.pack(pid, status))


def _import(start: Start) -> None:
    """Import what this command needs, in the server, so that the next one has it already."""
    for name in (*MODULES, *MODULES_OF.get(start.arguments[0] if start.arguments else "", ())):
        if name not in sys.modules:
            import_module(name)
    if "stream_guard_rules" not in sys.modules:
        import_module("stream_guard.registry").build_registry()
    gc.freeze()  # the copies share what is there


def _become(start: Start, files: list[int]) -> None:
    """Take on the streams, folder, environment and signals that a new process has."""
    files.pop()
    for target, file in enumerate(files):
        os.dup2(file, target)
        os.close(file)
    for number in (signal.SIGCHLD, signal.SIGINT):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    os.chdir(start.folder)
    os.environ.clear()
    os.environ.update(start.environment)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 - the process's own
    faulthandler.enable()  # to those streams: a copy that crashes says where
    sys.argv = [_main_of(start.module), *start.arguments]
    sys.path[: not sys.flags.safe_path] = [start.folder]  # as `python -m` does
    if start.packages:
        site.addsitedir(start.packages)
    sys.modules["__main__"].__spec__ = find_spec(_main_of(start.module))  # processes that this one starts look here


def _main_of(module: str) -> str:
    return f"{module}.__main__" if module == COMMAND else module


def end(ended: SystemExit) -> None:
    """End without taking apart what was imported, when all threads and children have ended.

    A copy shares that memory with the server, and taking it apart would copy all of it: four times the work of a start.
    Whatever is unusual takes Python's own way.
    """
    code = 0 if ended.code is None else ended.code
    if not isinstance(code, int) or multiprocessing.active_children():
        raise ended
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    logging.shutdown()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # as Python complains about it
        raise ended from None
    os._exit(code & 0xFF)


if __name__ == "__main__":
    started = serve(socket.socket(fileno=int(sys.argv[1])))
    if started is not None and started.module != COMMAND:
        run_module(started.module, run_name="__main__")
    elif started is not None:
        from stream_guard.cli.process import main

        try:
            main()
        except SystemExit as ended:
            end(ended)
