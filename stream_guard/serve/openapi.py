"""The OpenAPI description of the API, made from its types."""

from __future__ import annotations

from typing import Any, Final, get_args

import msgspec

from stream_guard.agent_hooks.client import MARK
from stream_guard.agent_hooks.command import CHOICES
from stream_guard.agent_hooks.dialects import AGENTS
from stream_guard.distribution import own_version
from stream_guard.guard.reviews import Review
from stream_guard.history.incidents import Entry, Incident
from stream_guard.judge.model import Alert, Event, ToolCall
from stream_guard.serve.bodies import MAX_EVENTS, AnswerBody, Approval

JsonObject = dict[str, Any]

# Written by the tracker; callers do not send them.
_STAMPED: Final = ("index", "attempt", "text", "tools")
_ID: Final = {"type": "string", "minLength": 1, "maxLength": 512, "pattern": "^[^\\u0000]"}
_TIME: Final = {"anyOf": [{"type": "number", "minimum": 0, "exclusiveMaximum": 253402300800}, {"type": "null"}]}

_ACTION: Final = {"enum": ["allow", "pause", "block", "terminate_session"]}


def describe(*, token: bool, roles: bool = False) -> JsonObject:
    """Return the OpenAPI 3.1 document; ``roles``: the token says who answers, so that the body need not."""
    document: JsonObject = {
        "openapi": "3.1.0",
        "info": {
            "title": "stream_guard",
            "version": own_version(),
            "description": "Decisions on tool calls before they run, and the reviews and incidents that follow.",
        },
        "paths": _paths(),
        "components": {"schemas": _schemas()},
    }
    if not roles:
        for name in ("Answer", "Approval"):
            form = document["components"]["schemas"][name]
            form["required"] = ["by"]
            form["properties"]["by"]["minLength"] = 1
    if token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        for path in document["paths"].values():
            for operation in path.values():
                if roles:
                    operation["responses"]["403"] = _answer("The token is of another role.", _ref("Error"))
                operation["responses"]["401"] = _answer("The token is missing or wrong.", _ref("Error"))
    return document


def _paths() -> JsonObject:
    check = _post("Decide on a tool call before it runs.", _ref("Attempt"), _ref("Ruling"))
    events = _post("Tell what happened; rules say what they found.", _ref("Events"), _ref("Observed"))
    ending = _post("Say what rules would find if the session ended now.", _ref("Ending"), _ref("Obligations"))
    found: JsonObject = {
        "/v1/check": {"post": check},
        "/v1/events": {"post": events},
        "/v1/obligations": {"post": ending},
        "/v1/hooks/{agent}": {"post": _hook()},
    }
    for noun, states, schema in (
        ("reviews", ["open", "approved", "rejected", "expired", "used", "void", "acknowledged"], "Review"),
        ("incidents", ["unresolved", "solved"], "Incident"),
    ):
        found[f"/v1/{noun}"] = {"get": _listing(noun, states, schema)}
        answer = _ref(schema) if schema == "Review" else _ref("IncidentWithTimeline")
        found[f"/v1/{noun}/{{id}}"] = {"get": _get(f"Return one of the {noun}.", answer)}
    for word, text, body, schema in (
        ("reviews/{id}/approve", "Let the attempt through, once.", "Approval", "Review"),
        ("reviews/{id}/reject", "Refuse the attempt.", "Answer", "Review"),
        ("reviews/{id}/acknowledge", "Say that an anomaly_alert was seen.", "Answer", "Review"),
        ("incidents/{id}/solve", "Call an incident solved.", "Answer", "Incident"),
    ):
        operation = _post(text, _ref(body), _ref(schema))
        operation["parameters"] = [_id_parameter()]
        operation["responses"]["404"] = _answer("There is none of that id.", _ref("Error"))
        operation["responses"]["409"] = _answer("It cannot be answered like this any more.", _ref("Error"))
        found[f"/v1/{word}"] = {"post": operation}
    return found


