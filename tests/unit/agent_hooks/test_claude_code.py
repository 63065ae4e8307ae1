"""The hook of Claude Code against a real gate over HTTP: what is refused and told, and what happens without a gate."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from stream_guard.agent_hooks.command import DEFAULTS, PREFIX, UnknownOption, main, read_options
from stream_guard.guard.gate import Gate
from stream_guard.judge.model import ToolResult
from stream_guard.serve.tokens import TokenEntry, make_token, write_tokens
from stream_guard.settings import HookSettings
from tests.ports import free_port
from tests.wires.gate import serving

POLICY = """
rules:
  - {id: no-drop, kind: no_call, params: {tool: Drop}, then: block, reason: Tables stay.}
  - {id: ask, kind: no_call, params: {tool: Pay}, then: pause, reason: A person looks at payments.}
  - {id: leak, kind: no_call, params: {tool: Leak}, then: terminate_session}
  - {id: read-first, kind: must_call_before, params: {first: Read, second: Edit, first_must_succeed: true}, then: block}
  - {id: tests, kind: must_call_once, params: {tool: RunTests}}
  - id: promised
    kind: must_followup
    params:
      trigger: [{path: response.content, op: contains, value: I will report}]
      must: {kind: tool_call, tool_name: Report}
      within_turns: 5
  - {id: mails, kind: no_pii, params: {types: [email]}}
"""
Hook = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Gate]]:
    with serving(tmp_path_factory.mktemp("gate"), POLICY) as served:
        yield served


@pytest.fixture
def hook(
    gate: tuple[str, Gate],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    request: Any,
) -> Hook:
    """Run the hook as the console script does; what it is told is in the words of Claude Code."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def ask(event: str, *flags: str, tool: str = "", code: int = 0, text: str = "", **more: Any) -> dict[str, Any]:
        call = {"tool_name": tool, "tool_input": {}, "tool_use_id": "toolu_1"} if tool else {}
        common = {"session_id": request.node.name, "cwd": "/", "transcript_path": "/t", "permission_mode": "default"}
        said = text or json.dumps({"hook_event_name": event, **common, **call, **more})
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(said.encode())))
        given = flags if any(flag.startswith("--gate") for flag in flags) else ("--gate", gate[0], *flags)
        assert main(["claude-code", "--timeout=60", *given]) == code
        out, err = capsys.readouterr()
        answer: dict[str, Any] = json.loads(out) if out else {"stderr": err} if err else {}
        return answer

    return ask


def denial(answer: dict[str, Any]) -> str:
    specific = answer["hookSpecificOutput"]
    assert (specific["hookEventName"], specific["permissionDecision"]) == ("PreToolUse", "deny")
    reason: str = specific["permissionDecisionReason"]
    return reason


def test_an_allowed_call_gets_no_answer_so_that_the_users_own_permissions_count(hook: Hook) -> None:
    assert hook("PreToolUse", tool="Read") == {}
    assert hook("PostToolUse", tool="Read", tool_response={"content": "x"}) == {}


def test_a_blocked_call_is_denied_with_the_rule_and_what_it_found(hook: Hook) -> None:
    answer = hook("PreToolUse", tool="Drop")
    assert denial(answer) == "Not run: this is not allowed. Tables stay. [no-drop: Tables stay. Drop was called]"
    assert "continue" not in answer


def test_a_denial_says_what_would_pass(hook: Hook) -> None:
    assert "to pass: call Read, and have it succeed, first" in denial(hook("PreToolUse", tool="Edit"))


def test_a_paused_call_names_its_review_and_runs_once_after_the_approval(hook: Hook, gate: tuple[str, Gate]) -> None:
    before = {review.id for review in gate[1].reviews.listing("open")}  # of sessions of other tests
    reason = denial(hook("PreToolUse", tool="Pay"))
    [review] = [review for review in gate[1].reviews.listing("open") if review.id not in before]
    assert reason.startswith(f"Not run: a person has to approve this first (review {review.id}). A person looks at")
    gate[1].reviews.approve(review.id, by="ada", arguments_digest=review.arguments_digest)
    assert hook("PreToolUse", tool="Pay", tool_use_id="toolu_2") == {}
    hook("PostToolUse", tool="Pay", tool_use_id="toolu_2", tool_response="paid")
    assert "a person has to approve" in denial(hook("PreToolUse", tool="Pay", tool_use_id="toolu_3"))


def test_a_rule_that_ends_the_session_stops_the_agent_and_owes_nothing(hook: Hook) -> None:
    answer = hook("PreToolUse", tool="Leak")
    assert "the session is over" in denial(answer)
    assert (answer["continue"], answer["stopReason"]) == (False, denial(answer))
    assert "the session is over" in denial(hook("PreToolUse", tool="Read"))
    assert hook("Stop", stop_hook_active=False, last_assistant_message="bye") == {}


