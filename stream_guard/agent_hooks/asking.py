"""From an agent's question to its answer: the gate is told and asked, the dialect says what it decided."""

from __future__ import annotations

import time

from stream_guard.agent_hooks import question as about
from stream_guard.agent_hooks.client import CUT, GateError
from stream_guard.agent_hooks.gateless import Gateless, plain
from stream_guard.agent_hooks.reasons import MOST, doubts, finding, modified, refusal, unfinished

TYPE_CHECKING = False  # typing would take longer to import than the rest
if TYPE_CHECKING:
    from typing import Any, Protocol

    from stream_guard.agent_hooks.gateless import HookCounts
    from stream_guard.agent_hooks.question import AgentDialect, HookAnswer, HookQuestion

    class AskedGate(Protocol):
        """A gate, over HTTP or in the same process."""

        def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
            """Return the answer to a request; GateError when there is none."""


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
        self._pause_as, self._agent, self._counts = pause_as, agent, counts
        self._gateless = Gateless(dialect, on_error, counts)

    def answer(self, asked: HookQuestion) -> HookAnswer:
        """Return what the agent is told."""
        try:
            return self.judge(asked)
        except GateError as error:
            return self._gateless.answer(asked, str(error))

    def judge(self, asked: HookQuestion) -> HookAnswer:
        """Return what the agent is told; GateError where the gate does not say it."""
        if asked.about == about.CALL:
            return self._call(asked)
        if asked.about == about.PROMPT:
            return self._prompt(asked)
        if asked.about == about.STOP:
            return self._stop(asked)
        if asked.about == about.HAPPENED:
            return self._allow(asked, "; ".join(self._tell(asked, asked.told or {})))
        if asked.about == about.UNKNOWN:
            raise GateError("nobody knows what to ask the gate")
        return self._allow(asked)

    def _allow(self, asked: HookQuestion, warning: str = "") -> HookAnswer:
        return self._warn(self._dialect.allow(asked), warning)

    def _warn(self, answer: HookAnswer, warning: str) -> HookAnswer:
        return self._dialect.warn(answer, plain(f"stream_guard: {warning}")) if warning else answer

    def _call(self, asked: HookQuestion) -> HookAnswer:
        call = asked.call
        if call is None:
            raise AssertionError("a question about a call has one")
        if not call.tool:
            raise GateError("the payload names no tool")
        header = self._header(asked)
        ids: dict[str, Any] = {"event_id": call.key} if call.key else {}
        if self._dialect.may_modify(asked):
            ids["may_modify"] = True
        names = {"tool": call.tool, "call_id": call.id}
        # A turn that announces the call: rules that count turns, or wait for what the next one does, go by it.
        found, _ = self._send({**header, **_turn("", "tool_use")})
        ruling = self._gate.post("/v1/check", {**header, **names, **ids, "args": call.args})
        action = str(ruling.get("action"))
        if action == "allow":
            return self._allow(asked, "; ".join([*found, *doubts(ruling)]))
        if action == "modify":
            return self._warn(self._dialect.modify(asked, ruling["args"]), "; ".join([*found, *modified(ruling)]))
        text = refusal(ruling)
        if action == "pause" and self._pause_as == "ask":
            return self._dialect.ask(asked, text)
        try:  # noqa: SIM105  (contextlib is one more import)
            # The agent runs no tool after this and tells no result, so that the gate would wait for one.
            self._tell(asked, {"kind": "tool_result", "status": "blocked"})
        except GateError:
            pass  # the call is denied all the same
        return self._dialect.deny(asked, text, ends=action == "terminate_session")

    def _prompt(self, asked: HookQuestion) -> HookAnswer:
        """Tell the gate what a person wrote; a rule that stops refuses it, where the agent lets itself be stopped."""
        found, action = self._send({**self._header(asked), "kind": "user_message", "text": asked.text})
        if action not in _STOPPING:
            return self._allow(asked, "; ".join(found))
        text = plain(f"stream_guard: this was not sent to the agent. [{'; '.join(found)}]")
        return self._dialect.refuse_prompt(asked, text, ends=action == "terminate_session")

    def _stop(self, asked: HookQuestion) -> HookAnswer:
        """Let the agent stop when no obligation is open, and else say what is missing."""
        header = self._header(asked)
        found, action = self._send({**header, **_turn(asked.text, "end_turn")})
        owed = self._gate.post("/v1/obligations", header).get("obligations") or []
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

    def _tell(self, asked: HookQuestion, event: dict[str, Any]) -> list[str]:
        """Tell the gate what happened; return what rules found, in words for the user."""
        call = asked.call if event.get("kind") == "tool_result" else None
        names = {"tool": call.tool, "call_id": call.id} if call is not None else {}
        return self._send({**self._header(asked), **names, **event})[0]

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


def _turn(text: str, stop_reason: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}] if text else []
    return {"kind": "turn", "response": {"content": content, "stop_reason": stop_reason}}
