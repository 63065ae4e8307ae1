"""The plain build and the compiled one side by side: a process for each, asked in turn, timed from the inside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SITE = ROOT / ".cache" / "compiled" / str(sys.implementation.cache_tag) / "site"  # from `make compiled`
SAFE_PATH = ("-P",)  # the working directory, which holds the plain sources, does not come first


def environment_of(*, compiled: bool) -> dict[str, str]:
    """Return the variables with which a process imports the one build or the other."""
    path = [SITE, ROOT] if compiled else [ROOT]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}


def is_compiled() -> bool:
    """Whether this process has the compiled build."""
    from stream_guard.judge import fold  # only here is it clear which build that is

    return not str(fold.__file__).endswith(".py")


class Build:
    """A process that has imported one build of stream_guard, and does a piece of work when it is asked to."""

    def __init__(self, module: str, arguments: Sequence[str], *, compiled: bool) -> None:
        environment = environment_of(compiled=compiled)
        self._process = subprocess.Popen(
            [sys.executable, *SAFE_PATH, "-m", module, *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self.ask("is compiled") is not compiled:
            raise AssertionError(f"the benchmark measures something else than {environment['PYTHONPATH']}")

    def ask(self, name: str) -> Any:
        """Let it do one piece of work, and return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise AssertionError(f'asked for "{name}", the process ended; is its build out of date? `make compiled`')
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@contextmanager
def builds(module: str, *arguments: str) -> Iterator[dict[str, Build]]:
    """Start the builds there are; each is called by what stands before the names of its rows."""
    with ExitStack() as stack:
        started = {"": Build(module, arguments, compiled=False)}
        stack.callback(started[""].close)
        if SITE.exists():
            started["compiled "] = Build(module, arguments, compiled=True)
            stack.callback(started["compiled "].close)
        yield started


def answer(works: Mapping[str, Callable[[], Any]]) -> None:
    """Be such a process: do what each line of the input names, and print its result."""
    known = {"is compiled": is_compiled, "names": lambda: list(works), **works}
    for line in sys.stdin:
        print(json.dumps(known[line.strip()]()), flush=True)
