"""One Apache Kafka broker in a folder of its own; also ``python -m tests.kafka.broker start | stop | fetch | keep``."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final, Self

from tests.kafka.certificates import Certificates, make_certificates
from tests.kafka.configuration import (
    ALL_LISTENERS,
    ALONE,
    CONTROLLER,
    HOST,
    LOGGING,
    PASSWORD,
    PLAIN_LISTENERS,
    SCRAM,
    USER,
    Seat,
    server_properties,
)
from tests.kafka.jars import CACHE, fetch_jars, jar_folder
from tests.ports import BROKERS, free_ports

CLUSTER_ID: Final = "c3RyZWFtLWd1YXJkLXRlcw"
# A controller waits for the disk at each of its records. A disk that is busy for seconds keeps it from hearing its
# brokers, which are then taken for lost. So these records, and no others, are in memory where that is possible.
MEMORY: Final = Path("/dev/shm")
ROOM: Final = 256 << 20  # bytes that must be free there
PATIENCE: Final = 90.0  # seconds a start may take on a machine that is busy
# Quick to start and small; a test broker never lives long enough for the better compiler to pay.
JVM: Final = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_PARENT_DEATH_SIGNAL: Final = 1


class Broker:
    """A broker with combined roles; its data and its ports stay the same over ``kill`` and ``start``."""

    def __init__(
        self, folder: Path, *, secure: bool = False, ports: Mapping[str, int] | None = None, seat: Seat = ALONE
    ) -> None:
        self.folder = folder
        # Loading classes is half of what a start costs. A virtual machine that does not fit the archive goes without.
        self.loading: tuple[str, ...] = (f"-XX:SharedArchiveFile={archive()}",) if archive().is_file() else ()
        self.seat = seat
        self.pid = 0
        self.certificates: Certificates | None = make_certificates(folder / "certificates") if secure else None
        names = (*(ALL_LISTENERS if secure else PLAIN_LISTENERS), CONTROLLER)
        self._ports = dict(ports or zip(names, free_ports(len(names), BROKERS), strict=True))
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def noted(cls, note: Path) -> Broker:
        """Return the broker of a note, as far as clients need it; another process keeps it and stops it."""
        said = json.loads(note.read_text())
        broker = cls.__new__(cls)
        broker.folder, broker.pid, broker._ports, broker._process = note.parent, said["broker"], said["ports"], None
        files = said["certificates"]
        broker.certificates = Certificates(**{name: Path(path) for name, path in files.items()}) if files else None
        return broker

    def note(self, note: Path) -> None:
        """Write down what ``noted`` reads, and which process keeps the broker; the file is there whole or not yet."""
        files = {name: str(path) for name, path in asdict(self.certificates).items()} if self.certificates else {}
        said = {"pid": os.getpid(), "broker": self.pid, "ports": self._ports, "certificates": files}
        unfinished = note.with_suffix(".new")
        unfinished.write_text(json.dumps(said))
        unfinished.replace(note)

    def address(self, listener: str = "PLAINTEXT") -> str:
        """The bootstrap server of a listener."""
        return f"{HOST}:{self._ports[listener]}"

    def __enter__(self) -> Self:
        self.format()
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()

    def format(self) -> None:
        """Write the configuration and prepare the data folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "log4j2.properties").write_text(LOGGING)
        properties = server_properties(self.folder, self._ports, self.certificates, self.seat)
        (self.folder / "server.properties").write_text(properties)
        data, metadata = self.folder / "data", self.folder / "metadata"
        if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
            metadata.symlink_to(tempfile.mkdtemp(prefix="stream_guard-", dir=MEMORY))
        is_plain = self.seat == ALONE and self.certificates is None
        if is_plain and formatted().is_dir():
            for kept in (data, metadata):
                shutil.copytree(formatted() / kept.name, kept, dirs_exist_ok=True)
            return
        users = [word for name in SCRAM for word in ("--add-scram", f'{name}=[name={USER},password="{PASSWORD}"]')]
        arguments = ["format", "-t", CLUSTER_ID, "-c", str(self.folder / "server.properties")]
        command = [*self._java("kafka.tools.StorageTool"), *arguments, *(users if self.certificates else ())]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the storage could not be formatted:\n{done.stdout}{done.stderr}")
        if is_plain:
            _keep_formatted(data, metadata)

    def start(self, *, outlive: bool = False) -> None:
        """Start it and wait until it answers; it dies with this process unless it is to outlive it."""
        self.launch(outlive=outlive)
        self.wait()

    def launch(self, *, outlive: bool = False) -> None:
        """Start it without waiting."""
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java("kafka.Kafka"), str(self.folder / "server.properties")],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=outlive,
                preexec_fn=None if outlive else _die_with_parent,  # noqa: PLW1509  # no threads run yet, and one system call
            )
        self.pid = self._process.pid

    def wait(self) -> None:
        """Wait until it answers."""
        try:
            self._wait()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Let it close its files and wait for its end."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """End it as a lost machine would; ``start`` brings it back with what it had written."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        """Kill it, if it runs, and delete what it wrote."""
        self.kill()  # what it would write before its end goes with the folder
        _remove(self.folder)

    def signal(self, number: int) -> None:
        """Send its process a signal, such as SIGSTOP."""
        assert self._process is not None
        self._process.send_signal(number)

    def _java(self, main: str) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"
        keys = self.certificates.issuer_keys if self.certificates else None
        # A broker reads keys for tokens only from where its command line allows it.
        allowed = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}"] if keys else []
        return ["java", *JVM, *self.loading, logging, *allowed, "-cp", f"{fetch_jars()}/*", main]

    def _wait(self) -> None:
        assert self._process is not None
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self._process.poll() is None:
            if answers(self.address()):
                return
            time.sleep(0.1)
        log = (self.folder / "broker.log").read_text(errors="replace")[-3000:]
        raise RuntimeError(f"the broker did not start within {PATIENCE:.0f} s:\n{log}")


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def answers(address: str) -> bool:
    """Whether the broker there says that it takes part: one that has just started may not have registered yet."""
    import socket

    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError

    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
        admin = KafkaAdminClient(bootstrap_servers=address, bootstrap_timeout_ms=5000)
    except (OSError, KafkaError):
        return False
    try:
        return any(one["port"] == int(port) and not one["is_fenced"] for one in admin.describe_cluster()["brokers"])
    except KafkaError:
        return False
    finally:
        admin.close()


def main(arguments: list[str] | None = None) -> int:
    """Start a broker that stays, stop it again, or only fetch what it is made of."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.broker", description=__doc__)
    parser.add_argument("command", choices=("start", "stop", "fetch", "keep"))
    parser.add_argument(
        "--folder", type=Path, default=CACHE / "broker", help="where its data and its process id are kept"
    )
    parser.add_argument("--beside", type=int, default=0, help="keep: the process that the broker must not outlive")
    parser.add_argument("--secure", action="store_true", help="keep: with a listener for every way of being let in")
    given = parser.parse_args(arguments)
    if given.command == "keep":
        return _keep(given.folder.absolute(), given.beside, secure=given.secure)
    if given.command == "fetch":
        fetch_jars()
        _archive_classes()
        return 0
    return (_start if given.command == "start" else _stop)(given.folder.absolute())


