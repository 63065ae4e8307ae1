"""An agent of LangChain, with its fake model; apart from the tests, because LangChain takes a second to import."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool

from stream_guard.integrations.langchain import make_middleware
from tests.frameworks.world import TOOLS, World


class Scripted(GenericFakeChatModel):
    """LangChain's fake model, which takes no tools by itself."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


def ask(world: World, *calls: str, in_loop: bool = False, thread: str = "s1") -> list[ToolMessage]:
    """Let an agent whose model calls these tools, one after the other, run to its end."""

    def tool(name: str) -> StructuredTool:
        def body(amount: int) -> str:
            return world.run(name)

        return StructuredTool.from_function(body, name=name, description=name)

    steps = [
        AIMessage("", tool_calls=[{"name": name, "args": {"amount": 20}, "id": f"c{number}", "type": "tool_call"}])
        for number, name in enumerate(calls)
    ]
    agent: Any = create_agent(
        Scripted(messages=iter([*steps, AIMessage("done")])),
        [tool(name) for name in TOOLS],
        middleware=[make_middleware(world.gate)],
    )
    given = {"messages": [("user", "go")]}
    config = {"configurable": {"thread_id": thread}}
    result = asyncio.run(agent.ainvoke(given, config)) if in_loop else agent.invoke(given, config)
    return [message for message in result["messages"] if isinstance(message, ToolMessage)]
