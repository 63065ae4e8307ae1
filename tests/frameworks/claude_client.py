"""A client of the Claude Agent SDK and the program that it speaks with, scripted; apart from the tests.

The SDK takes a second to import, and every process of a test run imports every file of tests.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Transport, create_sdk_mcp_server, tool

from stream_guard.integrations.claude_agent import ToolHooks
from tests.frameworks.world import TOOLS, World


class Script(Transport):
    """The program at the other end: it wants to use these tools, one after the other."""

    def __init__(self, calls: tuple[str, ...]) -> None:
        self._calls = calls
        self._inbox: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._hooks: dict[str, Any] = {}
        self._play: asyncio.Task[None] | None = None
        self.denials: list[str] = []
        self.outputs: list[str] = []
        self.stopped = ""

    async def connect(self) -> None:
        """Nothing has to be started."""

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None:
        """There is no pipe to close."""

    async def close(self) -> None:
        await self._inbox.put(None)

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        while (message := await self._inbox.get()) is not None:
            yield message

    async def write(self, data: str) -> None:
        said = json.loads(data)
        if said["type"] == "control_request":
            self._hooks = said["request"].get("hooks") or self._hooks
            answer = {"hook_on_failure_supported": True, "commands": []}
            response = {"subtype": "success", "request_id": said["request_id"], "response": answer}
            await self._inbox.put({"type": "control_response", "response": response})
        elif said["type"] == "control_response":
            self._waiting.pop(said["response"]["request_id"]).set_result(said["response"])
        else:
            self._play = asyncio.create_task(self._use_tools())

    async def finish(self) -> None:
        """Raise what went wrong in the script."""
        assert self._play is not None
        await self._play

    async def _use_tools(self) -> None:
        try:
            await self._greet()
            await self._try_each()
        finally:  # also when the script itself is wrong: the client must not wait for ever
            done = {"subtype": "success", "duration_ms": 1, "duration_api_ms": 1, "is_error": False, "num_turns": 1}
            await self._inbox.put({"type": "result", **done, "session_id": "s1"})

    async def _greet(self) -> None:
        """Shake hands with the server of the tools."""
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "s", "version": "1"}}
        await self._message({"id": 0, "method": "initialize", "params": params})
        await self._message({"method": "notifications/initialized"})

    async def _try_each(self) -> None:
        for number, name in enumerate(self._calls):
            about = {"session_id": "s1", "tool_name": name, "tool_input": {"amount": 20}, "tool_use_id": f"c{number}"}
            before = await self._hook("PreToolUse", about)
            specific = before.get("hookSpecificOutput", {})
            if specific.get("permissionDecision") == "deny":
                self.denials.append(specific["permissionDecisionReason"])
                if before.get("continue") is False:
                    self.stopped = before["stopReason"]
                    break
                continue
            output = await self._run(name)
            self.outputs.append(output)
            await self._hook("PostToolUse", {**about, "tool_response": output})

    async def _hook(self, event: str, about: dict[str, Any]) -> dict[str, Any]:
        [matcher] = self._hooks[event]
        assert event != "PreToolUse" or matcher["onFailure"] == "block"
        [callback] = matcher["hookCallbackIds"]
        data = {"hook_event_name": event, "cwd": "/", "transcript_path": "", **about}
        request = {"subtype": "hook_callback", "callback_id": callback, "input": data}
        answer = await self._ask({**request, "tool_use_id": about["tool_use_id"]})
        found: dict[str, Any] = answer["response"]
        return found

    async def _run(self, name: str) -> str:
        params = {"name": name, "arguments": {"amount": 20}}
        answer = await self._message({"id": 1, "method": "tools/call", "params": params})
        text: str = answer["response"]["mcp_response"]["result"]["content"][0]["text"]
        return text

    async def _message(self, message: dict[str, Any]) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", **message}
        return await self._ask({"subtype": "mcp_message", "server_name": "shop", "message": message})

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        name = f"r{len(self._waiting)}-{id(request)}"
        self._waiting[name] = asyncio.get_running_loop().create_future()
        await self._inbox.put({"type": "control_request", "request_id": name, "request": request})
        return await self._waiting[name]


def ask(world: World, *calls: str) -> Script:
    """Let a client's program use these tools, and return what it met."""

    def make(name: str) -> Any:
        async def body(_args: dict[str, Any]) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": world.run(name)}]}

        return tool(name, name, {"amount": int})(body)

    async def work() -> Script:
        script = Script(calls)
        server = create_sdk_mcp_server("shop", tools=[make(name) for name in TOOLS])
        options = ClaudeAgentOptions(hooks=ToolHooks(world.gate).hooks, mcp_servers={"shop": server})
        async with ClaudeSDKClient(options, transport=script) as client:
            await client.query("go")
            async for _ in client.receive_response():
                pass
        await script.finish()
        return script

    return asyncio.run(work())
