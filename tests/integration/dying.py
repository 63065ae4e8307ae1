"""``stream-guard`` that dies at a place in a commit: DIE_AT says at which, and at which call of it."""

from __future__ import annotations

import os
from itertools import count
from typing import Any, Final

from stream_guard.alerting.delivery import Delivery
from stream_guard.commit import Commit
from stream_guard.guard import gate

DEATH: Final = 9
# Before each step, and behind the last one. A gate tells in three steps of its own.
STEPS: Final = ("keep_alerts", "keep_letters", "write", "tell", "end")
OF_GATES: Final = ("record_findings", "hand_over", "flush")
_OWNERS: Final[dict[str, tuple[Any, str]]] = {
    **{step: (Commit, step) for step in STEPS},
    "end": (Commit, "tell"),
    "record_findings": (gate, "record_findings"),
    "hand_over": (Delivery, "hand_over"),
    "flush": (Delivery, "flush"),
}


def die_at(place: str, number: int) -> None:
    """End this process, like a kill, when it comes to a place for the so-manieth time."""
    owner, name = _OWNERS[place]
    real, calls = getattr(owner, name), count(1)

    def die(*values: Any, **named: Any) -> Any:
        is_last = next(calls) == number
        if is_last and place != "end":
            os._exit(DEATH)
        done = real(*values, **named)
        if is_last:
            os._exit(DEATH)
        return done

    setattr(owner, name, die)


if __name__ == "__main__":
    from stream_guard.cli.process import main

    place, number = os.environ["DIE_AT"].split()
    die_at(place, int(number))
    main()
