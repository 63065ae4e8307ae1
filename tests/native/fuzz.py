"""Search for texts on which the native module and its twin differ, or that make it read where nothing is.

``python -m tests.native.fuzz SECONDS`` builds the module with sanitizers for addresses and undefined behaviour, which
end the process where it does what C leaves undefined, and changes texts at random for so long.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.workload import event_lines
from tests.native import twins
from tests.native.building import SANITIZERS, build_native, load_native

PIECES = [
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b":", b",", b"0", b"-", b".", b"e9", b"\x00", b"\x80", b"\xff", b"\x1f"),
    *(
        b"\\u",
        b"\\ud83d",
        b"\\ude00",
        b"\\u0061",
        b'{"a":1,"a":2}',
        b'"a":',
        b"true",
        b"null",
        b" ",
        b"\n",
        b"[[[[",
        b"]]]]",
    ),
    *(
        b"123456789012345678",
        b"1e99",
        "é".encode(),
        "🙂".encode(),
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"x" * 15,
        b"x" * 17,
    ),
]
SEEDS = [
    *event_lines(4),
    b'{"a":[1,{"b":null},"\\ud83d\\ude00"],"c":{"d":-0.5e-7}}',
    b"[" * 63 + b"{}" + b"]" * 63,
    b"{%s}" % b",".join(b'"key number %d":[]' % number for number in range(47)),
]


def texts(chance: random.Random) -> Iterator[bytes]:
    """Yield texts that are nearly JSON, for ever."""
    while True:
        text = bytearray(chance.choice(SEEDS))
        if chance.random() < 0.3:
            text = text[: chance.randrange(len(text) + 1)]
        for _ in range(chance.randrange(6)):
            at = chance.randrange(len(text) + 1)
            text[at : at + chance.choice((0, 0, 1, 1, 2, 9))] = chance.choice(PIECES) * chance.choice((1, 1, 1, 2, 20))
        yield bytes(text)


def search(library: Path, seconds: float, seed: int) -> int:
    """Compare the two for so long, and return over how many texts."""
    native, chance, until, count = load_native(library), random.Random(seed), time.monotonic() + seconds, 0
    for text in texts(chance):
        # A copy of its own, so that the sanitizer sees a read behind its end.
        told = native.is_plain_json(bytes(bytearray(text)))
        if told is not twins.is_plain_json(text):
            raise SystemExit(f"the native module says {told} of {text!r}, and its twin does not; seed {seed}")
        count += 1
        if count % 100 == 0 and time.monotonic() > until:
            break
    return count


def main(arguments: list[str]) -> int:
    """Build with sanitizers, and search in a process that begins with their library."""
    if len(arguments) == 3:
        print(f"{search(Path(arguments[0]), float(arguments[1]), int(arguments[2]))} texts, no difference")
        return 0
    seconds = arguments[0] if arguments else "60"
    with tempfile.TemporaryDirectory() as folder:
        library = build_native(Path(folder), SANITIZERS)
        asked = ["cc", "-print-file-name=libasan.so"]
        runtime = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
        # Python does not free everything at its end, which is no leak of ours; its own allocator would hide bounds.
        environment = {**os.environ, "LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
        command = [sys.executable, "-m", "tests.native.fuzz", str(library), seconds, str(time.time_ns() % 10**9)]
        return subprocess.run(command, check=False, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
