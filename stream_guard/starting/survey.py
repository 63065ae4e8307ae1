"""A survey of recordings: which agents and tools there are, how often, and with which arguments."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from stream_guard.judge.model import Event, Json, ToolCall, ToolResult, Turn
from stream_guard.judge.patterns import ToolPattern, tool_words, verb_of
from stream_guard.judge.spec import DEFAULT_IDLE
from stream_guard.policy.classes import why_matched

# Guess the class of a tool from the words of its name, its arguments and its description: for a person to check.


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SHELL, MONEY, EGRESS, WRITE, READ = "shell", "money", "egress", "write", "read"


_SHELL_WORDS: Final = _words("bash shell terminal powershell cmd python")
_RUN_WORDS: Final = _words("run exec execute eval interpreter")
_CODE_ARGUMENTS: Final = _words("command cmd code script commands")
_MONEY_WORDS: Final = _words(
    "pay payment payments payout refund reimburse charge purchase buy checkout withdraw wire money funds disburse"
)
_AMOUNTS: Final = _words("amount price total currency sum iban")
_EGRESS_WORDS: Final = _words(
    "send post email mail message sms share invite publish push forward reply upload tweet notify broadcast"
)
_WRITE_WORDS: Final = _words(
    "create update modify edit write delete remove cancel add set insert replace move copy rename book rebook exchange "
    "return change close assign apply patch clear reset approve reject order place schedule transfer merge commit"
)
_READ_WORDS: Final = _words(
    "get list read search find lookup fetch view show query check browse describe count calculate grep glob look load "
    "retrieve status inspect summarize summarise open verify validate preview quote estimate think"
)
_OPEN_WORDS: Final = _words("confirm ask")  # a question to a person, or the act itself: only a person can tell


def words_of(name: str) -> list[str]:
    """Return the words of a tool's name, in lower case; of an MCP tool, those behind the server's name."""
    return tool_words(name.rsplit("__", 1)[-1] if name.startswith("mcp__") else name)


def guess_class(name: str, arguments: Iterable[str] = (), described: Collection[str] = ()) -> str:
    """Return shell, money, egress, write or read; empty where nothing says it.

    The first word that says what is done decides, so that ``get_payment`` reads and ``refund_order`` pays. A tool that
    takes an amount, and does not read, moves money. Where the name says nothing, its description may (``described``).
    """
    guessed = _by_name(name, arguments)
    return guessed or next((one for one in (READ, MONEY, EGRESS, WRITE) if one in described), "")


def _by_name(name: str, arguments: Iterable[str]) -> str:
    words, named = words_of(name), {argument.lower() for argument in arguments}
    if _SHELL_WORDS & set(words) or (_CODE_ARGUMENTS & named and _RUN_WORDS & set(words)):
        return SHELL
    for word in words:
        if word in _OPEN_WORDS:
            return ""
        if word in _READ_WORDS:
            return READ
        if word in _MONEY_WORDS and "git" not in words:  # git has a checkout of its own
            return MONEY
        if word in _EGRESS_WORDS | _WRITE_WORDS:
            moves_money = bool(_AMOUNTS & named or _MONEY_WORDS & set(words))
            return MONEY if moves_money else EGRESS if word in _EGRESS_WORDS else WRITE
    return MONEY if _AMOUNTS & named and words else ""


MOST_TOOLS: Final = 1000  # agents invent names; the rest is counted together
MOST_ARGUMENTS: Final = 50  # of one tool
_HOUR: Final = 3600.0
_IDLE: Final = {f"{hours}h": hours * _HOUR for hours in (1, 2, 4, 8, 12, 24, 48, 72, 120, 192)}
LONGEST_IDLE: Final = 168 * _HOUR  # who comes back after a week begins anew, and a wrong clock is no silence


@dataclass(slots=True)
class ToolUse:
    """How one tool was used."""

    calls: int = 0
    sessions: set[str] = field(default_factory=set)
    arguments: Counter[str] = field(default_factory=Counter)  # names at the top of the arguments, by calls
    described: Mapping[str, str] = field(default_factory=dict)  # classes that its definition speaks for, and why

    def add(self, session_id: str, args: Json) -> None:
        """Count a call."""
        self.calls += 1
        self.sessions.add(session_id)
        for name in args if isinstance(args, dict) else ():
            if name in self.arguments or len(self.arguments) < MOST_ARGUMENTS:
                self.arguments[name] += 1


@dataclass(slots=True)
class Survey:
    """What the events of recordings have in them."""

    events: int = 0
    sessions: set[str] = field(default_factory=set)
    agents: Counter[str] = field(default_factory=Counter)  # by events; the name is empty where the source has none
    tools: dict[str, ToolUse] = field(default_factory=dict)
    longest_silence: float = 0.0  # seconds between two events of one session, of those that count
    _latest: dict[str, float] = field(default_factory=dict)  # by session: its latest time
    _announced: defaultdict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    _offered: dict[str, Mapping[str, str]] = field(default_factory=dict)  # as ``described``, also of tools not called

    def watch(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield the events, and count what is in them."""
        for event in events:
            self.add(event)
            yield event

    def add(self, event: Event) -> None:
        """Count one event."""
        self.events += 1
        self.sessions.add(event.session_id)
        self.agents[event.agent] += 1
        self._note_time(event)
        if isinstance(event, Turn | ToolResult):
            for name, definition in offered_tools(event):
                if name not in self._offered and len(self._offered) < MOST_TOOLS:
                    self._offered[name] = described_classes(definition)
        if isinstance(event, ToolCall):
            self._call(event)
        elif isinstance(event, Turn):
            content = event.response.get("content")
            for block in content if isinstance(content, list) else ():
                if isinstance(block, dict) and block.get("type") == "tool_use" and isinstance(block.get("name"), str):
                    self._announced[event.session_id, str(block.get("id"))] += 1
                    self._use(block["name"]).add(event.session_id, block.get("input"))

    def _note_time(self, event: Event) -> None:
        if event.time is None:
            return
        before = self._latest.get(event.session_id, event.time)
        if event.time - before <= LONGEST_IDLE:
            self.longest_silence = max(self.longest_silence, event.time - before)
        self._latest[event.session_id] = max(event.time, before)

    def idle(self) -> str:
        """Return after how long a silence a session is over, so that none of these is cut; empty: as by default."""
        fitting = [text for text, seconds in _IDLE.items() if self.longest_silence < seconds]
        return fitting[0] if self.longest_silence >= DEFAULT_IDLE else ""

    def by_calls(self) -> list[tuple[str, ToolUse]]:
        """Return the tools, the most used first."""
        return sorted(self.tools.items(), key=lambda item: (-item[1].calls, item[0]))

    def _call(self, call: ToolCall) -> None:
        key = (call.session_id, call.call_id)
        if self._announced.get(key):  # the response that asked for it was counted
            self._announced[key] -= 1
            return
        self._use(call.tool).add(call.session_id, call.args)

    def _use(self, tool: str) -> ToolUse:
        if tool not in self.tools:
            if len(self.tools) >= MOST_TOOLS:
                return ToolUse()
            self.tools[tool] = ToolUse()
        use = self.tools[tool]
        use.described = use.described or self._offered.get(tool, {})
        return use


