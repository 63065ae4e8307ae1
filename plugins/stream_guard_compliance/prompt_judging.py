"""The rules of one prompt over one session, as a step: what they remembered and an event in, what they found out."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
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
    Settings,
    ToolCall,
    build_registry,
    parse_policy,
    redact_text,
)
from stream_guard_compliance.extraction import Extraction, extract, forms_of
from stream_guard_compliance.reading.catalogue import ToolDeclaration, declarations

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
