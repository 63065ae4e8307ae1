"""Which rules to run for an event: by their key, and by the event's kind, its tool and its text.

A plan lists its rules by what they need. A simple rule needs its handler, and perhaps a state and a condition; a full
one a key, a timer, a `for` or a text as well.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from stream_guard.judge.bound import (
    NO_STATE,
    BoundRule,
    Gate,
    Handler,
    key_path,
    key_paths,
    key_text,
    overrides,
    remembered_leaves,
)
from stream_guard.judge.conditions import Leaf
from stream_guard.judge.content import lacks_text, strings_at, strings_of
from stream_guard.judge.counts import Counts
from stream_guard.judge.identity import TENANT, tenant_session
from stream_guard.judge.model import (
    RESERVED,
    Event,
    GateDecision,
    Scope,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
)
from stream_guard.judge.paths import MISSING, Finder, Path, When
from stream_guard.judge.patterns import TextSet
from stream_guard.judge.rule import Params, ToolFilter, Where
from stream_guard.judge.rule_loop import Gated, RuleLoop, Step
from stream_guard.judge.spec import Policy, RuleSpec
from stream_guard.judge.twins import Places

Entry: TypeAlias = tuple[BoundRule, Handler]

MOST_FIELDS: Final = 1000  # names of arguments that are remembered for advice
_HANDLERS: Final[dict[type[Event], str]] = {
    UserMessage: "on_user_message",
    Turn: "on_turn",
    ToolCall: "on_tool_call",
    GateDecision: "on_decision",
    ToolResult: "on_tool_result",
}
_MEMO_LIMIT: Final = 4096
# What makes a pattern depend on where a string begins or ends. `[^a]` has such a sign too, which only costs time.
_EDGES: Final = ("^", "$", "\\A", "\\z")


# Rules that wait for a text.


class _Sought:
    """Patterns that are looked for in the same strings, and the rules that wait for them."""

    def __init__(self, path: Path | None, waiting: Sequence[tuple[str, Entry]], *, joins: bool) -> None:
        self.path = path
        self._patterns = TextSet([pattern for pattern, _ in waiting])
        self._owners = [owner for _, owner in waiting]
        self._joins = joins  # no pattern depends on where a string ends, so what none of all has, none has

    def find(self, strings: Sequence[str]) -> list[Entry]:
        """Return the rules with a pattern that occurs in one of the strings; one that occurs in two is there twice."""
        if len(strings) > 1 and self._joins and not self._patterns.search("\n".join(strings)):
            return []
        texts = strings if self._patterns.match_nothing else filter(None, strings)
        return [self._owners[number] for text in texts for number in self._patterns.search(text)]


class TextIndex:
    """Finds the rules that wait for a pattern in a text, in one pass over each text."""

    def __init__(self, entries: Sequence[Entry], where: Where) -> None:
        self.entries = tuple(entries)
        waiting: dict[tuple[Path | None, bool], list[tuple[str, Entry]]] = {}
        for bound, handle in entries:
            for path, regex in bound.texts[where]:
                is_one = path is not None or where in ("response", "user")
                joins = is_one or not any(sign in regex.pattern for sign in _EDGES)
                waiting.setdefault((path, joins), []).append((regex.pattern, (bound, handle)))
        self._sought = tuple(_Sought(path, patterns, joins=joins) for (path, joins), patterns in waiting.items())

    def waiting_for(self, event: Event) -> tuple[Entry, ...]:
        """Return the rules that wait for a text which the event has, or may have: all, where its text is left out."""
        return self.entries if lacks_text(event) else self.search(event)

    def search(self, event: Event) -> tuple[Entry, ...]:
        """Return the rules with a pattern that occurs, once each, in policy order."""
        found: dict[int, Entry] | None = None
        whole: list[str] | None = None
        for sought in self._sought:
            if sought.path is None and whole is None:
                whole = strings_of(event)
            strings = whole if sought.path is None and whole is not None else strings_at(event, sought.path)
            for owner in sought.find(strings):
                if found is None:
                    found = {}
                found[owner[0].number] = owner
        return () if found is None else tuple([found[number] for number in sorted(found)])


# Paths that a rule cannot do without. What was seen is no longer looked for, so that such a rule costs nothing.


_Awaited: TypeAlias = list[tuple[tuple[str, str], Finder]]
"""The id of each rule with the path that it needs, and what finds the value there."""


class PathWatch:
    """Paths that no event had so far, each with the id of the rule that needs it."""

    __slots__ = ("_awaited", "_finders", "_of_args", "_seen")

    def __init__(self, awaited: list[tuple[str, Path]]) -> None:
        self._await([((rule_id, path.text), path.finder) for rule_id, path in awaited])
        self._seen = 0  # how many paths were seen when this one last looked: no more of them, nothing to strike off

    def _await(self, awaited: _Awaited) -> None:
        self._awaited = awaited
        self._finders = list({path: finder for (_, path), finder in awaited}.values())  # many rules need the same
        self._of_args = any(path.startswith("tool.args.") for (_, path), _ in awaited)

    def look(self, event: Event, counts: Counts) -> bool:
        """Take the paths that the event has off the list; whether any are left.

        Where a path is not there, the names of the arguments are remembered: one of them may have been meant.
        """
        if len(counts.paths) != self._seen or self._has_one(event):
            self._strike_off(event, counts)
            self._seen = len(counts.paths)
        if self._of_args and type(event) is ToolCall and type(event.args) is dict and len(counts.fields) < MOST_FIELDS:
            for name in event.args:
                counts.fields[f"tool.args.{name}"[:200]] += 1
        return bool(self._awaited)

    def _has_one(self, event: Event) -> bool:
        for finder in self._finders:  # noqa: SIM110  # compiled, a loop takes half of what any() takes
            if finder.find(event) is not MISSING:
                return True
        return False

    def _strike_off(self, event: Event, counts: Counts) -> None:
        """Count the paths that the event has; await those that were never seen."""
        for path, finder in self._awaited:
            if finder.find(event) is not MISSING:
                counts.paths[path] += 1
        self._await([awaited for awaited in self._awaited if awaited[0] not in counts.paths])


def watch(bounds: Iterable[BoundRule], about: Container[When]) -> PathWatch | None:
    """Return the watch over the paths of rules that are about these things; None where there is none."""
    awaited = awaited_paths(bounds, about)
    return PathWatch(awaited) if awaited else None


def awaited_paths(bounds: Iterable[BoundRule], about: Container[When]) -> list[tuple[str, Path]]:
    """Return the paths of rules that are about these things, each with the id of its rule."""
    return [(bound.spec.id, path) for bound in bounds for path in bound.needed_paths if path.when in about]


# Plans.


class Plan:
    """The rules to run for one sort of event; ``where`` is the place of its text, None for decisions of a gate."""

    def __init__(self, entries: Sequence[Entry], texts: TextIndex | None, where: Where | None) -> None:
        self.entries = tuple(entries)
        self.loop = _loop([entry for entry in entries if entry[0].simple])
        self.full = tuple(entry for entry in entries if not entry[0].simple)
        self.texts = texts
        self.of_turns = of_turns = where == "response"
        of_tools = where in {"tool_args", "tool_result", None}
        rules = self.rules
        self.needs_clock = any(bound.needs_clock for bound in rules)
        self.needs_content = any(bound.needs_content for bound in rules)
        self.reads_args = of_tools and any(bound.reads_args for bound in rules)
        # Before the first turn, a gate over turns is unknown; so is the gate of an agent's rule to an unknown agent.
        self.needs_turn = not of_turns and any(bound.needs_turn for bound in rules)
        self.owned = any(bound.spec.agent for bound in rules)
        listed = (*self.entries, *(texts.entries if texts is not None else ()))
        self.twins = tuple([(bound.twin, handle) for bound, handle in listed if bound.twin is not None])
        asked = [one for twin, _ in self.twins for one in twin.asked] if where == "tool_args" else []
        self.asked = Places(asked) if asked else None  # of calls only: no other event is stopped
        about: tuple[When, ...] = ("event",) if of_tools else ("event", "turn") if of_turns else ("event", "user")
        self.watch = watch(rules, about)

    @property
    def rules(self) -> list[BoundRule]:
        """The rules of the plan, those that wait for a text too."""
        return [bound for bound, _ in (*self.entries, *(self.texts.entries if self.texts else ()))]


def _loop(entries: Sequence[Entry]) -> RuleLoop | None:
    """Return what runs the rules that need no more than a state and a gate; None where there are none."""
    if not entries:
        return None
    grouped: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry[0].gate is not None:
            grouped.setdefault(entry[0].gate_text, []).append(entry)
    groups = [_gated(group[0][0].gate, group) for group in grouped.values()]
    return RuleLoop([_step(*entry) for entry in entries if entry[0].gate is None], groups, NO_STATE)


def _gated(gate: Gate | None, entries: Sequence[Entry]) -> Gated:
    """Return the steps of rules behind the same condition, so that it is tested once for all of them."""
    assert gate is not None  # noqa: S101  # the caller's promise
    inside = [_step(bound, handle) for bound, handle in entries]
    outside = [
        _step(bound, bound.ungated)
        for bound, handle in entries
        if bound.ungated is not None and overrides(bound.rule, handle.__name__)
    ]
    may_open = [(bound, bound.may_open) for bound, _ in entries if bound.may_open is not None]
    ends = [(bound.number, bound.rule.state_type) for bound, _ in entries if bound.end is not None]
    return gate, tuple(inside), tuple(outside), tuple(may_open), tuple(ends)


def _step(bound: BoundRule, handle: Handler) -> Step:
    return bound.number, handle, None if bound.stateless else bound.rule.state_type, bound


class PlansByTool(dict[str, Plan | None]):
    """Plans for events that name a tool, made when a name is first seen; None where no rule applies."""

    def __init__(self, entries: Sequence[Entry], waiting: Sequence[Entry], where: Where | None) -> None:
        super().__init__()
        self._entries = [(bound.rule.tools(), bound, handle) for bound, handle in entries]
        self._waiting = [(bound.rule.tools(), bound, handle) for bound, handle in waiting]
        self._where = where
        self._texts: dict[tuple[int, ...], TextIndex | None] = {}  # by rules: tools share them, and names are many

    def __missing__(self, tool: str) -> Plan | None:
        # Agents choose the names: a stream of invented ones must not fill the memory.
        if len(self) >= _MEMO_LIMIT:
            self.clear()
            self._texts.clear()
        entries, waiting = _for_tool(self._entries, tool), _for_tool(self._waiting, tool)
        numbers = tuple(bound.number for bound, _ in waiting)
        if numbers not in self._texts:
            self._texts[numbers] = _text_index(waiting, self._where)
        texts = self._texts[numbers]
        plan = self[tool] = Plan(entries, texts, self._where) if entries or texts else None
        return plan


def _for_tool(entries: Sequence[tuple[ToolFilter | None, BoundRule, Handler]], tool: str) -> list[Entry]:
    return [(bound, handle) for pattern, bound, handle in entries if pattern is None or pattern.matches(tool)]


def _text_index(waiting: Sequence[Entry], where: Where | None) -> TextIndex | None:
    return TextIndex(waiting, where) if waiting and where is not None else None


class Index:
    """The rules of one key, arranged by the events that trigger them."""

    def __init__(self, bounds: Sequence[BoundRule]) -> None:
        self.bounds = tuple(bounds)
        self.users = self._plan(UserMessage, "user")
        self.turns = self._plan(Turn, "response")
        self.calls = PlansByTool(*self._entries(ToolCall, "tool_args"), "tool_args")
        self.decisions = PlansByTool(*self._entries(GateDecision, None), None)
        self.results = PlansByTool(*self._entries(ToolResult, "tool_result"), "tool_result")
        self.ends = tuple(bound for bound in bounds if bound.end is not None)
        # To responses: what was told without any left them nothing to judge.
        listening = [bound for bound in bounds if overrides(bound.rule, "on_turn")]
        self.listening = tuple(bound for bound in listening if bound.rule.judges_responses())

    def plan(self, event: Event) -> Plan | None:
        """Return the rules to run for an event of any kind."""
        if isinstance(event, ToolCall):
            return self.calls[event.tool]
        if isinstance(event, ToolResult):
            return self.results[event.tool]
        if isinstance(event, GateDecision):
            return self.decisions[event.tool]
        return self.turns if isinstance(event, Turn) else self.users if isinstance(event, UserMessage) else None

    def _plan(self, event_type: type[Event], where: Where) -> Plan | None:
        entries, waiting = self._entries(event_type, where)
        texts = _text_index(waiting, where)
        return Plan(entries, texts, where) if entries or texts else None

    def _entries(self, event_type: type[Event], where: Where | None) -> tuple[list[Entry], list[Entry]]:
        """Return the rules to call at every event of a type, and those that wait for a text."""
        listed: list[Entry] = []
        waiting: list[Entry] = []
        name = _HANDLERS[event_type]
        for bound in self.bounds:
            if not overrides(bound.rule, name) and not (event_type is Turn and _must_know_gate(bound)):
                continue
            handle: Handler = getattr(bound.rule, name)
            (waiting if where in bound.texts and _may_wait(bound) else listed).append((bound, handle))
        return listed, waiting


def _must_know_gate(bound: BoundRule) -> bool:
    """Whether a rule without ``on_turn`` must still see turns: its end is judged only if its gate opened."""
    return bound.gate is not None and bound.end is not None


def _may_wait(bound: BoundRule) -> bool:
    """Whether a rule needs to run only where its text occurs.

    Not a gated rule with an end to judge: the engine must know that the gate opened, even at a turn without
    the text. Not a rule with a `for` either.
    """
    gate_matters = bound.gate is not None and (bound.end is not None or bound.ungated is not None)
    return not gate_matters and bound.spec.hold is None


# Rules whose key spans sessions: one index for each key.


class CrossSessionRules:
    """The rules of one key that leaves ``session`` out: ``[agent]``, ``[labels.tenant, tool]``, ``all``.

    With ``by_tenant`` equal values of two tenants are two values: what one does counts for no other.
    """

    def __init__(self, key: tuple[str, ...], bounds: Sequence[BoundRule], *, by_tenant: bool = False) -> None:
        self.key = key
        self._by_tenant = by_tenant
        self._paths = key_paths(key)
        self._prefix = f"{RESERVED}{'+'.join(key)}{RESERVED}"
        self.index = Index(bounds)
        # A window over sessions is as long as it says, however long nothing happens in between.
        self.memory = max((_longest_window(bound.rule.params) for bound in bounds), default=0.0)

    def key_id(self, event: Event) -> str | None:
        """Return the id of the event's key value, or None when the event has no value for the key."""
        values = []
        for path in self._paths:
            value = path.find(event)
            if value is MISSING or value is None or value == "":
                return None
            values.append(key_text(value))
        if len(values) > 1:
            # No two lists of values have the same id: a tenant "a/b" is not the tenant "a" with a tool "b/...".
            values = [value.replace("%", "%25").replace("/", "%2F") for value in values]
        tenant = event.labels.get(TENANT, "") if self._by_tenant else ""
        if tenant and not event.session_id.startswith(tenant_session(tenant, "")):
            tenant = ""  # a label that a caller wrote: whose session it is says who vouches for the tenant
        return self._prefix + "/".join(values) + (f"{RESERVED}{key_text(tenant)}" if tenant else "")

    def owns(self, key_id: str) -> bool:
        """Whether the id is a value of this key."""
        return key_id.startswith(self._prefix)