def archive() -> Path:
    """Where the classes that a broker loads are kept, ready to be mapped into memory."""
    return jar_folder().with_suffix(".jsa")


def formatted() -> Path:
    """Where a plain broker's folders are kept as formatting leaves them: that takes a virtual machine a second."""
    return jar_folder().with_suffix(".storage")


def _keep_formatted(*folders: Path) -> None:
    partial = formatted().with_suffix(f".{os.getpid()}")
    for folder in folders:
        shutil.copytree(folder, partial / folder.name)
    try:
        partial.rename(formatted())
    except OSError:  # another process was first
        shutil.rmtree(partial)


def _archive_classes() -> None:
    """Start a broker once and keep the classes that it loaded."""
    if archive().is_file():
        return
    partial = archive().with_suffix(".partial")
    broker = Broker(CACHE / "archiving")
    broker.format()
    broker.loading = (f"-XX:ArchiveClassesAtExit={partial}",)
    broker.start()
    broker.stop()
    broker.remove()
    if partial.is_file():  # some virtual machines cannot write one
        partial.rename(archive())


def _start(folder: Path) -> int:
    note = folder / "broker.json"
    if (running := _running(note)) is not None:
        print(f"a broker runs already at {running['address']}; stop it first", file=sys.stderr)
        return 1
    _remove(folder)
    broker = Broker(folder)
    broker.format()
    broker.start(outlive=True)
    note.write_text(json.dumps({"pid": broker.pid, "address": broker.address()}))
    print(broker.address())
    print(f"for the tests: export STREAM_GUARD_TEST_KAFKA={broker.address()}", file=sys.stderr)
    return 0


def _keep(folder: Path, beside: int, *, secure: bool) -> int:
    """Run a broker until this process is told to stop, or the one beside it has ended."""
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    with Broker(folder, secure=secure) as broker:
        broker.note(folder.with_suffix(".json"))
        while not told.wait(0.5) and Path(f"/proc/{beside}").exists():
            pass
    return 0


def _remove(folder: Path) -> None:
    shutil.rmtree((folder / "metadata").resolve(), ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _stop(folder: Path) -> int:
    running = _running(folder / "broker.json")
    if running is None:
        print(f"no broker of {folder} runs", file=sys.stderr)
        return 1
    pid = int(running["pid"])
    os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + 30
    while _is_broker(pid, folder):
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    _remove(folder)
    return 0


def _running(note: Path) -> dict[str, str] | None:
    """What the note says, when the process it names is still that broker."""
    try:
        said: dict[str, str] = json.loads(note.read_text())
    except FileNotFoundError:
        return None
    return said if _is_broker(int(said["pid"]), note.parent) else None


def _is_broker(pid: int, folder: Path) -> bool:
    """Process ids are given out again: the command line says whether this one is ours."""
    try:
        return str(folder / "server.properties").encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
