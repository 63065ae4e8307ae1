"""Runs that agents and benchmarks write down as a whole, with the variations that files of strangers have."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

import stream_guard as sg
from tests.unit.formats.test_session_files import calls, read, results

ASKED = {"role": "user", "content": "Fix it."}


def one(data: Any, form: str = "auto") -> list[sg.Event]:
    events, dead = read({"run.json": [data]}, form)
    assert dead == []
    assert len({event.session_id for event in events}) == 1
    return events


def mini(*messages: dict[str, Any], **config: Any) -> dict[str, Any]:
    return {"messages": list(messages), "info": {"config": config}, "trajectory_format": "mini-swe-agent-1"}


def said(text: str, **extra: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, "extra": extra}


def test_mini_swe_agent_runs_the_one_block_of_an_answer_and_refuses_others() -> None:
    complaint = "Please always provide EXACTLY ONE action, found {{n}}"
    run = mini(
        {"role": "system", "content": "Use ```bash\nls\n```"},
        ASKED,
        said("THOUGHT\n\n```bash\nls -a\n```", response={"created": 1767600000, "usage": {"prompt_tokens": 7}}),
        {"role": "user", "content": "<returncode>2</returncode>\n<output>\nno\n</output>"},
        said("```bash\nls\n```\n```bash\npwd\n```"),
        {"role": "user", "content": "Please always provide EXACTLY ONE action, found 2"},
        said("```bash\nsleep 99\n```"),
        {"role": "user", "content": "The last command <command>sleep 99</command> timed out and has been killed."},
        said("```bash\nrm x\n```"),
        {"role": "user", "content": "Command not executed. The user rejected your command."},
        said("```bash\necho DONE\n```"),
        {"role": "user", "content": "diff --git a/x b/x"},
        agent={"format_error_template": complaint},
    )
    events = one(run)
    assert [args["command"] for _, args in calls(events)] == ["ls -a", "sleep 99", "rm x", "echo DONE"]
    assert [status for _, _, status in results(events)] == ["error", "error", "blocked", "ok"]
    assert [event.text for event in events if isinstance(event, sg.UserMessage)] == ["Fix it."]
    assert events[1].time == 1767600000.0


def test_mini_swe_agent_may_bring_its_own_pattern_if_it_is_a_safe_one() -> None:
    answers = [ASKED, said("<run>ls</run>"), {"role": "user", "content": "ok"}]
    assert calls(one(mini(*answers, agent={"action_regex": "<run>(.*?)</run>"}))) == [("bash", {"command": "ls"})]
    fallback = [ASKED, said("```mswea_bash_command\nls\n```"), {"role": "user", "content": "ok"}]
    for pattern in ("(?=x)(.*)", "(a)(b)", "(", "x" * 1000):
        run = mini(*fallback, model={"action_regex": pattern})
        assert calls(one(run)) == [("bash", {"command": "ls"})]


def test_swe_agents_actions_are_commands_where_the_history_has_no_calls() -> None:
    demo = {"role": "assistant", "content": "demo", "action": "ls", "is_demo": True}
    run = {
        "environment": "swe_main",
        "trajectory": [
            {"action": "ls -a\n", "observation": "a.txt", "thought": "Look.", "response": "Look.", "state": "{}"},
            {"action": "", "observation": "Your output was not formatted.", "thought": "Hm.", "response": "Hm."},
            {"action": "open x", "observation": "Error: no such file", "thought": "", "response": "", "state": {}},
        ],
        "history": [{"role": "system", "content": "x"}, demo, {**ASKED, "agent": "main"}],
        "info": {"exit_status": "submitted"},
    }
    events = one(run)
    assert calls(events) == [("bash", {"command": "ls -a"}), ("bash", {"command": "open x"})]
    assert [(output, status) for _, output, status in results(events)] == [
        ("a.txt", "ok"),
        ("Error: no such file", "error"),
    ]


def test_ag2_runs_the_code_of_the_message_before() -> None:
    chat = {
        "question_ID": "q1",
        "mistake_agent": "Coder",
        "history": [
            {"role": "user", "name": "user", "content": "Count the rows."},
            {
                "role": "assistant",
                "name": "Coder",
                "content": "Look:\n```python\nprint(1)\n```\nand\n```python\nx\n```",
            },
            {"role": "user", "name": "Computer_terminal", "content": "exitcode: 1 (execution failed)\nCode output: x"},
            {"role": "assistant", "name": "Coder", "content": "```sh\nwc -l a\n```"},
            {
                "role": "user",
                "name": "Computer_terminal",
                "content": "exitcode: 0 (execution succeeded)\nCode output: 3",
            },
            {"role": "assistant", "name": "Coder", "content": "```python\nnever run\n```"},
            {"role": "user", "name": "Computer_terminal", "content": "There is no code from the last message."},
        ],
    }
    events = one(chat)
    assert calls(events) == [("python", {"code": "print(1)\nx"}), ("bash", {"command": "wc -l a"})]
    assert [status for _, _, status in results(events)] == ["error", "ok"]
    assert {event.agent for event in events if isinstance(event, sg.Turn)} == {"Coder", "Computer_terminal"}


def test_a_chat_with_roles_for_names_is_read_without_its_thoughts() -> None:
    chat = {
        "question_ID": "q1",
        "mistake_step": "2",
        "history": [
            {"role": "human", "content": "Find it."},
            {"role": "Orchestrator (thought)", "content": "Plan."},
            {"role": "Orchestrator (-> WebSurfer)", "content": "Search."},
            {"role": "WebSurfer", "content": "I searched."},
        ],
    }
    events = one(chat)
    assert [event.agent for event in events if isinstance(event, sg.Turn)] == ["Orchestrator", "WebSurfer"]
    assert [event.text for event in events if isinstance(event, sg.UserMessage)] == ["Find it."]


def test_ag2s_functions_of_the_first_generation_are_paired_by_their_order() -> None:
    call = {"name": "lookup", "arguments": '{"id": 1}'}
    chat = {
        "chat_history": [
            {"role": "user", "content": "Look.", "name": "user_proxy"},
            {"role": "assistant", "content": "", "name": "helper", "function_call": call},
            {"role": "function", "name": "lookup", "content": "Error: nothing"},
        ]
    }
    events = one(chat)
    assert calls(events) == [("lookup", {"id": 1})]
    assert [status for _, _, status in results(events)] == ["error"]


def action(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": number, "timestamp": "2026-01-05T08:00:00.5", "source": "agent", **fields}


OLD: Sequence[dict[str, Any]] = [
    action(0, source="user", action="message", args={"content": "Fix it.", "image_urls": ["data:image/png;base64,AA"]}),
    action(1, action="run", args={"command": "ls", "thought": "I look.", "hidden": False, "blocking": None}),
    action(2, observation="run", cause=1, content="a.txt", extras={"exit_code": 127}, success=False),
    action(3, action="run", args={"command": "sleep 99"}),
    action(4, observation="run", cause=3, content="", extras={"metadata": {"exit_code": -1}}, success=False),
    action(5, action="run_ipython", args={"code": "1/0"}),
    action(6, observation="run_ipython", cause=5, content="---\nTraceback (most recent call last)\nx", extras={}),
    action(7, source="user", action="run", args={"command": "mine"}),
    action(8, observation="run", cause=7, content="mine", extras={}),
    action(9, source="environment", observation="agent_state_changed", content="", extras={"agent_state": "stopped"}),
    action(10, action="finish", args={"final_thought": "Done."}),
]


@pytest.mark.parametrize("how", ["list", "events", "history", "pairs", "lines", "files"])
def test_openhands_without_tool_calls_pairs_by_cause_wherever_the_events_stand(how: str) -> None:
    events: list[sg.Event]
    if how == "lines":
        events, dead = read({"stream.jsonl": OLD})
        assert not dead
    elif how == "files":
        events, dead = read({f"/oh/sessions/s1/events/{one['id']}.json": [one] for one in OLD})
        assert {event.session_id for event in events} == {"s1"}
        assert not dead
    else:
        pairs = [[first, {}] for first in OLD[:1]] + [list(OLD[at : at + 2]) for at in range(1, 11, 2)]
        data: Any = {"list": list(OLD), "pairs": {"instance_id": "i", "history": pairs}}.get(how, {how: list(OLD)})
        events = one(data)
    assert [(tool, args) for tool, args in calls(events)] == [
        ("run", {"command": "ls"}),
        ("run", {"command": "sleep 99"}),
        ("run_ipython", {"code": "1/0"}),
        ("finish", {"final_thought": "Done."}),
    ]
    assert [status for _, _, status in results(events)] == ["error", "ok", "error"]
    assert [event.text for event in events if isinstance(event, sg.UserMessage)] == ["Fix it."]


def test_a_cut_run_of_openhands_gives_what_it_has() -> None:
    text = json.dumps({"name": "run", "events": list(OLD)})
    events, dead = read({"run.json": [text[: len(text) // 2]]})
    assert not events
    assert len(dead) == 1


def test_written_out_runs_may_hold_several_and_leave_results_out() -> None:
    steps = [
        {"role": "user", "content": "before"},
        {"role": "agent", "content": {"name": "mkdir", "arguments": {"dir": "x"}}},
        {"role": "agent", "content": {"name": "ls", "arguments": {}}},
        {"role": "tool", "content": '{"error": "no"}'},
        {"role": "agent", "action": "click(5)", "content": "Done."},
    ]
    tools = [{"name": "ls", "parameters": {}}]
    record = {"first": {"user_query": "asked", "tool_lists": tools, "trace": steps}, "second": {"trace": steps[:2]}}
    events, dead = read({"pairs.jsonl": [record]})
    assert not dead
    assert len({event.session_id for event in events}) == 2
    assert calls(events) == [("mkdir", {"dir": "x"}), ("ls", {}), ("click", "click(5)"), ("mkdir", {"dir": "x"})]
    assert results(events) == [("2", '{"error": "no"}', "error")]
    assert [event.text for event in events if isinstance(event, sg.UserMessage)] == ["asked", "before"]
    turns = [event for event in events if isinstance(event, sg.Turn)]
    assert turns[0].request == {"tools": tools}