def _longest_window(params: Params) -> float:
    """Return the longest span of time among parameters, in seconds; 0 without any."""
    spans = [getattr(params, name) for name in type(params).model_fields if name.endswith("_seconds")]
    return max((span for span in spans if isinstance(span, float)), default=0.0)


def by_key(bounds: Sequence[BoundRule], *, by_tenant: bool) -> Iterator[CrossSessionRules]:
    """Yield the rules that span sessions, for each key those that have it."""
    for key in {bound.spec.key: None for bound in bounds if "session" not in bound.spec.key}:
        yield CrossSessionRules(key, [bound for bound in bounds if bound.spec.key == key], by_tenant=by_tenant)


class LateQuestions:
    """Of rules that stop: those that judge a call otherwise a while later. Of all: what their keys tell callers by."""

    def __init__(self, active: Sequence[BoundRule], *, by_tenant: bool) -> None:
        stopping = [bound for bound in active if bound.spec.stops]
        timed = [bound for bound in stopping if bound.rule.goes_by_time()]
        self.local = Index([bound for bound in timed if "session" in bound.spec.key])
        self.across = tuple(by_key(timed, by_tenant=by_tenant))
        parts = {part: None for bound in stopping for part in _caller_parts(bound.spec)}
        self._stopping = len(parts)  # the first are of rules that stop
        parts |= {part: None for bound in active for part in _caller_parts(bound.spec)}
        self._paths = [key_path(part) for part in parts]

    @property
    def tells_callers(self) -> bool:
        """Whether two callers' events may count apart."""
        return bool(self._paths)

    def whose(self, event: Event) -> tuple[str, ...]:
        """Return the values by which keys tell one caller's events from another's."""
        found = [path.find(event) for path in self._paths]
        return tuple(["" if value is MISSING or value is None else key_text(value) for value in found])

    def may_ask(self, known: tuple[str, ...], whose: tuple[str, ...]) -> bool:
        """Whether a question may be about an attempt: rules that stop have counted it for the same caller."""
        return known[: self._stopping] == whose[: self._stopping]

    def are_two(self, known: tuple[str, ...], whose: tuple[str, ...]) -> bool:
        """Whether a key tells the callers of two events apart. Who is not named may be either."""
        return any(one != other and one and other for one, other in zip(known, whose, strict=False))


