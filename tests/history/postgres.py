"""A Postgres server for one test run, on loopback, in a folder of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.parts import import_part, require
from tests.ports import free_port


def find_programs() -> Path | None:
    """Return the folder with ``initdb`` and ``postgres``, or None; Debian keeps them off the path."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "pg_ctl").exists()), None)


class Server:
    """A server that can be stopped at once and started again."""

    def __init__(self, programs: Path, folder: Path, port: int, *, synced: bool) -> None:
        self._programs = programs
        self._folder = folder
        self._port = port
        self._fsync = "on" if synced else "off"  # tests lose nothing that they would miss
        self.address = f"postgresql://guard:a-password@127.0.0.1:{port}/postgres"
        password = folder / "password"
        password.write_text("a-password")
        _own(folder, password)
        self._run("initdb", "--no-sync", "-U", "guard", "-A", "scram-sha-256", f"--pwfile={password}", "-E", "UTF8")

    def start(self) -> None:
        """Start it and return when it answers."""
        options = f"-p {self._port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync={self._fsync}"
        self._run("pg_ctl", "start", "--wait", "--log", str(self._folder / "log"), "-o", options)

    def stop(self) -> None:
        """Stop it like a crash: no connection is told."""
        self._run("pg_ctl", "stop", "--mode", "immediate", "--wait")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), "-D", str(self._folder / "data"), *arguments]
        # To a file: the server keeps what it is given open, and a pipe would never end.
        with (self._folder / "said").open("w+") as said:
            done = subprocess.run(
                command, check=False, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=self._folder, **_account()
            )
            said.seek(0)
            assert done.returncode == 0, said.read()


@contextmanager
def started(*, synced: bool = False) -> Iterator[Server]:
    """Run a server on a free port; without Postgres on this machine, the test is skipped."""
    import_part("psycopg")
    programs = find_programs()
    require(programs, "Postgres is not installed (Debian: apt-get install postgresql)")
    assert programs is not None
    with running(programs, free_port(), synced=synced) as server:
        yield server


@contextmanager
def running(programs: Path, port: int, *, synced: bool = False) -> Iterator[Server]:
    """Run a server and take everything away afterwards."""
    # Not below pytest's folder: that is closed to the account the server needs when root runs the tests.
    folder = Path(tempfile.mkdtemp(prefix="stream_guard_postgres_"))
    try:
        server = Server(programs, folder, port, synced=synced)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


def _account() -> dict[str, Any]:
    """Postgres refuses to run as root."""
    return {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}


def _own(*paths: Path) -> None:
    if os.geteuid() == 0:
        account = pwd.getpwnam("postgres")
        for path in paths:
            os.chown(path, account.pw_uid, account.pw_gid)
