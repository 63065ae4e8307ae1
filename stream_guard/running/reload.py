"""A policy that follows its file: a good change comes into force, a bad one is reported and changes nothing."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from stream_guard.errors import PolicyError, Problem, SettingsError
from stream_guard.observability.counts import ReloadResult
from stream_guard.policy.load import load_policy
from stream_guard.policy.spec import Policy
from stream_guard.registry import Registry

_logger = logging.getLogger(__name__)


class ReloadingPolicy:
    """The policy of a file as it was last found good.

    Raises PolicyError when the file cannot be used at the start; from then on ``problems`` says what is wrong
    with it now, and is empty when nothing is.
    """

    def __init__(self, path: Path, registry: Registry, *, lateness: float = 0.0) -> None:
        self._path = path
        self._lateness = lateness
        self._registry = registry
        self.accept: Callable[[Policy], None] = _accept  # raises SettingsError for a change that cannot be made now
        self.results: defaultdict[ReloadResult, int] = defaultdict(int)  # of the changes that were seen
        self._seen = self._look()
        self.current = load_policy(path, registry, lateness=lateness)
        self.problems: tuple[Problem, ...] = ()

    def poll(self) -> Policy | None:
        """Return the new policy when the file has become another good one; None otherwise.

        Costs one look at the file's date as long as nothing changes. A bad file is reported once, not at every
        look. Files that rules name beside the policy are read with it: touch the policy when one of them changes.
        """
        seen = self._look()
        if seen == self._seen:
            return None
        self._seen = seen
        try:
            loaded = load_policy(self._path, self._registry, lateness=self._lateness)
        except PolicyError as error:
            self._report(error.problems)
            return None
        self.problems = ()
        if loaded.version == self.current.version:
            self.results["unchanged"] += 1
            return None
        try:
            self.accept(loaded)
        except SettingsError as error:
            self.results["failed"] += 1
            _logger.error("%s: policy %s stays in force: %s", self._path, self.current.version, error)  # noqa: TRY400  # nothing broke
            return None
        _logger.warning(
            "%s: policy %s replaces %s; %d rules", self._path, loaded.version, self.current.version, len(loaded.rules)
        )
        self.current = loaded
        self.results["ok"] += 1
        return loaded

    def _report(self, problems: tuple[Problem, ...]) -> None:
        self.results["failed"] += 1
        if problems != self.problems:
            _logger.error("%s: cannot be used, policy %s stays in force", self._path, self.current.version)
            for problem in problems:
                _logger.error("%s", problem)
        self.problems = problems

    def _look(self) -> tuple[int, int, int] | None:
        """What tells one state of the file from another; None when it is not there."""
        try:
            # Of what a link leads to: orchestrators replace a mounted policy by turning a link.
            status = self._path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size


def _accept(_policy: Policy) -> None:
    """Whoever can change to any policy has nothing against one."""
