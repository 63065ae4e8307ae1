"""The laws that every rule kind must keep, ours and those of other packages; ``check_laws(kind)`` runs them all.

Traces are made by hypothesis from the kind's own examples, so a kind needs examples that show what it
reacts to. A law that breaks raises AssertionError with its name and the smallest trace that breaks it.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from typing import Any, Final
from unittest.mock import patch

import jsonschema
import msgspec
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from msgspec.structs import replace

from stream_guard.errors import DecodeError
from stream_guard.guard.clocks import ReplayClock
from stream_guard.guard.inline import Guard
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding, GateDecision, Json, Turn, UserMessage
from stream_guard.judge.rule import Example, RuleType
from stream_guard.judge.spec import Policy
from stream_guard.policy.forms import CONDITION_DEFINITION
from stream_guard.ports import Decoder, Record
from stream_guard.running.batch import evaluate
from stream_guard.storage.stores import MemoryStore
from stream_guard.testing.running import find, one_rule_policy, rule_spec
from stream_guard.testing.shorthand import events

Trace = Sequence[Mapping[str, Json]]

_ANYWHERE: Final[Trace] = (
    {"user": "please go on"},
    {"turn": "I will look into it."},
    {"turn": None, "calls": ["other_tool"]},
    {"turn": "cut off", "stop": "max_tokens", "request": None},
    {"call": "other_tool", "id": "c1"},
    {"result": "other_tool", "id": "c1"},
    {"decision": "block", "id": "c1"},
    {"turn": "unseen", "captured": False},
)
_STEPS: Final = (0.0, 0.25, 1.0, 30.0, 600.0, 1799.0, 1800.0, 4000.0)


def check_laws(kind: RuleType, *, examples: int = 40, longest: int = 10_000) -> None:
    """Hold a rule kind to all laws; ``examples`` is how many traces hypothesis tries.

    ``longest`` is how many events the session has in which the state must stay under its bound.

    Every law is checked on every trace, under the parameters of each of the kind's examples.
    """
    check_docs(kind)
    check_schema(kind)
    policies = [one_rule_policy(kind, example.params) for example in kind.examples]
    _over_traces(kind, policies, examples)
    rules = [rule_spec(kind, example.params, rule_id=f"rule-{number}") for number, example in enumerate(kind.examples)]
    check_bound(kind, Policy(rules=tuple(rules), version="test"), longest)


def _over_traces(kind: RuleType, policies: Sequence[Policy], examples: int) -> None:
    @seed(2026)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),  # a trace is short, and `_shortened` takes seconds where hypothesis may take minutes
    )
    @given(traces(kind), traces(kind), st.tuples(st.integers(0, 11), st.sampled_from(list(_FIELDS))))
    def run(trace: Trace, other: Trace, cut: tuple[int, str]) -> None:
        for policy in policies:
            _hold(policy, trace, other, cut)

    try:
        run()
    except Flaky as error:
        # The same trace gave two results, so the rule keeps state of its own.
        raise AssertionError(f"law of purity of the rule object: {kind.kind} changes from run to run") from error


def _hold(policy: Policy, trace: Trace, other: Trace, cut: tuple[int, str]) -> None:
    """Check every law on these traces. One that breaks is reported for a trace from which no event can be left out."""

    def broken(trace: Trace, other: Trace) -> AssertionError | None:
        try:
            for law in (check_restart, check_isolation, check_agreement, check_determinism, check_purity):
                law(policy, trace, other)
            check_absence(policy, trace, cut)
        except AssertionError as error:
            return error
        return None

    failure = broken(trace, other)
    if failure is None:
        return
    other, failure = _shortened(other, lambda shorter: broken(trace, shorter), failure)
    _, failure = _shortened(trace, lambda shorter: broken(shorter, other), failure)
    raise failure


def _shortened(
    trace: Trace, broken: Callable[[Trace], AssertionError | None], failure: AssertionError
) -> tuple[Trace, AssertionError]:
    """Leave out events as long as something is still broken; return what is left and how it breaks."""
    place = 0
    while place < len(trace):
        shorter = [*trace[:place], *trace[place + 1 :]]
        if (found := broken(shorter)) is None:
            place += 1
        else:
            trace, failure = shorter, found
    return trace, failure


def traces(kind: RuleType, max_size: int = 12) -> st.SearchStrategy[Trace]:
    """Return a strategy for traces from the items of the kind's examples, in any order, with growing times."""
    pool = [*_ANYWHERE, *(item for example in kind.examples for item in example.trace if "end" not in item)]
    item = st.tuples(st.sampled_from(pool), st.sampled_from(_STEPS), st.booleans())
    return st.lists(item, max_size=max_size).map(_timed)


