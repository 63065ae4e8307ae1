"""Inspect's packed logs give what its plain ones give, and damaged ones are refused."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile
from zlib import crc32

import pytest
import zstandard

import stream_guard as sg
from stream_guard.errors import SourceError
from stream_guard.settings import DecodeSettings
from stream_guard.sources import open_source


def message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


SAMPLES = [
    {
        "id": number,
        "epoch": 1,
        "uuid": f"sample-{number}",
        "messages": [message("user", "hi"), message("assistant", "yo")],
    }
    for number in range(3)
]
HEADER = {"version": 2, "status": "success", "eval": {"eval_id": "e1", "task": "greet"}}


def packed(method: int, head: str = "header.json") -> bytes:
    """Return a log as Inspect packs it; its own method is Zstandard, which Python writes from 3.14 on only."""
    files = {head: HEADER, **{f"samples/{sample['id']}_epoch_1.json": sample for sample in SAMPLES}}
    out = BytesIO()
    with ZipFile(out, "w", ZIP_STORED if method == 93 else method) as log:
        for name, data in files.items():
            written = json.dumps(data).encode()
            log.writestr(name, zstandard.compress(written) if method == 93 else written)
        offsets = [member.header_offset for member in log.infolist()]
    found = bytearray(out.getvalue())
    if method == 93:
        at = 0
        for offset, data in zip(offsets, files.values(), strict=True):
            found[offset + 8 : offset + 10] = (93).to_bytes(2, "little")
            at = found.index(b"PK\x01\x02", at + 1)
            found[at + 10 : at + 12] = (93).to_bytes(2, "little")
            found[at + 16 : at + 20] = crc32(json.dumps(data).encode()).to_bytes(4, "little")
    return bytes(found)


def events_in(path: Path) -> list[sg.Event]:
    return list(sg.read_events(path))


@pytest.mark.parametrize("head", ["header.json", "_journal/start.json"])
@pytest.mark.parametrize("method", [ZIP_STORED, ZIP_DEFLATED, 93])
def test_a_packed_log_tells_what_the_plain_one_tells(tmp_path: Path, method: int, head: str) -> None:
    plain, log = tmp_path / "log.json", tmp_path / "log.eval"
    plain.write_text(json.dumps(HEADER | {"samples": SAMPLES}))
    log.write_bytes(packed(method, head))
    assert len({event.session_id for event in events_in(plain)}) == len(SAMPLES)
    assert events_in(log) == events_in(plain)


def test_reading_goes_on_at_the_sample_where_it_stopped(tmp_path: Path) -> None:
    log = tmp_path / "log.eval"
    log.write_bytes(packed(ZIP_DEFLATED))
    first = open_source(str(log))
    records = iter(first)
    next(records)
    rest = open_source(str(log), positions=first.positions())
    assert [record.position for record in rest if record is not None] == [1, 2]


def test_a_sample_beyond_the_limit_is_cut_and_says_so(tmp_path: Path) -> None:
    log = tmp_path / "log.eval"
    log.write_bytes(packed(ZIP_DEFLATED))
    records = list(open_source(str(log), limits=DecodeSettings(max_record_bytes=20)))
    assert [record is not None and record.truncated > 0 for record in records] == [True] * len(SAMPLES)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"no zip at all", "not a zip file"),
        (packed(ZIP_DEFLATED, "other.json"), "no log of Inspect"),
        (packed(ZIP_DEFLATED).replace(b"PK\x03\x04", b"PK\x03\x05"), "not where the list of files says"),
    ],
    ids=["no ZIP", "a ZIP of something else", "a damaged ZIP"],
)
def test_what_is_no_log_is_refused_with_a_reason(tmp_path: Path, data: bytes, reason: str) -> None:
    log = tmp_path / "log.eval"
    log.write_bytes(data)
    with pytest.raises(SourceError, match=reason):
        list(open_source(str(log)))


@pytest.mark.parametrize("method", [ZIP_STORED, ZIP_DEFLATED, 93])
def test_a_changed_bit_changes_no_record_unnoticed(tmp_path: Path, method: int) -> None:
    whole, log = packed(method), tmp_path / "log.eval"
    log.write_bytes(whole)
    honest, refused = list(open_source(str(log))), 0
    data = whole.index(b"samples/1_epoch_1.json") + len("samples/1_epoch_1.json")
    for place in range(data, whole.index(b"PK", data)):
        log.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        source = open_source(str(log))
        try:
            assert list(source) == honest  # a bit that means nothing
        except SourceError:
            assert source.positions() == {str(log): 1}
            refused += 1
    assert refused > len(range(data, whole.index(b"PK", data))) / 2
