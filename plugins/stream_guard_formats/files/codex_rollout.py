"""Codex's rollout files: a line for each item of the model's answers, and for each event of the program."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy
from typing import Any, Final, Self

import msgspec

from stream_guard import Event, Json, JsonDecoder, Memory, Record
from stream_guard_formats.chat.openai_responses import call_of, read_output, result_of, text_in
from stream_guard_formats.conversation import Conversation, ResultStatus, derived_session, label, text_block
from stream_guard_formats.reading import SkippedLines, as_object, digest, has_fields, object_at, seconds, text_at

_LINES: Final = ("session_meta", "turn_context", "response_item", "event_msg", "compacted")
_FILE_ID: Final = re.compile(r"rollout-.{0,40}?([0-9a-f]{8}-[0-9a-f-]{27})\.jsonl")
# How messages begin that the program writes in the user's role.
_NOT_A_PERSON: Final = (
    *("<environment_context>", "<user_instructions>", "<permissions", "<turn_aborted>", "<skill>", "<subagent_"),
    *("# AGENTS.md instructions", "<user_shell_command>", "<INSTRUCTIONS>", "<collaboration_mode>", "<model_switch>"),
)
_REMEMBERED: Final = 256
_MOST_FILES: Final = 4096  # that are read at the same time
_PATIENCE: Final = 60.0  # seconds without a record after which an answer is taken to be complete
_TOKENS: Final = "total_token_usage"


class Rollout(msgspec.Struct, omit_defaults=True):
    """The progress in one file: whose it is, and the answer that is not complete yet."""

    session_id: str = ""
    run_id: str = ""
    agent: str = ""
    agent_path: tuple[str, ...] = ()
    forked_from: str = ""
    model: str = ""
    answer: list[Json] = []  # blocks of the answer that is not complete
    began: float | None = None
    answered: bool = False  # the last event was an answer
    results: list[tuple[str, Json, ResultStatus, float | None]] = []  # of calls in the answer that is not complete
    lines: int = 0
    total: Json = None  # tokens of all answers, by the last count
    twins: dict[str, int] = {}  # texts that one sort of line had; a line of the other sort repeats them
    failed: list[str] = []  # calls that an event said had failed
    calls: list[str] = []
    ids: dict[str, int] = {}
    # Where records stood, if they have lines: the last one, that of the answer that is not complete, those of results.
    origin: str = ""
    line: int = 0
    answer_line: int = 0
    result_lines: dict[str, int] = {}  # by call


class _RolloutConversation(Conversation):
    """Events of a rollout, and the lines of those that waited."""

    def __init__(self, rollout: Rollout) -> None:
        super().__init__(rollout.session_id, labels={"model": label(rollout.model)} if rollout.model else None)
        self.count_ids(rollout.ids)
        self.origin = rollout.origin
        self.waited: list[tuple[Event, int]] = []

    def note_line(self, line: int) -> None:
        """Note where the record of the last event stood."""
        if line:
            self.waited.append((self.events[-1], line))


_decode: Final = msgspec.msgpack.Decoder(Rollout).decode


class CodexRolloutDecoder(JsonDecoder):
    """Reads ``{"timestamp", "type", "payload"}``, of one session in each file or under each key of a topic.

    An answer of the model comes in several lines, its tokens in the last. With a memory the answer waits for them, and
    for calls beside the first, until something else happens. Texts that the program repeats are not counted again.
    """

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a line of a rollout."""
        if not has_fields(data, "payload") or data.get("type") not in _LINES:
            return 0.0
        return 1.0 if "timestamp" in data else 0.8

    @property
    def waits(self) -> bool:
        """Whether it may hold events back: a call may wait for its answer."""
        return True

    def __init__(self, *, strict_keys: bool = True) -> None:
        super().__init__(strict_keys=strict_keys)
        self._rollouts: dict[str, Rollout] = {}
        self._memory: Memory | None = None
        self.skipped = SkippedLines()

    def remember(self, memory: Memory) -> Self:
        """Return a copy that lets answers wait, and keeps them in ``memory``."""
        holding = copy(self)
        holding._memory = memory  # noqa: SLF001  # of its own class
        holding._rollouts = {  # noqa: SLF001
            name: _decode(blob) for name in memory.rows() if (blob := memory.get(name)) is not None
        }
        return holding

    def elapse(self, seconds: float) -> Sequence[Event]:
        """Return the answers that wait, after a minute without a record."""
        return self.finish() if seconds >= _PATIENCE else []

    def finish(self) -> Sequence[Event]:
        """Return the answers that wait. No further record will come."""
        events: list[Event] = []
        for name, rollout in self._rollouts.items():
            conversation = _conversation(rollout)
            _end_answer(conversation, rollout)
            events += self._collect_events(conversation)
            self._keep(name, rollout)
        self.skipped.log()
        return events

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of the line. Lines about the program itself have none."""
        line = as_object(data, "a line of a rollout")
        name = digest(record.key or record.origin.encode("utf-8", "surrogatepass"))
        rollout = self._rollouts.setdefault(name, Rollout())
        if not rollout.session_id:
            written = _FILE_ID.search(record.origin)
            rollout.session_id = written[1] if written else derived_session(record.origin.encode("utf-8", "replace"))
        rollout.lines += 1
        if record.line:
            rollout.origin, rollout.line = record.origin, record.line
        conversation = _conversation(rollout)
        payload = object_at(line, "payload") or line  # early versions wrote items without an envelope
        time = seconds(line.get("timestamp"))
        kind = text_at(line, "type") if "payload" in line else "response_item"
        if kind == "session_meta" or ("id" in payload and "type" not in payload):
            _end_answer(conversation, rollout)
            self._rollouts[name] = rollout = _begin(rollout, payload)
        elif kind == "turn_context":
            rollout.model = text_at(payload, "model") or rollout.model
        elif kind == "response_item":
            self._item(conversation, rollout, payload, time)
        elif kind == "event_msg":
            _add_program_event(conversation, rollout, payload, time)
        elif kind not in _LINES:
            self.skipped.add(record, kind)
        if self._memory is None:
            _end_answer(conversation, rollout)
        try:
            self._keep(name, rollout)
        except OverflowError:  # an answer with a number that no row can hold does not wait
            _end_answer(conversation, rollout)
            self._keep(name, rollout)
        return [*self._forget_oldest(), *self._collect_events(conversation)]

    def _forget_oldest(self) -> Sequence[Event]:
        """Forget the oldest of too many files, and return the answer that waits in it."""
        if len(self._rollouts) <= _MOST_FILES:
            return []
        name = next(iter(self._rollouts))
        rollout = self._rollouts.pop(name)
        if self._memory is not None:
            self._memory.drop(name)
        conversation = _conversation(rollout)
        _end_answer(conversation, rollout)
        return self._collect_events(conversation)

    def _collect_events(self, conversation: _RolloutConversation) -> list[Event]:
        """Return the events, and note where the records of those that waited stood."""
        if self._memory is not None:
            for event, line in conversation.waited:
                self._memory.note_origin(event, conversation.origin, line)
        return conversation.events

    def _keep(self, name: str, rollout: Rollout) -> None:
        if self._memory is not None:
            self._memory.put(name, msgspec.msgpack.encode(rollout), rollout.began or 0.0)

    def _item(
        self, conversation: _RolloutConversation, rollout: Rollout, item: dict[str, Json], time: float | None
    ) -> None:
        header = _header(rollout, time)
        role = item.get("role")
        call, result = call_of(item, strict_keys=self.strict_keys), result_of(item)
        if call is not None:
            if not call["id"]:
                call["id"] = f"line-{rollout.lines}"
            rollout.calls = [*rollout.calls[1 - _REMEMBERED :], call["id"]]
            if self._memory is None and rollout.answered:
                conversation.call(["c", call["id"]], call, **header)  # of the answer that could not wait for it
            else:
                _add_block(conversation, rollout, call, time)
        elif item.get("type") == "message" and role == "assistant":
            _add_agent_text(conversation, rollout, text_in(item), time, "item")
        elif item.get("type") == "message" and role == "user":
            _add_user_text(conversation, rollout, text_in(item), header, "item")
        if result is not None and result.call_id:
            rollout.answered = False
            failed = result.status == "ok" and result.call_id in rollout.failed
            if rollout.line:
                rollout.result_lines[result.call_id] = rollout.line
            rollout.results.append((result.call_id, result.output, "error" if failed else result.status, time))
            if not rollout.answer:
                _end_answer(conversation, rollout)  # else the tokens of the answer may still come


def _begin(rollout: Rollout, meta: dict[str, Json]) -> Rollout:
    """Return the progress behind a line that says whose the file is. A fork copies such a line of its source."""
    session_id = text_at(meta, "id")[:512]
    if not session_id or session_id in {rollout.session_id, rollout.run_id, rollout.forked_from}:
        return rollout
    begun = Rollout(session_id=session_id, forked_from=text_at(meta, "forked_from_id"))
    spawned = object_at(object_at(object_at(meta, "source"), "subagent"), "thread_spawn")
    if parent := text_at(spawned, "parent_thread_id")[:512]:
        begun.session_id, begun.run_id = parent, session_id
        begun.agent = text_at(spawned, "agent_nickname", "agent_role")[:200] or "sub-agent"
        begun.agent_path = ("codex",)
    return begun


def _conversation(rollout: Rollout) -> _RolloutConversation:
    conversation = _RolloutConversation(rollout)
    while len(rollout.ids) > _REMEMBERED:
        del rollout.ids[next(iter(rollout.ids))]
    return conversation


def _header(rollout: Rollout, time: float | None) -> dict[str, Any]:
    header: dict[str, Any] = {"time": time}
    if rollout.run_id:
        header |= {"run_id": rollout.run_id, "agent": rollout.agent, "agent_path": rollout.agent_path}
    return header


def _add_block(
    conversation: _RolloutConversation, rollout: Rollout, block: dict[str, Json], time: float | None
) -> None:
    if rollout.results:
        _end_answer(conversation, rollout)
    if not rollout.answer:
        rollout.began, rollout.answer_line = time, rollout.line
    rollout.answer.append(block)


def _end_answer(conversation: _RolloutConversation, rollout: Rollout, usage: Json = None) -> None:
    """Add the turn of the answer that waits, if one does, and the results of its calls."""
    content, rollout.answer = rollout.answer, []
    if content:
        _add_turn(conversation, rollout, content, usage)
        conversation.note_line(rollout.answer_line)
    results, rollout.results = rollout.results, []
    for call_id, output, status, time in results:
        conversation.result(["r", call_id], call_id, output, status=status, **_header(rollout, time))
        conversation.note_line(rollout.result_lines.pop(call_id, 0))
        rollout.answered = False


def _add_turn(conversation: Conversation, rollout: Rollout, content: list[Json], usage: Json) -> None:
    calls = any(block["type"] == "tool_use" for block in content)
    identity = [[block.get("text"), block.get("id"), block.get("name")] for block in content]
    extra = {"stop_reason": "tool_use" if calls else "end_turn", "usage": usage}
    conversation.turn([rollout.began, identity], content, extra=extra, **_header(rollout, rollout.began))
    rollout.answered = True


def _add_agent_text(
    conversation: _RolloutConversation, rollout: Rollout, text: str, time: float | None, sort: str
) -> None:
    if not text or _is_repeated(rollout, "agent", text, sort):
        return
    if any(block["type"] == "text" for block in rollout.answer):
        _end_answer(conversation, rollout)  # one answer says one thing; another text is another answer
    _add_block(conversation, rollout, text_block(text), time)


def _add_user_text(
    conversation: _RolloutConversation, rollout: Rollout, text: str, header: dict[str, Any], sort: str
) -> None:
    if not text or text.startswith(_NOT_A_PERSON) or _is_repeated(rollout, "user", text, sort):
        return
    _end_answer(conversation, rollout)
    rollout.answered = False
    if not rollout.run_id:  # a sub-agent's parent writes in the user's role
        conversation.user(["u", header["time"], text], text, **header)


def _is_repeated(rollout: Rollout, who: str, text: str, sort: str) -> bool:
    """Whether the other sort of line, item or event, had the text before. Each sort has every text once."""
    mine, other = (f"{one}:{who}:{digest(text.encode('utf-8', 'surrogatepass'))}" for one in _own_and_other(sort))
    if rollout.twins.get(other):
        rollout.twins[other] -= 1
        return True
    rollout.twins[mine] = rollout.twins.pop(mine, 0) + 1
    while len(rollout.twins) > _REMEMBERED:
        del rollout.twins[next(iter(rollout.twins))]
    return False


def _own_and_other(sort: str) -> tuple[str, str]:
    return (sort, "event" if sort == "item" else "item")


def _add_program_event(
    conversation: _RolloutConversation, rollout: Rollout, reported: dict[str, Json], time: float | None
) -> None:
    """Add what an event of the program reports: texts and calls that no item has, failures, and tokens."""
    kind, header = text_at(reported, "type"), _header(rollout, time)
    call_id = text_at(reported, "call_id")[:512]
    if kind == "user_message":
        _add_user_text(conversation, rollout, text_at(reported, "message"), header, "event")
    elif kind == "agent_message":
        _add_agent_text(conversation, rollout, text_at(reported, "message"), time, "event")
    elif kind == "token_count":
        _count_tokens(conversation, rollout, object_at(reported, "info"))
    elif kind == "error":
        _end_answer(conversation, rollout)
        why = text_at(reported, "message")[:1000] or "the model failed"
        conversation.turn(["e", time, why], [], extra={"stop_reason": "error", "error": why}, **header)
    elif kind.endswith("_end") and call_id:
        if reported.get("success") is False or reported.get("exit_code") not in (None, 0):
            rollout.failed = [*rollout.failed[1 - _REMEMBERED :], call_id]
        if kind == "mcp_tool_call_end" and call_id not in rollout.calls:
            _add_unseen_call(conversation, rollout, reported, header)


def _count_tokens(conversation: _RolloutConversation, rollout: Rollout, info: dict[str, Json]) -> None:
    """Give the answer that waits its tokens. The same count comes again when other numbers change."""
    if not info:
        return  # the event is about limits only
    total = info.get(_TOKENS)
    again = total is not None and total == rollout.total
    rollout.total = total
    _end_answer(conversation, rollout, None if again else info.get("last_token_usage"))


def _add_unseen_call(
    conversation: _RolloutConversation, rollout: Rollout, reported: dict[str, Json], header: dict[str, Any]
) -> None:
    """Add a call to an MCP server that no item announced, and its result."""
    asked, call_id = object_at(reported, "invocation"), text_at(reported, "call_id")[:512]
    if not text_at(asked, "tool"):
        return
    _end_answer(conversation, rollout)
    args = asked.get("arguments")
    block: dict[str, Json] = {"id": call_id, "name": text_at(asked, "tool"), "input": {} if args is None else args}
    conversation.call(["c", call_id], block, **header)
    answer = object_at(reported, "result")
    output, status = read_output(answer.get("Ok", answer.get("Err")), failed="Err" in answer)
    conversation.result(["r", call_id], call_id, output, status=status, **header)
