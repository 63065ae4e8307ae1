"""A policy that follows its files: a valid change takes effect, an invalid one is reported and changes nothing."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from stream_guard.errors import PolicyError, Problem, SettingsError, StoreError
from stream_guard.judge.counts import ReloadResult
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy, with_lateness
from stream_guard.registry import Registry

_logger = logging.getLogger(__name__)

_Version: TypeAlias = tuple[int, int, int] | None  # inode, time and size; None where there is no file
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
        self._seen: dict[Path, _Version] = {}  # the files that the policy is made of, as they were read
        self.current = self._load()
        self._noticed = self._seen
        self._may_ask = self.current.asks
        self.problems: tuple[Problem, ...] = ()

    def poll(self) -> Policy | None:
        """Return the new policy when the file has changed to another valid one; None otherwise.

        So too when one of the files has changed that it is made of beside that, such as a schema that a rule names.
        Unchanged files cost one ``stat`` each. An invalid policy is reported once, not at every poll. A StoreError of
        ``accept`` is passed on, and the change tried again at the next poll.
        """
        now = self._now()
        noticed, self._noticed = self._noticed, now
        if now == self._seen or (self._settle and now != noticed):
            return None
        try:
            loaded = self._load()
        except PolicyError as error:
            self._report(error.problems)
            return None
        if self._now() != self._seen:
            return None  # something was written while it was read; the next poll sees that
        self.problems = ()
        if loaded.version == self.current.version:
            self.results["unchanged"] += 1
            return None
        try:
            self._refuse_to_ask(loaded)
            self.accept(loaded)
        except SettingsError as error:
            self.results["failed"] += 1
            _logger.error("%s: policy %s stays in force: %s", self._path, self.current.version, error)  # noqa: TRY400  # nothing broke
            return None
        except StoreError:
            self._seen = dict.fromkeys(self._seen, _NO_FILE)
            raise
        _logger.warning(
            "%s: policy %s replaces %s; %d rules", self._path, loaded.version, self.current.version, len(loaded.rules)
        )
        self.current = loaded
        self.results["ok"] += 1
        return loaded

    def _load(self) -> Policy:
        self._seen = {self._path: _version(self._path)}
        read = load_policy(self._path, self._registry, file_read=self._note)
        loaded = with_lateness(read, self._lateness)
        return replace(loaded, by_tenant=True) if self._by_tenant else loaded

    def _refuse_to_ask(self, policy: Policy) -> None:
        """Raise SettingsError for the first rules that ask a judge: the way to it is opened when a process starts."""
        if policy.asks and not self._may_ask:
            asking = ", ".join(rule.id for rule in policy.rules if rule.rule.asks)
            raise SettingsError(f"{asking} would be the first to ask a judge; start this process again for it")

    def _note(self, file: Path) -> None:
        self._seen.setdefault(file, _version(file))

    def _now(self) -> dict[Path, _Version]:
        return {file: _version(file) for file in self._seen}

    def _report(self, problems: tuple[Problem, ...]) -> None:
        self.results["failed"] += 1
        if problems != self.problems:
            _logger.error("%s: cannot be used, policy %s stays in force", self._path, self.current.version)
            for problem in problems:
                _logger.error("%s", problem)
        self.problems = problems


def _version(file: Path) -> _Version:
    """Return what identifies this version of a file; None when there is no file."""
    try:
        # Of what a link leads to: orchestrators replace a mounted policy by turning a link.
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _accept(_policy: Policy) -> None:
    """Accept every policy."""
