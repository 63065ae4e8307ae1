"""The one logical session: parallel calls, a blocked call, an error, a sub-agent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from stream_guard.judge.model import Event, SessionEnd, ToolCall, ToolResult, Turn, UserMessage

START = 1_767_600_000.0
SESSION_ID = "order-17"
MODEL = "refunds-large"
SUB_RUN = "researcher"


class Call(NamedTuple):
    call_id: str
    tool: str
    args: dict[str, Any]


class Step(NamedTuple):
    """One thing that happens; a turn has the calls it makes with it."""

    sort: Literal["user", "turn", "result"]
    text: str = ""
    calls: tuple[Call, ...] = ()
    call: Call | None = None  # what a result answers
    status: Literal["ok", "error", "blocked"] = "ok"
    run: str = ""


LOOK = Call("call_1", "lookup_order", {"order_id": "A-1", "fields": ["paid", "state"]})
WHO = Call("call_2", "get_customer", {"customer": 7})
PAY = Call("call_3", "issue_refund", {"order_id": "A-1", "amount": 20.5})
MAIL = Call("call_4", "send_mail", {"to": "anna@example.org", "body": 'She said "ünïcode" \n and left.'})
ASK = Call("call_5", "ask_researcher", {"question": "May A-1 be refunded?"})
SEARCH = Call("call_6", "search_rules", {"words": "refund"})

STEPS = (
    Step("user", "Please refund order A-1."),
    Step("turn", "Let me look at it.", (LOOK, WHO)),
    Step("result", '{"paid": 20.5}', call=LOOK),
    Step("result", "Anna", call=WHO),
    Step("turn", "", (PAY,)),
    Step("result", "The refund needs a confirmation.", call=PAY, status="blocked"),
    Step("turn", "I will tell you by mail.", (MAIL,)),
    Step("result", "Error: no such mailbox", call=MAIL, status="error"),
    Step("turn", "Let me ask.", (ASK,)),
    Step("turn", "", (SEARCH,), run=SUB_RUN),
    Step("result", "Refunds need a confirmation.", call=SEARCH, run=SUB_RUN),
    Step("turn", "Only with a confirmation.", run=SUB_RUN),
    Step("result", "Only with a confirmation.", call=ASK),
    Step("user", "I confirm."),
    Step("turn", "Thank you."),
)


def time_of(number: int) -> float:
    return START + number


class Seen(NamedTuple):
    """What rules would see of one event, as far as formats can agree on it."""

    sort: str
    text: str = ""
    call_id: str = ""
    tool: str = ""
    args: str = ""
    status: str = ""
    run: str = ""
    time: float | None = None


def expected() -> list[Seen]:
    """Return what a format that leaves nothing out decodes to; calls stand behind their turn."""
    seen: list[Seen] = []
    for number, step in enumerate(STEPS):
        at = time_of(number)
        if step.call is not None:
            seen.append(Seen("result", step.text, step.call.call_id, step.call.tool, "", step.status, step.run, at))
            continue
        seen.append(Seen(step.sort, step.text, run=step.run, time=at))
        seen += [Seen("call", "", one.call_id, one.tool, repr(one.args), "", step.run, at) for one in step.calls]
    return seen


def view(events: Iterable[Event]) -> list[Seen]:
    """Return what a decoder made of a rendering, in the same terms."""
    seen: list[Seen] = []
    tools: dict[str, str] = {}
    for event in events:
        run, at = event.run_id, event.time
        if isinstance(event, UserMessage):
            seen.append(Seen("user", event.text, run=run, time=at))
        elif isinstance(event, Turn):
            blocks = event.response["content"]
            text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
            seen.append(Seen("turn", text, run=run, time=at))
            for block in blocks:
                if block["type"] == "tool_use":
                    tools[block["id"]] = block["name"]
                    seen.append(Seen("call", "", block["id"], block["name"], repr(block["input"]), "", run, at))
        elif isinstance(event, ToolCall):
            tools[event.call_id] = event.tool
            seen.append(Seen("call", "", event.call_id, event.tool, repr(event.args), "", run, at))
        elif isinstance(event, ToolResult):
            tool = event.tool or tools.get(event.call_id, "")
            seen.append(Seen("result", str(event.output), event.call_id, tool, "", event.status, run, at))
        elif not isinstance(event, SessionEnd):
            seen.append(Seen(type(event).__name__))
    return seen
