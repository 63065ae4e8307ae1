"""Propose a policy for the tools that were seen: packs that fit, tool classes, and learned rules in shadow mode."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Final

from stream_guard.decoding.places import RecordPlaces
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding, Json, Severity, Turn
from stream_guard.judge.patterns import ToolPattern, tool_words
from stream_guard.judge.spec import Policy, RuleSpec
from stream_guard.learning.candidates import RuleCandidate
from stream_guard.learning.choosing import accidents, choose
from stream_guard.learning.facts import Facts, is_plain_name
from stream_guard.learning.miners.orders import mine_orders
from stream_guard.learning.mining import count_tests
from stream_guard.policy.convert import write_yaml
from stream_guard.policy.gates import events_handled
from stream_guard.policy.load import load_policy
from stream_guard.policy.packs import read_pack
from stream_guard.registry import Registry
from stream_guard.settings import Settings
from stream_guard.starting.survey import Survey, ToolUse, guess_class, words_of

SCHEMA_FILE: Final = "policy.schema.json"
MODELINE: Final = f"# yaml-language-server: $schema={SCHEMA_FILE}"
MOST_LEARNED: Final = 10
_FITS: Final = 0.5  # the share of a pack's rules about tools that must have a tool to look at


@dataclass(frozen=True, slots=True)
class FittingPack:
    """A pack, the tools that its rules look at, and its rules that are not taken as they are."""

    name: str
    tools: tuple[str, ...]  # empty: its rules are about any tool
    without: tuple[str, ...] = ()
    shadow: tuple[str, ...] = ()
    enforce: tuple[str, ...] = ()

    def as_entry(self) -> Json:
        """Return the pack as a policy names it."""
        lists = {"without": list(self.without), "shadow": list(self.shadow), "enforce": list(self.enforce)}
        if not any(lists.values()):
            return self.name
        return {"pack": self.name, **{key: ids for key, ids in lists.items() if ids}}


@dataclass(frozen=True, slots=True)
class FirstPolicy:
    """A policy to begin with."""

    packs: tuple[FittingPack, ...]
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rules: Sequence[Mapping[str, Any]] = ()
    idle: str = ""  # as a policy writes it; empty: the default

    def as_data(self) -> dict[str, Json]:
        """Return the policy as data."""
        data: dict[str, Json] = {
            "name": "first-policy",
            "version": 2,
            **({"sessions": {"idle": self.idle}} if self.idle else {}),
            "packs": [pack.as_entry() for pack in self.packs],
        }
        if self.classes:
            data["tool_classes"] = {name: list(members) for name, members in self.classes.items()}
        if self.rules:
            data["rules"] = [dict(rule) for rule in self.rules]
        return data

    def as_yaml(self) -> str:
        """Return the policy file. Names of tools are the only words of the recordings in it."""
        parts = [
            MODELINE,
            "# Made by `stream-guard init`. Rules of the packs: `stream-guard packs show NAME`.",
            "# The classes are guessed from names: look them through. Learned rules are in shadow mode until you",
            "# take `mode: shadow` out.",
            write_yaml(self.as_data()),
        ]
        return "\n".join(parts)


def propose(survey: Survey, facts: Facts, registry: Registry) -> FirstPolicy:
    """Return the policy for what was seen."""
    tools = [name for name, _ in survey.by_calls() if is_plain_name(name)]
    guessed: dict[str, list[str]] = {}
    for tool in tools:
        name = guess_class(tool, survey.tools[tool].arguments, survey.tools[tool].described)
        if name:
            guessed.setdefault(name, []).append(tool)
    packs = fitting_packs(tools, guessed, registry)
    taken = [read_pack(registry.policy_packs[pack.name]) for pack in packs]
    for name, same in (item for pack in taken for item in wired_classes(pack, tools).items()):
        guessed[name] = [*guessed.get(name, ()), *(tool for tool in same if tool not in guessed.get(name, ()))]
    wired = [rule for pack in taken for rule in wired_rules(pack, tools, survey.tools, registry)]
    listed = _classes_of((pack.name for pack in packs), registry)
    known = {name: ToolPattern(members, listed) for name, members in listed.items()}
    own = {
        name: [tool for tool in members if name not in known or not known[name].matches(tool)]
        for name, members in guessed.items()
    }
    classes = {name: own[name] for name in sorted(own) if own[name]}
    learned = [order.as_rule(_reason(order, len(survey.sessions))) for order in _orders(facts)]
    return FirstPolicy(tuple(packs), classes, [*wired, *learned], survey.idle())


def fitting_packs(tools: Sequence[str], guessed: Mapping[str, Sequence[str]], registry: Registry) -> list[FittingPack]:
    """Return the packs of which most rules have something to look at."""
    found: list[FittingPack] = []
    for name in registry.policy_packs:
        declared = _classes_of([name], registry)
        own = {kind: list(members) for kind, members in guessed.items() if kind in declared}
        for kind, same in wired_classes(read_pack(registry.policy_packs[name]), tools).items():
            own[kind] = [*own.get(kind, ()), *same]
        policy = load_policy(json.dumps({"packs": [name], "tool_classes": own}), registry, file=name)
        filters = [pattern for spec in policy.rules if (pattern := spec.rule.tools()) is not None]
        narrow = [pattern for pattern in filters if not pattern.matches("")]
        seen = [[tool for tool in tools if pattern.matches(tool)] for pattern in narrow]
        is_general = len(narrow) < _FITS * len(filters) or not filters  # its rules look at any tool
        if is_general or sum(map(bool, seen)) >= _FITS * len(narrow):
            members = ToolPattern([f"@{kind}" for kind in declared], policy.tool_classes)
            found.append(FittingPack(name, tuple(filter(members.matches, tools))))
    return found


def settle(policy: FirstPolicy, registry: Registry, tried: Trial) -> FirstPolicy:
    """Return the policy with the noisy rules of packs in shadow mode, and without those that could not judge.

    A rule that its pack has in shadow mode is in force where it fires seldom. Packs with rules in force that found
    something come first.
    """
    left_out, noisy = set(tried.unjudged()), set(tried.noisy())
    of_packs = {pack.name: read_pack(registry.policy_packs[pack.name])["rules"] for pack in policy.packs}
    telling = set(tried.telling({rule["id"] for rules in of_packs.values() for rule in rules})) - left_out
    found: list[FittingPack] = []
    silent: list[FittingPack] = []
    for pack in policy.packs:
        rules = of_packs[pack.name]
        without = tuple(rule["id"] for rule in rules if rule["id"] in left_out)
        enforce = tuple(rule["id"] for rule in rules if rule["id"] in telling)
        loud = [rule["id"] for rule in rules if rule["id"] in noisy - left_out and rule.get("mode") != "shadow"]
        quiet = {*without, *loud, *(rule["id"] for rule in rules if rule.get("mode") == "shadow")} - set(enforce)
        settled = replace(pack, without=without, shadow=tuple(loud), enforce=enforce)
        is_found = any(rule["id"] in tried.fired for rule in rules if rule["id"] not in quiet)
        (found if is_found else silent).append(settled)
    own = [{key: rule[key] for key in rule if key != "mode" or rule["id"] not in telling} for rule in policy.rules]
    return replace(policy, packs=(*found, *silent), rules=own)


def _orders(facts: Facts) -> list[RuleCandidate]:
    """Return the orders of calls that the sessions keep, the best first; `learn` looks for more than orders."""
    found = list(mine_orders(facts))
    accidental = accidents(found, count_tests(facts))
    return choose((order for order in found if order.id not in accidental), {}, inf)[:MOST_LEARNED]


def _reason(order: RuleCandidate, sessions: int) -> str:
    return f"Learned, not reviewed: {order.words}. About {order.support} of {sessions} sessions."


def _classes_of(names: Iterable[str], registry: Registry) -> dict[str, list[str]]:
    classes: dict[str, list[str]] = {}
    for name in names:
        for kind, members in read_pack(registry.policy_packs[name]).get("tool_classes", {}).items():
            classes.setdefault(kind, []).extend([members] if isinstance(members, str) else members)
    return classes


# Wire packs to the tools that were found: a tool whose name has the words of one that a pack names is that tool.


_SAME_ARGUMENT: Final = "same_arg"  # the parameter in which kinds take the name of an argument


def wired_classes(pack: Mapping[str, Json], tools: Sequence[str]) -> dict[str, list[str]]:
    """Return by class of a pack the tools that its members mean and do not match: ``read`` where it has ``Read``."""
    classes: dict[str, list[str]] = {
        name: [members] if isinstance(members, str) else list(members)
        for name, members in pack.get("tool_classes", {}).items()
    }
    listed = ToolPattern([f"@{name}" for name in classes], classes) if classes else None
    left = [tool for tool in tools if listed is None or not listed.matches(tool)]
    found = {name: _same_words(_names(members), left) for name, members in classes.items()}
    return {name: same for name, same in found.items() if same}


def wired_rules(
    pack: Mapping[str, Json], tools: Sequence[str], uses: Mapping[str, ToolUse], registry: Registry
) -> Iterator[dict[str, Json]]:
    """Yield the rules of a pack that name tools which nobody called, with the tools in their place that were meant."""
    for rule in pack["rules"]:
        kind = registry.kinds.get(rule.get("kind"))
        written = rule.get("params", {})
        renamed: dict[str, str] = {}
        for name in kind.params_type.model_fields if kind is not None else ():
            text = written.get(name)
            names = list(_names([text])) if isinstance(text, str) and not _is_pattern(text) else []
            if not names or any(map(ToolPattern(text).matches, tools)):
                continue
            if same := _same_words(names, tools):
                renamed[name] = "|".join(same)
        if not renamed:
            continue
        params = {**written, **renamed}
        if _SAME_ARGUMENT in params:
            meant = [uses[tool] for text in renamed.values() for tool in text.split("|")]
            params[_SAME_ARGUMENT] = _argument(str(params[_SAME_ARGUMENT]), meant)
        yield {**{key: value for key, value in rule.items() if key != "tests"}, "params": params}


def _is_pattern(text: str) -> bool:
    return bool(set("~@*?()") & set(text))


def _names(members: Iterable[str]) -> Iterator[str]:
    """Yield the names that members of a class spell out; a pattern is none."""
    for member in members:
        yield from (name for name in member.split("|") if name and not _is_pattern(member))


def _same_words(names: Iterable[str], tools: Sequence[str]) -> list[str]:
    wanted = {tuple(tool_words(name)) for name in names}
    return [tool for tool in tools if tuple(words_of(tool)) in wanted]


def _argument(name: str, uses: Sequence[ToolUse]) -> str:
    """Return the argument of all the tools that is called so, or has a word of it: ``path`` for ``file_path``."""
    shared = [argument for argument in uses[0].arguments if all(argument in use.arguments for use in uses)]
    words = set(tool_words(name))
    alike = [argument for argument in shared if words & set(tool_words(argument))]
    return name if name in shared or not alike else alike[0]


# Try a policy on recordings: which rules fire in how many sessions, and which could not judge.


# The share of sessions in which a rule may fire and still be in force from the first day. A grave rule is about acts,
# which recordings of trouble are full of; a light one that fires often is about how this agent works.
NOISE: Final = {Severity.CRITICAL: 0.5, Severity.ERROR: 0.25, Severity.WARNING: 0.05, Severity.INFO: 0.02}
_SELDOM: Final = 0.02  # the share for a rule that its pack has in shadow mode: elsewhere it was noisy
A_FEW: Final = 3  # sessions that are looked at, whatever their share, unless they are a fifth of all
_UNJUDGED: Final = 0.5  # the share of its events that a rule may be unable to judge and still be taken


@dataclass(slots=True)
class Trial:
    """What a policy found."""

    policy: Policy
    sessions: set[str] = field(default_factory=set)
    fired: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # sessions, by rule
    findings: list[Finding] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)

    def noisy(self) -> list[str]:
        """Return the rules that fire in more sessions than a person would look at on the first day."""
        return [
            spec.id for spec in self.policy.rules if len(self.fired.get(spec.id, ())) > self._most(NOISE[spec.severity])
        ]

    def telling(self, among: Container[str]) -> list[str]:
        """Return the rules in shadow mode, of those named, that say little enough here to be looked at."""
        told = Counter(finding.rule_id for finding in self.findings)
        shadow = [spec.id for spec in self.policy.rules if spec.shadow and spec.id in among]
        return [rule for rule in shadow if 0 < told[rule] <= self._most(_SELDOM)]

    def _most(self, share: float) -> int:
        sessions = len(self.sessions)
        return max(1, min(A_FEW, sessions // 5), int(share * sessions))

    def unjudged(self) -> list[str]:
        """Return the rules that could not judge most of what they were asked about, in as many events as sessions."""
        lacking = self.counts.unevaluable
        return [
            spec.id
            for number, spec in enumerate(self.policy.rules)
            if lacking.get(number, 0) >= max(1, len(self.sessions), _UNJUDGED * self._asked(spec))
        ]

    def _asked(self, spec: RuleSpec) -> int:
        """Return how many events a rule was asked about, near enough."""
        handled, tools, events = events_handled(type(spec.rule)), spec.rule.tools(), self.counts.events
        calls = sum(number for tool, number in self.counts.tools.items() if tools is None or tools.matches(tool))
        turns = events[Turn] if "turn" in handled else 0
        return turns + (calls if handled & {"tool_call", "tool_result"} else 0)


def ranked(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Return findings by rule: the most severe rules first, and of those the ones that fire in the fewest sessions."""
    by_rule: dict[str, list[Finding]] = {}
    for finding in findings:
        by_rule.setdefault(finding.rule_id, []).append(finding)
    return sorted(
        by_rule.values(), key=lambda found: (-found[0].severity, len({finding.session_id for finding in found}))
    )


def try_policy(
    events: Iterable[Event], policy: Policy, settings: Settings, places: RecordPlaces | None = None
) -> Trial:
    """Judge the events as ``check`` does; ``places`` knows in which lines they stand."""
    trial = Trial(policy)
    judge = Judge(policy, settings.sessions, counts=trial.counts)
    for event in events:
        trial.sessions.add(event.session_id)
        found: list[Finding] = []
        found += judge.feed(event).findings
        trial.findings += found if places is None else map(places.located, found)
    found = []
    found += judge.end()
    trial.findings += found if places is None else map(places.located, found)
    for finding in trial.findings:
        trial.fired[finding.rule_id].add(finding.session_id)
    return trial
