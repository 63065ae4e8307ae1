"""OpenAI chat transcripts: a list of messages, a request with it, or a request with its response."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import re2

from stream_guard import DecodeError, Event, Json, JsonDecoder, Record
from stream_guard_formats.chat.messages import (
    SESSION_FIELDS,
    find_session,
    is_transcript,
    message_style,
    messages_in,
    open_chat,
)
from stream_guard_formats.conversation import (
    MAX_ID,
    Conversation,
    ResultStatus,
    derived_session,
    identifier,
    label,
    text_block,
    text_of,
    tool_use,
)
from stream_guard_formats.reading import excerpt, object_at, objects_in, text_at

_SILENT: Final = ("system", "developer")
_IDENTIFYING: Final = ("content", "function_call", "role", "tool_call_id", "tool_calls")  # sorted: ids depend on it


class OpenAIChatDecoder(JsonDecoder):
    """Reads chat completions as they are logged. A message that a later record sends again keeps its event id."""

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a conversation. Plain messages look the same in all formats."""
        if isinstance(data, dict):
            has_choices = isinstance(data.get("choices"), list) and "messages" not in data
            if has_choices or data.get("object") == "chat.completion":
                return 0.9
        style = message_style(data)
        return 0.9 if style == "openai" else 0.5 if style == "plain" else 0.0

    def reads_list(self, items: Sequence[Json]) -> bool:
        """Whether the list is one transcript, not a list of them."""
        return is_transcript(items)

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of the transcript in order, or raise DecodeError."""
        if isinstance(data, dict) and isinstance(data.get("choices"), list) and "request" not in data:
            data = {"messages": []} | data  # a completion without its request
        chat, request, messages = open_chat(data, "an OpenAI chat", ("request",))
        response = object_at(chat, "response") or chat
        model = text_at(response, "model") or text_at(request, "model")
        conversation = Conversation(find_session(chat, record.value), labels={"model": label(model)} if model else None)
        for message in messages:
            add_message(conversation, message, strict_keys=self.strict_keys)
        choices = objects_in(response, "choices", "choices")
        for choice in choices[:1]:
            # The user saw one of several choices. The others are kept, but they are no messages.
            others = [object_at(other, "message") for other in choices[1:]]
            extra = {
                "stop_reason": choice.get("finish_reason"),
                "usage": response.get("usage"),
                "choices": others or None,
            }
            answer = object_at(choice, "message") | {"role": "assistant"}
            add_message(conversation, answer, strict_keys=self.strict_keys, extra=extra, **given_request(request))
        return conversation.events


def given_request(request: dict[str, Json]) -> dict[str, Json]:
    """Return what an agent was given with its messages: tools and instructions, as the request of a turn."""
    given = {name: request[name] for name in ("tools", "system", "instructions") if request.get(name)}
    model = text_at(request, "model")
    return {"request": given | ({"model": model} if model else {})} if given else {}


def add_message(
    conversation: Conversation,
    message: dict[str, Json],
    *,
    strict_keys: bool,
    extra: dict[str, Json] | None = None,
    **header: Any,
) -> None:
    """Add the event of one message. Instructions to the model have none."""
    role = message.get("role")
    if role == "user":
        conversation.user(_identity(message), text_of(message.get("content")), **header)
    elif role == "assistant":
        conversation.turn(_identity(message), blocks_of(message, strict_keys=strict_keys), extra=extra, **header)
    elif role in ("tool", "function"):
        output = text_of(message.get("content"))
        conversation.result(
            _identity(message),
            identifier(message.get("tool_call_id")),
            output,
            status=status_of(output),
            tool=text_at(message, "name"),
            **header,
        )
    elif role not in _SILENT:
        raise DecodeError(
            f'a message has the role {excerpt(role)}; an OpenAI chat knows "user", "assistant", "tool" and "system"'
        )


def blocks_of(message: dict[str, Json], *, strict_keys: bool) -> list[Json]:
    """Return the text and the calls of an assistant's message as blocks."""
    content = message.get("content")
    text = content if isinstance(content, str) else text_of(content)
    if not text and "refusal" in message:
        text = text_of(message["refusal"])
    blocks: list[Json] = [text_block(text)] if text else []
    for call in objects_in(message, "tool_calls", "tool calls") if "tool_calls" in message else ():
        function = object_at(call, "function") or object_at(call, "custom")
        arguments = function.get("arguments", function.get("input"))
        blocks.append(tool_use(call.get("id"), function.get("name"), arguments, strict_keys=strict_keys))
    if "function_call" in message and (legacy := object_at(message, "function_call")):
        blocks.append(tool_use("", legacy.get("name"), legacy.get("arguments"), strict_keys=strict_keys))
    return blocks


def status_of(output: str) -> ResultStatus:
    """Return the status of a result. The format has no flag for it: by custom, an error begins with the word."""
    return "error" if output.startswith(("Error", "error:")) else "ok"


def _identity(message: dict[str, Json]) -> Json:
    """Return the fields that identify a message. An answer that is sent again has fewer fields than at first."""
    return {name: value for name in _IDENTIFYING if (value := message.get(name))}


# Chats of several agents, as AG2 and benchmarks about it log them: messages with the names of their speakers.


_PLACES: Final = ("history", "chat_history", "messages")
_MARKS: Final = ("mistake_agent", "mistake_step", "question_ID", "chat_history", "speaker_selection")
_NAMES: Final = ("question_ID", "question_id", "task_id", "id")
_PERSONS: Final = frozenset(("user", "human", "userproxy", "admin"))
_CODE: Final = re2.compile(r"(?s)```([A-Za-z0-9_+-]*)[ \t]*\n(.*?)```")
_RAN: Final = re.compile(r"\s*(?:exitcode:\s*(-?\d{1,9})|The script ran)")
_EXIT_CODE: Final = re.compile(r"exit ?code:?\s*(-?\d{1,9})", re.IGNORECASE)
_SHELLS: Final = frozenset(("sh", "bash", "shell", "zsh", "console", "ps1", "powershell", "pwsh"))
_ASIDE: Final = re.compile(r"\s*\([^)]{0,200}\)\s*\Z")  # "Orchestrator (-> WebSurfer)"


