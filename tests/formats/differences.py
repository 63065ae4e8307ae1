"""What formats cannot say: each difference as a change to the session, with the reason for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.docs.tables import table
from tests.formats.session import SUB_RUN, Seen

Change = Callable[[list[Seen]], list[Seen]]


class Difference(NamedTuple):
    what: str
    why: str
    change: Change
    formats: frozenset[str]


def _blocked_becomes(status: str) -> Change:
    return lambda seen: [one._replace(status=status) if one.status == "blocked" else one for one in seen]


def _no_clock(seen: list[Seen]) -> list[Seen]:
    return [one._replace(time=None) for one in seen]


def _no_sub_agent(seen: list[Seen]) -> list[Seen]:
    return [one for one in seen if one.run != SUB_RUN]


def _results_in_the_root(seen: list[Seen]) -> list[Seen]:
    return [one._replace(run="") if one.sort == "result" else one for one in seen]


def _refusal_in_words(seen: list[Seen]) -> list[Seen]:
    words = "The user doesn't want to proceed with this tool use. "
    return [one._replace(text=words + one.text) if one.status == "blocked" else one for one in seen]


def _rejection_in_words(seen: list[Seen]) -> list[Seen]:
    words = "exec command rejected by user: "
    return [one._replace(text=words + one.text) if one.status == "blocked" else one for one in seen]


def _time_of_the_turn(seen: list[Seen]) -> list[Seen]:
    called = {one.call_id: one.time for one in seen if one.sort == "call"}
    return [one._replace(time=called[one.call_id]) if one.sort == "result" else one for one in seen]


def _run_is_span(seen: list[Seen]) -> list[Seen]:
    return [one._replace(run="00000000000000bb") if one.run else one for one in seen]


def _carried_by_the_next_turn(seen: list[Seen]) -> list[Seen]:
    return [one._replace(time=seen[number + 1].time) if one.sort == "user" else one for number, one in enumerate(seen)]


def _no_person(seen: list[Seen]) -> list[Seen]:
    return [one for one in seen if one.sort != "user"]


def _ids_by_place(seen: list[Seen]) -> list[Seen]:
    """Number the messages of the one agent, and the calls in each: that is what a text leaves of an id."""
    ids: dict[str, str] = {}
    number, place = -1, 0
    found = []
    for one in seen:
        if one.sort == "call":
            ids[one.call_id] = f"{number}.{place}"
            place += 1
        else:
            number, place = number + 1, 0
        found.append(one._replace(call_id=ids[one.call_id]) if one.call_id else one)
    return found


def _one_call_a_turn(seen: list[Seen]) -> list[Seen]:
    found: list[Seen] = []
    for one in seen:
        if one.sort == "call" and found[-1].sort == "call":
            found.append(Seen("turn", run=one.run, time=one.time))
        found.append(one)
    return found


def _results_at_their_calls(seen: list[Seen]) -> list[Seen]:
    results = {one.call_id: one for one in seen if one.sort == "result"}
    found: list[Seen] = []
    for one in seen:
        if one.sort != "result":
            found.append(one)
        if one.sort == "call":
            found.append(results[one.call_id])
    return found


def _ids_by_step(seen: list[Seen]) -> list[Seen]:
    """Number the steps behind the instructions; a call has the number of its step."""
    ids: dict[str, str] = {}
    number = 0
    for one in seen:
        if one.sort == "call":
            ids[one.call_id] = str(number)
        else:
            number += 1
    return [one._replace(call_id=ids[one.call_id]) if one.call_id else one for one in seen]


def _only_the_task(seen: list[Seen]) -> list[Seen]:
    return [one for number, one in enumerate(seen) if one.sort != "user" or number == 0]


def _no_empty_turn(seen: list[Seen]) -> list[Seen]:
    return [one for one in seen if one.sort != "turn" or one.text]


def _tool_rejection_in_words(seen: list[Seen]) -> list[Seen]:
    words = "The tool call is rejected by the user. "
    return [one._replace(text=words + one.text) if one.status == "blocked" else one for one in seen]


SPANS = frozenset(
    {"flat-spans", "inspect", "langfuse", "langsmith", "openinference", "otlp", "otlp-json", "otlp-proto"}
)

DIFFERENCES = (
    Difference(
        "a blocked call is an error",
        "the format has one flag for every call that did not work out",
        _blocked_becomes("error"),
        frozenset(
            {
                "agentdojo",
                "agentlog",
                "anthropic",
                "flat-spans",
                "inspect",
                "langchain",
                "langfuse",
                "langsmith",
                "mini-swe-agent",
                "openinference",
                "otlp",
                "otlp-json",
                "otlp-proto",
                "pi",
                "steps",
                "tau2",
            }
        ),
    ),
    Difference(
        "a blocked call looks like one that ran",
        "the format has no flag at all; a result counts as an error when its text begins with `Error`",
        _blocked_becomes("ok"),
        frozenset(
            {
                *("action-steps", "ag2", "atif", "openai-chat", "openai-responses", "swe-agent", "tau-bench"),
                "text-protocol",
            }
        ),
    ),
    Difference(
        "a blocked call is told by its words",
        "a refusal is an error whose text begins as the program always begins it, and the text keeps that beginning",
        _refusal_in_words,
        frozenset({"claude-code", "claude-stream-json"}),
    ),
    Difference(
        "a blocked call is told by other words",
        "a refusal is an output that says that the user rejected the call, and the text keeps those words",
        _rejection_in_words,
        frozenset({"codex-rollout"}),
    ),
    Difference(
        "a rejected call is told by its words",
        "a refusal is an error whose text begins as the program always begins it, and the text keeps that beginning",
        _tool_rejection_in_words,
        frozenset({"kimi"}),
    ),
    Difference(
        "no event has a time",
        "the format has no clock; rules that measure time answer `unevaluable`",
        _no_clock,
        frozenset(
            {
                *("action-steps", "ag2", "agentdojo", "anthropic", "claude-stream-json", "langchain", "openai-chat"),
                *("openai-responses", "steps", "swe-agent", "tau-bench", "text-protocol"),
            }
        ),
    ),
    Difference(
        "what a sub-agent does inside is not there",
        "the format records one agent; the sub-agent is a call and its result",
        _no_sub_agent,
        frozenset(
            {
                *("action-steps", "ag2", "agentdojo", "agentlog", "anthropic", "codex-rollout", "mini-swe-agent"),
                *("openai-chat", "openai-responses", "openhands", "pi", "steps", "swe-agent", "tau-bench", "tau2"),
                "text-protocol",
            }
        ),
    ),
    Difference(
        "what a person wrote is no event",
        "it stands in the request of the turn that answers it",
        _no_person,
        frozenset({"agentlog"}),
    ),
    Difference(
        "parallel calls are turns of their own",
        "a step has one action",
        _one_call_a_turn,
        frozenset({"action-steps", "swe-agent"}),
    ),
    Difference(
        "a result stands behind its call",
        "a step holds the action and what came of it",
        _results_at_their_calls,
        frozenset({"swe-agent"}),
    ),
    Difference(
        "what a person wrote after the task is no event",
        "nobody writes while the agent runs",
        _only_the_task,
        frozenset({"swe-agent"}),
    ),
    Difference(
        "an answer without a text is no turn",
        "the parts of an answer are lines of their own, and a call is an event of its own",
        _no_empty_turn,
        frozenset({"kimi"}),
    ),
    Difference(
        "a call's id is the number of its step",
        "the format has no ids; results answer the calls before them, in their order",
        _ids_by_step,
        frozenset({"action-steps"}),
    ),
    Difference(
        "a call's id is its place: the number of the message and of the call in it",
        "a text has no ids; a result answers the first call of the last message that has none",
        _ids_by_place,
        frozenset({"text-protocol"}),
    ),
    Difference(
        "results of a sub-agent's calls have no `run_id`",
        "only the model's messages carry the agent's name; the result is paired with its call by id",
        _results_in_the_root,
        frozenset({"langchain"}),
    ),
    Difference(
        "the `run_id` of a sub-agent is the id of its span",
        "an agent's name is the same each time it is asked; its span is one run",
        _run_is_span,
        SPANS,
    ),
    Difference(
        "a result has the time of the turn that called",
        "a step has one time, and holds the calls and their results",
        _time_of_the_turn,
        frozenset({"atif"}),
    ),
    Difference(
        "a user's message has the time of the call to the model that carried it",
        "only spans have times, and what a person wrote has none of its own",
        _carried_by_the_next_turn,
        SPANS,
    ),
)


def apply_differences(name: str, seen: list[Seen]) -> list[Seen]:
    """Return the session with the differences of a format."""
    for difference in DIFFERENCES:
        if name in difference.formats:
            seen = difference.change(seen)
    return seen


def differences_table() -> str:
    """Return the differences as the page lists them."""
    rows = [(one.what, ", ".join(f"`{name}`" for name in sorted(one.formats)), one.why) for one in DIFFERENCES]
    return table(("difference", "formats", "why"), rows)
