"""An agent that differs from itself, run by run, and ways in which it gets worse."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec

from stream_guard.judge.model import Event, SessionEnd, ToolResult, Turn, UserMessage

Plant = Callable[[list[Event]], list[Event]]


def run(seed: int, tasks: int, *, name: str = "", plant: Plant | None = None, share: float = 0.0) -> list[Event]:
    """Return one session a task; ``plant`` changes the given share of them."""
    events: list[Event] = []
    for task in range(tasks):
        drawn = random.Random(f"{seed} {task}")
        made = _session(drawn, task, f"{name or seed}-{task}")
        if plant is not None and task < share * tasks:
            made = plant(made)
        events += made
    return events


def _session(drawn: random.Random, task: int, session: str) -> list[Event]:
    order = f"W{10_000 + task}"
    steps: list[Event] = []

    def header() -> dict[str, Any]:
        return {"session_id": session, "event_id": f"e{len(steps)}", "labels": {"scenario": f"task {task}"}}

    def say(text: str) -> None:
        steps.append(Turn(**header(), response={"content": [{"type": "text", "text": text}]}))

    def call(tool: str, args: dict[str, Any], status: Any = "ok") -> None:
        block = {"type": "tool_use", "id": f"c{len(steps)}", "name": tool, "input": args}
        steps.append(Turn(**header(), response={"content": [block]}))
        steps.append(ToolResult(**header(), call_id=f"c{len(steps) - 1}", tool=tool, status=status, output=order))

    steps.append(UserMessage(**header(), text=f"Please refund my order {order}, it was a gift for person{task}."))
    for tool in ["get_order", "get_items"][: drawn.randrange(1, 3)]:
        call(tool, {"order_id": order}, drawn.choices(["ok", "error"], [5, 1])[0])
        if drawn.random() < 0.3:
            call("get_user", {"user_id": f"person{task}"})
    say(" ".join(drawn.choices(["shall", "I", "refund", "your", "order", "now", "please", "confirm"], k=12)))
    steps.append(UserMessage(**header(), text="Yes, please."))
    call("refund", {"order_id": order, "amount": 10 + task % 5})
    say(
        " ".join(drawn.choices(["done", "it", "is", "refunded", "anything", "else", "today"], k=drawn.randrange(8, 14)))
    )
    steps.append(SessionEnd(**header()))
    return steps


def refuse(session: list[Event]) -> list[Event]:
    """End the session with a refusal at the second turn."""
    last = msgspec.structs.replace(
        session[-2], response={"content": [{"type": "text", "text": "I'm sorry, but I can't help with that."}]}
    )
    return [*session[:3], last, session[-1]]


def skip_confirmation(session: list[Event]) -> list[Event]:
    """Refund without asking: the question and the user's yes are gone."""
    yes = max(place for place, event in enumerate(session) if isinstance(event, UserMessage))
    return session[: yes - 1] + session[yes + 1 :]


def repeat_call(session: list[Event]) -> list[Event]:
    """Make the last call twice."""
    turn, result = session[-4], session[-3]
    assert isinstance(turn, Turn)
    assert isinstance(result, ToolResult)
    block = {**turn.response["content"][0], "id": "again"}
    again = msgspec.structs.replace(turn, event_id="again", response={"content": [block]})
    return [*session[:-2], again, msgspec.structs.replace(result, event_id="again-r", call_id="again"), *session[-2:]]


def edit_calls(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Plant:
    """Return a plant that changes every call of the tool refund."""

    def plant(session: list[Event]) -> list[Event]:
        made: list[Event] = []
        for event in session:
            if isinstance(event, Turn) and event.response["content"][0].get("name") == "refund":
                block = change(event.response["content"][0])
                event = msgspec.structs.replace(event, response={"content": [block]})  # noqa: PLW2901
            made.append(event)
        return made

    return plant


def lengthen(session: list[Event]) -> list[Event]:
    """Say three times as much, in other words."""
    return [
        msgspec.structs.replace(
            event,
            response={
                "content": [
                    block | ({"text": block["text"] + " indeed truly so" * 12} if "text" in block else {})
                    for block in event.response["content"]
                ]
            },
        )
        if isinstance(event, Turn)
        else event
        for event in session
    ]