def test_results_count_and_a_failed_one_satisfies_nothing(hook: Hook) -> None:
    assert hook("PreToolUse", tool="Read", tool_use_id="a") == {}
    assert hook("PostToolUseFailure", tool="Read", tool_use_id="a", error="no such file") == {}
    assert "read-first" in denial(hook("PreToolUse", tool="Edit", tool_use_id="b"))
    assert hook("PreToolUse", tool="Read", tool_use_id="c") == {}
    assert hook("PostToolUse", tool="Read", tool_use_id="c", tool_response="text") == {}
    assert hook("PreToolUse", tool="Edit", tool_use_id="d") == {}


def test_an_agent_may_not_stop_while_an_obligation_is_open_and_is_told_which(hook: Hook) -> None:
    answer = hook("Stop", stop_hook_active=False, last_assistant_message="Done. I will report it.")
    assert answer["decision"] == "block"
    first, *owed = answer["reason"].splitlines()
    assert first == "stream_guard: not finished yet."
    assert [line.split(":")[0] for line in owed] == ["- tests", "- promised"]
    assert "RunTests" in owed[0]
    assert "Report" in owed[1]
    hook("PreToolUse", tool="RunTests", tool_use_id="a")
    left = hook("Stop", stop_hook_active=True, last_assistant_message="Tests pass. ")["reason"]
    assert ("RunTests" in left, "promised" in left) == (False, True)
    assert hook("PreToolUse", tool="Report", tool_use_id="b") == {}
    assert hook("Stop", stop_hook_active=True, last_assistant_message="Reported.") == {}


def test_a_person_s_prompt_and_the_end_are_told(hook: Hook, gate: tuple[str, Gate]) -> None:
    before = dict(gate[1].guard.counts.events)
    assert hook("UserPromptSubmit", prompt="please") == {}
    assert hook("SessionEnd", reason="exit").keys() <= {"systemMessage"}
    after = gate[1].guard.counts.events
    told = {kind.__name__ for kind, count in after.items() if count > before[kind]}
    assert told == {"UserMessage", "SessionEnd"}


def test_the_user_is_shown_what_rules_found_after_the_fact(hook: Hook) -> None:
    answer = hook("Stop", stop_hook_active=True, last_assistant_message="Write to ann@example.com")
    assert answer["systemMessage"].startswith("stream_guard: mails: ")
    assert answer["decision"] == "block"
    assert "tests: RunTests" in hook("SessionEnd", reason="exit")["systemMessage"]


def test_text_that_an_agent_wrote_cannot_steer_a_terminal(hook: Hook) -> None:
    denied = denial(hook("PreToolUse", "--on-error=\x1b[2J", tool="Read"))
    told = hook("\x1b[2J\u202e")["systemMessage"]
    assert (denied + told).isprintable()


def test_a_result_that_is_too_large_for_the_gate_still_ends_its_call(
    tmp_path: Path, hook: Hook, gate: tuple[str, Gate]
) -> None:
    with serving(tmp_path, POLICY, limit=4096) as (url, small):
        flags = ("--gate", url)
        assert hook("PreToolUse", *flags, tool="Read") == {}
        assert hook("PostToolUse", *flags, tool="Read", tool_response="x" * 10_000) == {}
        assert hook("PostToolUse", *flags, tool="Read", tool_response="x" * 9_000_000) == {}
        assert small.guard.counts.events[ToolResult] == 2
        assert "413" in denial(hook("PreToolUse", *flags, tool="Read", tool_input={"text": "x" * 10_000}))


@pytest.mark.parametrize(("mode", "decision"), [("closed", "deny"), ("ask", "ask"), ("open", None)])
def test_without_a_gate_a_call_gets_what_the_settings_say(hook: Hook, mode: str, decision: str | None) -> None:
    flags = (f"--gate=http://127.0.0.1:{free_port()}", f"--on-error={mode}")
    answer = hook("PreToolUse", *flags, tool="Read")
    specific = answer.get("hookSpecificOutput", {})
    assert specific.get("permissionDecision") == decision
    assert "cannot be reached: Connection refused; is `stream-guard serve` up?" in json.dumps(answer)
    told = hook("PostToolUse", *flags, tool="Read", tool_response="")
    assert told["systemMessage"].startswith("stream_guard: the gate was not told of this tool_result")


def test_without_a_gate_an_agent_is_held_up_once_and_not_for_ever(hook: Hook) -> None:
    gone = f"--gate=http://127.0.0.1:{free_port()}"
    assert hook("Stop", gone, stop_hook_active=False)["decision"] == "block"
    assert hook("Stop", gone, stop_hook_active=True).keys() == {"systemMessage"}
    assert hook("Stop", gone, "--on-error=open", stop_hook_active=False).keys() == {"systemMessage"}


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--gate=ftp://h"], "is no address of a gate; write http://127.0.0.1:8750"),
        (["--gate=http://a b"], "is no address of a gate"),
        (["--gate=http://u:p@h"], "is no address of a gate"),
        (["--gate=http://127.0.0.1:99999"], "is no address of a gate"),
        (["--token-file=/no/such/file"], "the token cannot be read"),
        (["--timeout=soon"], "timeout is 'soon'; write seconds"),
        (["--on-error=maybe"], "on_error is 'maybe'; write closed, ask, open"),
    ],
)
def test_a_wrong_option_refuses_the_call_and_says_what_is_wrong(hook: Hook, flags: list[str], why: str) -> None:
    assert why in denial(hook("PreToolUse", *flags, tool="Read"))


