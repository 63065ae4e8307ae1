"""The broker's jars: fetched once with Maven, kept in .cache/kafka until the pom changes."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Final

POM: Final = Path(__file__).with_name("pom.xml")
CACHE: Final = Path(__file__).parents[2] / ".cache" / "kafka"


def jar_folder() -> Path:
    """Where the jars of this pom belong, whether they are there or not."""
    return CACHE / f"jars-{sha256(POM.read_bytes()).hexdigest()[:12]}"


def missing_part() -> str:
    """What this machine lacks to start a broker, and what to do about it; empty when nothing."""
    if shutil.which("java") is None:
        return "Java is missing: install a runtime of version 17 or later, or set STREAM_GUARD_TEST_KAFKA"
    if not jar_folder().is_dir() and shutil.which("mvn") is None:
        return "Maven is missing: install it to fetch Apache Kafka, or set STREAM_GUARD_TEST_KAFKA"
    return ""


def fetch_jars() -> Path:
    """Return the folder of the jars, after fetching them where that was not done yet; RuntimeError when Maven fails."""
    folder = jar_folder()
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "fetch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        # Renamed when complete: a download that was cut off must not look like one that was not.
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={partial}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"Maven could not fetch Apache Kafka:\n{(done.stdout + done.stderr)[-2000:]}")
        partial.rename(folder)
    return folder
