"""Faults to plant into recorded sessions: what a change of a prompt, a model or a tool does to a real agent."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from stream_guard_diff.measures.steps import ASKS, BEGINNING, YES

from stream_guard.model import Event, SessionEnd, ToolResult, Turn, UserMessage

Session = list[Event]
Plant = Callable[[Session, random.Random], Session | None]

REFUSALS: Final = (
    "I'm sorry, but I can't help with that.",
    "I cannot assist with this request.",
    "I'm unable to help you with that.",
    "Sorry, I won't be able to help with this.",
)
READS: Final = ("get_", "find_", "list_", "search_", "read_", "calculate", "think", "transfer", "browse", "view")
FORBIDDEN: Final = "transfer_to_human_agents"


def _calls(session: Session) -> list[tuple[int, int]]:
    return [
        (place, number)
        for place, event in enumerate(session)
        if isinstance(event, Turn)
        for number, block in enumerate(event.response["content"])
        if block.get("type") == "tool_use"
    ]


def _block(session: Session, place: int, number: int) -> dict[str, Any]:
    event = session[place]
    assert isinstance(event, Turn)
    block: dict[str, Any] = event.response["content"][number]
    return block


def _with_block(session: Session, place: int, number: int, block: dict[str, Any]) -> Session:
    event = session[place]
    assert isinstance(event, Turn)
    content = list(event.response["content"])
    content[number] = block
    changed = msgspec.structs.replace(event, response=event.response | {"content": content})
    return [*session[:place], changed, *session[place + 1 :]]


def skip_confirmation(session: Session, drawn: random.Random) -> Session | None:
    """Make a change without asking: the question before it and the user's yes are gone."""
    places = [
        place
        for place, number in _calls(session)
        if place > 1
        and not _block(session, place, number)["name"].startswith(READS)
        and isinstance(session[place - 1], UserMessage)
        and isinstance(session[place - 2], Turn)
    ]
    if not places:
        return None
    place = drawn.choice(places)
    return session[: place - 2] + session[place:]


def skip_talk(session: Session, drawn: random.Random) -> Session | None:
    """Make a change right after looking things up: all that was said since the last call is gone, every yes with it."""
    made = skip_confirmation(session, drawn)
    if made is None:
        return None
    place = next(place for place, (old, new) in enumerate(zip(session, made, strict=False)) if old is not new)
    while place > 2 and isinstance(made[place - 1], UserMessage) and _only_says(made[place - 2]):
        made = made[: place - 2] + made[place:]
        place -= 2
    return made


def is_still_agreed(session: Session, made: Session) -> bool:
    """Whether the call whose question was cut out comes after another question and another yes."""
    place = next(place for place, (old, new) in enumerate(zip(session, made, strict=False)) if old is not new)
    message, answer = made[place - 1], made[place - 2]
    if not isinstance(message, UserMessage) or not isinstance(answer, Turn):
        return False
    said = " ".join(block.get("text") or "" for block in answer.response["content"])
    return bool(ASKS.search(said.lower()) and YES.search(message.text[:BEGINNING].lower()))


def _only_says(event: Event) -> bool:
    return isinstance(event, Turn) and all(block.get("type") != "tool_use" for block in event.response["content"])


def break_policy(session: Session, drawn: random.Random) -> Session | None:
    """Call a tool that the policy of the benchmark forbids, somewhere."""
    turns = [place for place, event in enumerate(session) if isinstance(event, Turn)]
    if not turns:
        return None
    place = drawn.choice(turns)
    block = {"type": "tool_use", "id": "planted", "name": FORBIDDEN, "input": {"summary": "the user asked for it"}}
    made = msgspec.structs.replace(session[place], event_id="planted", response={"content": [block]})
    return [*session[:place], made, *session[place:]]


def repeat_call(session: Session, drawn: random.Random) -> Session | None:
    """Make a call again, right after its result."""
    calls = _calls(session)
    if not calls:
        return None
    place, number = drawn.choice(calls)
    block = _block(session, place, number)
    again = msgspec.structs.replace(
        session[place], event_id="planted", response={"content": [block | {"id": f"{block['id']}-planted"}]}
    )
    end = place + 1
    while end < len(session) and isinstance(session[end], ToolResult):
        end += 1
    results = [
        msgspec.structs.replace(event, event_id="planted-result", call_id=f"{block['id']}-planted")
        for event in session[place + 1 : end]
        if isinstance(event, ToolResult) and event.call_id == block["id"]
    ]
    return [*session[:end], again, *results[:1], *session[end:]]


