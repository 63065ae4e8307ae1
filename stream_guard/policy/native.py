"""A policy in the native form: how it is found in a file of any dialect, and the problems found in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from stream_guard.errors import Place, PolicyError, Problem
from stream_guard.judge.model import Json
from stream_guard.policy.document import PolicyDocument
from stream_guard.policy.message_parts import Code, Flaw, Steps, listed, printable, show
from stream_guard.policy.translation import MAX_PROBLEMS
from stream_guard.ports import Dialect
from stream_guard.registry import Registry


class ScopeWord(NamedTuple):
    """The word that a rule has for its scope today, and what there is to say about the one that was written."""

    rule: int
    today: str
    warning: str


def scope_words(rules: Sequence[Json], version: Json) -> Iterator[ScopeWord]:
    """Yield the scopes of rules that are written in the words of version 1; a file that says no version is such a one.

    ``trace`` is read in any file. ``session`` is read as the file means it: a rule never judges something else because
    the program that reads it is newer.
    """
    for number, rule in enumerate(rules):
        word = rule.get("scope") if isinstance(rule, dict) else None
        if word == "trace":
            yield ScopeWord(
                number, "session", "scope: trace is called session now; leave the scope out, it is the default"
            )
        elif word == "session" and version != 2:
            text = (
                "without `version: 2` at the top, scope: session is each part of a session that a user began; write "
                "scope: part for that, and no scope for the whole session"
            )
            yield ScopeWord(number, "part", text)


def with_todays_words(rules: Sequence[Json], version: Json) -> list[Json]:
    """Return the rules with the scopes as they are called today."""
    renamed = {word.rule: word.today for word in scope_words(rules, version)}
    return [{**rule, "scope": renamed[number]} if number in renamed else rule for number, rule in enumerate(rules)]


# Keys that a dialect may add to a translated rule or agent; in a policy file they are unknown keys.
_ORIGIN: Final = "_from"
_SLOT: Final = "_slot"
_FLAT: Final = "_flat"


@dataclass(frozen=True, slots=True)
class NativePolicy:
    """A policy in the native form, not yet checked, and where its rules and agents stand in the file."""

    form: Json
    problems: Sequence[Problem] = ()
    origins: Mapping[int, Steps] = field(default_factory=dict)  # by rule: where it stands in the file
    slots: Mapping[int, str] = field(default_factory=dict)  # by rule: its slot, where rules share an id
    flat: Set[int] = frozenset()  # rules whose parameters stand beside their id, not under a key of their own
    agent_origins: Mapping[str, Steps] = field(default_factory=dict)  # by agent: where it stands in the file

    def source(self, path: Steps) -> Steps:
        """Return the path in the file for a path in the native form."""
        match path:
            case ("rules", int(number), *rest) if number in self.origins:
                below = rest[1:] if number in self.flat and rest[:1] == ["params"] else rest
                return (*self.origins[number], *below)
            case ("agents", str(name), *rest) if name in self.agent_origins:
                return (*self.agent_origins[name], *rest)
            case _:
                return path


def to_native(document: PolicyDocument, registry: Registry) -> NativePolicy:
    """Translate the file with the dialect that recognises it; without one, take it for the native form."""
    claims = {name: dialect() for name, dialect in registry.dialects.items()}
    claims = {name: dialect for name, dialect in claims.items() if _recognises(name, dialect, document)}
    if len(claims) > 1:
        message = f"the file could be read as {listed(claims, 'or')}; block one of these dialects with plugins.block"
        raise PolicyError([*document.problems, Problem(document.place(), message, Code.NOT_A_POLICY)])
    for name, dialect in claims.items():
        return _translate(name, dialect, document)
    if isinstance(document.data, dict) and "apiVersion" in document.data:
        return _unknown_version(document, registry)
    return _with_todays_scopes(document)


def _with_todays_scopes(document: PolicyDocument) -> NativePolicy:
    """Take the file for the native form, and say of scopes in older words what they are called."""
    form = document.data
    rules = form.get("rules") if isinstance(form, dict) else None
    if not isinstance(rules, list):
        return NativePolicy(form)
    version = form.get("version")
    problems = [
        Problem(
            document.place("rules", word.rule, "scope"), word.warning, Code.OLD_WORD, _id_of(rules[word.rule]), True
        )
        for word in scope_words(rules, version)
    ]
    return NativePolicy({**form, "rules": with_todays_words(rules, version)}, problems)


def _id_of(rule: Json) -> str:
    rule_id = rule.get("id")
    return rule_id if isinstance(rule_id, str) else ""


def _recognises(name: str, dialect: Dialect, document: PolicyDocument) -> bool:
    try:
        return dialect.recognises(document)
    except Exception as error:
        raise _failed(name, document, error) from error


def _translate(name: str, dialect: Dialect, document: PolicyDocument) -> NativePolicy:
    try:
        form, problems = dialect.translate(document)
    except Exception as error:
        raise _failed(name, document, error) from error
    rules, agents = form.get("rules"), form.get("agents")
    agent_origins: dict[str, Steps] = {}
    if isinstance(agents, dict):
        agent_origins = {name: tuple(agent[_ORIGIN]) for name, agent in agents.items() if _ORIGIN in agent}
        form = {**form, "agents": {name: _without_origin_keys(agent) for name, agent in agents.items()}}
    if not isinstance(rules, list):
        return NativePolicy(form, problems, agent_origins=agent_origins)
    numbered = [(number, rule) for number, rule in enumerate(rules) if isinstance(rule, dict)]
    return NativePolicy(
        {**form, "rules": [_without_origin_keys(rule) for rule in rules]},
        problems,
        {number: tuple(rule[_ORIGIN]) for number, rule in numbered if _ORIGIN in rule},
        {number: str(rule[_SLOT]) for number, rule in numbered if _SLOT in rule},
        {number for number, rule in numbered if rule.get(_FLAT)},
        agent_origins,
    )


def _without_origin_keys(rule: Json) -> Json:
    if not isinstance(rule, dict):
        return rule
    return {key: value for key, value in rule.items() if key not in (_ORIGIN, _SLOT, _FLAT)}


def _unknown_version(document: PolicyDocument, registry: Registry) -> NativePolicy:
    readable = f"; dialects that can be read: {', '.join(registry.dialects)}" if registry.dialects else ""
    message = f"unknown apiVersion {show(document.data['apiVersion'])}{readable}; the native form has none"
    form = {key: value for key, value in document.data.items() if key != "apiVersion"}
    return NativePolicy(form, [Problem(document.place("apiVersion"), message, Code.NOT_A_POLICY)])


def _failed(name: str, document: PolicyDocument, error: Exception) -> PolicyError:
    what = f"{type(error).__name__}: {show(str(error))}"
    message = f"dialect {name} failed on this file: {what}; report it to its author, or block it with plugins.block"
    return PolicyError([*document.problems, Problem(document.place(), message, Code.KIND_FAILED)])


class ProblemReport:
    """Collects problems by their path in the native form, and finds their places in the file."""

    def __init__(self, document: PolicyDocument, already: Iterable[Problem], native: NativePolicy) -> None:
        self._document = document
        self._already = list(already)
        self._problems: list[Problem] = []
        self._native = native  # maps paths of the native form to paths in the file

    def place(self, path: Steps, *, on_key: bool = False) -> Place:
        """Return the place of a value of the native form, or of its key."""
        source = self._source(path)
        return self._document.key_place(*source) if on_key else self._document.place(*source)

    def _source(self, path: Steps) -> Steps:
        source = self._native.source(path)
        match source:
            case ("rules", int(number), *rest) if source == path and isinstance(self._document.data, list):
                return (number, *rest)  # a bare list of rules has no key above it
            case _:
                return source

    def add(
        self, path: Steps, message: str, code: Code, *, rule_id: str = "", on_key: bool = False, warning: bool = False
    ) -> None:
        """Add a problem."""
        if self.place(path) in self._document.unreadable:
            return  # the value could not be read, and has its problem already
        place = self.place(path, on_key=on_key)
        self._problems.append(Problem(place, printable(message), code.value, rule_id, warning))

    def add_flaws(self, path: Steps, flaws: Iterable[Flaw], rule_id: str = "") -> None:
        """Add the flaws inside the value at the path."""
        for flaw in flaws:
            self.add((*path, *flaw.at), flaw.message, flaw.code, rule_id=rule_id, on_key=flaw.on_key)

    @property
    def failed(self) -> bool:
        """Whether there is a problem that is more than a warning."""
        return any(not problem.warning for problem in (*self._already, *self._problems))

    def in_order(self) -> list[Problem]:
        """Return all problems in file order."""
        listed = sorted(dict.fromkeys([*self._already, *self._problems]), key=lambda problem: problem.place)
        if len(listed) <= MAX_PROBLEMS:
            return listed
        rest = f"{len(listed) - MAX_PROBLEMS} more problems are not listed; mend these first"
        return [*listed[:MAX_PROBLEMS], Problem(listed[MAX_PROBLEMS].place, rest, Code.TOO_BIG.value)]