class AgentChatDecoder(JsonDecoder):
    """Reads ``{"history": [...]}``, ``{"chat_history": [...]}`` or a list of messages.

    What another agent answers with ``exitcode: ...`` is the result of the code in the message before it; the code is a
    call of ``bash`` or of ``python``. Thoughts are left out.
    """

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a chat, by its place, its speakers and the code that they run."""
        messages = _messages(data)
        found = [message for message in messages[:8] if isinstance(message, dict)]
        if not found or not all("content" in one and ("role" in one or "name" in one) for one in found):
            return 0.0
        if isinstance(data, dict) and any(mark in data for mark in _MARKS):
            return 0.92
        if any("tool_responses" in one for one in messages if isinstance(one, dict)):
            return 0.95
        if isinstance(data, dict) and "messages" not in data:
            return 0.85
        named = [one for one in found if isinstance(one.get("name"), str) and one.get("role") in ("user", "assistant")]
        return 0.6 if len(named) == len(found) else 0.0

    def reads_list(self, items: Sequence[Json]) -> bool:
        """Whether the list is one chat, not a list of them."""
        return not any(isinstance(item, dict) and any(place in item for place in _PLACES) for item in items[:1])

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of the chat in order, and its end, or raise DecodeError."""
        chat = data if isinstance(data, dict) else {"messages": data}
        place = next((name for name in _PLACES if isinstance(chat.get(name), list)), "messages")
        messages = messages_in(chat.get(place), place)
        name = text_at(chat, *_NAMES)
        session_id = text_at(chat, *SESSION_FIELDS)[:MAX_ID] or derived_session(record.value, name)
        conversation = Conversation(session_id, labels={"scenario": label(name)} if name else None)
        writer = _ChatWriter(conversation, strict_keys=self.strict_keys)
        for number, message in enumerate(messages):
            follower = messages[number + 1] if number + 1 < len(messages) else {}
            writer.add(number, message, _ran(text_of(follower.get("content"))))
        if conversation.events:
            conversation.end()
        return conversation.events


class _ChatWriter:
    """Adds the messages of one chat."""

    def __init__(self, conversation: Conversation, *, strict_keys: bool) -> None:
        self._conversation = conversation
        self._strict_keys = strict_keys
        self._open: list[str] = []  # calls without an id of their own

    def add(self, number: int, message: dict[str, Json], is_run: bool) -> None:
        """Add a message; ``is_run``: the next one says what came of its code."""
        text, role = text_of(message.get("content")), text_at(message, "role")
        speaker = text_at(message, "name") or role
        answers = objects_in(message, "tool_responses", "responses")
        if answers or role in ("tool", "function"):
            for place, answer in enumerate(answers or [message]):
                self._result([number, place], answer, text_of(answer.get("content")))
        elif _ran(text):
            self._ran(number, text)
        elif message.get("tool_calls") or message.get("function_call"):
            self._turn(number, speaker, blocks_of(message, strict_keys=self._strict_keys))
        elif number == 0 or _plain(speaker) in _PERSONS:
            if text:
                self._conversation.user([number, text], text)
        elif role != "system" and not speaker.endswith("(thought)"):
            said: list[Json] = [text_block(text)] if text else []
            self._turn(number, speaker, said + ([_code_call(text, self._strict_keys)] if is_run else []))

    def _turn(self, number: int, speaker: str, blocks: list[Json]) -> None:
        for place, block in enumerate(blocks):
            if block["type"] == "tool_use" and not block["id"]:
                block["id"] = f"{number}.{place}"
                self._open.append(block["id"])
        agent = _ASIDE.sub("", speaker)[:200]
        header: dict[str, Any] = {} if agent == "assistant" else {"agent": agent}
        self._conversation.turn([number, speaker, blocks], blocks, **header)

    def _ran(self, number: int, text: str) -> None:
        if not self._open:  # code that stands further up
            self._turn(number, "assistant", [_code_call("", self._strict_keys)])
        found = _EXIT_CODE.search(text[:2000])
        failed = found is not None and int(found[1]) != 0
        self._conversation.result([number, text], self._open.pop(), text, status="error" if failed else "ok")

    def _result(self, identity: Json, answer: dict[str, Json], text: str) -> None:
        call_id = identifier(answer.get("tool_call_id"))
        if not call_id and self._open:
            call_id = self._open.pop(0)
        self._conversation.result(identity, call_id, text, status=status_of(text), tool=text_at(answer, "name"))


def _messages(data: Json) -> list[Json]:
    if isinstance(data, list):
        return data
    found = (data.get(place) for place in _PLACES) if isinstance(data, dict) else ()
    return next((place for place in found if isinstance(place, list)), [])


def _plain(speaker: str) -> str:
    return "".join(sign for sign in speaker.casefold() if sign.isalnum())


def _ran(text: str) -> bool:
    return _RAN.match(text) is not None


def _code_call(text: str, strict_keys: bool) -> dict[str, Json]:
    """Return the call that runs the code of a message."""
    found = [(match.group(1).lower(), match.group(2).strip()) for match in _CODE.finditer(text)]
    code = "\n".join(part for _, part in found)
    if found and found[0][0] in _SHELLS:
        return tool_use("", "bash", {"command": code}, strict_keys=strict_keys)
    return tool_use("", "python", {"code": code}, strict_keys=strict_keys)
