"""What an agent's hook asks, in words that all agents share, and the answer to it."""

from __future__ import annotations

TYPE_CHECKING = False  # typing would take longer to import than the rest
if TYPE_CHECKING:
    from typing import Any, ClassVar

    Said = tuple[str, str, int]
    """What a hook's process says on standard output and standard error, and its exit code."""

# What a question is about.
CALL = "call"  # a tool is about to run
PROMPT = "prompt"  # a person has written to the agent
STOP = "stop"  # the agent wants to be finished
HAPPENED = "happened"  # something is over, and the gate is told
NOTHING = "nothing"  # an event of the agent that says nothing to a gate
UNKNOWN = "unknown"  # an event that this version does not know

_LONGEST_NAME = 200


class UnreadableError(Exception):
    """A payload is not what the agent sends. The text says what is wrong with it."""


class Call:
    """The call of a tool, as an agent tells it. ``key`` is one for two events that ask about the same call."""

    __slots__ = ("_id", "args", "key", "tool")

    def __init__(self, tool: str, args: Any, call_id: str = "", key: str = "") -> None:
        self.tool, self.args, self.key, self._id = tool, args, key, call_id

    @property
    def id(self) -> str:
        """Return the agent's id of the call, or one that is made where a gate is to be told."""
        return self._id or made_call_id(self.tool, self.args)


class HookQuestion:
    """One payload of a hook. ``text`` is what was said, ``told`` what the gate is told as it is."""

    __slots__ = ("about", "agent", "asked_again", "call", "event", "folder", "held", "session", "text", "told")

    def __init__(
        self,
        event: str,
        about: str,
        session: str,
        *,
        call: Call | None = None,
        text: str = "",
        told: dict[str, Any] | None = None,
        agent: str = "",
        asked_again: bool = False,
    ) -> None:
        self.event, self.about, self.session = event, about, session
        self.call, self.text, self.told, self.agent = call, text, told, agent
        self.asked_again = asked_again  # the agent was already held up once when it wanted to stop
        self.held: int | None = None  # how often it was, where the payload says it
        self.folder = ""  # where the agent works


class HookAnswer:
    """What the hook's process says: an object on standard output or nothing, words on standard error, an exit code."""

    __slots__ = ("code", "said", "stderr")

    def __init__(self, said: dict[str, Any] | None = None, *, stderr: str = "", code: int = 0) -> None:
        self.said, self.stderr, self.code = said, stderr, code


REFUSED = 2  # the exit code that agents take as a refusal, with the reason on standard error