def _timed(items: list[tuple[Mapping[str, Json], float, bool]]) -> Trace:
    now = 1_700_000_000.0
    trace = []
    for item, step, has_clock in items:
        now += step
        plain = {key: value for key, value in item.items() if key not in ("at", "session", "event_id")}
        trace.append({**plain, "at": now} if has_clock or step else plain)
    return trace


def check_restart(policy: Policy, trace: Trace, _other: Trace) -> None:
    """Saving and restoring all state before every event changes no finding."""
    store, found = MemoryStore(), list[Finding]()
    for event in events(trace):
        judge = _stored_judge(policy, store)
        found += judge.feed(event).findings
        judge.commit()
    found += _stored_judge(policy, store).end()
    _expect("restart", _ids(found), _ids(evaluate(events(trace), policy)), trace)


def _stored_judge(policy: Policy, store: MemoryStore) -> Judge:
    counts = Counts()
    return Judge(policy, store=store, counts=counts)


def check_isolation(policy: Policy, trace: Trace, other: Trace) -> None:
    """Another session in between changes no finding of this one."""
    mixed = _interleave(events(trace, "one"), events(other, "two"))
    found = [finding for finding in evaluate(mixed, policy) if finding.session_id == "one"]
    _expect("isolation", _ids(found), _ids(evaluate(events(trace, "one"), policy)), trace)


def check_agreement(policy: Policy, trace: Trace, other: Trace) -> None:
    """The stream, the inline guard and batch find the same."""
    ended = [*trace, {"end": "closed"}]
    modes = policy.rules[0].rule.modes
    if "stream" in modes and "batch" in modes:
        ordered = _by_time(events(trace, "one"), events(other, "two"))
        _expect("agreement of stream and batch", _ids(_stream(ordered, policy)), _ids(evaluate(ordered, policy)), trace)
    if "inline" in modes and "batch" in modes:
        inline = _inline(events(ended), policy)
        _expect("agreement of inline and batch", _ids(inline), _ids(evaluate(events(ended), policy)), trace)


def _stream(ordered: Sequence[Event], policy: Policy) -> list[Finding]:
    counts, found = Counts(), list[Finding]()
    judge = Judge(policy, mode="stream", store=MemoryStore(), counts=counts)
    for event in ordered:
        found += judge.feed(event).findings
        judge.commit()
    found += judge.end()
    return found


def _inline(ordered: Sequence[Event], policy: Policy) -> list[Finding]:
    clock = ReplayClock()
    guard = Guard(policy, clock=clock)
    found: list[Finding] = []
    for event in ordered:
        clock.now = event.time
        found += guard.observe(event)
    return found


def check_determinism(policy: Policy, trace: Trace, _other: Trace) -> None:
    """The same trace gives the same findings, without wall clock, random numbers or random ids."""
    first = evaluate(events(trace), policy)
    with poisoned():
        again = evaluate(events(trace), policy)
    _expect("determinism", again, first, trace)


