"""Phrony's anomaly rules: JSON rule sets, alone or attached to the agents of a session.

A rule is ``{id, when, then, reason}``. A file is a list of rules, an object with ``rules`` (one agent version),
or an object with ``agents``, each with its rules, its parent, its operations and its execution mode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import stream_guard as sg

DocumentPath = tuple[str | int, ...]  # keys and positions that lead to a value of the file

_MODES: Final = ("request", "hitl", "sub_agent")
_SEVERITIES: Final = {"allow": "info", "pause": "warning", "block": "error", "terminate_session": "critical"}
_PARAMS: Final = ("when", "enforce_window", "coerce")
_GROUPS: Final = ("all_of", "any_of")
_COUNTS: Final = ("call_count_in_run_gt", "call_count_in_session_gt", "call_count_in_window_gt")
_VERSION_KEYS: Final = ("id", "parent", "execution_mode", "executionMode", "anomalyControl", "operations", "rules")
_THE_AGENT: Final = "agent"


class PhronyDialect:
    """Reads rule sets as Phrony's documentation shows them."""

    name = "phrony"

    def recognises(self, document: sg.Document) -> bool:
        """Whether the file lists agents, or rules that have ``then`` but no ``kind``."""
        data = document.data
        if isinstance(data, dict) and "apiVersion" not in data:
            agents = data.get("agents")
            if isinstance(agents, list):
                return True
            data = data.get("rules", [data])
        if not isinstance(data, list):
            return False
        rules = [rule for rule in data if isinstance(rule, dict)]
        foreign = any("kind" in rule or "params" in rule for rule in rules)
        return not foreign and any("when" in rule and "then" in rule for rule in rules)

    def translate(self, document: sg.Document) -> tuple[dict[str, Any], Sequence[sg.Problem]]:
        """Return the native form, and the problems that checking the native form does not find."""
        reader = _RuleSetReader(document)
        data = document.data
        if isinstance(data, list):
            reader.rules(data, (), "")
        elif isinstance(data.get("agents"), list):
            reader.agents(data["agents"])
            reader.refuse_keys(data, (), ("agents", "name"))
        elif "rules" in data:
            reader.version(data, (), "")
        else:
            reader.rules([data], (), "", alone=True)
        native: dict[str, Any] = {"agents": reader.native_agents, "rules": reader.native_rules}
        if isinstance(data, dict) and "name" in data:
            native["name"] = data["name"]
        return native, [*reader.problems, *reader.unlisted()]