class AgentDialect:
    """How one agent speaks: ``read`` takes its payload apart, the other methods say a verdict in its words.

    Agents whose payloads differ by names alone say the names. The answers by default are those of an agent that cannot
    be told: nothing is said, and what the gate decided stays without effect. An agent that can be stopped overrides
    what it understands.
    """

    name = ""
    may_lack_session = False  # then it is the folder and the process that asks
    most_holds = 8  # times in a row that the agent may be sent back to work; Claude Code and Copilot end after these
    denies_prompts = False  # what a person wrote is refused as a call is
    # Where payloads say what; the first name that is there counts.
    event_names: tuple[str, ...] = ("hook_event_name",)
    session_names: tuple[str, ...] = ("session_id",)
    agent_names: tuple[str, ...] = ()
    prompt_names: tuple[str, ...] = ("prompt",)
    said_names: tuple[str, ...] = ()  # the last words of the agent
    id_names: tuple[str, ...] = ()  # of a call
    output_names: tuple[str, ...] = ()
    error_names: tuple[str, ...] = ("error",)  # what a tool that failed gave
    # What events are about.
    aliases: ClassVar[dict[str, str]] = {}
    calls: tuple[str, ...] = ("PreToolUse",)  # events that a tool call waits for
    results: ClassVar[dict[str, str]] = {"PostToolUse": "ok", "PostToolUseFailure": "error"}  # what became of a call
    prompts: tuple[str, ...] = ("UserPromptSubmit",)
    stops: tuple[str, ...] = ("Stop",)
    endings: tuple[str, ...] = ("SessionEnd",)
    silent: frozenset[str] = frozenset()

    def read(self, data: dict[str, Any], event: str) -> HookQuestion:
        """Return the question of a payload; ``event`` is what the command line says where the payload does not."""
        event, session, agent = self.event_of(data, event), self.session_of(data), text_of(data, *self.agent_names)
        if event in self.calls:
            return HookQuestion(event, CALL, session, call=self.call_of(data, event), agent=agent)
        if event in self.results:
            status, output = self.outcome_of(data, event)
            told = {"kind": "tool_result", "status": status, **({"output": output} if status != "blocked" else {})}
            return HookQuestion(event, HAPPENED, session, call=self.call_of(data, event), told=told, agent=agent)
        if event in self.prompts:
            return HookQuestion(event, PROMPT, session, text=self.prompt_of(data), agent=agent)
        if event in self.stops:
            said, again = text_of(data, *self.said_names), data.get("stop_hook_active") is True
            return HookQuestion(event, STOP, session, text=said, agent=agent, asked_again=again)
        if event in self.endings:
            return HookQuestion(event, HAPPENED, session, told={"kind": "session_end"}, agent=agent)
        return other(event, session, self.silent, data)

    def event_of(self, data: dict[str, Any], event: str) -> str:
        """Return the event of a payload, by the one of its names that is used here."""
        named = text_of(data, *self.event_names) or event
        return self.aliases.get(named, named)

    def session_of(self, data: dict[str, Any]) -> str:
        """Return the session of a payload."""
        return text_of(data, *self.session_names)

    def call_of(self, data: dict[str, Any], event: str) -> Call:
        """Return the call of a payload."""
        del event
        return Call(text_of(data, "tool_name"), data.get("tool_input"), text_of(data, *self.id_names))

    def outcome_of(self, data: dict[str, Any], event: str) -> tuple[str, Any]:
        """Return the status of a result, and what the tool gave."""
        status = self.results[event]
        names = self.error_names if status == "error" else self.output_names
        return status, next((data[name] for name in names if name in data), None)

    def prompt_of(self, data: dict[str, Any]) -> str:
        """Return what a person wrote."""
        return text_of(data, *self.prompt_names)

    def allow(self, question: HookQuestion) -> HookAnswer:
        """Let the agent go on: nothing on standard output, so that the user's own permissions count."""
        del question
        return HookAnswer()

    def warn(self, answer: HookAnswer, text: str) -> HookAnswer:
        """Return the answer with words for the user. An agent without a place for them has its log."""
        return HookAnswer(answer.said, stderr=answer.stderr or text, code=answer.code)

    def deny(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Refuse a call; ``ends`` if the session is over, too."""
        del ends
        return self.warn(self.allow(question), text)

    def may_modify(self, question: HookQuestion) -> bool:
        """Whether a call can be given other arguments in the answer to this question."""
        del question
        return False

    def modify(self, question: HookQuestion, args: dict[str, Any]) -> HookAnswer:
        """Let the call run with other arguments, where ``may_modify`` says that it can."""
        del args
        return self.deny(question, "Not run: this agent cannot change a call.")

    def ask(self, question: HookQuestion, text: str) -> HookAnswer:
        """Have the agent ask its user. An agent that cannot refuses."""
        return self.deny(question, text)

    def refuse_prompt(self, question: HookQuestion, text: str, *, ends: bool = False) -> HookAnswer:
        """Refuse what a person wrote, where that is possible."""
        if self.denies_prompts:
            return self.deny(question, text, ends=ends)
        return self.warn(self.allow(question), text)

    def hold(self, question: HookQuestion, text: str) -> HookAnswer:
        """Have the agent go on working."""
        return self.warn(self.allow(question), text)

    def refuse_unread(self, text: str) -> HookAnswer:
        """Refuse a payload that could not be read: nobody knows what hangs on it."""
        return HookAnswer(stderr=text, code=REFUSED)


def folder_of(data: dict[str, Any]) -> str:
    """Return the folder in which an agent works, wherever its payloads name it."""
    roots = data.get("workspace_roots") or data.get("workspaceRoots")
    first = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""
    return text_of(data, "cwd", "working_dir") or text_of(object_of(data, "tool_info"), "cwd") or first


def text_of(data: dict[str, Any], *names: str) -> str:
    """Return the first of these values that is there, as text; nothing for what is neither text nor a number."""
    for name in names:
        value = data.get(name)
        if isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != "":
            return str(value)
    return ""


def object_of(data: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a value that should be an object; an empty one where it is another thing, which the gate refuses."""
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def other(event: str, session: str, silent: frozenset[str], data: dict[str, Any]) -> HookQuestion:
    """Return the question of an event that the gate need not know, or that this version does not know.

    A call may hang on an unknown one that speaks of a tool: an agent's new version has another name for it.
    """
    if event in silent:
        return HookQuestion(event, NOTHING, session)
    of_a_tool = any("tool" in name.lower() for name in data)
    return HookQuestion(event[:_LONGEST_NAME], UNKNOWN, session, call=Call("", None, "~") if of_a_tool else None)


def made_call_id(tool: str, args: Any) -> str:
    """Return an id for a call of an agent that gives none: its result, with the same arguments, has the same one."""
    from hashlib import sha256  # noqa: PLC0415  (only agents without ids pay for the import)
    from json import dumps, loads  # noqa: PLC0415

    if isinstance(args, str):
        try:  # noqa: SIM105  (contextlib is one more import)
            args = loads(args)
        except (ValueError, RecursionError):
            pass
    said = dumps([tool, args], sort_keys=True)
    return f"~{sha256(said.encode()).hexdigest()[:32]}"
