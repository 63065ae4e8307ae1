"""Transcripts of agents that write tool calls into their texts. Patterns find the calls and the results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Self

import msgspec
import re2

from stream_guard import DecodeError, Event, Json, JsonDecoder, Record, TextProtocol, parse_json
from stream_guard_formats.chat.messages import find_session, is_transcript, open_chat
from stream_guard_formats.conversation import Conversation, ResultStatus, text_block, text_of, tool_use
from stream_guard_formats.reading import excerpt, text_at

# An agent's text may be anything; more calls than this in one message are not read.
_CALLS: Final = 100


class _WrittenCall(NamedTuple):
    """A tool call that was found in a text."""

    name: str
    args: Json


class TextProtocolDecoder(JsonDecoder):
    """Reads messages of a chat. The calls are in the model's texts, the results in the messages after them."""

    def __init__(self, *, strict_keys: bool = True, protocol: TextProtocol | None = None) -> None:
        super().__init__(strict_keys=strict_keys)
        protocol = protocol or TextProtocol()
        self._answer = protocol.answer
        self._call, self._arguments, self._result, self._error = (
            re2.compile(pattern) for pattern in (protocol.call, protocol.arguments, protocol.result, protocol.error)
        )
        self._json = self._call.groupindex.get("json", 0)

    @classmethod
    def configure(cls, settings: Any) -> Self:
        """Return a decoder with the patterns of the settings under ``text_protocol``."""
        return cls(strict_keys=settings.decode.strict_keys, protocol=settings.text_protocol)

    def reads_list(self, items: Sequence[Json]) -> bool:
        """Whether the list is one transcript, not a list of them."""
        return is_transcript(items)

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of the transcript in order, or raise DecodeError."""
        opened = open_chat(data, "a transcript", ("request",), fields=("messages", "traj"))
        conversation = Conversation(find_session(opened.data, record.value))
        waiting: list[str] = []
        for number, message in enumerate(opened.messages):
            role, text = message.get("role"), text_of(message.get("content"))
            if role == "assistant":
                waiting = self._turn(conversation, number, text)
            elif role in ("user", "tool", "function"):
                output = self._output(text) if role == "user" else text
                if output is None:
                    conversation.user([number, text], text)
                else:
                    status: ResultStatus = "error" if self._error.search(output) else "ok"
                    call_id = waiting.pop(0) if waiting else ""
                    conversation.result([number, text], call_id, output, status=status, tool=text_at(message, "name"))
            elif role not in ("system", "developer"):
                raise DecodeError(f'a message has the role {excerpt(role)}; known are "user", "assistant" and "system"')
        return conversation.events

    def _turn(self, conversation: Conversation, number: int, text: str) -> list[str]:
        """Add the turn, and return the ids of its calls. Results come in the order of the calls."""
        plain, calls = self._split(text)
        content: list[Json] = [text_block(plain)] if plain else []
        ids = [f"{number}.{place}" for place in range(len(calls))]
        content += [
            tool_use(call_id, call.name, call.args, strict_keys=self.strict_keys)
            for call_id, call in zip(ids, calls, strict=True)
        ]
        conversation.turn([number, text], content)
        return ids

    def _split(self, text: str) -> tuple[str, list[_WrittenCall]]:
        """Return a text without its calls, and the calls."""
        matches = []
        for match in self._call.finditer(text):
            matches.append(match)
            if len(matches) == _CALLS:
                break
        if not matches:
            return text, []
        texts, calls = [text[: matches[0].start()]], list[_WrittenCall]()
        for number, match in enumerate(matches):
            behind = matches[number + 1].start() if number + 1 < len(matches) else len(text)
            call = self._call_at(match, text, behind)
            if call.name == self._answer and isinstance(call.args, dict) and isinstance(call.args.get("content"), str):
                texts.append(call.args["content"])
            else:
                calls.append(call)
        return "\n".join(part.strip() for part in texts if part.strip()), calls

    def _call_at(self, match: Any, text: str, end: int) -> _WrittenCall:
        groups = match.groupdict()
        if groups.get("json"):
            return self._object(text[match.start(self._json) : end])
        found = self._arguments.search(text[match.end() : end])
        return _WrittenCall(groups["name"], (found.groupdict()["args"] or "").strip() if found else {})

    def _object(self, written: str) -> _WrittenCall:
        """Return the call in a JSON object. An object that cannot be parsed is a call of a tool without a name."""
        written = written[: written.rfind("}") + 1] or written
        try:
            found = parse_json(written.encode("utf-8", "surrogatepass"), strict_keys=self.strict_keys)
        except (ValueError, RecursionError):
            return _WrittenCall("", written)
        if not isinstance(found, dict):
            return _WrittenCall("", msgspec.json.encode(found).decode())
        name = text_at(found, "name", "tool", "action", "tool_name")
        args = found.get("arguments", found.get("args", found.get("input", found.get("action_input", {}))))
        return _WrittenCall(name, args)

    def _output(self, text: str) -> str | None:
        match = self._result.search(text)
        return None if match is None else match.groupdict()["output"] or ""