class _RuleSetReader:
    """Reads one file into the native form, and collects what is wrong with it."""

    def __init__(self, document: sg.Document) -> None:
        self.document = document
        self.native_agents: dict[str, dict[str, Any]] = {}
        self.native_rules: list[Any] = []
        self.problems: list[sg.Problem] = []
        self._ids: dict[str, str] = {}  # by rule id: the agent that used it first

    def report(self, at: DocumentPath, message: str, code: str, *, rule: str = "", warning: bool = False) -> None:
        self.problems.append(sg.Problem(self.document.place(*at), message, code, rule, warning))

    def refuse_keys(self, data: dict[str, Any], at: DocumentPath, known: Sequence[str]) -> None:
        for key in data:
            if key not in known:
                message = f"unknown key {_excerpt(key)}; it takes {', '.join(known)}"
                self.problems.append(sg.Problem(self.document.key_place(*at, key), message, "SG104"))

    def agents(self, listed: list[Any]) -> None:
        """Read every agent of a list."""
        for number, agent in enumerate(listed):
            at: DocumentPath = ("agents", number)
            if not isinstance(agent, dict):
                self.report(at, f"an agent is an object with id, operations and rules, not {_excerpt(agent)}", "SG106")
                continue
            name = agent.get("id")
            if not isinstance(name, str) or not name:
                self.report(at, "the agent needs an id: a text that its events carry", "SG105")
                name = f"agent-{number}"
            elif name in self.native_agents:
                self.report((*at, "id"), f"agent {_excerpt(name)} is here a second time; ids are unique", "SG109")
                name = f"{name}#{number}"
            self.version(agent, at, name)

    def version(self, data: dict[str, Any], at: DocumentPath, name: str) -> None:
        """Read one agent version: its limits and its rules."""
        self.refuse_keys(data, at, (*_VERSION_KEYS, "name"))
        has_limits = any(data.get(key) is not None for key in ("operations", "execution_mode", "executionMode"))
        if name or has_limits:
            name = name or (data["id"] if isinstance(data.get("id"), str) and data["id"] else _THE_AGENT)
            self.native_agents[name] = self._agent(data, at)
        control = data.get("anomalyControl", True)
        if not isinstance(control, bool) and control is not None:
            self.report((*at, "anomalyControl"), f"anomalyControl is true or false, not {_excerpt(control)}", "SG106")
        rules = data.get("rules")
        if rules is None:
            rules = []
        if not isinstance(rules, list):
            self.report((*at, "rules"), f"rules is a list, not {_excerpt(rules)}", "SG106")
            return
        self.rules(rules, (*at, "rules"), name, off=control is False)

    def _agent(self, data: dict[str, Any], at: DocumentPath) -> dict[str, Any]:
        agent = {key: data[key] for key in ("parent", "operations") if data.get(key) is not None}
        key = "executionMode" if "executionMode" in data else "execution_mode"
        written = data.get(key)
        if written is not None:
            mode = written.strip().lower().replace("-", "_").replace(" ", "_") if isinstance(written, str) else ""
            if mode in _MODES:
                agent["execution_mode"] = mode
            else:
                self.report((*at, key), f"{key} is {', '.join(_MODES)}, not {_excerpt(written)}", "SG107")
        return {**agent, "_from": at}

    def rules(self, listed: list[Any], at: DocumentPath, owner: str, *, off: bool = False, alone: bool = False) -> None:
        """Read a list of rules. With ``off``, the version's anomaly control is off: its rules get shadow mode."""
        seen: set[str] = set()
        for number, rule in enumerate(listed):
            here = at if alone else (*at, number)
            if not isinstance(rule, dict):
                self.report(here, f"a rule is an object with id, when and then, not {_excerpt(rule)}", "SG106")
                continue
            native = self._rule(rule, here, owner)
            if off:
                native["mode"] = "shadow"
            rule_id = rule.get("id")
            if isinstance(rule_id, str) and rule_id:
                if rule_id in seen:
                    message = f"id {_excerpt(rule_id)} is taken by an earlier rule; ids are unique in a rule set"
                    self.report((*here, "id"), message, "SG109", rule=rule_id)
                    native["_slot"] = f"{owner}/{rule_id}#{number}"
                elif self._ids.setdefault(rule_id, owner) != owner:
                    native["_slot"] = f"{owner}/{rule_id}"  # another agent has a rule of this name
                seen.add(rule_id)
            self.native_rules.append(native)

    def _rule(self, rule: dict[str, Any], at: DocumentPath, owner: str) -> dict[str, Any]:
        rule_id = rule.get("id")
        name = rule_id if isinstance(rule_id, str) else ""
        if rule_id in (None, ""):
            self.report(at, "the rule has no id; it is known by one in audits, so give it one", "SG105")
        if rule.get("then") is None:
            self.report(at, f"the rule needs then: {', '.join(_SEVERITIES)}", "SG105", rule=name)
        then = rule.get("then")
        native: dict[str, Any] = {key: value for key, value in rule.items() if key not in _PARAMS and value is not None}
        if rule_id in (None, ""):
            native["id"] = "(no id)"  # reported here; the native form would only warn
        for key in ("kind", "params", "agent"):
            if key in native:
                where = self.document.key_place(*at, key)
                self.problems.append(
                    sg.Problem(where, f"a rule of a rule set has no {key}; leave it out", "SG104", name)
                )
        native["kind"] = "tool_guard"
        native["params"] = {key: rule[key] for key in _PARAMS if rule.get(key) is not None}
        if isinstance(then, str):
            native.setdefault("severity", _SEVERITIES.get(then, "error"))
        native.pop("agent", None)
        return {**native, **({"agent": owner} if owner else {}), "_from": at, "_flat": True}

    def unlisted(self) -> Iterator[sg.Problem]:
        """Yield a warning for each tool that a rule names and no agent it governs may try."""
        for rule in self.native_rules:
            operations = self._operations_below(rule.get("agent"))
            if operations is None:
                continue
            for at, tool in _tools_named(rule["params"].get("when"), (*rule["_from"], "when")):
                if tool not in operations:
                    message = f"no agent that this rule governs may try {_excerpt(tool)}: it is on no operations list"
                    yield sg.Problem(self.document.place(*at), message, "SG153", str(rule.get("id", "")), warning=True)

    def _parent(self, name: str) -> str | None:
        parent = self.native_agents[name].get("parent")
        return parent if isinstance(parent, str) and parent in self.native_agents else None

    def _operations_below(self, owner: str | None) -> set[str] | None:
        """Return the operations of a rule's owner and of the agents below it, or None if any of them has no list."""
        if owner is None:
            return None
        found: set[str] = set()
        for name, agent in self.native_agents.items():
            line = [name]
            while (parent := self._parent(line[-1])) is not None and parent not in line:
                line.append(parent)
            if owner in line:
                listed = agent.get("operations")
                if not isinstance(listed, list):
                    return None
                found.update(tool for tool in listed if isinstance(tool, str))
        return found


def _tools_named(when: Any, at: DocumentPath) -> Iterator[tuple[DocumentPath, str]]:
    """Yield every tool that predicates name, at any depth, with its place. Malformed predicates are skipped."""
    waiting: list[tuple[Any, DocumentPath]] = [(when, at)]
    while waiting:
        node, here = waiting.pop()
        for key, value in node.items() if isinstance(node, dict) else ():
            if key in _GROUPS and isinstance(value, list):
                waiting += [(inner, (*here, key, number)) for number, inner in enumerate(value)]
            elif key == "not":
                waiting.append((value, (*here, key)))
            elif key == "tool_name_in" and isinstance(value, list):
                yield from (((*here, key, n), tool) for n, tool in enumerate(value) if isinstance(tool, str))
            elif key in _COUNTS and isinstance(value, dict) and isinstance(value.get("tool"), str):
                yield (*here, key, "tool"), value["tool"]


def _excerpt(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else type(value).__name__
    return text if len(text) <= 80 else f"{text[:77]}..."
