"""For a rule of a prompt, a trace that breaks it and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stream_guard_compliance.extraction import ExtractedRule

DATA = {
    "email": "someone@example.com",
    "phone": "+1 415 555 2671",
    "card": "4111 1111 1111 1111",
    "ssn": "123-45-6789",
    "iban": "DE89 3704 0044 0532 0130 00",
    "ip": "203.0.113.7",
}


def breaking_trace(rule: ExtractedRule, prompt: str, tools: Sequence[str]) -> list[dict[str, Any]]:
    """Return the events of a session that breaks the rule."""
    form = rule.compiled.rules[0]
    params: dict[str, Any] = form.get("params") or {}
    return [
        {"type": "user_message", "content": "Please go on."},
        *_events(str(form["kind"]), params, rule, prompt, tools),
    ]


def _events(  # noqa: PLR0911  # one for each kind
    kind: str, params: dict[str, Any], rule: ExtractedRule, prompt: str, tools: Sequence[str]
) -> list[dict[str, Any]]:
    match kind:
        case "no_call" | "must_confirm_before":
            return [call(_first(params["tool"], tools))]
        case "must_call_before":
            return [call(_first(params["second"], tools))]
        case "must_call_only":
            return [call(next(tool for tool in [*tools, "another_tool"] if tool not in params["tool"]))]
        case "max_calls":
            return [call(_first(params.get("tool", "*"), tools)) for _ in range(params["n"] + 1)]
        case "forbidden_text" if params.get("where") == "tool_args":
            return [call(tools[-1] if tools else "run_it", text=f"echo; {rule.rule.items[0]}")]
        case "forbidden_text":
            return [say(rule.rule.items[0])]
        case "no_pii":
            return [say(f"It is {DATA[params['types'][0]]}.")]
        case "no_long_quote":
            return [say(" ".join(prompt.split()[:25]))]
        case "max_text_length":
            return [say("word " * ((params.get("words") or params.get("characters") or 0) + 1))]
        case _:
            return [say("Hello!")]  # an obligation that nothing meets


def _first(pattern: Any, tools: Sequence[str]) -> str:
    names = [pattern] if isinstance(pattern, str) else list(pattern)
    return next((name for name in names if name in tools), "some_tool" if names[0] == "*" else names[0])


def call(tool: str, **args: Any) -> dict[str, Any]:
    """Return an attempt at a tool."""
    return {"type": "tool_call", "name": tool, "args": args}


def say(text: str) -> dict[str, Any]:
    """Return a message of the agent."""
    return {"type": "agent_message", "content": text}
