"""An agent keeps the rules of its own system prompt."""

from __future__ import annotations

import msgspec
from pydantic import Field

import stream_guard as sg
from stream_guard_compliance.prompts_in_turns import declared_tools, prompt_of

_MOST_AGENTS = 4  # of one session, each with a prompt of its own
_MOST_HELD = 32_768  # bytes of events that came before the prompt
_NO_PROMPT = sg.Unsure("unevaluable", "the system prompt, which no turn has carried so far")
_TOO_LARGE = sg.Unsure("unevaluable", "a system prompt that is short enough to be remembered")
_LOST = sg.Unsure("unevaluable", "what came before the system prompt, which was too much to be remembered")
_OPEN = sg.Unsure("unevaluable", "what a rule of the system prompt asks about")


class MustKeepPromptParams(sg.Params):
    """Parameters of ``must_keep_prompt``."""

    tools: list[str] = Field(
        default=[], max_length=1000, description="tools that the agent has, beside those that its requests declare"
    )
    guesses: bool = Field(
        default=False, description="true: rules count too that guess which tools or texts their sentence means"
    )


class AgentPrompt(sg.State):
    """The prompt of one agent, packed, and what its rules remember of the session."""

    packed: bytes = b""
    memory: bytes = b""


class MustKeepPromptState(sg.State):
    """The prompts by agent, and the events that came before the first one."""

    prompts: dict[str, AgentPrompt] = {}
    held: list[sg.Event] = []
    size: int = 0  # bytes of those
    lost: bool = False  # more came before the prompt than was held
    too_large: bool = False  # a prompt was not remembered


class MustKeepPrompt(sg.Rule[MustKeepPromptParams, MustKeepPromptState]):
    """An agent must keep the rules that its own system prompt states, as far as a machine can read and check them.

    The prompt is taken from the requests of the session's turns, and read as ``compliance check`` reads it; each agent
    of a session is held against its own, up to four. It fires at the event that breaks a sentence, and names it; of
    several that one event breaks, the evidence lists the others. What comes before the prompt is judged when it comes.
    Without a prompt, or with one of more than 16 KiB when packed, nothing can be judged, which is counted.
    """

    kind = "must_keep_prompt"
    state_limit = 262144
    examples = (
        sg.Example(
            claim="what a sentence of the prompt forbids is a hit",
            params={},
            trace=[
                {"turn": "Hello!", "request": {"system": "Never call wipe_disk."}},
                {"call": "read_page"},
                {"call": "wipe_disk"},
            ],
            hits=[2],
        ),
        sg.Example(
            claim="the order of calls that the prompt asks for is remembered",
            params={},
            trace=[
                {"turn": "Hello!", "request": {"system": "Call check_user before pay_bill."}},
                {"call": "pay_bill"},
                {"call": "check_user", "id": "a"},
                {"result": "check_user", "id": "a"},
                {"call": "pay_bill"},
            ],
            hits=[1],
        ),
        sg.Example(
            claim="a duty that was not done is a hit at the end",
            params={},
            trace=[
                {"turn": "Hello!", "request": {"system": "You must call close_case at the end."}},
                {"end": "closed"},
            ],
            hits=["end"],
        ),
        sg.Example(
            claim="what leaves room for judgement breaks nothing",
            params={},
            trace=[{"turn": "No.", "request": {"system": "Be kind and helpful."}}, {"call": "wipe_disk"}],
            hits=[],
        ),
    )

    def on_user_message(self, message: sg.UserMessage, state: MustKeepPromptState) -> sg.Verdict:
        """Hold what a person says against every prompt: it may ask for what is forbidden otherwise."""
        verdict = self._take(message, state, list(state.prompts))
        return None if verdict is _NO_PROMPT else verdict  # the prompt comes with the answer

    def on_turn(self, turn: sg.Turn, state: MustKeepPromptState) -> sg.Verdict:
        """Take the prompt that the request carries, and judge the response."""
        prompt = prompt_of(turn)
        if prompt:
            self._learn(prompt, turn, state)
        return self._take(turn, state, self._meant(turn, state))

    def on_tool_call(self, call: sg.ToolCall, state: MustKeepPromptState) -> sg.Verdict:
        """Judge the attempt."""
        return self._take(call, state, self._meant(call, state))

    def on_decision(self, decision: sg.GateDecision, state: MustKeepPromptState) -> sg.Verdict:
        """Let the rules know what a gate answered."""
        return self._take(decision, state, self._meant(decision, state))

    def on_tool_result(self, result: sg.ToolResult, state: MustKeepPromptState) -> sg.Verdict:
        """Let the rules know what came of the attempt."""
        return self._take(result, state, self._meant(result, state))

    def on_session_end(self, end: sg.SessionEnd, state: MustKeepPromptState) -> sg.Hit | None:
        """Judge what did not happen."""
        verdict = self._judge([end], state, list(state.prompts))
        return verdict if isinstance(verdict, sg.Hit) else None

    @staticmethod
    def _meant(event: sg.Event, state: MustKeepPromptState) -> list[str]:
        """Return whose prompts an event is held against: its agent's, or the first one."""
        return [event.agent] if event.agent in state.prompts else list(state.prompts)[:1]

    def _learn(self, prompt: str, turn: sg.Turn, state: MustKeepPromptState) -> None:
        """Take a prompt that an agent did not have before."""
        from stream_guard_compliance.live import pack_prompt

        packed = pack_prompt(prompt, [*self.params.tools, *declared_tools(turn)])
        known = state.prompts.get(turn.agent)
        if known is not None and known.packed == packed:
            return
        if not packed or (known is None and len(state.prompts) >= _MOST_AGENTS):
            state.too_large = True
            return
        state.prompts = {**state.prompts, turn.agent: AgentPrompt(packed)}

    def _take(self, event: sg.Event, state: MustKeepPromptState, agents: list[str]) -> sg.Verdict:
        """Judge an event, after those that waited for a prompt; or let it wait."""
        if not agents:
            return self._wait(event, state)
        waiting, state.held, state.size = state.held, [], 0
        verdict = self._judge([*waiting, event], state, agents)
        if verdict is None and (state.lost or state.too_large):
            return _LOST if state.lost else _TOO_LARGE
        return verdict

    @staticmethod
    def _wait(event: sg.Event, state: MustKeepPromptState) -> sg.Verdict:
        try:
            size = len(msgspec.json.encode(event))
        except ValueError:  # half of a surrogate pair, or a number of more digits than Python writes
            size = _MOST_HELD + 1
        if state.size + size > _MOST_HELD:
            state.lost = True
        else:
            state.held, state.size = [*state.held, event], state.size + size
        return _TOO_LARGE if state.too_large else _NO_PROMPT

    def _judge(self, events: list[sg.Event], state: MustKeepPromptState, agents: list[str]) -> sg.Verdict:
        from stream_guard_compliance.live import judge_of

        broken: list[dict[str, sg.Json]] = []
        is_open = False
        for agent in agents:
            own = state.prompts[agent]
            judge = judge_of(own.packed, guesses=self.params.guesses)
            memory, found, unjudged = judge.judge(own.memory, events)
            state.prompts = {**state.prompts, agent: AgentPrompt(judge.packed, memory)}
            broken += found
            is_open = is_open or unjudged
        if not broken:
            return _OPEN if is_open else None
        first, *others = broken
        detail = f"{first['found']}, but the prompt says: {first['sentence']}"
        also: list[sg.Json] = [one["sentence"] for one in others]
        return sg.Hit(
            detail, {"sentence": first["sentence"], "rule": first["rule"], **({"also": also} if also else {})}
        )
