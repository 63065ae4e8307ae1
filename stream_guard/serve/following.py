"""The policy of a server follows its file: a change that is good judges from the next attempt on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event as Flag
from threading import Thread
from typing import Final

from stream_guard.errors import StoreError
from stream_guard.judge.spec import Policy
from stream_guard.running.reload import ReloadingPolicy
from stream_guard.serve.service import Service

_PAUSE: Final = 0.25  # seconds between two looks at the file

_logger = logging.getLogger(__name__)


class PolicyFollower:
    """Looks at the file in a thread of its own, and compiles there: attempts do not wait for it.

    A policy comes into force once the history has it. While the history cannot be written, the old one stays, and the
    new one is tried again.
    """

    def __init__(
        self, following: ReloadingPolicy, service: Service, note: Callable[[Policy], None], pause: float = _PAUSE
    ) -> None:
        self._following, self._service, self._note, self._pause = following, service, note, pause
        self._obstacle = ""  # why a good policy is not in force yet
        following.accept = self._adopt
        self._stop = Flag()
        self._thread = Thread(target=self._run, name="stream_guard-policy", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more. A change that has begun is finished."""
        self._stop.set()
        self._thread.join()

    def _adopt(self, policy: Policy) -> None:
        self._note(policy)
        self._service.use_policy(policy)

    def _run(self) -> None:
        while not self._stop.wait(self._pause):
            try:
                self._following.poll()
            except StoreError as error:
                self._say(f"the new one is tried again: {error}")
            except Exception as error:  # of a plugin, say; this thread goes on
                self._say(f"{error!r}")
                _logger.debug("the policy file could not be followed", exc_info=True)
            else:
                self._obstacle = ""

    def _say(self, obstacle: str) -> None:
        """Log and count why a policy is not in force; once, however often it is tried."""
        if obstacle != self._obstacle:
            self._following.results["failed"] += 1
            _logger.error("policy %s stays in force; %s", self._service.gate.policy.version, obstacle)
        self._obstacle = obstacle
