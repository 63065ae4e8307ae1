"""A rule of a policy, ready to run: handlers, gate and key as plain callables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from hashlib import blake2b
from typing import Any, Final, TypeAlias
from zlib import crc32

import msgspec

from stream_guard.judge.conditions import Condition, Leaf, Unknown
from stream_guard.judge.identity import written
from stream_guard.judge.model import RESERVED, Event, Json, Scope
from stream_guard.judge.paths import MISSING, Path, agent_key
from stream_guard.judge.patterns import Regex
from stream_guard.judge.rule import NoState, Rule, State, Verdict, Where, state_decoder
from stream_guard.judge.spec import ALL_KEY, SESSION_KEY, Agents, RuleSpec

Handler: TypeAlias = Callable[[Any, Any], Verdict]
Gate: TypeAlias = Callable[[Event, Set[int]], bool]
GateJudge: TypeAlias = Callable[[Event, Set[int], Unknown], bool | None]

Address: TypeAlias = int | tuple[int | str, ...]
"""Where a rule's state stands in a session: the rule's number, then the values of its key, if it has one."""

NO_STATE: Final = NoState()

# Short names that a policy may write as a key, and the path each stands for.
KEY_PATHS: Final = {"run": "run_id", "tool": "tool.name"}


class BoundRule:
    """One rule of a policy, ready to run.

    A ``simple`` rule needs only its handler, its state and its gate, for an event with content and a time.
    """

    def __init__(self, number: int, spec: RuleSpec, agents: Agents, set_labels: Set[str] = frozenset()) -> None:
        self.number = number
        self.spec = spec
        self.rule = rule = spec.rule
        self.tag = fingerprint(spec)
        self.is_twin = False
        self.twin: Any = None  # see ``twins``, where a rule that stops asks about arguments
        self.gate = _gate(spec, agents, spec.when.test if spec.when is not None else None)
        may_hold = _may_hold(spec.when) if spec.when is not None else None
        # Whether a gate that is closed may be open for all that the source left out; None: it never may.
        self.may_open = _gate(spec, agents, may_hold) if may_hold is not None else None
        self.judge_gate = _gate_judge(spec, agents)
        self.gate_leaves = tuple(_gate_leaves(spec))
        sources = [condition.source if condition is not None else None for condition in (spec.when, spec.unless)]
        sources += [spec.agent] if spec.agent else []
        self.gate_text = msgspec.json.encode(sources, order="sorted").decode()
        self.needs_turn = any(leaf.path.when == "turn" for leaf in remembered_leaves(spec))
        self.key = _key(number, spec)
        self.arg_paths = frozenset(_arg_paths(spec))
        self.needed_paths = tuple(needed_paths(spec))
        self.part_scoped = spec.scope is Scope.PART
        needs = rule.needs()
        # Gate and key count too: a gate over missing content would never open, and everything would pass.
        self.reads_content = "content" in needs
        self.needs_content = self.reads_content or any(path.reads_content for path in _paths_read(spec))
        self.reads_args = self.needs_content or rule.reads_args()
        self.needs_clock = "clock" in needs
        self.texts: dict[Where, list[tuple[Path | None, Regex]]] = {}
        for pattern in rule.texts():
            self.texts.setdefault(pattern.where, []).append((pattern.path, Regex(pattern.regex)))
        self.ungated: Handler | None = _ungated(spec, agents) if overrides(rule, "on_ungated") else None
        self.end: Handler | None = rule.on_session_end if overrides(rule, "on_session_end") else None
        # Without a clock there are no deadlines. A kind whose params decide about deadlines says so in `needs`.
        timed = self.needs_clock and overrides(rule, "deadline")
        self.timer: Callable[[Any], float | None] | None = rule.deadline if timed else None
        self.stateless = issubclass(rule.state_type, NoState)
        # Whether its slot may have more than a state: for a `for`, a cooldown, or an end that only some events owe.
        self.marks_slot = spec.hold is not None or spec.cooldown is not None or self.end is not None
        self.slotless = self.stateless and not self.marks_slot
        # Labels that rules of the policy set on the session, as paths that its condition reads.
        self.set_labels = frozenset({leaf.path.text for leaf in self.gate_leaves} & set_labels)
        self.recalls = not self.stateless or bool(remembered_leaves(spec)) or bool(self.set_labels)
        # What it forgets makes its answer unknown: it is no pass where the rule stops, and never a finding.
        self.remembers = self.recalls or spec.hold is not None
        self.must_remember = spec.stops and self.remembers
        self.default: State = rule.state_type()
        self.decoder = state_decoder(rule.state_type)
        self.suspect = False
        self._lacking: Any = (spec.id, "")  # compiled, a tuple of a known type would be made anew at every use
        self.simple = self.key is None and self.timer is None and spec.hold is None
        if self.gate is not None and self.texts:
            self.simple = False

    def lacking(self, lacks: str) -> Any:
        """Return its id with what it lacked, as that is counted. The last is kept: mostly it lacks the same again."""
        if self._lacking[1] != lacks:
            self._lacking = (self.spec.id, lacks)
        return self._lacking

    def new_state(self) -> State:
        """Return a new state."""
        return self.rule.state_type()

    def mark_suspect(self) -> None:
        """Save the state before each handler from now on: the rule has raised an exception."""
        self.suspect, self.simple = True, False


def overrides(rule: Rule[Any, Any], handler: str) -> bool:
    """Whether the kind overrides the handler, and the rule needs it with its params."""
    needed = rule.handlers()
    return getattr(type(rule), handler) is not getattr(Rule, handler) and (needed is None or handler in needed)


def fingerprint(spec: RuleSpec) -> int:
    """Return a 32-bit digest of everything that gives the rule's state its meaning (docs/adr/0008).

    An edited rule gets another digest, so it never reads the state of the old rule.
    """
    meaning = [
        spec.slot,
        spec.kind,
        spec.rule.state_version,
        spec.params,
        spec.when.source if spec.when else None,
        spec.unless.source if spec.unless else None,
        spec.scope.stored_word,
        list(spec.key),
        *([spec.agent] if spec.agent else []),
        *([spec.taken_in] if spec.taken_in else []),
    ]
    return crc32(msgspec.json.encode(meaning, order="sorted"))


def remembered_leaves(spec: RuleSpec) -> list[Leaf]:
    """Return the leaves over the turn or the user's message. The engine remembers whether they held."""
    return [leaf for leaf in _gate_leaves(spec) if leaf.path.when != "event"]


