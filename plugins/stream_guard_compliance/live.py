"""Prompts in the telemetry: each version is extracted once, and its sessions are held against it as events come in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from stream_guard import (
    Event,
    Finding,
    Judge,
    Registry,
    SessionEnd,
    Turn,
    UserMessage,
    parse_policy,
    redact_text,
)
from stream_guard_compliance.extraction import ExtractedRule, Extraction, extract
from stream_guard_compliance.prompts_in_turns import declared_tools, prompt_of
from stream_guard_compliance.reading.catalogue import ToolDeclaration
from stream_guard_compliance.results import LiveViolation

MOST_VERSIONS: Final = 1000  # of prompts; a prompt that is new for each session must not fill the memory
MOST_HELD: Final = 1000  # events of a session whose prompt is not known yet


@dataclass(slots=True)
class PromptVersion:
    """One prompt with the tools declared beside it: what was extracted, and the sessions that run under it."""

    digest: str
    extraction: Extraction
    judge: Any = None  # None: the prompt has no rule that a machine can check
    rules: dict[str, ExtractedRule] = field(default_factory=dict)


@dataclass(slots=True)
class _Session:
    held: list[Event] = field(default_factory=list)
    lost: int = 0
    versions: dict[str, PromptVersion] = field(default_factory=dict)  # by agent


class PromptWatch:
    """Holds sessions against the prompts that their own turns carry."""

    def __init__(self, registry: Registry, tools: Iterable[ToolDeclaration] = ()) -> None:
        self._registry = registry
        self._tools = list(tools)
        self._versions: dict[str, PromptVersion] = {}
        self._sessions: dict[str, _Session] = {}
        self.without_prompt: set[str] = set()  # sessions of which nothing was judged
        self.left_out = 0  # prompts beyond MOST_VERSIONS

    @property
    def versions(self) -> list[PromptVersion]:
        """The versions that were extracted, in the order in which they came."""
        return list(self._versions.values())

    def feed(self, event: Event) -> list[LiveViolation]:
        """Take the next event; return what it breaks."""
        session = self._sessions.setdefault(event.session_id, _Session())
        found: list[LiveViolation] = []
        prompt = prompt_of(event) if isinstance(event, Turn) else ""
        if prompt and isinstance(event, Turn):
            version = self._version(prompt, event)
            if version is not None:
                session.versions[event.agent] = version
        if not session.versions:
            self._hold(session, event)
        else:
            held, session.held = session.held, []
            for one in (*held, event):
                for version in self._meant(session, one):
                    found += _feed(version, one)
        if isinstance(event, SessionEnd):
            self._end(event.session_id)
        return found

    def finish(self) -> list[LiveViolation]:
        """End all sessions; return what did not come."""
        found = []
        for version in self._versions.values():
            ended = version.judge.end() if version.judge is not None else []
            found += [_violation(version, finding) for finding in ended if finding.rule_id in version.rules]
        for session_id in list(self._sessions):
            self._end(session_id)
        return found

    def _end(self, session_id: str) -> None:
        session = self._sessions.pop(session_id)
        if not session.versions or session.lost:
            self.without_prompt.add(session_id)

    @staticmethod
    def _hold(session: _Session, event: Event) -> None:
        if len(session.held) < MOST_HELD:
            session.held.append(event)
        else:
            session.lost += 1

    @staticmethod
    def _meant(session: _Session, event: Event) -> list[PromptVersion]:
        """Return the prompts that an event is held against: its agent's, or, for what a person says, all of them."""
        every = list({version.digest: version for version in session.versions.values()}.values())
        if isinstance(event, UserMessage | SessionEnd):
            return every
        own = session.versions.get(event.agent)
        return [own] if own is not None else every[:1]

    def _version(self, prompt: str, turn: Turn) -> PromptVersion | None:
        declared: list[ToolDeclaration] = [*self._tools, *declared_tools(turn)]
        digest = hashlib.sha256(json.dumps([prompt, declared]).encode()).hexdigest()
        known = self._versions.get(digest)
        if known is not None:
            return known
        if len(self._versions) >= MOST_VERSIONS:
            self.left_out += 1
            return None
        version = PromptVersion(digest, extract(prompt, declared))
        form = version.extraction.policy()
        if form["rules"]:
            policy = parse_policy(json.dumps(form), self._registry, file="the extracted policy")
            version.judge = Judge(policy)
            version.rules = {rule_id: rule for rule in version.extraction.rules for rule_id in rule.judging}
        self._versions[digest] = version
        return version


def _feed(version: PromptVersion, event: Event) -> list[LiveViolation]:
    if version.judge is None:
        return []
    found = version.judge.feed(event).findings
    return [_violation(version, finding) for finding in found if finding.rule_id in version.rules]


def _violation(version: PromptVersion, finding: Finding) -> LiveViolation:
    rule = version.rules[finding.rule_id].rule
    return LiveViolation(
        session_id=finding.session_id,
        event_id=finding.event_id,
        rule_id=rule.rule_id,
        kind=rule.kind,
        severity=rule.severity,
        explanation=f"{redact_text(finding.detail)}, but the prompt says: {redact_text(rule.description)}",
        prompt_version=version.digest[:16],
    )