@contextmanager
def poisoned() -> Iterator[None]:
    """Make the wall clock and every source of randomness raise while a rule runs."""

    def forbidden(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("a rule asked for the wall clock or for chance; event time is its only clock")

    with ExitStack() as stack:
        for owner, name in ((time, "time"), (time, "monotonic"), (random, "random"), (uuid, "uuid4")):
            stack.enter_context(patch.object(owner, name, forbidden))
        yield


def check_purity(policy: Policy, trace: Trace, _other: Trace) -> None:
    """Judging changes neither the events, in any mode, nor the rule; so judging them again finds the same."""
    rule = policy.rules[0].rule
    before = _memory_of(rule)
    given, untouched = events(trace), events(trace)
    found = evaluate(given, policy)
    _stream(given, policy)
    _inline(given, policy)
    _expect("purity of events", given, untouched, trace)
    _expect("purity of events", evaluate(given, policy), found, trace)
    _expect("purity of the rule object", _memory_of(rule), before, trace)


def _memory_of(rule: object) -> dict[str, str]:
    """Return every attribute of a rule and its class as text: all places where it could keep state."""
    held = {**vars(type(rule)), **vars(rule)}
    return {name: repr(value) for name, value in held.items() if not callable(value)}


def _told(policy: Policy, trace: Sequence[Event], counts: Counts) -> Counter[tuple[str, ...]]:
    """Count what is found at which event of the trace; an id hangs on the content, of which a field is missing.

    What no event decided is found at no certain one: its time hangs on the times of others.
    """
    judge, told = Judge(policy, counts=counts), Counter[tuple[str, ...]]()
    for position, event in enumerate(trace):
        for one in judge.feed(event).findings:
            told[one.rule_id, one.part, one.at, str(position) if one.at == "event" else ""] += 1
    told.update((one.rule_id, one.part, one.at, "") for one in judge.end())
    return told


def check_absence(policy: Policy, trace: Trace, cut: tuple[int, str]) -> None:
    """A field that a source leaves out hides no finding, unless the rule says that it could not judge.

    ``cut`` is a position in the trace and a field that is taken away from the event there.
    """
    # Without long pauses: an event without a time cannot end a session by its silence.
    close = [{**item, **({"at": 1.7e9 + place} if "at" in item else {})} for place, item in enumerate(trace)]
    whole, rest = events(close), events(deepcopy(close))
    position, field = cut
    without = _FIELDS[field](rest[position]) if position < len(rest) else None
    if without is None:
        return
    rest[position] = without
    counts = Counts()
    hidden = _told(policy, whole, Counts()) - _told(policy, rest, counts)
    if hidden and not counts.unevaluable:
        raise AssertionError(
            f"law of absence: without {field} at position {position} a finding is gone, and the rule does not say "
            f"that it could not judge, for the trace {list(trace)!r}"
        )


def _take(holder: str, name: str) -> Callable[[Event], Event | None]:
    """Return a function from an event to the event without a field; to None where it has none."""

    def take(event: Event) -> Event | None:
        if holder:
            inner = getattr(event, holder, None)
            if not isinstance(inner, dict) or inner.get(name) is None:
                return None
            return replace(event, **{holder: {key: value for key, value in inner.items() if key != name}})
        if getattr(event, name, None) is None or isinstance(event, GateDecision):  # whose arguments are the attempt's
            return None
        return replace(event, **{name: "" if name == "text" else None})

    return take


def _take_content(event: Event) -> Event | None:
    """Take the content of a response that calls no tool: the calls of others would come as events of their own."""
    content = event.response.get("content") if isinstance(event, Turn) else None
    if not isinstance(content, list) or any(block.get("type") == "tool_use" for block in content):
        return None
    return _take("response", "content")(event)


def _take_text(event: Event) -> Event | None:
    return _take("", "text")(event) if isinstance(event, UserMessage) else None


_FIELDS: Final[Mapping[str, Callable[[Event], Event | None]]] = {
    "time": _take("", "time"),
    "request": _take("", "request"),
    "request.model": _take("request", "model"),
    "response.content": _take_content,
    "response.stop_reason": _take("response", "stop_reason"),
    "response.usage": _take("response", "usage"),
    "response.latency_ms": _take("response", "latency_ms"),
    "args": _take("", "args"),
    "output": _take("", "output"),
    "text": _take_text,
}
"""The fields of events that a source may leave out, by name."""


def check_bound(kind: RuleType, policy: Policy, length: int) -> None:
    """Every rule's state stays under the size the kind declares, however long the session is."""
    pool = [*_ANYWHERE, *(item for example in kind.examples for item in example.trace if "end" not in item)]
    chosen = random.Random(7)  # noqa: S311  # the same trace every time, not a secret
    judge, found = Judge(policy), list[Finding]()
    trace = [{**chosen.choice(pool), "at": 1_700_000_000.0 + position} for position in range(length)]
    for event in events([_varied(item, position) for position, item in enumerate(trace)]):
        found += judge.feed(event).findings
        found.clear()
    size = max((len(msgspec.msgpack.encode(state)) for state in judge.states_of("s")), default=0)
    if size > kind.state_limit:
        raise AssertionError(f"law of bounded state: {kind.kind} keeps {size} bytes, it declares {kind.state_limit}")


def _varied(item: Mapping[str, Json], position: int) -> Mapping[str, Json]:
    """Give ids and arguments new values, so that no two items are equal."""
    varied = {key: value for key, value in item.items() if key not in ("session", "event_id")}
    if "id" in varied:
        varied["id"] = f"{varied['id']}-{position // 2}"
    if isinstance(varied.get("args"), dict):
        varied["args"] = {**varied["args"], "nonce": position}
    return varied


def check_schema(kind: RuleType) -> None:
    """Params have a JSON Schema with every field described; examples satisfy it; unknown keys are refused."""
    schema = kind.params_type.model_json_schema()
    schema.setdefault("$defs", {})["condition"] = CONDITION_DEFINITION
    for name, field in schema.get("properties", {}).items():
        if "description" not in field:
            raise AssertionError(f"law of schema: {kind.kind}.{name} has no description")
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for example in kind.examples:
        validator.validate(_json(example.params))
    if kind.params_type.model_config.get("extra") != "forbid":
        raise AssertionError(f"law of schema: {kind.kind} accepts unknown keys; let its params derive from sg.Params")


def _json(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def check_docs(kind: RuleType) -> None:
    """The class says in one sentence what it asks for, and shows a case that hits and one that does not."""
    first = (kind.__doc__ or "").strip().split("\n")[0]
    if not first.endswith("."):
        raise AssertionError(f"law of docs: {kind.kind} needs a docstring whose first line is a sentence")
    for needed, word in ((True, "hits"), (False, "does not hit")):
        if not any(bool(example.hits) is needed for example in kind.examples):
            raise AssertionError(f"law of docs: {kind.kind} has no example that {word}")
    for example in kind.examples:
        check_example(kind, example)


def check_example(kind: RuleType, example: Example) -> None:
    """An example fires exactly where it says."""
    placed = find(one_rule_policy(kind, example.params), example.trace)
    _expect(
        f"docs: example {example.claim!r} of {kind.kind}", [at for at, _ in placed], list(example.hits), example.trace
    )


def _interleave(one: list[Event], two: list[Event]) -> list[Event]:
    mixed: list[Event] = []
    for position in range(max(len(one), len(two))):
        mixed += one[position : position + 1] + two[position : position + 1]
    return mixed


def _by_time(one: list[Event], two: list[Event]) -> list[Event]:
    """Merge two sessions by time; an event without a time stays behind its predecessor."""
    timed: list[tuple[float, Event]] = []
    for session in (one, two):
        now = 0.0
        for event in session:
            now = now if event.time is None else event.time
            timed.append((now, event))
    return [event for _, event in sorted(timed, key=lambda pair: pair[0])]


def _ids(found: Sequence[Finding]) -> list[str]:
    return sorted(finding.alert_id for finding in found)


def _expect(law: str, got: object, expected: object, trace: Trace) -> None:
    if got != expected:
        raise AssertionError(f"law of {law}: got {got!r}, wanted {expected!r}, for the trace {list(trace)!r}")


# The laws of every decoder, ours and those of other packages; ``check_decoder_laws(kind, samples)`` runs them all.
#
# Records are made by hypothesis: the samples with odd fields, with damaged bytes, and bytes that are no sample at
# all. A law that breaks raises AssertionError with its name and the smallest record that breaks it.


JSON_VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


def check_decoder_laws(kind: type[Decoder], samples: Sequence[bytes], *, examples: int = 100) -> None:
    """Hold a decoder to all laws. ``samples`` are records it reads; ``examples`` is how many others are tried."""
    check_samples(kind, samples)
    for sample in samples:
        check_truncated(kind, sample)

    @seed(2026)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(value=st.binary() | damaged(samples), strict_keys=st.booleans())
    def run(value: bytes, *, strict_keys: bool) -> None:
        check_any_bytes(kind, value, strict_keys=strict_keys)

    run()


def check_samples(kind: type[Decoder], samples: Sequence[bytes]) -> None:
    """Every sample is read, and at least one of them has an event."""
    _require(samples, "law of samples: give at least one record that the decoder reads")
    read = [_decode(kind(), sample) for sample in samples]
    for sample, found in zip(samples, read, strict=True):
        _require(not isinstance(found, str), f"law of samples: {kind.__name__} refuses {sample!r}: {found}")
    _require(any(read), f"law of samples: {kind.__name__} finds no event in any of them")


def check_truncated(kind: type[Decoder], value: bytes) -> None:
    """A record of which only the head was read is refused."""
    refused = isinstance(_decode(kind(), value, truncated=10**8), str)
    _require(refused, f"law of truncation: {kind.__name__} reads the head of a record; call record.check_whole() first")


def check_any_bytes(kind: type[Decoder], value: bytes, *, strict_keys: bool = True) -> None:
    """Any bytes give events or DecodeError. The same bytes give the same again, also in a new process."""
    decoder = kind(strict_keys=strict_keys)
    first = _decode(decoder, value)
    _require(first != "", f"law of reasons: {kind.__name__} refuses {value!r} without a reason")
    _require(_decode(decoder, value) == first, f"law of redelivery: {kind.__name__} reads {value!r} differently again")
    fresh = kind(strict_keys=strict_keys)
    _require(_decode(fresh, value) == first, f"law of redelivery: another {kind.__name__} reads {value!r} differently")
    for event in first if isinstance(first, list) else ():
        _require(event.session_id, f"law of ids: an event of {value!r} has no session_id")
        _require(event.event_id, f"law of ids: an event of {value!r} has no event_id")
        _require(event.time is None or event.time >= 0, f"law of time: an event of {value!r} is before 1970")


def damaged(samples: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Return a strategy for samples with fields that should not be there, and with bytes that were hit."""
    return _damaged(list(samples))


@st.composite
def _damaged(draw: Callable[..., Any], samples: list[bytes]) -> bytes:
    sample: bytes = draw(st.sampled_from(samples))
    try:
        data = json.loads(sample)
    except ValueError:  # a sample need not be JSON
        data = None
    if isinstance(data, dict) and data:
        for field in draw(st.lists(st.sampled_from(sorted(data)), max_size=2)):
            data[field] = draw(JSON_VALUES)
        sample = json.dumps(data).encode()
    value = bytearray(sample)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(value)))
        value[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(value)


def _require(kept: object, law: str) -> None:
    if not kept:
        raise AssertionError(law)


def _decode(decoder: Decoder, value: bytes, truncated: int = 0) -> list[Event] | str:
    try:
        return list(decoder.decode(Record(value, "file", 0, 1, truncated=truncated)))
    except DecodeError as error:
        return str(error)
    except Exception as error:
        raise AssertionError(f"law of refusal: {value!r} raises {error!r}; raise DecodeError, nothing else") from error
