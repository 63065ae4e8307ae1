"""From an agent's question to its answer: the gate is told and asked, the dialect says what it decided."""

from __future__ import annotations

import time

from stream_guard.agent_hooks import question as about
from stream_guard.agent_hooks.client import CUT, GateError
from stream_guard.agent_hooks.reasons import MOST, doubts, finding, plain, refusal, unfinished

TYPE_CHECKING = False  # typing would take longer to import than the rest
if TYPE_CHECKING:
    from typing import Any, Protocol

    from stream_guard.agent_hooks.question import AgentDialect, Call, HookAnswer, HookQuestion

    class AskedGate(Protocol):
        """A gate, over HTTP or in the same process."""

        def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
            """Return the answer to a request; GateError when there is none."""

    class HookCounts(Protocol):
        """Counts that outlive one hook."""

        def unjudged(self, session: str) -> int:
            """Count a call that runs without judgement; return how many of its session did before."""

        def held(self, session: str, *, again: bool) -> int:
            """Count that an agent is sent back to work; return how often it was before, ``again`` and again."""


ON_ERROR = ("closed", "ask", "open")
PAUSE_AS = ("review", "ask")
_STOPPING = ("block", "pause", "terminate_session")


class Asking:
    """Answers the questions of one agent.

    ``on_error`` says what a call gets that the gate could not judge; ``pause_as`` whether a pause is a denial that
    names its review, or a prompt of the agent's own. Without ``counts`` nothing is remembered between two questions.
    """

    def __init__(
        self,
        gate: AskedGate,
        dialect: AgentDialect,
        *,
        on_error: str = "closed",
        pause_as: str = "review",
        agent: str = "",
        counts: HookCounts | None = None,
    ) -> None:
        self._gate, self._dialect = gate, dialect
        self._on_error, self._pause_as, self._agent = on_error, pause_as, agent
        self._counts = counts

    def answer(self, asked: HookQuestion) -> HookAnswer:
        """Return what the agent is told."""
        if asked.about == about.CALL:
            return self._call(asked)
        if asked.about == about.PROMPT:
            return self._prompt(asked)
        if asked.about == about.STOP:
            return self._stop(asked)
        if asked.about == about.HAPPENED:
            return self._allow(asked, self._tell(asked, asked.told or {}))
        return self._unknown(asked) if asked.about == about.UNKNOWN else self._allow(asked)

    def _allow(self, asked: HookQuestion, warning: str = "") -> HookAnswer:
        return self._warn(self._dialect.allow(asked), warning)

    def _warn(self, answer: HookAnswer, warning: str) -> HookAnswer:
        return self._dialect.warn(answer, plain(f"stream_guard: {warning}")) if warning else answer

    def _unknown(self, asked: HookQuestion) -> HookAnswer:
        text = f"this version does not know the event {asked.event!r} of {self._dialect.name}"
        text += "; take it out of the hooks, or install a newer stream_guard"
        if asked.call is None or self._on_error == "open":
            return self._allow(asked, text)
        return self._dialect.refuse_unread(plain(f"stream_guard: {text}"))

    def _call(self, asked: HookQuestion) -> HookAnswer:
        call = asked.call
        if call is None:
            raise AssertionError("a question about a call has one")
        if not call.tool:
            return self._unjudged(asked, "the payload names no tool")
        header = self._header(asked)
        ids = {"event_id": call.key} if call.key else {}
        try:
            # A turn that announces the call: rules that count turns, or wait for what the next one does, go by it.
            found, _ = self._send({**header, **_turn("", "tool_use")})
            ruling = self._gate.post("/v1/check", {**header, **_names(call), **ids, "args": call.args})
        except GateError as error:
            return self._unjudged(asked, str(error))
        action = str(ruling.get("action"))
        if action == "allow":
            return self._allow(asked, "; ".join([*found, *doubts(ruling)]))
        text = refusal(ruling)
        if action == "pause" and self._pause_as == "ask":
            return self._dialect.ask(asked, text)
        # The agent runs no tool after this and tells no result, so that the gate would wait for one.
        self._tell(asked, {"kind": "tool_result", "status": "blocked"})
        return self._dialect.deny(asked, text, ends=action == "terminate_session")

    def _unjudged(self, asked: HookQuestion, why: str) -> HookAnswer:
        """Answer for a call that nobody judged, as the settings say."""
        if self._on_error == "open":
            before = self._counts.unjudged(asked.session) if self._counts is not None else 0
            # Said once in a session: a warning at every call is one that nobody reads.
            return self._allow(asked, "" if before else f"this call was allowed without being judged: {why}")
        if self._on_error == "ask":
            return self._dialect.ask(asked, plain(f"stream_guard could not judge this call: {why}"))
        return self._dialect.deny(asked, plain(f"Not run: stream_guard could not judge this call: {why}"))

    def _prompt(self, asked: HookQuestion) -> HookAnswer:
        """Tell the gate what a person wrote; a rule that stops refuses it, where the agent lets itself be stopped."""
        told = {**self._header(asked), "kind": "user_message", "text": asked.text}
        try:
            found, action = self._send(told)
        except GateError as error:
            return self._allow(asked, f"the gate was not told of this prompt: {error}")
        if action not in _STOPPING:
            return self._allow(asked, "; ".join(found))
        text = plain(f"stream_guard: this was not sent to the agent. [{'; '.join(found)}]")
        return self._dialect.refuse_prompt(asked, text, ends=action == "terminate_session")

    def _stop(self, asked: HookQuestion) -> HookAnswer:
        """Let the agent stop when no obligation is open, and else say what is missing."""
        header = self._header(asked)
        try:
            found, action = self._send({**header, **_turn(asked.text, "end_turn")})
            owed = self._gate.post("/v1/obligations", header).get("obligations") or []
        except GateError as error:
            text = f"nobody can say whether an obligation is open: {error}"
            # Once: an agent cannot mend the gate, and must not work for ever because it is out.
            if self._on_error == "closed" and not asked.asked_again:
                return self._dialect.hold(asked, plain(f"stream_guard: {text} Tell the user, then stop."))
            return self._allow(asked, text)
        # A rule that stops and was broken by these last words holds the agent up as an open obligation does.
        missing = [finding(alert) for alert in owed] + (found if action in _STOPPING else [])
        if not missing or self._was_held_enough(asked):
            return self._allow(asked, "; ".join([*found, *missing]) if missing else "; ".join(found))
        held = self._dialect.hold(asked, unfinished(list(dict.fromkeys(missing))))
        return self._warn(held, "; ".join(found) if action not in _STOPPING else "")

    def _was_held_enough(self, asked: HookQuestion) -> bool:
        """Whether the agent was sent back as often as its contract bears; it must not work for ever."""
        before = int(asked.asked_again) if self._dialect.most_holds == 1 else asked.held
        if before is None and self._counts is not None:
            before = self._counts.held(asked.session, again=asked.asked_again)
        return (before or 0) >= self._dialect.most_holds

    def _tell(self, asked: HookQuestion, event: dict[str, Any]) -> str:
        """Tell the gate what happened; return what rules found, or what went wrong, in words for the user."""
        call = _names(asked.call) if asked.call is not None and event.get("kind") == "tool_result" else {}
        try:
            found, _ = self._send({**self._header(asked), **call, **event})
        except GateError as error:
            return f"the gate was not told of this {event.get('kind')}: {error}"
        return "; ".join(found)

    def _send(self, event: dict[str, Any]) -> tuple[list[str], str]:
        """Tell the gate of an event; return what rules found, in words, and what they would do about it."""
        try:
            said = self._gate.post("/v1/events", {"events": [event]})
        except GateError as error:
            if error.status not in (413, CUT) or "output" not in event:
                raise
            # Too large for the gate: that the call ended counts more than what it gave.
            said = self._gate.post("/v1/events", {"events": [{**event, "output": None}]})
        refused = said.get("refused") or []
        if refused:
            raise GateError(f"the gate did not take it: {refused[0].get('reason')}")
        found = [finding(alert) for alert in (said.get("alerts") or [])[:MOST]]
        return found, str(said.get("action") or "allow")

    def _header(self, asked: HookQuestion) -> dict[str, Any]:
        header: dict[str, Any] = {"session_id": asked.session, "time": time.time()}
        if asked.folder:
            header["labels"] = {"cwd": asked.folder}
        if asked.agent:
            header |= {"agent": asked.agent} | ({"agent_path": [self._agent]} if self._agent else {})
        elif self._agent:
            header["agent"] = self._agent
        return header


def _names(call: Call) -> dict[str, Any]:
    return {"tool": call.tool, "call_id": call.id}


def _turn(text: str, stop_reason: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}] if text else []
    return {"kind": "turn", "response": {"content": content, "stop_reason": stop_reason}}
