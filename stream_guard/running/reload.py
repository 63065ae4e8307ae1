"""A policy that follows its file: a valid change takes effect, an invalid one is reported and changes nothing."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from stream_guard.errors import PolicyError, Problem, SettingsError, StoreError
from stream_guard.observability.counts import ReloadResult
from stream_guard.policy.load import load_policy, with_lateness
from stream_guard.policy.spec import Policy
from stream_guard.registry import Registry

_logger = logging.getLogger(__name__)

_NO_FILE: Final = (0, 0, 0)  # what no file is like


class ReloadingPolicy:
    """The last valid policy of a file.

    Raises PolicyError when the file cannot be used at the start; from then on ``problems`` says what is wrong
    with it now, and is empty when nothing is. With ``settle`` a change counts when two polls have seen the same: half a
    file that somebody is writing may be a valid policy with fewer rules.
    """

    def __init__(
        self,
        path: Path,
        registry: Registry,
        *,
        lateness: float = 0.0,
        by_tenant: bool = False,
        settle: bool = False,
    ) -> None:
        self._path = path
        self._settle = settle
        self._by_tenant = by_tenant
        self._lateness = lateness
        self._registry = registry
        self.accept: Callable[[Policy], None] = _accept  # raises SettingsError for a change that cannot be made
        self.results: defaultdict[ReloadResult, int] = defaultdict(int)  # of the changes that were seen
        self._seen = self._noticed = self._stat()
        self.current = self._load()
        self.problems: tuple[Problem, ...] = ()

    def poll(self) -> Policy | None:
        """Return the new policy when the file has changed to another valid one; None otherwise.

        An unchanged file costs one ``stat``. An invalid file is reported once, not at every poll. Files that rules
        name beside the policy are read with it: touch the policy when one of them changes. A StoreError of ``accept``
        is passed on, and the change tried again at the next poll.
        """
        seen = self._stat()
        noticed, self._noticed = self._noticed, seen
        if seen == self._seen or (self._settle and seen != noticed):
            return None
        self._seen = seen
        try:
            loaded = self._load()
        except PolicyError as error:
            self._report(error.problems)
            return None
        if self._stat() != seen:
            return None  # it was written while it was read; the next poll sees that
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
        except StoreError:
            self._seen = _NO_FILE
            raise
        _logger.warning(
            "%s: policy %s replaces %s; %d rules", self._path, loaded.version, self.current.version, len(loaded.rules)
        )
        self.current = loaded
        self.results["ok"] += 1
        return loaded

    def _load(self) -> Policy:
        loaded = with_lateness(load_policy(self._path, self._registry), self._lateness)
        return replace(loaded, by_tenant=True) if self._by_tenant else loaded

    def _report(self, problems: tuple[Problem, ...]) -> None:
        self.results["failed"] += 1
        if problems != self.problems:
            _logger.error("%s: cannot be used, policy %s stays in force", self._path, self.current.version)
            for problem in problems:
                _logger.error("%s", problem)
        self.problems = problems

    def _stat(self) -> tuple[int, int, int] | None:
        """Return what identifies this version of the file; None when there is no file."""
        try:
            # Of what a link leads to: orchestrators replace a mounted policy by turning a link.
            status = self._path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size


def _accept(_policy: Policy) -> None:
    """Accept every policy."""
