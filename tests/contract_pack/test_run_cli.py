"""``contract run`` as people and builds meet it: a process, its output and its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.request import urlopen

import pytest
from stream_guard_contract import market
from stream_guard_contract.agents.agent import STATEFUL

from stream_guard.cli.app import run_command_line
from tests.ports import free_port

CONTRACT: dict[str, Any] = {
    "version": "2.0",
    "agent": {
        "endpoint": "stream_guard_contract.market:answer",
        "type": "python",
        "reset_function": "stream_guard_contract.market:reset",
    },
    "golden_prompts": ["What is ACME worth today?"],
    "contract": {
        "name": "market",
        "invariants": [
            {"id": "cite", "type": "regex", "pattern": "(?i)according to", "severity": "critical"},
            {"id": "quick", "type": "latency", "max_ms": 60_000},
        ],
    },
    "chaos_matrix": [
        {"name": "calm"},
        {"name": "down", "tool_faults": [{"tool": "market_data_api", "mode": "error"}]},
        {"name": "elsewhere", "tool_faults": [{"tool": "send_mail", "mode": "error"}]},
    ],
}


class Done(NamedTuple):
    """What a command printed, and how it ended."""

    returncode: int
    stdout: str
    stderr: str


class Run(Protocol):
    """Runs the contract, with options and with other parts of it."""

    def __call__(self, *options: str, **changes: Any) -> Done: ...


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process, which takes a tenth of the time of another."""
    monkeypatch.chdir(tmp_path)
    market.reset()

    def command(*options: str, **changes: Any) -> Done:
        contract = {key: value for key, value in {**CONTRACT, **changes}.items() if value is not None}
        Path("flakestorm.yaml").write_text(json.dumps(contract))
        monkeypatch.setattr(sys, "argv", ["stream-guard", "contract", *options])
        with pytest.raises(SystemExit) as left:
            run_command_line()
        printed = capsys.readouterr()
        return Done(int(left.value.code or 0), printed.out, printed.err)

    return command


def states(done: Done) -> dict[tuple[str, str], str]:
    return {(cell["scenario"], cell["invariant"]): cell["state"] for cell in json.loads(done.stdout)["cells"]}


def test_faults_break_the_contract_and_a_fault_that_never_came_is_not_a_pass(run: Run) -> None:
    done = run("run", "--format", "json")
    assert done.returncode == 1, done.stderr
    assert states(done) == {
        ("calm", "cite"): "pass",
        ("calm", "quick"): "pass",
        ("down", "cite"): "fail",
        ("down", "quick"): "pass",
        ("elsewhere", "cite"): "not_exercised",
        ("elsewhere", "quick"): "not_exercised",
    }
    assert "3 sessions in" in done.stderr
    assert STATEFUL not in done.stderr


def test_a_calm_scenario_is_clean_and_a_fault_that_never_came_is_inconclusive(run: Run) -> None:
    assert run("run", "--scenario", "calm").returncode == 0
    assert run("run", "--scenario", "calm", "--scenario", "elsewhere").returncode == 4
    accepted = run("run", "--scenario", "calm", "--scenario", "elsewhere", "--allow-inconclusive")
    assert accepted.returncode == 0


def test_what_was_recorded_is_scored_alike_and_never_written_over(run: Run) -> None:
    done = run("run", "--format", "json", "--record", "run.jsonl", "--workers", "2")
    scored = run("score", "-t", "run.jsonl", "--format", "json")
    assert (scored.returncode, json.loads(scored.stdout)) == (done.returncode, json.loads(done.stdout))
    again = run("run", "--record", "run.jsonl")
    assert again.returncode == 2
    assert "is there already" in again.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_only_the_agent_is_imported_from_the_current_folder_and_only_while_it_runs(run: Run, workers: str) -> None:
    package, path = Path("stream_guard"), list(sys.path)
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('of another build')")
    Path("of_this_folder.py").write_text("def reset(): pass\ndef answer(prompt): return 'According to me.'\n")
    agent = {**CONTRACT["agent"], "endpoint": "of_this_folder:answer", "reset_function": "of_this_folder:reset"}
    done = run("run", "--scenario", "calm", "--workers", workers, agent=agent)
    assert (done.returncode, sys.path) == (0, path), done.stderr