@pytest.mark.parametrize("text", ["", "no json", "[]", '"x"', "\x00"])
def test_nonsense_on_standard_input_is_a_refusal(hook: Hook, text: str) -> None:
    assert "stream_guard: the hook failed" in hook("", code=2, text=text or " ")["stderr"]
    assert "the hook failed" in hook("", "--on-error=open", text=text or " ")["systemMessage"]


@pytest.mark.parametrize(
    "data", [{}, {"tool_name": 7}, {"tool_input": None}, {"session_id": None}, {"tool_input": "x"}]
)
def test_a_call_that_cannot_be_read_does_not_run(hook: Hook, data: dict[str, Any]) -> None:
    said = {"hook_event_name": "PreToolUse", **data}
    denial(hook("", text=json.dumps(said)))


def test_an_event_that_says_nothing_to_a_gate_is_passed_over(hook: Hook) -> None:
    assert hook("PreCompact") == {}


def test_an_unknown_event_is_said_and_refused_where_a_call_may_hang_on_it(hook: Hook) -> None:
    assert "does not know the event 'PostLunch'" in hook("PostLunch")["systemMessage"]
    assert "does not know the event 'BeforeToolRuns'" in hook("BeforeToolRuns", tool="Read", code=2)["stderr"]
    assert "does not know the event" in hook("BeforeToolRuns", "--on-error=open", tool="Read")["systemMessage"]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP",
    ],
)
def test_what_answers_like_no_gate_opens_nothing(hook: Hook, answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def reply() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = Thread(target=reply)
        thread.start()
        denial(hook("PreToolUse", f"--gate=http://127.0.0.1:{listening.getsockname()[1]}", tool="Read"))
        thread.join()


def test_a_gate_that_is_silent_is_given_up_in_time(hook: Hook) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        gone = f"--gate=http://127.0.0.1:{listening.getsockname()[1]}"
        assert "did not answer within 0.2 seconds" in denial(hook("PreToolUse", gone, "--timeout=0.2", tool="Read"))


def test_a_token_says_which_agent_it_is_and_helpers_are_below_it(tmp_path: Path, hook: Hook) -> None:
    token, digest = make_token()
    write_tokens(tmp_path / "tokens", [TokenEntry(name="coder", role="agent", sha256=digest)])
    (tmp_path / "token").write_text(f"{token}\n")
    with serving(tmp_path, POLICY, tokens=tmp_path / "tokens") as (url, _):
        shown = ("--gate", url, "--token-file", str(tmp_path / "token"))
        assert "401" in denial(hook("PreToolUse", "--gate", url, tool="Read"))
        assert hook("PreToolUse", *shown, tool="Read") == {}
        named = ("--agent", "coder")
        assert hook("PreToolUse", *shown, *named, tool="Read", tool_use_id="b", agent_type="explorer") == {}
        for strange in ({"agent_type": "explorer"}, {"agent_type": "other"}):
            assert "it brings nothing of the agent" in denial(hook("PreToolUse", *shown, tool="Read", **strange))
        assert "nothing of the agent 'other'" in denial(hook("PreToolUse", *shown, "--agent", "other", tool="Read"))


def test_defaults_are_those_of_the_settings() -> None:
    settings = HookSettings().model_dump()
    assert DEFAULTS.keys() == settings.keys()
    assert {name: str(value or "") for name, value in settings.items()} | {"timeout": "2"} == DEFAULTS


def test_flags_win_over_the_environment_and_others_are_explained_by_the_command_line() -> None:
    environment = {f"{PREFIX}GATE": "http://a:1", f"{PREFIX}ON_ERROR": "open"}
    found = read_options(["claude-code", "--gate", "http://b:2"], environment)
    assert (found["gate"], found["on_error"]) == ("http://b:2", "open")
    for other in (["--help"], ["nobody"], ["claude-code", "--help"], ["claude-code", "--gate"], ["claude-code", "x"]):
        with pytest.raises(UnknownOption):
            read_options(other, {})


def test_the_folder_of_the_agent_reaches_rules_about_what_commands_do(tmp_path: Path, hook: Hook) -> None:
    effects = "[{effect: delete, outside: [project]}]"
    policy = f"rules: [{{id: outside, kind: no_effect, params: {{effects: {effects}}}, then: block}}]"
    with serving(tmp_path, policy) as (url, _):
        for number, (command, denied) in enumerate((("rm -rf build", False), ("rm -rf /home/ann/notes", True))):
            call = {"tool_input": {"command": command}, "tool_use_id": f"t{number}", "cwd": "/home/ann/app"}
            said = hook("PreToolUse", "--gate", url, tool="Bash", **call)
            assert ("hookSpecificOutput" in said) is denied
