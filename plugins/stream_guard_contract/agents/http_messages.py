"""HTTP messages of an agent: the request body from a template, and the answer's text from the response body."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from stream_guard import Json, SettingsError
from stream_guard_contract.recording import as_text

_VARIABLE: Final = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_PLACEHOLDER: Final = re.compile(r"\{([a-z0-9_]+)\}")
_SEPARATORS: Final = (":", "=", " - ")
# Common keys of an answer, looked up where the contract has no response_path.
_ANSWER_KEYS: Final = ("output", "response", "result", "answer", "reply", "content", "text", "message", "data")


class AgentAnswerError(Exception):
    """The response holds no usable answer; the text says why."""


def expand(text: str, what: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return a text with ``$NAME`` and ``${NAME}`` replaced; SettingsError when the variable is not set."""

    def fill(found: re.Match[str]) -> str:
        name = found.group(1) or found.group(2)
        if name not in environment:
            raise SettingsError(f"{what} names ${name}, and there is no such environment variable; set it")
        return environment[name]

    return _VARIABLE.sub(fill, text)


def check_endpoint(url: str, what: str) -> str:
    """Return the URL, or raise SettingsError where it is no HTTP address."""
    if not _is_address(url):
        raise SettingsError(f"{what} is {url!r}; write an address such as http://127.0.0.1:8000/ask")
    return url


def check_upstream(url: str, option: str) -> str:
    """Return the address behind a proxy without its last slash, or raise SettingsError; paths are appended to it."""
    if not _is_address(url) or "?" in url or "#" in url:
        raise SettingsError(f"{option} {url}: write an address such as http://127.0.0.1:9000/path, without a query")
    return url.rstrip("/")


def reset_address(endpoint: str, reset: str) -> str:
    """Return the URL of the reset endpoint; a path alone is resolved against the agent's endpoint."""
    return check_endpoint(urljoin(endpoint, reset), "agent.reset_endpoint")


def render(template: str | None, prompt: str, *, structured: bool) -> Json:
    """Return the body for a prompt: ``{"input": prompt}``, or the template with its placeholders filled.

    A template that is JSON is filled value by value, so quotes in a prompt cannot break its structure.
    """
    if template is None:
        return {"input": prompt}
    fields = {**(parse_fields(prompt) if structured else {}), "prompt": prompt}
    try:
        shape = json.loads(template)
    except ValueError:
        return _fill(template, fields)
    return _fill_all(shape, fields)


def parse_fields(prompt: str) -> dict[str, str]:
    """Return the ``Key: value`` lines of a prompt; keys are lower-cased and stripped to letters and digits."""
    fields: dict[str, str] = {}
    for line in prompt.splitlines():
        separator = next((mark for mark in _SEPARATORS if mark in line), None)
        if separator is None:
            continue
        key, _, value = line.partition(separator)
        name = re.sub(r"[^a-z0-9]", "", key.lower())
        if name:
            fields[name] = value.strip()
    return fields


def find_answer(data: Json, path: str | None) -> str:
    """Return the answer's text; AgentAnswerError when the path is missing or the body reports an error."""
    if isinstance(data, dict):
        failure = data.get("error") or data.get("Error")
        if failure or data.get("success") is False:
            reason = as_text(failure or data.get("message") or "no reason")
            raise AgentAnswerError(f"the agent reports an error: {reason}")
    if path is not None:
        return _as_answer(_walk(data, path))
    if isinstance(data, dict):
        known = next((name for name in _ANSWER_KEYS if data.get(name) is not None), None)
        if known is not None:
            return _as_answer(data[known])
        if len(data) == 1:
            return _as_answer(next(iter(data.values())))
    return _as_answer(data)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def _walk(data: Json, path: str) -> Any:
    value = data
    for step in path.removeprefix("$").strip(".").split("."):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and len(step) < 10 and int(step) < len(value):
            value = value[int(step)]
        else:
            raise AgentAnswerError(f"the agent's answer has nothing at response_path {path!r}")
    return value


def _as_answer(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else as_text(value)


def _fill(text: str, fields: Mapping[str, str]) -> str:
    # One pass: "{name}" inside a prompt is data, not a placeholder.
    return _PLACEHOLDER.sub(lambda found: fields.get(found.group(1), found.group()), text)


def _fill_all(shape: Json, fields: Mapping[str, str]) -> Json:
    if isinstance(shape, str):
        return _fill(shape, fields)
    if isinstance(shape, list):
        return [_fill_all(item, fields) for item in shape]
    if isinstance(shape, dict):
        return {key: _fill_all(item, fields) for key, item in shape.items()}
    return shape
