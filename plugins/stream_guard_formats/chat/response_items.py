"""Items of OpenAI's Responses API, which Codex records too: calls, results and messages that stand side by side."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from stream_guard import Json
from stream_guard_formats.chat.messages import unpack
from stream_guard_formats.chat.openai_chat import status_of
from stream_guard_formats.conversation import ResultStatus, identifier, text_of, tool_use
from stream_guard_formats.reading import object_at, text_at

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
