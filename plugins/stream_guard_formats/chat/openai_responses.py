"""OpenAI's Responses API: requests with their responses, or responses alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

from stream_guard import DecodeError, Event, GateDecision, Json, JsonDecoder, Record
from stream_guard_formats.chat.response_items import call_of, result_of, text_in
from stream_guard_formats.chat.transcripts import SESSION_FIELDS
from stream_guard_formats.conversation import Conversation, derived_session, label, text_block
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
