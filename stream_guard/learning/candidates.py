"""Candidates for rules: a rule of the policy language with what it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log
from pathlib import Path
from typing import Any, Final

import msgspec

from stream_guard.errors import SettingsError
from stream_guard.judge.model import resolved
from stream_guard.learning.facts import Facts

MOST_BROKEN: Final = 0.1  # the share of its sessions that may break a candidate; some may not be as fine as they seem
FEWEST: Final = 4  # tasks that a relation rests on
FEWEST_FOR_BOUND: Final = 15  # and a bound: of so many, the next one passes the largest in one case of sixteen
MOST_TOOLS: Final = 100
LEARNED: Final = "learned-"  # what the ids of learned rules begin with
_EVEN: Final = 0.5  # the chance to keep a rule of which nothing is known
_LONGEST_ID: Final = 120


@dataclass(frozen=True, slots=True)
class RuleCandidate:
    """A rule that sessions keep."""

    id: str  # of what the rule is about, without its numbers: with more data it is still the same rule
    kind: str
    params: Mapping[str, Any]
    words: str  # what it says
    tools: tuple[str, ...]  # those whose calls it judges
    support: int  # sessions that it is about
    tasks: float  # how many of them are not about the same
    surprise: float | None  # minus the logarithm of the chance that it is kept by accident; None: it is a bound
    extra: Mapping[str, Any] = field(default_factory=dict)  # `when` and `key`
    covers: tuple[str, ...] = ()  # ids of rules that say nothing more beside this one
    places: int = 1  # tools, or arguments of tools, that it looks at
    is_guess: bool = False  # nobody looked whether sessions keep it: the engine says so, and how surprising that is

    def is_same_rule(self, other: RuleCandidate) -> bool:
        """Whether two candidates judge alike, whatever they rest on."""
        return (self.kind, self.params, self.extra) == (other.kind, other.params, other.extra)

    def after_trial(self, broken: float) -> RuleCandidate:
        """Return the candidate with what its trial says: of its sessions, so many break it."""
        if not self.is_guess:
            return self
        kept = self.tasks * max(0.0, 1 - broken / self.support)
        return replace(self, surprise=surprise(kept, self.tasks, _EVEN))

    def as_rule(self, reason: str = "") -> dict[str, Any]:
        """Return the rule as a policy writes it: in shadow mode, until a person takes that out."""
        return {
            "id": self.id,
            "kind": self.kind,
            "params": dict(self.params),
            **self.extra,
            "severity": "warning",
            "mode": "shadow",
            **({"reason": reason} if reason else {}),
        }


def rule_id(*parts: str) -> str:
    """Return the id of a rule about these tools and arguments."""
    return f"{LEARNED}{'-'.join(parts)}"[:_LONGEST_ID]


def surprise(kept: float, of: float, chance: float) -> float:
    """Return minus the logarithm of a bound on the probability to keep a rule so often by accident (Chernoff).

    ``chance`` is the probability that one session keeps it by accident.
    """
    if of <= 0:
        return 0.0
    share, chance = kept / of, min(max(chance, 1e-3), 1 - 1e-6)
    if share <= chance:
        return 0.0
    broken = 1 - share
    return of * (share * log(share / chance) + (broken * log(broken / (1 - chance)) if broken > 0 else 0.0))


class Shares:
    """In how many sessions each tool is called: sessions, and tasks."""

    def __init__(self, facts: Facts) -> None:
        self.sessions: dict[str, int] = {}
        self.tasks: dict[str, float] = {}
        self.all_tasks = sum(session.weight for session in facts.sessions)
        for session in facts.sessions:
            for tool in {call.tool for call in session.calls}:
                self.sessions[tool] = self.sessions.get(tool, 0) + 1
                self.tasks[tool] = self.tasks.get(tool, 0.0) + session.weight

    def common(self) -> list[str]:
        """Return the tools that enough tasks call, the most frequent ones: pairs grow with the square."""
        found = [tool for tool, tasks in self.tasks.items() if tasks >= FEWEST]
        return sorted(found, key=lambda tool: (-self.tasks[tool], tool))[:MOST_TOOLS]

    def of(self, tool: str) -> float:
        """Return the share of tasks in which the tool is called."""
        return self.tasks.get(tool, 0.0) / self.all_tasks if self.all_tasks else 0.0


def edge(values: Iterable[float], *, whole: bool = True, room: int = 1) -> float | None:
    """Return a bound that new values hardly pass: as far beyond the largest as that is beyond the third largest.

    Whole numbers have some ``room`` at least, because where many reach the largest, the next one passes it. None where
    there are too few values.
    """
    largest = sorted(values, reverse=True)[:3]
    if len(largest) < 3:
        return None
    bound = 2 * largest[0] - largest[2]
    return float(max(round(bound), round(largest[0]) + room)) if whole else bound


# What was learned: the rules that are proposed, those that are not, and what is odd about the recordings.


@dataclass(frozen=True, slots=True)
class Lesson:
    """A candidate with what was found about it."""

    candidate: RuleCandidate
    broken: frozenset[str]  # judged sessions that break it as it is proposed
    alarms: frozenset[str]  # judged sessions that broke it when it was learned without them
    at_most: float  # the share of unseen fine sessions with an alarm of it; holds for all candidates at once
    refused_for: str = ""  # why it is not proposed; empty: it is


@dataclass(frozen=True, slots=True)
class OddSession:
    """A session that is unlike nearly all others."""

    session_id: str
    reasons: tuple[str, ...]  # ids of rules that it breaks, and what it does or leaves out


@dataclass(frozen=True, slots=True)
class Learned:
    """The outcome."""

    sessions: int
    tasks: int
    judged: int
    lessons: Sequence[Lesson]  # those that are proposed first, the best first
    alarmed: int  # judged sessions with an alarm of a set that was learned and chosen without them
    odd: Sequence[OddSession]
    calls: Mapping[str, int]  # sessions in which each tool was called

    @property
    def proposed(self) -> list[Lesson]:
        """The rules that are proposed, the best first."""
        return [lesson for lesson in self.lessons if not lesson.refused_for]


# What people said to learned rules, remembered in a file beside the policy.


@resolved
class Answers(msgspec.Struct, forbid_unknown_fields=True):
    """Ids of rules that were accepted and refused, each with what it said then."""

    accepted: dict[str, str] = {}
    refused: dict[str, str] = {}

    def accept(self, rule_id: str, words: str) -> None:
        """Remember a yes; it takes the place of a no."""
        self.refused.pop(rule_id, None)
        self.accepted[rule_id] = words

    def refuse(self, rule_id: str, words: str) -> None:
        """Remember a no; it takes the place of a yes."""
        self.accepted.pop(rule_id, None)
        self.refused[rule_id] = words

    def are_given(self, rule_id: str) -> bool:
        """Whether somebody has said something to a rule."""
        return rule_id in self.accepted or rule_id in self.refused

    def as_text(self) -> str:
        """Return the file."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"


def answers_file(policy: Path) -> Path:
    """Return where the answers about a policy are kept."""
    return policy.with_name(f"{policy.stem}.learned.json")


def read_answers(file: Path) -> Answers:
    """Return the answers of a file; none where there is no file, SettingsError where it is something else."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Answers)
    except FileNotFoundError:
        return Answers()
    except (OSError, msgspec.MsgspecError) as error:
        advice = "mend it, or move it away: then every rule is asked about again"
        raise SettingsError(f"{file}: no answers to learned rules: {error}; {advice}") from None