# Classes of tools by what their descriptions and schemas say, for names that say nothing: ``x7``, ``acme_main``.
#
# The first sentence of a description is read like a name: its first verb, and the things behind it. A description is
# written by whoever offers the tool, so it only ever proposes a class, which a person takes into a policy.


_LONGEST: Final = 600  # characters of a description that are read
_MOST_THINGS: Final = 4  # words behind the verb
_SENTENCE: Final = re.compile(r"[.!?;\n](?:\s|$)")
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z'-]*")
_LISTING: Final = "tools/list"  # the tool whose result is a list of tools
_SCHEMAS: Final = ("parameters", "input_schema", "inputSchema", "args_schema", "schema")


# What stands before the verb that counts: "Use this tool to send ...", "Allows the user to book ...".
_BEFORE: Final = _words(
    "use uses using used call calls run runs allow allows let lets enable enables help helps tool has is can does"
)
_GIVES_BACK: Final = _words("returns return returning provides provide gives shows displays prints outputs")
_NOT: Final = _words("not never without cannot don't doesn't won't instead no")
_EMPTY: Final = _words(
    "a an the this that these those of to for from with on in at by and or via into any all some new"
)
_SUMS: Final = _words("amount price total sum")
_PAYEES: Final = _words("currency iban payee recipient beneficiary account card")
_ADDRESSEES: Final = _words("to recipient recipients receiver address email phone channel")
_MESSAGES: Final = _words("body message subject text content attachment")
_CLASSES: Final = ("read", "delete", "write", "egress", "money", "identify")
_PATTERNS: Final = {name: ToolPattern(f"@{name}") for name in _CLASSES}


