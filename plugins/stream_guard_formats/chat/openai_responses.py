"""OpenAI's Responses API: requests with their responses, or responses alone."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from stream_guard import DecodeError, Event, GateDecision, Json, JsonDecoder, Record
from stream_guard_formats.chat.messages import SESSION_FIELDS, unpack
from stream_guard_formats.chat.openai_chat import status_of
from stream_guard_formats.conversation import (
    Conversation,
    ResultStatus,
    derived_session,
    identifier,
    label,
    text_block,
    text_of,
    tool_use,
)
from stream_guard_formats.reading import as_object, name_of, number_at, object_at, objects_in, objects_of, text_at

_REMEMBERED: Final = 10_000
_LATEST: Final = 253_402_300_800.0


class OpenAIResponsesDecoder(JsonDecoder):
    """Reads ``{"request": ..., "response": ...}`` or a response. Items that are sent again keep their event ids.

    A conversation may be named, or each response names the one before it. The last 10,000 responses are remembered.
    """

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a response, or a request with its response."""
        if not isinstance(data, dict):
            return 0.0
        request, response = object_at(data, "request"), object_at(data, "response")
        is_response = "response" in (data.get("object"), response.get("object"))
        return 0.95 if is_response or ("output" in response and "input" in request) else 0.0

    def __init__(self, *, strict_keys: bool = True) -> None:
        super().__init__(strict_keys=strict_keys)
        self._sessions: OrderedDict[str, str] = OrderedDict()  # by response

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of the items in order, or raise DecodeError."""
        call = as_object(data, "a call of the Responses API")
        response = object_at(call, "response") or (call if call.get("object") == "response" else {})
        request = object_at(call, "request") or ({} if response is call else call)
        if "output" not in response and "input" not in request:
            raise DecodeError('a call of the Responses API has "input" in its request or "output" in its response')
        model = text_at(response, "model") or text_at(request, "model")
        session_id = self._session(call, request, response) or derived_session(record.value)
        conversation = Conversation(session_id, labels={"model": label(model)} if model else None)
        time = number_at(response, "created_at")
        header: dict[str, Any] = {"time": time if time is not None and 0 <= time < _LATEST else None}
        self._add_items(conversation, _input_items(request.get("input")), header)
        if response:
            self._answer(conversation, response, header)
        return conversation.events

    def _session(self, call: dict[str, Json], request: dict[str, Json], response: dict[str, Json]) -> str:
        """Return the id of the conversation, and remember it for the responses that follow this one."""
        own, before = text_at(response, "id"), text_at(response, "previous_response_id")
        before = before or text_at(request, "previous_response_id")
        named = ""
        for holder in (call, response, request):
            conversation = holder.get("conversation")
            named = named or (
                conversation if isinstance(conversation, str) else text_at(object_at(holder, "conversation"), "id")
            )
            named = named or text_at(holder, *SESSION_FIELDS) or text_at(object_at(holder, "metadata"), *SESSION_FIELDS)
        session_id = named or self._sessions.get(before, before) or own
        if own:
            self._sessions[own] = session_id
            if len(self._sessions) > _REMEMBERED:
                self._sessions.popitem(last=False)
        return session_id

    def _answer(self, conversation: Conversation, response: dict[str, Json], header: dict[str, Any]) -> None:
        items = objects_in(response, "output", "items")
        extra: dict[str, Json] = {"usage": response.get("usage")}
        status, error = response.get("status"), object_at(response, "error")
        if error or status in ("failed", "cancelled"):
            extra |= {"stop_reason": "error", "error": text_at(error, "message", "code") or str(status)[:40]}
        elif status == "incomplete":
            extra["stop_reason"] = text_at(object_at(response, "incomplete_details"), "reason") or "incomplete"
        self._add_items(conversation, items, header, extra, is_answer=True)

    def _add_items(
        self,
        conversation: Conversation,
        items: Sequence[dict[str, Json]],
        header: dict[str, Any],
        extra: dict[str, Json] | None = None,
        *,
        is_answer: bool = False,
    ) -> None:
        """Add the events of items. What the model wrote between two other items is one turn."""
        content: list[Json] = []
        behind: list[dict[str, Json]] = []  # results of calls in the content
        for item in items:
            role = item.get("role")
            block = call_of(item, strict_keys=self.strict_keys)
            if block is not None and "approval_request_id" in item:
                self._end_turn(conversation, content, behind, header)
                conversation.call(["c", block["id"]], block, **header)  # the attempt that the request announced
                _add_result(conversation, item, header)
            elif block is not None:
                content.append(block)
                behind.append(item)
            elif role == "assistant" or (role is None and item.get("type") == "message"):
                text = text_in(item)
                content += [text_block(text)] if text else []
            elif item.get("type") not in ("reasoning", "item_reference", "mcp_list_tools", "compaction"):
                self._end_turn(conversation, content, behind, header)
                _add_other(conversation, item, header)
        self._end_turn(conversation, content, behind, header, extra, is_answer=is_answer)

    def _end_turn(
        self,
        conversation: Conversation,
        content: list[Json],
        behind: list[dict[str, Json]],
        header: dict[str, Any],
        extra: dict[str, Json] | None = None,
        *,
        is_answer: bool = False,
    ) -> None:
        if not content and not is_answer:
            return
        # Ids of items are left out of a history, and texts and calls are not.
        identity = [block.get("text") or [block["id"], block["name"], block["input"]] for block in content]
        calls = any(
            item.get("type") in ("function_call", "custom_tool_call", "mcp_approval_request") for item in behind
        )
        reason = {"stop_reason": "tool_use" if calls else "stop"}
        conversation.turn(["t", identity], list(content), extra=reason | (extra or {}), **header)
        for item in behind:
            _add_result(conversation, item, header)
        content.clear()
        behind.clear()


def _input_items(found: Json) -> list[dict[str, Json]]:
    if found is None:
        return []
    if isinstance(found, str):
        return [{"role": "user", "content": found}]
    if not isinstance(found, list):
        raise DecodeError(f'"input" must be a text or a list of items, this is {name_of(found)}')
    return objects_of(
        [{"role": "user", "content": item} if isinstance(item, str) else item for item in found], "input", "items"
    )


def _add_other(conversation: Conversation, item: dict[str, Json], header: dict[str, Any]) -> None:
    """Add what is not the model's: a person's message, a result, or an answer to a request for approval."""
    if item.get("role") == "user":
        text = text_in(item)
        conversation.user(["u", text], text, **header)
    elif item.get("type") == "mcp_approval_response":
        call_id = text_at(item, "approval_request_id")[:512]
        conversation.events.append(
            GateDecision(
                session_id=conversation.session_id,
                event_id=f"d{call_id}",
                labels=conversation.labels,
                action="allow" if item.get("approve") is True else "block",
                call_id=call_id,
                **header,
            )
        )
    else:
        _add_result(conversation, item, header)


def _add_result(conversation: Conversation, item: dict[str, Json], header: dict[str, Any]) -> None:
    result = result_of(item)
    if result is not None and result.call_id:
        conversation.result(["r", result.call_id], result.call_id, result.output, status=result.status, **header)


# Items of OpenAI's Responses API, which Codex records too: calls, results and messages that stand side by side.


_CALL: Final = "_call"
_OUTPUT: Final = "_output"
# Calls that name their tool. The tool of any other call is one of the provider's, named by the type of the item.
_NAMED: Final = ("function_call", "custom_tool_call", "mcp_call", "mcp_approval_request")
# Fields of a provider's call that are not its arguments.
_NOT_ARGUMENTS: Final = frozenset(
    ("type", "id", "call_id", "status", "result", "results", "output", "outputs", "error", "namespace", "internal")
)
_FAILED: Final = ("failed", "incomplete", "error")
_EXIT_CODE: Final = re.compile(r"(?:Exit code|exited with code):? (-?\d{1,10})")
_HEAD: Final = 400  # characters in which an exit code is looked for
# How the outputs of calls begin, or what they say, that a person refused. The tool did not run.
_REFUSED: Final = re.compile(
    r"(?i)\A.{0,200}?\b(?:rejected by (?:the )?user|user (?:rejected|cancelled|declined|denied))\b"
)


class ItemResult(NamedTuple):
    """What came of a call, as an item states it."""

    call_id: str
    output: Json
    status: ResultStatus


def call_of(item: dict[str, Json], *, strict_keys: bool) -> dict[str, Json] | None:
    """Return the tool-use block of an item that is a call, or None."""
    kind = item.get("type")
    if not isinstance(kind, str):
        return None
    if kind in _NAMED:
        arguments = item.get("arguments", item.get("input"))
        return tool_use(_call_id(item), item.get("name"), arguments, strict_keys=strict_keys)
    if not kind.endswith(_CALL) or len(kind) > 100:
        return None
    arguments = item.get("action", item.get("arguments", item.get("operation")))
    if arguments is None:
        arguments = {name: value for name, value in item.items() if name not in _NOT_ARGUMENTS}
    return tool_use(_call_id(item), kind.removesuffix(_CALL), arguments, strict_keys=strict_keys)


def result_of(item: dict[str, Json]) -> ItemResult | None:
    """Return what an item says came of a call: an item of its own, or part of a provider's call. Else None."""
    kind = item.get("type")
    if not isinstance(kind, str):
        return None
    if kind.endswith(_OUTPUT) and "output" in item:
        return ItemResult(_call_id(item), *read_output(item.get("output"), failed=item.get("status") in _FAILED))
    if not kind.endswith(_CALL):
        return None
    failed = bool(item.get("error")) or item.get("status") in _FAILED
    found = next((item[name] for name in ("error", "output", "outputs", "results") if item.get(name)), None)
    if found is None and not failed:
        return None  # most tools of the provider do not report what they returned
    return ItemResult(_call_id(item), text_of(found) or found, "error" if failed else "ok")