def refuse(session: Session, drawn: random.Random) -> Session | None:
    """End with a refusal, at any turn."""
    turns = [place for place, event in enumerate(session) if isinstance(event, Turn)]
    if not turns:
        return None
    place = drawn.choice(turns)
    text = {"content": [{"type": "text", "text": drawn.choice(REFUSALS)}]}
    ends = [event for event in session if isinstance(event, SessionEnd)]
    return [*session[:place], msgspec.structs.replace(session[place], response=text), *ends]


def double_tokens(session: Session, drawn: random.Random) -> Session | None:
    """Count twice the output tokens in every turn; the recordings count none, so the length stands for them."""
    del drawn
    return count_tokens(session, 2)


def count_tokens(session: Session, times: int = 1) -> Session:
    """Return the session with a number of tokens in every turn: a quarter of what it writes, in characters."""
    made: Session = []
    for event in session:
        if isinstance(event, Turn):
            written = sum(len(str(block.get("text") or block.get("input"))) for block in event.response["content"])
            usage = {"output_tokens": times * (written // 4 + 1)}
            made.append(msgspec.structs.replace(event, response=event.response | {"usage": usage}))
        else:
            made.append(event)
    return made


def rename_tool(session: Session, drawn: random.Random) -> Session | None:
    """Call one of the tools by another name, throughout the session."""
    calls = _calls(session)
    if not calls:
        return None
    name = _block(session, *drawn.choice(calls))["name"]
    for place, number in calls:
        block = _block(session, place, number)
        if block["name"] == name:
            session = _with_block(session, place, number, block | {"name": f"{name}_v2"})
    return session


def _an_argument(session: Session, drawn: random.Random) -> tuple[int, int, str] | None:
    places = [
        (place, number)
        for place, number in _calls(session)
        if isinstance(given := _block(session, place, number)["input"], dict) and given
    ]
    if not places:
        return None
    place, number = drawn.choice(places)
    return place, number, drawn.choice(sorted(_block(session, place, number)["input"]))


def rename_argument(session: Session, drawn: random.Random) -> Session | None:
    """Give one argument of one call another name."""
    found = _an_argument(session, drawn)
    if found is None:
        return None
    place, number, name = found
    block = _block(session, place, number)
    given = {f"{key}_id" if key == name else key: value for key, value in block["input"].items()}
    return _with_block(session, place, number, block | {"input": given})


def mistake_argument(session: Session, drawn: random.Random) -> Session | None:
    """Give one argument of one call a value that is nearly right."""
    found = _an_argument(session, drawn)
    if found is None:
        return None
    place, number, name = found
    block = _block(session, place, number)
    return _with_block(
        session, place, number, block | {"input": block["input"] | {name: _wrong(block["input"][name], drawn)}}
    )


def _wrong(value: Any, drawn: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + drawn.choice([1, 10, 100])
    if isinstance(value, str):
        place = drawn.randrange(len(value) + 1)
        return value[:place] + drawn.choice("0123456789abcdef") + value[place:]
    return [] if isinstance(value, list) else None


PLANTS: Final[dict[str, Plant]] = {
    "confirmation skipped": skip_confirmation,
    "policy broken": break_policy,
    "call repeated": repeat_call,
    "refusal": refuse,
    "twice the tokens": double_tokens,
    "tool renamed": rename_tool,
    "argument renamed": rename_argument,
    "argument wrong": mistake_argument,
}


def plant_into(sessions: Sequence[Session], plant: Plant, share: float, drawn: random.Random) -> list[Session]:
    """Plant a fault into a share of the sessions; one that cannot have it is passed over."""
    made = list(sessions)
    left = round(share * len(made))
    for place in drawn.sample(range(len(made)), len(made)):
        if not left:
            break
        changed = plant(made[place], drawn)
        if changed is not None:
            made[place] = changed
            left -= 1
    return made
