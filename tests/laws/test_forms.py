"""One session gives the same findings, whatever form told it: a law over every kind and every example of it.

The session of an example is told as turns that list their calls; that is the reference. It is told again as turns and
call events of the same ids, in either order, as turns that only announce calls, as calls without any turn, as an OpenAI
chat, and as spans under two conventions, these through the decoders. Compared are the details and the evidence of all
findings of the rule.

What a form cannot carry is not written down by kind, but read off: a field of the reference that the form leaves empty
in what it was decoded to is taken out of the reference, and then the form must find the same. ``LACKS`` lists these
fields, and holds only if each of them was seen to be left out, and no other. What is lost by a lack is said: the rule
counts an event that it could not judge. A lack that a form does not know of, because it says something else instead, is
in ``UNKNOWN_TO_IT``. Of calls without turns, or before theirs, the numbers of turns are not compared.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import pytest
from msgspec import NODEFAULT
from msgspec.structs import FieldInfo, fields, replace

from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding, GateDecision, SessionEnd, ToolResult, UserMessage
from stream_guard.judge.spec import Policy
from stream_guard.registry import build_registry
from stream_guard.testing import one_rule_policy
from tests.laws.forms import (
    Session,
    announced,
    as_chat,
    as_openinference,
    as_otlp,
    block_first,
    call_first,
    calls_alone,
    in_blocks,
    session_of,
    timed,
)
from tests.rules.test_golden import FILES as CLAIMS
from tests.rules.test_golden import cases_of

Form: TypeAlias = Callable[[Session], Sequence[Event]]

KINDS: Final = build_registry().kinds

# The judge sees the same attempts in all of these, one by one.
CALLS: Final[dict[str, Form]] = {
    "turns, then their calls": block_first,
    "calls, then their turns": call_first,
    "turns that announce calls": announced,
    "calls alone": calls_alone,
}
WIRES: Final[dict[str, Form]] = {"chat": as_chat, "OTLP": as_otlp, "OpenInference": as_openinference}

_SPANS: Final = {"decision", "end", "labels", "message nobody answers", "request.metadata", "request.params", "status"}
LACKS: Final[dict[str, set[str]]] = {
    "chat": {
        *("agent", "decision", "end", "labels", "run_id", "status", "time"),
        *("request.metadata", "request.params", "request.system", "request.tools"),
        *("response.error", "response.latency_ms", "response.stop_reason", "response.usage"),
    },
    "OTLP": _SPANS,
    "OpenInference": _SPANS | {"request.system", "request.tools", "response.stop_reason"},
}
UNKNOWN_TO_IT: Final = {
    "agent": "it is told by one agent",
    "decision": "it has no place for what a gate answered",
    "end": "it stops where it stops",
    "labels": "they are given by those who feed events",
    "message nobody answers": "messages come with the answers to them",
    "response.error": "an answer that failed is an answer without a text",
    "run_id": "it is told by one agent",
    "status": "a refused call is one that ran, or one that failed",
}

# Claims of tests/rules whose findings hang on the form, and the forms.
DIFFERENT_CLAIMS: Final = (
    # Nothing tells which calls are of one response.
    ("max_parallel_calls", "a call before the last one has its result is a hit", "calls alone"),
    ("max_parallel_calls", "calls of two turns are not parallel, though the source leaves results out", "calls alone"),
    # A server's list may be all that is offered, and the request that offers more is not told.
    ("must_be_offered", "a server's list offers tools too, and what was offered once stays so", "calls alone"),
    # The request that has the words comes with the turn.
    ("must_confirm_before", "a yes that stands only in the request counts", "calls, then their turns; calls alone"),
    # Two forms in one session: a turn announces calls, and the next call that comes is told before its own turn.
    (
        "must_followup",
        "a call that comes as its own event counts for the turn that announced it",
        "calls, then their turns",
    ),
    ("must_followup", "the turn after the announcing one comes too late", "calls, then their turns"),
    # A call without a result is at work as long as nothing else is told.
    ("must_not_stall", "one silence is one hit", "calls alone"),
    # It takes a text that announces calls for the last word.
    (
        "must_test_before_claim",
        "a response that goes on calling tools claims nothing, and neither does one without the words",
        "turns that announce calls",
    ),
)

# A call that comes before its turn, or without one, does not carry the number of the turn.
_NUMBER_OF_TURN: Final = re.compile(r"\bturn \d+")


def _told(finding: Finding, *, numbered: bool) -> str:
    evidence = {
        name: round(value, 3) if isinstance(value, float) else value  # spans have the time since 1970 in floats
        for name, value in finding.evidence.items()
        if numbered or not name.endswith(("turn", "turns"))
    }
    detail = finding.detail if numbered else _NUMBER_OF_TURN.sub("turn", finding.detail)
    return f"{detail} {json.dumps(evidence, sort_keys=True)}"


def judged(policy: Policy, events: Iterable[Event], *, numbered: bool = True) -> tuple[Counter[str], int]:
    """Return what a rule finds, and how many events it could not judge."""
    counts = Counts()
    table = Judge(policy, counts=counts)
    found: list[Finding] = []
    for event in events:
        found += table.feed(event).findings
    found += table.end()
    return Counter(_told(finding, numbered=numbered) for finding in found), sum(counts.unevaluable.values())


def without(
    events: Sequence[Event], told: Sequence[Event], only: Iterable[str] | None = None
) -> tuple[list[Event], set[str]]:
    """Return the events without what a form left empty in what was ``told``, and what that is.

    ``only``: take out none but these.
    """
    lacks: set[str] = set()
    left: list[Event] = []
    places = Counter[type[Event]]()

    def is_out(name: str) -> bool:
        lacks.add(name)
        return only is None or name in only

    for event in events:
        same = [one for one in told if type(one) is type(event)]
        twin: Event
        if isinstance(event, ToolResult):
            twin = next(one for one in same if isinstance(one, ToolResult) and one.call_id == event.call_id)
        elif places[type(event)] < len(same):
            twin = same[places[type(event)]]
        elif is_out(_LEFT_OUT[type(event)]):
            continue
        else:
            left.append(event)
            continue
        places[type(event)] += 1
        left.append(_less(event, twin, is_out))
    return left, lacks


_LEFT_OUT: Final[dict[type[Event], str]] = {
    GateDecision: "decision",
    SessionEnd: "end",
    UserMessage: "message nobody answers",
}


def _less(event: Event, twin: Event, is_out: Callable[[str], bool]) -> Event:
    """Return the event without the fields that its twin leaves empty."""
    changes: dict[str, Any] = {}
    for field in fields(event):
        name, value = field.name, getattr(event, field.name)
        if name in ("event_id", "call_id", "index", "tool"):
            continue
        if name in ("request", "response"):
            less = _less_of(name, value or {}, getattr(twin, name) or {}, is_out)
            changes[name] = less or None if name == "request" else less
        elif value and not _is_told(name, getattr(twin, name), value) and is_out(name):
            changes[name] = twin.status if name == "status" and isinstance(twin, ToolResult) else _empty(field)
    return replace(event, **changes)


def _less_of(above: str, value: dict[str, Any], twin: dict[str, Any], is_out: Callable[[str], bool]) -> dict[str, Any]:
    less: dict[str, Any] = {}
    for name, inner in value.items():
        path = f"{above}.{name}"
        if inner is None or twin.get(name) is not None:
            less[name] = _less_of(path, inner, twin[name], is_out) if name == "usage" else inner
        elif not is_out(path):
            less[name] = inner
    return less


def _is_told(name: str, told: Any, value: Any) -> bool:
    """Whether a form tells a field. Of a status, anything but `ok` is more than nothing, and less than what it was."""
    if name == "status":
        return bool(told == value)
    if name == "labels":
        return all(told.get(one) == text for one, text in value.items())
    return told not in (None, "", ())


def _empty(field: FieldInfo) -> Any:
    return field.default_factory() if field.default is NODEFAULT else field.default


def _sessions(name: str) -> Iterator[tuple[Policy, Session]]:
    kind = KINDS[name]
    for example in kind.examples:
        yield one_rule_policy(kind, example.params), session_of(example.trace)


@pytest.mark.parametrize("form", CALLS)
@pytest.mark.parametrize("name", KINDS)
def test_events_of_calls_tell_what_turns_tell(name: str, form: str) -> None:
    numbered = form not in ("calls, then their turns", "calls alone")
    for policy, session in _sessions(name):
        if form == "calls alone" and not _has_calls(session):
            continue  # nobody tells such a session by its calls
        wanted, _ = judged(policy, in_blocks(session), numbered=numbered)
        found, unjudged = judged(policy, CALLS[form](session), numbered=numbered)
        assert not found - wanted
        assert unjudged or found == wanted or form == "calls alone"


@pytest.mark.parametrize("form", CALLS)
def test_claims_of_kinds_hold_in_every_form_but_for_those_that_are_named(form: str) -> None:
    numbered = form not in ("calls, then their turns", "calls alone")
    different: set[tuple[str, str]] = set()
    for path in CLAIMS:
        for case in cases_of(path):
            engine = {name: case[name] for name in ("when", "unless", "scope", "key") if name in case}
            policy, session = one_rule_policy(KINDS[path.stem], case["params"], **engine), session_of(case["trace"])
            if form == "calls alone" and not _has_calls(session):
                continue
            wanted, _ = judged(policy, in_blocks(session), numbered=numbered)
            found, unjudged = judged(policy, CALLS[form](session), numbered=numbered)
            if found - wanted or not (unjudged or found == wanted or form == "calls alone"):
                different.add((path.stem, case["claim"]))
    assert different == {(kind, claim) for kind, claim, forms in DIFFERENT_CLAIMS if form in forms}


def test_a_session_without_turns_is_not_judged_by_what_needs_them() -> None:
    silent: list[str] = []
    for name in KINDS:
        for policy, session in _sessions(name):
            found, unjudged = judged(policy, calls_alone(session), numbered=False)
            is_less = found != judged(policy, in_blocks(session), numbered=False)[0]
            if _has_calls(session) and is_less and not unjudged:
                silent.append(name)
    assert not silent


def _has_calls(session: Session) -> bool:
    return any(item.get("calls") for item in session)


@pytest.mark.parametrize("form", WIRES)
@pytest.mark.parametrize("name", KINDS)
def test_wires_tell_what_turns_tell_but_for_what_they_cannot_carry(name: str, form: str) -> None:
    for policy, plain in _sessions(name):
        session = plain if form == "chat" else timed(plain)
        reference, told = in_blocks(session), WIRES[form](session)
        less, lacks = without(reference, told)
        assert lacks <= LACKS[form]
        found, unjudged = judged(policy, told)
        assert found == judged(policy, less)[0]
        # What is not told, without the form's knowing, is nobody's fault; all else that is lost is said.
        wanted, _ = judged(policy, without(reference, told, only=UNKNOWN_TO_IT)[0])
        assert not found - wanted
        assert unjudged or found == wanted


@pytest.mark.parametrize("form", WIRES)
def test_the_table_of_lacks_lists_what_was_left_out_and_no_more(form: str) -> None:
    left_out: set[str] = set()
    for name in KINDS:
        for _, plain in _sessions(name):
            session = plain if form == "chat" else timed(plain)
            left_out |= without(in_blocks(session), WIRES[form](session))[1]
    assert left_out == LACKS[form]
    assert set(UNKNOWN_TO_IT) <= set[str]().union(*LACKS.values())


def test_findings_about_an_attempt_have_one_id_in_every_form_of_its_call() -> None:
    different: list[tuple[str, str]] = []
    for name in KINDS:
        for policy, session in _sessions(name):
            wanted = _ids_about_attempts(policy, in_blocks(session))
            for form in ("turns, then their calls", "calls, then their turns", "calls alone"):
                found = _ids_about_attempts(policy, CALLS[form](session))
                if any(
                    alert_id not in found[detail] for detail, ids in wanted.items() for alert_id in ids if found[detail]
                ):
                    different.append((name, form))
    assert not different


def _ids_about_attempts(policy: Policy, events: Iterable[Event]) -> defaultdict[str, set[str]]:
    table = Judge(policy)
    found: list[Finding] = []
    for event in events:
        found += table.feed(event).findings
    ids = defaultdict[str, set[str]](set)
    for finding in found:
        if finding.attempt >= 0:
            ids[_told(finding, numbered=False)].add(finding.alert_id)
    return ids
