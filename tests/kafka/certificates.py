"""Certificates for one test run: an authority, a broker's and a client's, in PEM, which Java and Python both read."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.kafka.issuing import write_keys

DAYS = "2"
NAMES = "subjectAltName=IP:127.0.0.1,DNS:localhost"


@dataclass(frozen=True, slots=True)
class Certificates:
    """Where the files are."""

    authority: Path
    broker: Path  # key and certificate in one file, as a broker's PEM key store wants them
    client: Path
    client_key: Path
    stranger: Path  # another authority, which signed none of these
    issuer_key: Path  # signs tokens
    issuer_keys: Path  # what a broker knows their signatures by


def missing_part() -> str:
    """What this machine lacks to make certificates; empty when nothing."""
    return "" if shutil.which("openssl") else "openssl is missing: install it to test encrypted listeners"


def make_certificates(folder: Path) -> Certificates:
    """Make everything in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    _make_authority(folder, "authority")
    _make_authority(folder, "stranger")
    for name in ("broker", "client"):
        _make_signed(folder, name)
    write_keys(_make_authority(folder, "issuer"), folder / "issuer.json")
    store = folder / "broker-store.pem"
    store.write_bytes((folder / "broker.key").read_bytes() + (folder / "broker.pem").read_bytes())
    return Certificates(
        authority=folder / "authority.pem",
        broker=store,
        client=folder / "client.pem",
        client_key=folder / "client.key",
        stranger=folder / "stranger.pem",
        issuer_key=folder / "issuer.key",
        issuer_keys=folder / "issuer.json",
    )


def _make_authority(folder: Path, name: str) -> Path:
    _openssl(
        folder,
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", DAYS, "-subj", f"/CN={name}"),
        *("-keyout", f"{name}.key", "-out", f"{name}.pem"),
        *("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign"),
    )
    return folder / f"{name}.key"


def _make_signed(folder: Path, name: str) -> None:
    _openssl(
        folder,
        *("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-addext", NAMES),
        *("-keyout", f"{name}.key", "-out", f"{name}.request"),
    )
    _openssl(
        folder,
        *("x509", "-req", "-in", f"{name}.request", "-days", DAYS, "-copy_extensions", "copy"),
        *("-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial", "-out", f"{name}.pem"),
    )


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
