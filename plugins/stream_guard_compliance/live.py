"""Prompts in the telemetry: each version is extracted once, and its sessions are held against it as events come in."""

from __future__ import annotations

import hashlib
import json
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, Final

from msgspec.structs import replace

from stream_guard import (
    Counts,
    Event,
    Finding,
    Json,
    Judge,
    Registry,
    SessionEnd,
    Settings,
    ToolCall,
    Turn,
    UserMessage,
    build_registry,
    parse_policy,
    redact_text,
)
from stream_guard_compliance.extraction import ExtractedRule, Extraction, extract, forms_of
from stream_guard_compliance.prompts_in_turns import declared_tools, prompt_of
from stream_guard_compliance.reading.catalogue import ToolDeclaration, declarations
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


# The rules of one prompt over one session, as a step: what they remembered and an event in, what they found out.

_MOST_PACKED: Final = 16_384  # bytes of a prompt with its tools that a session remembers
_MOST_TEXT: Final = 400_000  # characters, about, of what is packed
_MOST_SENTENCE: Final = 300  # characters of a sentence in a finding
_MOST_DESCRIPTION: Final = 300  # characters of what is said about a tool, of which the first sentence counts
_SESSION: Final = "s"


def pack_prompt(prompt: str, tools: Iterable[ToolDeclaration]) -> bytes:
    """Return a prompt and what is declared beside it as bytes, the same for the same; none where they are too long."""
    told = [{"name": name, "description": about[:_MOST_DESCRIPTION]} for name, about in declarations(tools).items()]
    if len(prompt) + len(told) * _MOST_DESCRIPTION > _MOST_TEXT:
        return b""  # without packing it: whoever sends prompts decides how long they are
    packed = _packed(json.dumps([prompt, told]))
    return packed if len(packed) <= _MOST_PACKED else b""


@lru_cache(maxsize=256)
def _packed(text: str) -> bytes:
    """Pack a text; most turns of a session carry the same."""
    return zlib.compress(text.encode(), 9)


@cache
def _registry() -> Registry:
    """The kinds that sentences become; no other plugin is loaded for them, whatever is installed."""
    return build_registry(Settings.model_validate({"plugins": {"allow": ["rules"]}}).plugins)


@lru_cache(maxsize=256)
def judge_of(packed: bytes, *, guesses: bool) -> PromptJudge:
    """Return the judge of a prompt, which is read once however many sessions carry it."""
    prompt, tools = json.loads(zlib.decompress(packed))
    return PromptJudge(packed, extract(prompt, tools), guesses=guesses)


class PromptJudge:
    """Holds events against the rules of a prompt. It remembers nothing: the caller keeps the memory of each session."""

    def __init__(self, packed: bytes, found: Extraction, *, guesses: bool) -> None:
        self.packed = packed  # the one copy that all sessions share
        rules = [rule for rule in found.rules if rule.compiled.rules and (guesses or rule.compiled.certain)]
        self._rules = {rule_id: rule.rule for rule in rules for rule_id in rule.judging}
        self._lock = threading.Lock()
        self._store = _OneRow()
        self._counts = Counts()
        self._judge: Any = None
        forms = [form for rule in rules for form in forms_of(rule)]
        if forms:
            policy = parse_policy(json.dumps({"name": "a prompt", "rules": forms}), _registry(), file="the prompt")
            # Repeats are dropped, and calls paired, before events come here.
            limits = Settings().sessions.model_copy(update={"duplicate_window": 2, "max_open_calls": 32})
            self._judge = Judge(policy, limits, store=self._store, counts=self._counts)

    def judge(self, memory: bytes, events: Sequence[Event]) -> tuple[bytes, list[dict[str, Json]], bool]:
        """Return what is to be remembered, what the events break, and whether something could not be judged."""
        if self._judge is None:
            return b"", [], False
        found: list[Finding] = []
        with self._lock:
            self._judge.drop_memory()
            self._store.row = memory or None
            self._counts.sessions = 0
            before = sum(self._counts.unevaluable.values())
            for event in events:
                found += self._judge.feed(_timeless(event)).findings
            self._judge.commit()
            unjudged = sum(self._counts.unevaluable.values()) > before
            memory = self._store.row or b""
        failed = any(finding.kind == "rule_error" for finding in found)
        return memory, list(self._broken(found)), unjudged or failed

    def _broken(self, found: Sequence[Finding]) -> Iterator[dict[str, Json]]:
        for finding in found:
            rule = self._rules.get(finding.rule_id)
            if rule is not None and finding.kind != "rule_error":
                sentence = redact_text(rule.description)[:_MOST_SENTENCE]
                yield {"sentence": sentence, "rule": rule.rule_id, "found": redact_text(finding.detail)}


def _timeless(event: Event) -> Event:
    """Return an event for the rules of a prompt, none of which goes by time.

    It has no id: repeats are dropped before, and the end of a session has the id of its last event.
    """
    plain: Event = replace(event, session_id=_SESSION, event_id="", time=None, labels={}, run_id="")
    return replace(plain, asked=False) if isinstance(plain, ToolCall) else plain


class _OneRow:
    """The store of a table with one session, whose row the caller keeps."""

    is_shared: Final = False

    def __init__(self) -> None:
        self.row: bytes | None = None

    def get(self, session_id: str) -> bytes | None:
        """Return the row."""
        return self.row if session_id == _SESSION else None

    def put(self, session_id: str, blob: bytes, _deadline: float | None) -> None:
        """Keep the row."""
        self.row = blob if session_id == _SESSION else self.row

    def drop(self, session_id: str) -> None:
        """Forget the row."""
        self.row = None if session_id == _SESSION else self.row

    def deadlines(self) -> Iterator[tuple[str, float | None]]:
        """Yield nothing: no clock wakes the session."""
        return iter(())
