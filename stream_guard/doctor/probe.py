"""Check that a gate is in front of the tools: send a call through it that must be blocked."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from stream_guard.errors import SettingsError
from stream_guard.guard.gate import PROBE
from stream_guard.judge.model import Action, ToolCall

_PATIENCE = 5.0  # seconds


def probe(target: str, token: str = "") -> str:
    """Return what is wrong with a gate, or an empty string when it blocked the probe.

    The target is the URL of a server, or ``package.module:name`` of a gate or of an object that an integration made.
    """
    if target.startswith(("http://", "https://")):
        return _probe_server(target.rstrip("/"), token)
    return _probe_object(_load(target), target)


def _probe_server(url: str, token: str) -> str:
    body = json.dumps({"session_id": PROBE, "tool": PROBE, "args": {}}).encode()
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = Request(f"{url}/v1/check", body, headers)  # noqa: S310  (the schemes are checked above)
    try:
        # No proxy: the question is whether this process reaches the gate.
        with build_opener(ProxyHandler({})).open(request, timeout=_PATIENCE) as answer:
            ruling = json.load(answer)
    except HTTPError as error:
        with error:
            return f"the server answered {error.code}: {error.read(300).decode('utf-8', 'replace')}"
    except (URLError, OSError, ValueError) as error:
        return f"the server did not answer: {error}"
    action = ruling.get("action") if isinstance(ruling, dict) else None
    return "" if action == Action.BLOCK.word and ruling.get("judged") else f"the probe was not blocked: {action}"


def _probe_object(gate: Any, target: str) -> str:
    if hasattr(gate, "probe"):
        return "" if gate.probe() else "the probe was let through"
    if not hasattr(gate, "check"):
        raise SettingsError(f"{target} has neither probe nor check; name a gate, or what an integration made of one")
    ruling = gate.check(ToolCall(session_id=PROBE, tool=PROBE, args={}))
    return "" if ruling.action is Action.BLOCK else f"the probe was not blocked: {ruling.action.word}"


def _load(target: str) -> Any:
    module, _, name = target.partition(":")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(f"--probe {target}: {error}; write http://host:port or package.module:name") from None
    return found
