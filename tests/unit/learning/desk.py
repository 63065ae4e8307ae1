"""Sessions of a shop's desk: an order is looked at, the customer says yes, and the order is cancelled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from stream_guard.judge.model import Event, Json, ToolCall, ToolResult, Turn, UserMessage

STATES = ("pending", "pending", "delivered")
REASONS = ("too late", "by mistake")
CARDS = ("credit card", "gift card", "cash")


class Desk:
    """Writes the events of one session."""

    def __init__(self, session_id: str, spell: Callable[[str], str] = str) -> None:
        self.events: list[Event] = []
        self.session_id = session_id
        self._spell = spell

    def user(self, text: str) -> None:
        self.events.append(UserMessage(session_id=self.session_id, text=text))

    def say(self, text: str) -> None:
        self.events.append(Turn(session_id=self.session_id, response={"content": [{"type": "text", "text": text}]}))

    def call(self, tool: str, args: Json, output: Json = "done", status: str = "ok") -> None:
        call_id = f"c{len(self.events)}"
        self.events += [
            ToolCall(session_id=self.session_id, tool=self._spell(tool), args=args, call_id=call_id),
            ToolResult(session_id=self.session_id, call_id=call_id, output=output, status=status),  # type: ignore[arg-type]
        ]


def fine_session(number: int, spell: Callable[[str], str] = str) -> list[Event]:
    """Return one session, which is another for each number."""
    dice, desk = Random(number), Desk(f"s{number}", spell)
    user, order = f"user{number}", f"W{number * 7919 % 100_000:05}"
    reason, card = REASONS[number % 2], CARDS[number % 3]
    desk.user(f"I am {user}, please look at my order {order}: {reason}.")
    desk.call("find_customer", {"name": user}, {"id": f"id{number}", "orders": [order, f"X{number}"]})
    for _ in range(dice.randint(0, 2)):
        desk.call("get_order", {"order_id": f"X{number}"}, {"status": dice.choice(STATES), "card": dice.choice(CARDS)})
    status = STATES[number % 3]
    desk.call("get_order", {"order_id": order}, {"status": status, "card": card})
    if status == "pending":
        desk.say(f"Shall I cancel {order}?")
        desk.user("yes, please")
        desk.call("cancel_order", {"order_id": order, "reason": reason, "refund_to": card})
    else:
        desk.call("transfer_to_person", {"summary": "wants something else"})
    return desk.events


def fine_sessions(count: int, spell: Callable[[str], str] = str) -> list[Event]:
    """Return so many sessions, one after the other."""
    return [event for number in range(count) for event in fine_session(number, spell)]


def bad_session(session_id: str, *steps: tuple[str, Json]) -> Sequence[Event]:
    """Return a session of these calls alone."""
    desk = Desk(session_id)
    desk.user("please do")
    for tool, args in steps:
        desk.call(tool, args)
    return desk.events