def _gate_leaves(spec: RuleSpec) -> Iterator[Leaf]:
    for condition in (spec.when, spec.unless):
        if condition is not None:
            yield from condition.leaves


def _paths_read(spec: RuleSpec) -> list[Path]:
    """Return the paths that the rule's key and gate read."""
    paths = [leaf.path for leaf in _gate_leaves(spec)]
    return paths + key_paths(spec.key)


def needed_paths(spec: RuleSpec) -> Iterator[Path]:
    """Yield the paths without which the rule cannot fire: of its gate, of its key, and of its parameters."""
    if spec.when is not None:
        yield from (leaf.path for leaf in spec.when.certain_leaves() if leaf.op != "exists")
    yield from (key_path(part) for part in spec.key if part.startswith("args."))
    for name in type(spec.rule.params).model_fields:
        value = getattr(spec.rule.params, name, None)
        if isinstance(value, Path):
            yield value


def _arg_paths(spec: RuleSpec) -> Iterator[tuple[str, ...]]:
    """Yield the argument paths that key or gate read. Decisions and results of a call need these arguments too."""
    yield from (path.steps[1:] for path in _paths_read(spec) if path.text.startswith("tool.args."))


def _gate(spec: RuleSpec, agents: Agents, when: Gate | None) -> Gate | None:
    """Return the gate of a rule, with this test in the place of its ``when``; None: it is always open."""
    written = when
    if spec.unless is not None:
        unless = spec.unless.test
        if when is None:
            written = lambda event, memory: not unless(event, memory)  # noqa: E731  # as short as its neighbours
        else:
            written = lambda event, memory: when(event, memory) and not unless(event, memory)  # noqa: E731  # as above
    if not spec.agent:
        return written
    governs = agents.governs(spec.agent)
    if written is None:
        return lambda event, _memory: governs(event)
    return lambda event, memory: governs(event) and written(event, memory)