def test_an_agent_that_remembers_and_cannot_be_reset_is_warned_about_once(run: Run) -> None:
    agent = {key: value for key, value in CONTRACT["agent"].items() if key != "reset_function"}
    done = run("run", "--scenario", "calm", agent=agent)
    assert done.stderr.count(STATEFUL) == 1
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--scenario", "hail"], "--scenario hail"),
        (["--tool", "price"], "--tool price"),
        (["--tool", "price=ftp://x"], "--tool ftp://x"),
        (["--llm", "nowhere"], "--llm nowhere"),
        (["--agent", "no_such_module:x"], "no_such_module"),
        (["--agent", "http://127.0.0.1:1/", "--workers", "2"], "--agent instead of --workers"),
        (["--agent", "http://127.0.0.1:1/", "--llm", "http://127.0.0.1:2/v1"], "--proxy-port"),
        (["--record", "/proc/no/such/file"], "cannot write"),
    ],
)
def test_bad_usage_is_refused_with_what_to_do(run: Run, options: list[str], said: str) -> None:
    done = run("run", *options)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_contract_without_an_agent_asks_for_one(run: Run) -> None:
    done = run("run", agent=None)
    assert done.returncode == 2
    assert "--agent" in done.stderr


def test_a_reset_that_fails_ends_the_run_with_3(run: Run) -> None:
    Path("stuck.py").write_text("def reset():\n    raise RuntimeError('stuck')\n")
    done = run("run", agent={**CONTRACT["agent"], "reset_function": "stuck:reset"})
    assert done.returncode == 3
    assert "RuntimeError: stuck" in done.stderr


def test_an_agent_that_is_not_there_is_no_broken_contract(run: Run) -> None:
    done = run("run", agent={"endpoint": f"http://127.0.0.1:{free_port()}/ask"})
    assert done.returncode == 3
    assert "no agent listens at" in done.stderr


@contextmanager
def sample_server(**environment: str) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "stream_guard_contract.market_server", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
    assert process.stdout is not None
    try:
        assert process.stdout.readline().strip().endswith("/ask")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.mark.long
def test_of_two_http_agents_one_is_asked_for_each_session(run: Run) -> None:
    with sample_server() as first, sample_server() as second:
        form = {"endpoint": "http://replaced/", "reset_endpoint": "/reset"}
        options = ["--agent", f"{first}/ask", "--agent", f"{second}/ask", "--repeat", "20", "--scenario", "calm"]
        done = run("run", *options, agent=form)
        asked = []
        for url in (first, second):
            with urlopen(f"{url}/log") as answer:
                asked.append(answer.read().decode().count("market_data_api"))
    assert done.returncode == 0, done.stderr
    assert sum(asked) == 20, "which of them is quicker is not for a test to say"


def test_the_sample_agent_over_http_meets_faults_at_its_tools_and_the_server_was_not_asked(run: Run) -> None:
    port = free_port()
    proxies = f"http://127.0.0.1:{port}"
    environment = {"TOOLS_BASE_URL": f"{proxies}/tools", "OPENAI_BASE_URL": f"{proxies}/v1"}
    with sample_server() as world, sample_server(**environment) as agent:
        tools = [f"--tool={name}={world}/tools/{name}" for name in ("market_data_api", "news_search")]
        form = {"endpoint": f"{agent}/ask", "reset_endpoint": "/reset"}
        options = [*tools, "--llm", f"{world}/v1", "--proxy-port", str(port), "--format", "json"]
        calm = run("run", *options, "--scenario", "calm", agent=form)
        with urlopen(f"{world}/log") as answer:
            before = answer.read().decode().splitlines()
        fault_plan = run("run", *options, "--scenario", "down", agent=form)
        with urlopen(f"{world}/log") as answer:
            after = answer.read().decode().splitlines()[len(before) :]
    assert (calm.returncode, states(calm)[("calm", "cite")]) == (0, "pass"), calm.stderr
    assert [line.partition("?")[0] for line in before if line != "model"] == ["market_data_api", "news_search"]
    assert (fault_plan.returncode, states(fault_plan)[("down", "cite")]) == (1, "fail"), fault_plan.stderr
    assert [line for line in after if line != "model"] == []
