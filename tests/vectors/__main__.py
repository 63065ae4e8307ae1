"""``python -m tests.vectors KIND FILE...``: run vector files and say which cases hold."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ruamel.yaml.error import YAMLError

from tests.vectors.case import LeftOut, read_cases, run_case
from tests.vectors.runners import RUNNERS

_LONGEST = 600


def main(arguments: Sequence[str]) -> int:
    """Print a line a case and the totals; return 1 when a case fails, 2 for bad usage."""
    if len(arguments) < 2 or arguments[0] not in RUNNERS:
        print(f"usage: python -m tests.vectors {{{'|'.join(RUNNERS)}}} FILE...", file=sys.stderr)
        return 2
    runner = RUNNERS[arguments[0]]
    passed = failed = 0
    left_out: Counter[str] = Counter()
    for path in map(Path, arguments[1:]):
        try:
            cases = list(read_cases(path))
        except (OSError, ValueError, AttributeError, TypeError, YAMLError) as error:
            failed += 1
            print(f"FAIL {path}: no file of cases: {error}")
            continue
        for case in cases:
            verdict = run_case(runner, case.data)
            if isinstance(verdict, LeftOut):
                left_out[verdict.reason] += 1
                print(f"left out {case.name}: {verdict.reason}", flush=True)
            elif verdict is None:
                passed += 1
                print(f"pass {case.name}", flush=True)
            else:
                failed += 1
                print(f"FAIL {case.name}: {_one_line(verdict)}", flush=True)
    for reason, count in left_out.items():
        print(f"left out: {count} ({reason})")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def _one_line(text: str) -> str:
    """Return the text as one line of at most some hundred characters that any terminal takes."""
    line = " ".join(text.encode("utf-8", "backslashreplace").decode().split())
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "..."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
