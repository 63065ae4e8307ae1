"""Files of certificates that change are used from the next connection on, and broken ones are not."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from stream_guard.errors import SettingsError
from stream_guard.kafka.security import RenewedContext
from stream_guard.settings import KafkaSettings
from tests.http_end import HttpEnd
from tests.kafka import certificates
from tests.kafka.certificates import Certificates, make_certificates
from tests.parts import require


@pytest.fixture(scope="session")
def two_sets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Certificates, Certificates]:
    """Two authorities with what each has signed."""
    require(not certificates.missing_part(), certificates.missing_part())
    folder = tmp_path_factory.mktemp("two")
    return make_certificates(folder / "old"), make_certificates(folder / "new")


@pytest.fixture
def ends(two_sets: tuple[Certificates, Certificates]) -> Iterator[tuple[HttpEnd, HttpEnd]]:
    """A server with the old certificate, and one with the new."""
    with HttpEnd(two_sets[0].broker) as old, HttpEnd(two_sets[1].broker) as new:
        yield old, new


@pytest.fixture
def mounted(two_sets: tuple[Certificates, Certificates], tmp_path: Path) -> Callable[[Certificates], KafkaSettings]:
    """Put files where the settings expect them."""

    def put(files: Certificates) -> KafkaSettings:
        for name, file in (("ca", files.authority), ("cert", files.client), ("key", files.client_key)):
            shutil.copy(file, tmp_path / f"{name}.new")
            (tmp_path / f"{name}.new").replace(tmp_path / name)
        return KafkaSettings(
            ssl_ca_file=tmp_path / "ca", ssl_certificate_file=tmp_path / "cert", ssl_key_file=tmp_path / "key"
        )

    return put


def by_socket(context: ssl.SSLContext, end: HttpEnd) -> bool:
    """Whether a connection is made, as kafka-python makes it."""
    import socket

    port = int(end.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as plain:
        try:
            context.wrap_socket(plain, server_hostname="127.0.0.1").close()
        except ssl.SSLCertVerificationError:
            return False
    return True


def by_loop(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> Callable[[ssl.SSLContext, HttpEnd], bool]:
    """Return the same as aiokafka makes it."""

    async def connect(context: ssl.SSLContext, port: int) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.close()
        await writer.wait_closed()

    def try_it(context: ssl.SSLContext, end: HttpEnd) -> bool:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            try:
                runner.run(connect(context, int(end.url.rpartition(":")[2])))
            except ssl.SSLCertVerificationError:
                return False
        return True

    return try_it


@pytest.mark.parametrize(
    "connects",
    [by_socket, by_loop(asyncio.new_event_loop), by_loop(uvloop.new_event_loop)],
    ids=["socket", "asyncio", "uvloop"],
)
def test_changed_files_are_used_from_the_next_connection_on(
    connects: Callable[[ssl.SSLContext, HttpEnd], bool],
    two_sets: tuple[Certificates, Certificates],
    ends: tuple[HttpEnd, HttpEnd],
    mounted: Callable[[Certificates], KafkaSettings],
) -> None:
    (old, new), (old_end, new_end) = two_sets, ends
    context = RenewedContext(mounted(old))
    assert (connects(context, old_end), connects(context, new_end)) == (True, False)
    mounted(new)
    assert (connects(context, old_end), connects(context, new_end)) == (False, True)


def test_files_that_cannot_be_used_change_nothing_until_they_can(
    two_sets: tuple[Certificates, Certificates],
    ends: tuple[HttpEnd, HttpEnd],
    mounted: Callable[[Certificates], KafkaSettings],
    caplog: pytest.LogCaptureFixture,
) -> None:
    (old, new), (old_end, new_end) = two_sets, ends
    kafka = mounted(old)
    context = RenewedContext(kafka)
    assert kafka.ssl_certificate_file is not None
    assert kafka.ssl_ca_file is not None
    for break_it in breakages(kafka, new):
        caplog.clear()
        break_it()
        assert by_socket(context, old_end)
        assert by_socket(context, old_end)
        assert caplog.text.count("stay in use until they change again") == 1  # once, not for every connection
    mounted(new)
    assert by_socket(context, new_end)


def breakages(kafka: KafkaSettings, new: Certificates) -> list[Callable[[], Any]]:
    """Moments of a renewal, and of one that goes wrong."""
    certificate, authority = kafka.ssl_certificate_file, kafka.ssl_ca_file
    assert certificate is not None
    assert authority is not None
    return [
        lambda: shutil.copy(new.client, certificate),  # its key is still the old one
        lambda: certificate.write_bytes(new.client.read_bytes()[:300]),
        certificate.unlink,
        lambda: authority.write_text("no PEM"),
    ]


def test_the_context_itself_trusts_nobody(
    two_sets: tuple[Certificates, Certificates], mounted: Callable[[Certificates], KafkaSettings]
) -> None:
    context = RenewedContext(mounted(two_sets[0]))
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.cert_store_stats()["x509"] == 0


def test_files_that_are_wrong_from_the_start_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"kafka\.ssl_key_password_file: .*/none is not a file"):
        RenewedContext(KafkaSettings(ssl_key_password_file=tmp_path / "none"))
