"""``python -m tests.vectors KIND FILE...``: run vector files and say which cases hold."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.vectors.case import LeftOut, Runner, WrongAnswerError, read_cases
from tests.vectors.runners import RUNNERS


def main(arguments: Sequence[str]) -> int:
    """Print a line a case and the totals; return 1 when a case fails, 2 for bad usage."""
    if len(arguments) < 2 or arguments[0] not in RUNNERS:
        print(f"usage: python -m tests.vectors {{{'|'.join(RUNNERS)}}} FILE...", file=sys.stderr)
        return 2
    runner = RUNNERS[arguments[0]]
    passed = failed = 0
    left_out: Counter[str] = Counter()
    for path in map(Path, arguments[1:]):
        for case in read_cases(path):
            verdict = run_case(runner, case.data)
            if isinstance(verdict, LeftOut):
                left_out[verdict.reason] += 1
                print(f"left out {case.name}: {verdict.reason}")
            elif verdict is None:
                passed += 1
                print(f"pass {case.name}")
            else:
                failed += 1
                print(f"FAIL {case.name}: {verdict}")
    for reason, count in left_out.items():
        print(f"left out: {count} ({reason})")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def run_case(runner: Runner, data: dict[str, object]) -> LeftOut | str | None:
    """Run one case; a crash is a failure of that case, not of the run."""
    try:
        return runner(data)
    except WrongAnswerError as wrong:
        return str(wrong)
    except Exception as error:  # noqa: BLE001  # an unseen file may break anything; the other cases still count
        return f"raised {error!r}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