def read_output(output: Json, *, failed: bool = False) -> tuple[Json, ResultStatus]:
    """Return the output of a call and its status, by the flags and exit codes that may stand in it."""
    value = unpack(output)
    metadata: dict[str, Json] = {}
    if isinstance(value, dict):
        metadata = object_at(value, "metadata")
        failed = failed or value.get("success") is False or value.get("isError") is True
        inner = value.get("content", value.get("output"))
        output = inner if isinstance(inner, str) else text_of(inner) or output
    elif isinstance(value, list):
        outcomes = [object_at(part, "outcome") for part in value if isinstance(part, dict)]
        failed = failed or any(outcome.get("exit_code") not in (None, 0) for outcome in outcomes)
        output = text_of(value) or output
    code = metadata.get("exit_code")
    if isinstance(output, str):
        if _REFUSED.match(output[:_HEAD]):
            return output, "blocked"
        written = _EXIT_CODE.search(output[:_HEAD])
        code = int(written[1]) if code is None and written else code
        failed = failed or (code is None and status_of(output) == "error")
    return output, "error" if failed or code not in (None, 0) else "ok"


def text_in(item: dict[str, Json]) -> str:
    """Return the text of an item that is a message."""
    return text_of(item.get("content"))


def _call_id(item: dict[str, Json]) -> str:
    # A call that waited for approval is the one that the request announced.
    return identifier(item.get("call_id")) or text_at(item, "approval_request_id", "id")[:512]
