"""What Codex gives a hook and takes from one, as JSON Schemas: its published field names, types and refusals.

Where versions differ, the stricter one stands here: what it takes, all take.
"""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_WORDS: Final[Schema] = {"type": "string", "pattern": r"\S"}
_TEXT_OR_NULL: Final[Schema] = {"type": ["string", "null"]}
_MODES: Final[Schema] = {"enum": ["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]}


def _object(required: Schema, optional: Schema | None = None) -> Schema:
    """Return an object with these keys and no others: one that Codex does not know spoils the whole answer."""
    known = {**required, **(optional or {})}
    return {"type": "object", "properties": known, "required": list(required), "additionalProperties": False}


_COMMON: Final[Schema] = {"session_id": _TEXT, "transcript_path": _TEXT_OR_NULL, "cwd": _TEXT}
_TURN: Final[Schema] = {**_COMMON, "turn_id": _TEXT, "model": _TEXT, "permission_mode": _MODES}
_ASKED: Final[Schema] = {**_TURN, "tool_name": _TEXT, "tool_input": {}}
_STOPPED: Final[Schema] = {**_TURN, "stop_hook_active": {"type": "boolean"}, "last_assistant_message": _TEXT_OR_NULL}
_HELPER: Final[Schema] = {"agent_id": _TEXT, "agent_type": _TEXT}
_GIVEN: Final[dict[str, tuple[Schema, Schema]]] = {
    "PreToolUse": ({**_ASKED, "tool_use_id": _TEXT}, _HELPER),
    "PermissionRequest": (_ASKED, _HELPER),
    "PostToolUse": ({**_ASKED, "tool_use_id": _TEXT, "tool_response": {}}, _HELPER),
    "UserPromptSubmit": ({**_TURN, "prompt": _TEXT}, _HELPER),
    "Stop": (_STOPPED, {}),
    "SubagentStop": ({**_STOPPED, **_HELPER, "agent_transcript_path": _TEXT_OR_NULL}, {}),
    "SessionEnd": ({**_COMMON, "reason": {"const": "other"}}, {}),
}
EVENTS: Final = tuple(_GIVEN)


def given(event: str) -> Schema:
    """Return the schema of what Codex gives the hook of an event."""
    required, optional = _GIVEN[event]
    return _object({"hook_event_name": {"const": event}, **required}, optional)


def taken(event: str) -> Schema:
    """Return the schema of what Codex takes from the hook of an event; anything else is as if nothing was said."""
    if event == "PreToolUse":
        return _decision({"anyOf": [*_rulings(event), _object({"hookEventName": {"const": event}})]})
    if event == "PermissionRequest":
        decision = {
            "anyOf": [_object({"behavior": {"const": word}}, {"message": _WORDS}) for word in ("allow", "deny")]
        }
        return _decision(_object({"hookEventName": {"const": event}, "decision": decision}))
    if event == "SessionEnd":
        return {}  # it does not read it
    ended = {"continue": {"type": "boolean"}, "stopReason": _TEXT, "systemMessage": _TEXT}
    blocked = {"decision": {"const": "block"}, "reason": _WORDS}
    return {"anyOf": [_object({}, ended), _object(blocked, ended)]}


def _rulings(event: str) -> list[Schema]:
    name = {"hookEventName": {"const": event}}
    denied = {"permissionDecision": {"const": "deny"}, "permissionDecisionReason": _WORDS}
    rewritten = {"permissionDecision": {"const": "allow"}, "updatedInput": {"type": "object"}}
    return [_object({**name, **denied}), _object({**name, **rewritten}), _object({**name, "additionalContext": _TEXT})]


def _decision(schema: Schema) -> Schema:
    # "continue": false, "stopReason" and "suppressOutput" beside a decision on a call throw the decision away.
    return _object({}, {"hookSpecificOutput": schema, "systemMessage": _TEXT})