def _caller_parts(spec: RuleSpec) -> list[str]:
    """Return the parts of a rule's key that say whose an event is: the others are the same for the same call."""
    parts = [part for part in spec.key if part in ("agent", "run") or part.startswith("labels.")]
    return [*parts, "run"] if spec.scope is Scope.RUN else parts


class RememberedConditions:
    """Stores which of these conditions hold; what else turns and messages are watched for is looked for here too."""

    __slots__ = ("_counts", "_turn_leaves", "_user_leaves", "_watch")

    def __init__(self, policy: Policy, active: Sequence[BoundRule], local: Index, counts: Counts) -> None:
        leaves = [leaf for spec in policy.rules for leaf in remembered_leaves(spec)]
        self._turn_leaves = _by_tag(leaves, "turn")
        self._user_leaves = _by_tag(leaves, "user")
        self._watch = _watch_others(active, local)
        self._counts = counts

    def __bool__(self) -> bool:
        """Whether there is anything to remember."""
        return bool(self._turn_leaves or self._user_leaves)

    def update(self, event: Turn | UserMessage, memory: set[int]) -> None:
        """Store in ``memory`` which conditions over the turn, or over the user's message, hold from now on."""
        leaves = self._turn_leaves if type(event) is Turn else self._user_leaves
        if self._watch is not None and not self._watch.look(event, self._counts):
            self._watch = None
        for tag, leaf in leaves.items():
            if leaf.holds(event):
                memory.add(tag)
            else:
                memory.discard(tag)
            if leaf.lacks is None:
                continue
            if leaf.lacks(event):
                memory.add(leaf.unknown_tag)
            else:
                memory.discard(leaf.unknown_tag)


def _by_tag(leaves: Sequence[Leaf], when: str) -> dict[int, Leaf]:
    return {leaf.tag: leaf for leaf in leaves if leaf.path.when == when}


def _watch_others(active: Sequence[BoundRule], local: Index) -> PathWatch | None:
    """Return the watch over paths in turns and messages that the plans for those do not look out for."""
    of_turns = local.turns.rules if local.turns is not None else []
    of_users = local.users.rules if local.users is not None else []
    awaited = awaited_paths([bound for bound in active if bound not in of_turns], ("turn",))
    awaited += awaited_paths([bound for bound in active if bound not in of_users], ("user",))
    return PathWatch(awaited) if awaited else None
