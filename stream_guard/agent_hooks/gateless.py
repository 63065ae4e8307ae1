"""What an agent is told when no gate gave an answer."""

from __future__ import annotations

from stream_guard.agent_hooks import question as about

TYPE_CHECKING = False  # typing would take longer to import than the rest
if TYPE_CHECKING:
    from typing import Protocol

    from stream_guard.agent_hooks.question import AgentDialect, HookAnswer, HookQuestion

    class HookCounts(Protocol):
        """Counts that outlive one hook."""

        def unjudged(self, session: str) -> int:
            """Count a call that runs without judgement; return how many of its session did before."""

        def held(self, session: str, *, again: bool) -> int:
            """Count that an agent is sent back to work; return how often it was before, ``again`` and again."""


class Gateless:
    """Answers for a gate that could not: ``on_error`` says what a call gets that nobody judged."""

    def __init__(self, dialect: AgentDialect, on_error: str = "closed", counts: HookCounts | None = None) -> None:
        self._dialect, self._on_error, self._counts = dialect, on_error, counts

    def answer(self, asked: HookQuestion, why: str) -> HookAnswer:
        """Return what the agent is told; ``why`` says what became of the gate."""
        if asked.about == about.CALL:
            return self._unjudged(asked, why)
        if asked.about == about.STOP:
            return self._stop(asked, f"nobody can say whether an obligation is open: {why}")
        if asked.about == about.UNKNOWN:
            return self._unknown(asked)
        if asked.about == about.NOTHING:
            return self._dialect.allow(asked)
        told = (asked.told or {}).get("kind", "prompt")
        return self._warned(asked, f"the gate was not told of this {told}: {why}")

    def _unjudged(self, asked: HookQuestion, why: str) -> HookAnswer:
        """Answer for a call that nobody judged, as the settings say."""
        if self._on_error == "open":
            before = self._counts.unjudged(asked.session) if self._counts is not None else 0
            if before:  # said once in a session: a warning at every call is one that nobody reads
                return self._dialect.allow(asked)
            return self._warned(asked, f"this call was allowed without being judged: {why}")
        if self._on_error == "ask":
            return self._dialect.ask(asked, plain(f"stream_guard could not judge this call: {why}"))
        return self._dialect.deny(asked, plain(f"Not run: stream_guard could not judge this call: {why}"))

    def _unknown(self, asked: HookQuestion) -> HookAnswer:
        """Answer an event that this version does not know: a call may hang on it."""
        text = f"this version does not know the event {asked.event!r} of {self._dialect.name}"
        text += "; take it out of the hooks, or install a newer stream_guard"
        if asked.call is None or self._on_error == "open":
            return self._warned(asked, text)
        return self._dialect.refuse_unread(plain(f"stream_guard: {text}"))

    def _stop(self, asked: HookQuestion, text: str) -> HookAnswer:
        # Once: an agent cannot mend the gate, and must not work for ever because it is out.
        if self._on_error == "closed" and not asked.asked_again:
            return self._dialect.hold(asked, plain(f"stream_guard: {text} Tell the user, then stop."))
        return self._warned(asked, text)

    def _warned(self, asked: HookQuestion, text: str) -> HookAnswer:
        return self._dialect.warn(self._dialect.allow(asked), plain(f"stream_guard: {text}"))


def plain(text: str) -> str:
    """Return the text without control characters: it ends up in a terminal, and agents wrote parts of it."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