def _may_hold(when: Condition) -> Gate | None:
    """Return whether a condition may hold for all that the source left out; None where it never leaves such out."""
    unsure = [leaf for leaf in when.leaves if leaf.lacks is not None]
    if not unsure:
        return None

    def may_hold(event: Event, memory: Set[int]) -> bool:
        for leaf in unsure:  # mostly, nothing was left out
            if leaf.is_unknown(event, memory):
                break
        else:
            return False
        return when.judge(event, memory, lambda leaf: leaf.is_unknown(event, memory)) is not False

    return may_hold


def _gate_judge(spec: RuleSpec, agents: Agents) -> GateJudge:
    """Return the gate as a test with three answers, for events that leave something out."""
    governs = agents.judges(spec.agent) if spec.agent else None

    def judge(event: Event, memory: Set[int], unknown: Unknown) -> bool | None:
        answers = [governs(event)] if governs is not None else []
        if spec.when is not None:
            answers.append(spec.when.judge(event, memory, unknown))
        if spec.unless is not None:
            exempt = spec.unless.judge(event, memory, unknown)
            answers.append(None if exempt is None else not exempt)
        return False if False in answers else None if None in answers else True

    return judge


def _ungated(spec: RuleSpec, agents: Agents) -> Handler:
    """Return the handler of events outside the gate. An agent's rule skips tools that the agent may not try."""
    handle: Handler = spec.rule.on_ungated
    if not spec.agent:
        return handle
    return lambda event, state: handle(event, state) if agents.lists(event) else None


def _key(number: int, spec: RuleSpec) -> Callable[[Event], Address | None] | None:
    """Return the function from an event to the address of its state; None when the rule has a single state."""
    parts = list(spec.key) if spec.key != SESSION_KEY else []
    if spec.scope is Scope.RUN and "run" not in parts:
        parts.append("run")
    paths = key_paths(parts)
    if not paths:
        return None

    def address(event: Event) -> Address | None:
        values: list[int | str] = [number]
        for path in paths:
            value = path.find(event)
            if value is MISSING or value is None:
                return None
            values.append(key_text(value))
        return tuple(values)

    return address


def lacks_key(key: Sequence[str], event: Event) -> bool:
    """Whether the source left out a part of a key that every event should have: its agent, its run or a label."""
    return any(
        key_path(part).find(event) in {MISSING, None, ""}
        for part in key
        if part in {"agent", "run"} or part.startswith("labels.")
    )


def key_paths(key: Sequence[str]) -> list[Path]:
    """Return the paths to the values that a key is made of; none for the session, and for everything together."""
    return [key_path(part) for part in key if part not in {"session", ALL_KEY}]


def key_path(part: str) -> Path:
    """Return the path a key part stands for: ``agent``, ``run``, ``tool``, ``args.x``, ``labels.x``."""
    if part == "agent":
        return agent_key()
    if part in KEY_PATHS:
        return Path(KEY_PATHS[part])
    return Path(f"tool.{part}" if part.startswith("args.") else part)


def key_text(value: Json) -> str:
    """Return a short text that is the same for equal values, and for 7 and "7".

    Long values are digested, and those that could be taken for a digest, or for a value with a tenant behind it.
    """
    text = value if isinstance(value, str) else written(value)
    if len(text) <= 64 and text[:1] != "#" and RESERVED not in text:
        return text
    return "#" + blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
