"""From an agent's question to its answer: the gate is told and asked, the dialect says what it decided.

A hook's process comes here where the gate does not read the payload itself: it reads it, and asks the gate in parts or
goes without one.
"""

from __future__ import annotations

import os
import time
from json import dumps, loads

from stream_guard.agent_hooks import question as about
from stream_guard.agent_hooks.client import CUT, GateError
from stream_guard.agent_hooks.dialects import dialect_of, speaker
from stream_guard.agent_hooks.question import HookQuestion, UnreadableError, folder_of

TYPE_CHECKING = False  # typing would take longer to import than the rest
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    from stream_guard.agent_hooks.client import GateClient
    from stream_guard.agent_hooks.question import AgentDialect, HookAnswer, Said

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


STOPPING = ("block", "pause", "terminate_session")  # what rules do about an event that has happened


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
        if action not in STOPPING:
            return self._allow(asked, "; ".join(found))
        text = plain(f"stream_guard: this was not sent to the agent. [{'; '.join(found)}]")
        return self._dialect.refuse_prompt(asked, text, ends=action == "terminate_session")

    def _stop(self, asked: HookQuestion) -> HookAnswer:
        """Let the agent stop when no obligation is open, and else say what is missing."""
        header = self._header(asked)
        found, action = self._send({**header, **_turn(asked.text, "end_turn")})
        owed = self._gate.post("/v1/obligations", header).get("obligations") or []
        # A rule that stops and was broken by these last words holds the agent up as an open obligation does.
        missing = [finding(alert) for alert in owed] + (found if action in STOPPING else [])
        if not missing or self._was_held_enough(asked):
            return self._allow(asked, "; ".join([*found, *missing]) if missing else "; ".join(found))
        held = self._dialect.hold(asked, unfinished(list(dict.fromkeys(missing))))
        return self._warn(held, "; ".join(found) if action not in STOPPING else "")

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
            alerts, action = tell(self._gate, event)
        except GateError as error:
            if error.status not in (413, CUT) or "output" not in event:
                raise
            # Too large for the gate: that the call ended counts more than what it gave.
            alerts, action = tell(self._gate, {**event, "output": None})
        return [finding(alert) for alert in alerts[:MOST]], action

    def _header(self, asked: HookQuestion) -> dict[str, Any]:
        header: dict[str, Any] = {"session_id": asked.session, "time": time.time()}
        if asked.folder:
            header["labels"] = {"cwd": asked.folder}
        if asked.agent:
            header |= {"agent": asked.agent} | ({"agent_path": [self._agent]} if self._agent else {})
        elif self._agent:
            header["agent"] = self._agent
        return header


def tell(gate: AskedGate, event: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """Tell a gate of an event; return what rules found, and what they would do about it.

    GateError where the gate does not take it.
    """
    said = gate.post("/v1/events", {"events": [event]})
    refused = said.get("refused") or []
    if refused:
        raise GateError(f"the gate did not take it: {refused[0].get('reason')}")
    return said.get("alerts") or [], str(said.get("action") or "allow")


def _turn(text: str, stop_reason: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}] if text else []
    return {"kind": "turn", "response": {"content": content, "stop_reason": stop_reason}}


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


MOST = 20  # of obligations, findings: more would bury the first ones


def refusal(ruling: dict[str, Any]) -> str:
    """Return what the model is told: what became of the call, why, and which rule says so."""
    action, reason = ruling.get("action"), str(ruling.get("reason") or "")
    review = ruling.get("review")
    if action == "pause":
        name = f" {review['id']}" if isinstance(review, dict) else ""
        began = f"Not run: a person has to approve this first (review{name})."
    else:
        began = f"Not run: {'the session is over' if action == 'terminate_session' else 'this is not allowed'}."
    found = [finding(alert) for alert in (ruling.get("alerts") or [])[:MOST]]
    listed = f"[{'; '.join(found)}]" if found else ""
    # What was found stands in the list; a reason without words of the policy's own has the way already.
    way = str(ruling.get("advice") or "").partition("to pass: ")[2] if "to pass: " not in reason else ""
    return " ".join(plain(part) for part in (began, reason, listed, f"To pass: {way}." if way else "") if part)


