"""A file that is checked: packed, damaged or huge, within memory and time."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import zstandard

from tests.vectors.attacks.expectations import Outcome
from tests.vectors.attacks.processes import Process, rule_ids, write_inputs
from tests.vectors.case import CannotRunError

_CHUNK: Final = 1 << 20


class Checking:
    """``stream-guard check`` over the files of the steps, in a process of its own."""

    def __init__(self, case: dict[str, Any], folder: Path) -> None:
        self._folder = folder
        self._sections = dict(case.get("settings", {}))
        self._run = self._sections.pop("run", {})
        self._policy = case["policy"]
        self._files: list[Path] = []
        self._process: Process | None = None

    def take(self, action: str, step: dict[str, Any]) -> dict[str, Any]:
        """Write a file."""
        if action != "file":
            raise CannotRunError(f"the step {action} has no place where files are checked")
        said = step["file"]
        path = self._folder / Path(said["name"]).name
        if "base64" in said:
            path.write_bytes(b64decode("".join(said["base64"]) if isinstance(said["base64"], list) else said["base64"]))
        elif "pieces" in said:
            opener = _PACKINGS.get(said.get("pack", ""))
            if opener is None:
                raise CannotRunError(f"this runner does not know the packing {said['pack']}")
            with path.open("wb") as raw, opener(raw) as file:
                for chunk in _chunks(said["pieces"], said.get("encoding", "utf-8")):
                    file.write(chunk)
        else:
            raise CannotRunError("this runner does not know a file without pieces or base64")
        self._files.append(path)
        return {}

    def finish(self) -> Outcome:
        """Check the files and return what was found, how large the process grew and how long it took."""
        policy, settings = write_inputs(self._folder, self._policy, self._sections)
        words = ["check", *map(str, self._files), "--policy", str(policy), "--settings", str(settings)]
        words += ["--format", "jsonl", "--from-format", self._run.get("from_format", "native")]
        self._process = process = Process(self._folder, *words, fresh=True)  # its size is measured
        printed = process.finish(float(self._run.get("seconds", 60)))
        alerts = [json.loads(line) for line in printed.splitlines() if line.strip()]
        return Outcome(
            alerts=alerts,
            rules=rule_ids(self._policy),
            exit=process.exit,
            memory_mb=process.peak_mb,
            seconds=process.seconds,
        )

    def close(self) -> None:
        """End the process if it still runs."""
        if self._process is not None:
            self._process.stop()


def _chunks(pieces: list[Any], encoding: str) -> Iterator[bytes]:
    """Yield the pieces, long ones a part at a time."""
    for piece in pieces:
        text, times = (piece, 1) if isinstance(piece, str) else (str(piece[0]), int(piece[1]))
        at_once = max(1, _CHUNK // max(1, len(text)))
        many = (text * min(at_once, times)).encode(encoding)
        for _ in range(times // at_once):
            yield many
        yield (text * (times % at_once)).encode(encoding) if times >= at_once else (text * times).encode(encoding)


_PACKINGS: Final[dict[str, Callable[[BinaryIO], Any]]] = {
    "": lambda raw: raw,
    "zstd": lambda raw: zstandard.ZstdCompressor().stream_writer(raw, closefd=False),
    "gzip": lambda raw: gzip.GzipFile(fileobj=raw, mode="wb"),
    "gz": lambda raw: gzip.GzipFile(fileobj=raw, mode="wb"),
    "bz2": lambda raw: bz2.BZ2File(raw, "wb"),
    "xz": lambda raw: lzma.LZMAFile(raw, "wb"),  # noqa: SIM115  # the caller is the context
}
