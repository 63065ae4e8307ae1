"""Sample sessions of a refund agent, made from a seed: the same seed, the same day.

Each session follows one script. The scripts that break a rule say which in their docstring.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any, Final

START: Final = 1_767_600_000.0  # a Monday morning, in event time

_COMPLAINTS: Final = (
    "My parcel arrived with a broken lid, I would like my money back.",
    "The shoes are two sizes too small and I cannot exchange them.",
    "I was charged twice for the same order, please fix that.",
    "The headphones stopped working after three days.",
    "I cancelled this order yesterday, why was it shipped?",
)
_THINKING: Final = (
    "I am sorry about that. Let me look at the order first, it only takes a moment.",
    "Thank you for telling us. I will check what was delivered and what was paid for it.",
    "That should not have happened. Give me a second to find the order and the payment.",
)


@dataclass(slots=True)
class DemoConversation:
    """One session being written: it keeps the clock, numbers the events and remembers the messages."""

    number: int
    dice: random.Random
    time: float
    amount: int
    events: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, str]] = field(default_factory=list)

    @property
    def order(self) -> str:
        """The order it is about."""
        return f"A-{10_000 + self.number}"

    def say(self, text: str) -> None:
        """The customer writes."""
        self.messages.append({"role": "user", "content": text})
        self._add("user_message", text=text)

    def answer(self, text: str, *, stop: str = "end_turn", tokens: int = 0) -> None:
        """The agent writes, and calls nothing."""
        self._turn([{"type": "text", "text": text}], stop, tokens)

    def call(self, tool: str, output: Any, *, status: str = "ok", say: str = "", **args: Any) -> None:
        """The agent calls a tool: the turn that asks for it, the attempt, and its result."""
        call_id = f"call_{self.number}_{len(self.events)}"
        block = {"type": "tool_use", "id": call_id, "name": tool, "input": args}
        self._turn([{"type": "text", "text": say}, block] if say else [block], "tool_use", 0)
        self._add("tool_call", tool=tool, call_id=call_id, args=args)
        self._add(
            "tool_result", tool=tool, call_id=call_id, status=status, output=output, latency_ms=self._between(40, 900)
        )
        self.messages.append({"role": "tool", "content": str(output)})

    def end(self) -> None:
        """The customer closes the window."""
        self._add("session_end", reason="closed")

    def _turn(self, content: list[dict[str, Any]], stop: str, tokens: int) -> None:
        usage = {"input_tokens": tokens or self._between(300, 900), "output_tokens": self._between(20, 140)}
        request = {"model": "refunds-large", "messages": self.messages[-2:], "params": {"temperature": 0}}
        response = {"content": content, "stop_reason": stop, "latency_ms": self._between(300, 2500), "usage": usage}
        self._add("turn", request=request, response=response)

    def _add(self, kind: str, **fields: Any) -> None:
        self.time += self.dice.random() * 4 + 0.2
        header = {
            "kind": kind,
            "event_id": f"ev-{self.number:05d}-{len(self.events):03d}",
            "session_id": f"refund-{self.number:05d}",
            "run_id": f"run-{self.number:05d}",
            "agent": "refund-agent@3",
            "time": round(self.time, 3),
            "labels": {"env": "demo", "tier": "large" if self.amount > 500 else "small"},
        }
        self.events.append(header | fields)

    def _between(self, low: int, high: int) -> int:
        return self.dice.randint(low, high)


def _open(talk: DemoConversation) -> None:
    talk.say(talk.dice.choice(_COMPLAINTS))
    order = {"order_id": talk.order, "paid": talk.amount, "status": "delivered"}
    talk.call("lookup_order", order, say=talk.dice.choice(_THINKING), order_id=talk.order)
    talk.call("quote_refund", {"amount": talk.amount}, order_id=talk.order, amount=talk.amount)


def _confirm(talk: DemoConversation) -> None:
    talk.call("confirm_refund_amount", {"confirmed": True}, order_id=talk.order, amount=talk.amount)


def _pay(talk: DemoConversation, amount: int | None = None) -> None:
    paid = talk.amount if amount is None else amount
    talk.call("issue_refund", {"refund_id": f"R-{talk.number}"}, order_id=talk.order, amount=paid)


def _close(talk: DemoConversation) -> None:
    policy = " Our refund policy for large amounts applies." if talk.amount > 500 else ""
    talk.answer(f"Done: {talk.amount} EUR are on their way and should arrive within three days.{policy}")
    talk.end()


def well_behaved(talk: DemoConversation) -> None:
    """Breaks nothing."""
    _open(talk)
    _confirm(talk)
    _pay(talk)
    _close(talk)


def pays_without_asking(talk: DemoConversation) -> None:
    """Breaks confirm-before-refund and confirm-after-quote."""
    _open(talk)
    _pay(talk)
    _close(talk)


def changes_the_amount(talk: DemoConversation) -> None:
    """Breaks amount-stays-confirmed."""
    _open(talk)
    _confirm(talk)
    _pay(talk, talk.amount + 40)
    _close(talk)


def reads_the_ledger(talk: DemoConversation) -> None:
    """Breaks never-touch-the-ledger."""
    _open(talk)
    _confirm(talk)
    talk.call("ledger_query", {"rows": 3}, sql="select * from payouts")
    _pay(talk)
    _close(talk)


def leaks_a_code(talk: DemoConversation) -> None:
    """Breaks no-internal-codes."""
    _open(talk)
    _confirm(talk)
    talk.answer(f"I have filed this as INT-{4000 + talk.number % 1000}, your refund is on its way.")
    _pay(talk)
    _close(talk)


def never_comes_back(talk: DemoConversation) -> None:
    """Breaks confirm-after-quote: the customer is quoted an amount, then there is silence."""
    _open(talk)


def rambles(talk: DemoConversation) -> None:
    """Breaks short-conversations, token-budget and answers-end-properly."""
    _open(talk)
    _confirm(talk)
    for step in range(6):
        talk.say("And what about the voucher?")
        stop = "max_tokens" if step == 5 else "end_turn"
        talk.answer("About the voucher: it depends on where and when it was bought. " * 4, stop=stop, tokens=2400)
    _pay(talk)
    _close(talk)


def forgets_the_policy(talk: DemoConversation) -> None:
    """Breaks large-refunds-name-the-policy."""
    talk.amount += 500
    _open(talk)
    _confirm(talk)
    _pay(talk)
    talk.answer("Done, the money is on its way.")
    talk.end()


Script = Callable[[DemoConversation], None]
BAD: Final[tuple[Script, ...]] = (
    pays_without_asking,
    changes_the_amount,
    reads_the_ledger,
    leaks_a_code,
    never_comes_back,
    rambles,
    forgets_the_policy,
)


def sample_events(sessions: int = 60, *, seed: int = 7, bad_every: int = 4) -> Iterator[dict[str, Any]]:
    """Yield the events of that many sessions, mixed as they would come in, in the order of their clocks."""
    dice = random.Random(seed)  # noqa: S311  # a sample, not a secret
    written: list[dict[str, Any]] = []
    for number in range(sessions):
        amount = dice.randint(15, 240) if dice.random() < 0.8 else dice.randint(510, 900)
        talk = DemoConversation(number, dice, START + number * 7 + dice.random() * 20, amount)
        script = BAD[number // bad_every % len(BAD)] if number % bad_every == bad_every - 1 else well_behaved
        script(talk)
        written += talk.events
    yield from sorted(written, key=lambda event: (event["time"], event["event_id"]))


# Live sample sessions: some spread over the last hours, and a new one every few seconds.


_HOURS: Final = 20.0
_PAUSE: Final = 4.0  # seconds between two sessions


def spread(events: Iterable[dict[str, Any]], now: float) -> list[dict[str, Any]]:
    """Return the events with their sessions spread over the last hours, each as long as it was, in order."""
    shifted = [dict(event) for event in events]
    first: dict[str, float] = {}
    for event in shifted:
        first[event["session_id"]] = min(event["time"], first.get(event["session_id"], event["time"]))
    ranks = {session: rank for rank, session in enumerate(sorted(first, key=lambda session: first[session]))}
    gap = _HOURS * 3600 / max(1, len(ranks))
    begin = now - _HOURS * 3600
    for event in shifted:
        session = event["session_id"]
        event["time"] = min(begin + ranks[session] * gap + event["time"] - first[session], now)
    return sorted(shifted, key=lambda event: (event["time"], event["event_id"]))


class LiveSessions:
    """Appends a sample session to a file every few seconds, with the current time."""

    def __init__(self, file: Path, known: int, stop: Flag, pause: float = _PAUSE) -> None:
        self._file = file
        self._known = known
        self._stop = stop
        self._pause = pause
        self._thread = Thread(target=self._run, name="stream_guard-demo", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; ``stop`` must be set."""
        self._thread.join()

    def _run(self) -> None:
        number = self._known
        while not self._stop.wait(self._pause):
            shifted = [event for event in sample_events(number + 1, bad_every=2) if _number(event) == number]
            shift = time.time() - max(event["time"] for event in shifted)
            with self._file.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps({**event, "time": event["time"] + shift}) + "\n" for event in shifted)
            number += 1


def _number(event: dict[str, Any]) -> int:
    return int(event["session_id"].rpartition("-")[2])
