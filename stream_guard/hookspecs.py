"""The doors for plugins. All are called at start-up and return values; only the judge is asked later.

pluggy finds things, it does not run them: a hook call per event would cost more than all rules together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:  # names alone are needed, and plugins that bring commands must be quick to import
    from collections.abc import Iterable, Mapping

    from stream_guard.diff_axes import DiffAxis
    from stream_guard.judge.ports import Answer
    from stream_guard.judge.rule import RuleType
    from stream_guard.ports import Command, Decoder, Dialect, PolicyPack, Question, Sink, TokenSource
    from stream_guard.similarity import Similarity


PROJECT = "stream_guard"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def stream_guard_rules() -> Iterable[RuleType]:  # type: ignore[empty-body]
    """Return the rule kinds this plugin provides."""


@hookspec
def stream_guard_decoders() -> Mapping[str, type[Decoder]]:  # type: ignore[empty-body]
    """Return ways to read raw records, by format name."""


@hookspec
def stream_guard_sinks() -> Mapping[str, type[Sink]]:  # type: ignore[empty-body]
    """Return places to send alerts, by name."""


@hookspec
def stream_guard_dialects() -> Iterable[type[Dialect]]:  # type: ignore[empty-body]
    """Return ways to read policy files written for other systems."""


@hookspec
def stream_guard_diff_axes() -> Iterable[type[DiffAxis]]:  # type: ignore[empty-body]
    """Return ways in which two recordings may differ."""


@hookspec
def stream_guard_similarities() -> Mapping[str, Similarity]:  # type: ignore[empty-body]
    """Return measures of how alike two texts are, by name."""


@hookspec
def stream_guard_policy_packs() -> Iterable[PolicyPack]:  # type: ignore[empty-body]
    """Return rules that policies take in by name, under ``packs``."""


@hookspec
def stream_guard_commands() -> Iterable[Command]:  # type: ignore[empty-body]
    """Return commands for the command line; their modules are imported when they are called."""


@hookspec
def stream_guard_token_sources() -> Mapping[str, type[TokenSource]]:  # type: ignore[empty-body]
    """Return ways to get tokens for brokers that log in by OAUTHBEARER, by name."""


@hookspec(firstresult=True)
def stream_guard_judge(question: Question) -> Answer | None:
    """Answer what no rule can decide, or return None to pass. Slow path; never called per event."""