def doubts(ruling: dict[str, Any]) -> list[str]:
    """Return why an allowed call was not judged, or not by all rules; nothing where no rule was to be asked."""
    if ruling.get("judged"):
        return []
    rules = (ruling.get("rules") or {}).get("unevaluable") or []
    if rules:
        return [f"this call was allowed although rules could not judge it: {', '.join(map(str, rules[:MOST]))}"]
    reason = ruling.get("reason")
    return [f"this call was allowed, {reason}"] if reason else []


def modified(ruling: dict[str, Any]) -> list[str]:
    """Return which rules changed the arguments of a call that runs."""
    return [f"the arguments of this call were changed by {', '.join(map(str, ruling.get('modified_by') or []))}"]


def unfinished(missing: list[str]) -> str:
    """Return what is left to do before the agent may stop."""
    lines = [f"- {one}" for one in missing[:MOST]]
    more = [f"- and {len(missing) - MOST} more"] if len(missing) > MOST else []
    return "\n".join(["stream_guard: not finished yet.", *lines, *more])


def finding(alert: Any) -> str:
    """Return one finding in a line: the rule, its own reason, and what it found."""
    said = [str(alert.get(name) or "") for name in ("reason", "detail")]
    return plain(f"{alert.get('rule_id')}: {' '.join(dict.fromkeys(filter(None, said)))}")


def answer_in_parts(client: GateClient, options: Mapping[str, str], said: bytes) -> Said:
    """Return what the agent is told after the gate was told and asked, event by event."""
    from stream_guard.agent_hooks.session_counts import DiskCounts  # noqa: PLC0415

    dialect, asked = _read(options, said)
    how = {name: options[name] for name in ("on_error", "pause_as", "agent")}
    return spoken(Asking(client, dialect, **how, counts=DiskCounts()).answer(asked))


def answer_gateless(options: Mapping[str, str], said: bytes, error: GateError) -> Said:
    """Return what the agent is told when the gate cannot be asked."""
    dialect, asked = _read(options, said)
    counts = None
    if options["on_error"] == "open":
        from stream_guard.agent_hooks.session_counts import DiskCounts  # noqa: PLC0415

        counts = DiskCounts()
    return spoken(Gateless(dialect, options["on_error"], counts).answer(asked, str(error)))


def fail(options: Mapping[str, str], error: Exception) -> Said:
    """Return a refusal, or a warning where open: something failed, and nobody knows what hangs on it."""
    dialect, text = dialect_of(options["program"]), f"stream_guard: the hook failed: {error}"
    if options["on_error"] == "open":
        return spoken(dialect.warn(dialect.allow(HookQuestion("", about.NOTHING, "")), text))
    return spoken(dialect.refuse_unread(text))


def spoken(answer: HookAnswer) -> Said:
    """Return an answer as a process gives it."""
    return dumps(answer.said) if answer.said is not None else "", answer.stderr, answer.code


def _read(options: Mapping[str, str], said: bytes) -> tuple[AgentDialect, HookQuestion]:
    data = _payload(said, options["program"])
    return question_of(data, options["program"], options["event"], os.getppid() or 1)


def question_of(data: dict[str, Any], agent: str, event: str, process: int) -> tuple[AgentDialect, HookQuestion]:
    """Return who asks, and what; without a session it is the folder and the process that asks."""
    dialect = dialect_of(speaker(data, agent))
    asked = dialect.read(data, event)
    asked.folder = folder_of(data)
    if not asked.session and dialect.may_lack_session:
        asked.session = f"{dialect.name}:{process}:{asked.folder}" if process else f"{dialect.name}:{asked.folder}"
    return dialect, asked


def _payload(said: bytes, agent: str) -> dict[str, Any]:
    """Return the object of a payload; some agents begin it with a byte order mark."""
    try:
        data = loads(said.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"standard input is not the JSON that {agent} sends: {error}") from None
    if not isinstance(data, dict):
        raise UnreadableError(f"standard input is not the object that {agent} sends")
    return data