def _schemas() -> JsonObject:
    types = [ToolCall, *get_args(Event), Alert, Review, Incident, Entry, AnswerBody, Approval]
    _, schemas = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schemas["Answer"] = schemas.pop("AnswerBody") | {"title": "Answer"}  # the published name
    events = [event.__name__ for event in get_args(Event)]
    for name in events:
        _tidy(schemas[name])
    modify = {"type": "boolean", "description": "the caller can run the tool with other arguments: modify is an answer"}
    defer = {"type": "boolean", "description": "the caller can wait and ask again: defer is an answer"}
    properties = {**schemas["ToolCall"]["properties"], "may_modify": modify, "may_defer": defer}
    schemas["Attempt"] = {**schemas["ToolCall"], "properties": properties, "required": ["session_id", "tool"]}
    schemas["Ending"] = {**schemas["SessionEnd"], "required": ["session_id"]}
    schemas["Obligations"] = _object(obligations=_list(_ref("Alert")), policy_version={"type": "string"})
    number = {"type": "integer", "minimum": 0}
    # Items of any form: an unreadable one does not refuse the others, and is named in the answer.
    items = {"description": f"an event ({', '.join(events)}); one that cannot be read is named in the answer"}
    schemas["Events"] = _object(events={"type": "array", "maxItems": MAX_EVENTS, "items": items})
    refused = _object(number=number, reason={"type": "string"})
    schemas["Observed"] = _object(accepted=number, alerts=_list(_ref("Alert")), action=_ACTION, refused=_list(refused))
    names = _list({"type": "string"})
    schemas["Ruling"] = _object(
        action=_ACTION,
        reason={"type": "string"},
        advice={
            "type": "string",
            "description": "what the strictest rule found, and what would satisfy it; for the agent",
        },
        policy_version={"type": "string"},
        judged={
            "type": "boolean",
            "description": "false: there was no judgement, and the action is what on_error says; or some rule could "
            "not judge the attempt, or the rules of agents were not asked",
        },
        checked={"type": "boolean", "description": "false: the rules of the policy's agents were not asked"},
        rules=_object(checked=names, unevaluable=names, not_applicable=names),
        alerts=_list(_ref("Alert")),
        review={"anyOf": [_ref("Review"), {"type": "null"}]},
    )
    schemas["Ruling"]["properties"] |= {
        "action": {"enum": [*_ACTION["enum"], "modify", "defer"]},
        "args": {"type": "object", "description": "of modify: the arguments that the tool is to run with"},
        "modified_by": names,
    }
    schemas["IncidentWithTimeline"] = _object(incident=_ref("Incident"), timeline=_list(_ref("Entry")))
    schemas["Error"] = _object(error={"type": "string"})
    return schemas


def _tidy(schema: JsonObject) -> None:
    """Add what the decoder requires of an event beyond its types, and remove the fields that it overwrites."""
    properties = schema["properties"]
    for name in _STAMPED:
        if not (name == "text" and "request" not in properties):
            properties.pop(name, None)
    properties["session_id"] = dict(_ID)
    properties["event_id"] = {"type": "string", "maxLength": 512}
    properties["time"] = dict(_TIME)


def _post(text: str, body: JsonObject, answer: JsonObject) -> JsonObject:
    return {
        "summary": text,
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {
            "200": _answer("The answer.", answer),
            "400": _answer("The body is not JSON.", _ref("Error")),
            "413": _answer("The body is too large.", _ref("Error")),
            "415": _answer("The body is of another type.", _ref("Error")),
            "422": _answer("The body is not what is asked for.", _ref("Error")),
        },
    }


def _hook() -> JsonObject:
    anything = {"type": "object"}
    operation = _post("Answer a hook of a coding agent, in its own words.", anything, anything)
    text = {"type": "string"}
    asked = {"pause_as": {"enum": list(CHOICES["pause_as"])}, "event": text, "agent": text}
    process = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
    operation["parameters"] = [
        {"name": "agent", "in": "path", "required": True, "schema": {"enum": list(AGENTS)}},
        *({"name": name, "in": "query", "schema": schema} for name, schema in {**asked, "process": process}.items()),
    ]
    # To a process: what it writes to standard output and standard error, cut as the header says.
    operation["responses"]["200"]["content"]["text/plain"] = {"schema": text}
    operation["responses"]["200"]["headers"] = {MARK: {"schema": {"type": "string", "pattern": "^[0-9]+ [0-9]+$"}}}
    operation["responses"]["404"] = _answer("There is no such agent.", _ref("Error"))
    operation["responses"]["409"] = _answer("Not judged: the process that asks answers by itself.", _ref("Error"))
    return operation


def _get(text: str, answer: JsonObject) -> JsonObject:
    return {
        "summary": text,
        "parameters": [_id_parameter()],
        "responses": {
            "200": _answer("It.", answer),
            "404": _answer("There is none of that id.", _ref("Error")),
        },
    }


def _listing(noun: str, states: list[str], schema: str) -> JsonObject:
    status = {"name": "status", "in": "query", "schema": {"type": "string", "enum": states}}
    limit = {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 1000}}
    return {
        "summary": f"Return {noun}, the latest first.",
        "parameters": [status, limit],
        "responses": {
            "200": _answer("They.", _object(**{noun: _list(_ref(schema))})),
            "422": _answer("A parameter is wrong.", _ref("Error")),
        },
    }


def _id_parameter() -> JsonObject:
    schema = {"type": "string", "pattern": "^[0-9a-f]{16}$"}
    return {"name": "id", "in": "path", "required": True, "schema": schema}


def _answer(text: str, schema: JsonObject) -> JsonObject:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _object(**properties: JsonObject) -> JsonObject:
    return {"type": "object", "required": list(properties), "properties": properties}


def _list(items: JsonObject) -> JsonObject:
    return {"type": "array", "items": items}


def _ref(name: str) -> JsonObject:
    return {"$ref": f"#/components/schemas/{name}"}
