"""Faults to plant into recorded sessions: what a change of a prompt, a model or a tool does to a real agent."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from stream_guard_diff.measures.steps import ASKS, BEGINNING, YES
from stream_guard_diff.measures.task_values import CONSEQUENTIAL

from stream_guard.judge.model import Event, SessionEnd, ToolResult, Turn, UserMessage

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
THINGS: Final = ("order_id", "reservation_id")  # what a change is made to
LEAVE: Final = re.compile(
    r"\b(confirm\w*|(like|want|wish|ready|okay|ok|sure|me|we|i) to (proceed|go ahead|continue|do)|go ahead|shall (i|we)"
    r"|should (i|we)|may i|(would you like|do you want) me to|are you sure|correct\?|right\?"
    r"|(is|does) (that|this|everything|it) (\w+ )?(correct|right|ok|okay|work|look))"
)
QUESTION: Final = re.compile(r"\?|\b(let me know|(will|can) proceed)\b")
AGREES: Final = re.compile(
    r"\b(yes|yep|yeah|yup|ok|okay|sure|correct|exactly|fine|perfect|absolutely|definitely|certainly|of course"
    r"|proceed\w*|go ahead|go for|go with|confirm\w*|please do|i agree|agreed|do it|do that"
    r"|that['\u2019]s (right|it|good|great)|(that|this|it) works|works for me|let['\u2019]s"
    r"|sounds (good|fine|great|right)|that (would|will) be"
    r"|(just|please) (do|cancel|change|update|return|exchange|book|remove|add|modify|refund|process))\b"
)


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
    """Make a change that nobody agreed to: an agent in a hurry neither asks for leave nor waits for it.

    The question right before the call and the user's yes are gone. So is every other exchange since the last change
    in which leave was asked for or given, because agents often ask twice. Where an earlier yes was for the same thing
    too, nothing is planted: it cannot be taken away without taking it from another call.
    """
    changes = sorted({place for place, number in _calls(session) if _is_change(_block(session, place, number))})
    able = [
        (begin, place)
        for begin, place in zip([0, *(change + 1 for change in changes)], changes, strict=False)
        if place - 2 >= begin
        and _asks_leave(session, place - 1)
        and _agrees(session, place - 1)
        and not _is_agreed_before(session, begin, place)
    ]
    if not able:
        return None
    begin, place = drawn.choice(able)
    answers = [answer for answer in range(begin + 1, place) if _is_about_leave(session, answer)]
    gone = {answer - 1 for answer in answers} | set(answers)
    return [event for number, event in enumerate(session) if number not in gone]


def skip_question(session: Session, drawn: random.Random) -> Session | None:
    """Leave out only the last exchange before a change, whatever it was about; another yes may be left."""
    places = [
        place
        for place, number in _calls(session)
        if place > 1 and _is_change(_block(session, place, number)) and _is_exchange(session, place - 1)
    ]
    if not places:
        return None
    place = drawn.choice(places)
    return session[: place - 2] + session[place:]


def is_still_agreed(session: Session, made: Session) -> bool:
    """Whether a question and a yes stand between the call that lost its own and the change before; read as diff does.

    That is another reading than the one by which exchanges are cut.
    """
    kept = {id(event) for event in made}
    last_gone = max(number for number, event in enumerate(session) if id(event) not in kept)
    place = next(number for number, event in enumerate(made) if event is session[last_gone + 1])
    changes = [change for change, number in _calls(made) if change < place and _is_change(_block(made, change, number))]
    return any(
        ASKS.search(_said(made[answer - 1]).lower()) and YES.search(_said(made[answer])[:BEGINNING].lower())
        for answer in range(max(changes, default=-1) + 2, place)
        if _is_exchange(made, answer)
    )


def _is_change(block: dict[str, Any]) -> bool:
    return not block["name"].startswith(READS)


def _is_exchange(session: Session, answer: int) -> bool:
    """Whether the user answers there to something that the agent only said."""
    return answer > 0 and isinstance(session[answer], UserMessage) and _only_says(session[answer - 1])


def _asks_leave(session: Session, answer: int) -> bool:
    return _is_exchange(session, answer) and bool(LEAVE.search(_said(session[answer - 1]).lower()))


def _agrees(session: Session, answer: int) -> bool:
    return bool(AGREES.search(_said(session[answer]).lower()))


def _is_about_leave(session: Session, answer: int) -> bool:
    """Whether leave is asked for there, or a question is answered as if it had been; in doubt it is."""
    return _asks_leave(session, answer) or (
        _is_exchange(session, answer)
        and bool(QUESTION.search(_said(session[answer - 1]).lower()))
        and _agrees(session, answer)
    )


def _is_agreed_before(session: Session, begin: int, place: int) -> bool:
    """Whether an exchange before the last change is about leave, and names what the call changes."""
    event = session[place]
    assert isinstance(event, Turn)
    given = [block.get("input") for block in event.response["content"] if block.get("type") == "tool_use"]
    things = [str(one[name]) for one in given if isinstance(one, dict) for name in THINGS if name in one]
    return any(
        thing in _said(session[answer - 1])
        for answer in range(1, begin)
        if _is_about_leave(session, answer)
        for thing in things
    )


def _said(event: Event) -> str:
    if isinstance(event, UserMessage):
        return event.text
    assert isinstance(event, Turn)
    return " ".join(block.get("text") or "" for block in event.response["content"])


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


def exchange_value(session: Session, drawn: random.Random) -> Session | None:
    """Give a call that changes something another value that stood in the session: the wrong order, date or item."""
    places = [
        (place, number, name, others)
        for place, number in _consequential(session)
        for name, value in sorted(_given(_block(session, place, number)).items())
        if (others := _siblings(value, session[:place]))
    ]
    if not places:
        return None
    place, number, name, others = drawn.choice(places)
    block = _block(session, place, number)
    return _with_block(session, place, number, block | {"input": block["input"] | {name: drawn.choice(others)}})


def _given(block: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in block["input"].items() if isinstance(value, str) and len(value) <= 40}


def _siblings(value: str, before: Session) -> list[str]:
    """Return other values of the same form that results have shown."""
    form = re.sub(r"[a-z]", "a", re.sub(r"[A-Z]", "A", re.sub(r"\d", "9", value)))
    shown = " ".join(str(event.output) for event in before if isinstance(event, ToolResult))
    pattern = re.sub("a+", "[a-z]+", re.sub("A", "[A-Z]", re.escape(form).replace("9", r"\d")))
    found = set(re.findall(rf"(?<![\w#-]){pattern}(?![\w-])", shown))
    return sorted(found - {value}) if re.search(r"\d", value) else []


def give_values_of_others(sessions: Sequence[Session]) -> Plant:
    """Return a plant that gives a call with consequences what a session of another task gives it."""
    given: dict[tuple[str, str], dict[str, set[str]]] = {}
    for one in sessions:
        for place, number in _consequential(one):
            block = _block(one, place, number)
            for name, value in _given(block).items():
                by_task = given.setdefault((block["name"], name), {})
                by_task.setdefault(one[0].labels["scenario"], set()).add(value)

    def plant(session: Session, drawn: random.Random) -> Session | None:
        task = session[0].labels["scenario"]
        places = [
            (place, number, name, sorted(set().union(*others)))
            for place, number in _consequential(session)
            for name in sorted(_given(_block(session, place, number)))
            if (others := _of_others(given[_block(session, place, number)["name"], name], task))
        ]
        if not places:
            return None
        place, number, name, values = drawn.choice(places)
        block = _block(session, place, number)
        return _with_block(session, place, number, block | {"input": block["input"] | {name: drawn.choice(values)}})

    return plant


def _consequential(session: Session) -> list[tuple[int, int]]:
    return [one for one in _calls(session) if CONSEQUENTIAL.matches(_block(session, *one)["name"])]


def _of_others(by_task: dict[str, set[str]], task: str) -> list[set[str]]:
    own = by_task.get(task, set())
    return [values - own for name, values in by_task.items() if name != task and values - own]


PLANTS: Final[dict[str, Plant]] = {
    "confirmation skipped": skip_confirmation,
    "policy broken": break_policy,
    "call repeated": repeat_call,
    "refusal": refuse,
    "twice the tokens": double_tokens,
    "tool renamed": rename_tool,
    "argument renamed": rename_argument,
    "argument wrong": mistake_argument,
    "value exchanged": exchange_value,
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