def described_classes(definition: Mapping[str, Json]) -> dict[str, str]:
    """Return the classes that a tool's definition speaks for, each with the reason; none where it does not say."""
    text = definition.get("description")
    reading = next(_readings(text), "") if isinstance(text, str) else ""
    found = {
        name: f"its description {why_matched(pattern, reading).removeprefix('it ')}"
        for name, pattern in _PATTERNS.items()
        if reading and pattern.matches(reading)
    }
    if not reading or "read" in found:
        return found
    arguments = {word for name in argument_names(definition) for word in tool_words(name)}
    for name, both in (("money", (_SUMS, _PAYEES)), ("egress", (_ADDRESSEES, _MESSAGES))):
        given = [sorted(arguments & some)[:1] for some in both]
        if name not in found and all(given):
            found[name] = f"its description reads {reading}, and it takes {given[0][0]} and {given[1][0]}"
    return found


def offered_tools(event: Event) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """Yield the names and definitions of the tools that a request offers, or that a server lists."""
    listed: Json = None
    if isinstance(event, Turn):
        listed = event.request.get("tools") if event.request is not None else None
    elif isinstance(event, ToolResult) and event.tool.endswith(_LISTING):
        listed = event.output.get("tools") if isinstance(event.output, dict) else event.output
    for item in listed if isinstance(listed, list) else ():
        inner = item.get("function") if isinstance(item, dict) else None
        tool = inner if isinstance(inner, dict) else item
        if isinstance(tool, dict) and isinstance(name := tool.get("name"), str):
            yield name, tool


def argument_names(definition: Mapping[str, Json]) -> list[str]:
    """Return the names of the arguments that a definition declares."""
    schema: Json = next((definition[key] for key in _SCHEMAS if isinstance(definition.get(key), dict)), None)
    properties = schema.get("properties", schema) if isinstance(schema, dict) else {}
    return [name for name, said in properties.items() if isinstance(said, dict)] if isinstance(properties, dict) else []


def _readings(description: str) -> Iterator[str]:
    """Yield what the first sentence with a verb says is done, as a name would say it."""
    for sentence in _SENTENCE.split(description[:_LONGEST]):
        words = [word.lower() for word in _WORD.findall(sentence)]
        for place, word in enumerate(words):
            if word in _GIVES_BACK:
                yield "_".join(["get", *_things(words[place + 1 :])])
                return
            verb = None if word in _BEFORE else verb_of(word)
            if verb is None or not _is_said(words[:place]):
                continue
            yield "_".join([verb, *_things(words[place + 1 :])])
            return


def _is_said(before: list[str]) -> bool:
    """Whether a verb behind these words says what the tool does: not what it does not do, nor what it is about."""
    if _NOT.intersection(before[-3:]):
        return False
    return not before or before[-1] in _BEFORE | {"to", "can", "will", "you", "it", "user", "agent", "please"}


def _things(words: list[str]) -> list[str]:
    return [word for word in words if word not in _EMPTY and word.isalpha()][:_MOST_THINGS]
