"""Installing as users do: from an index, into a fresh environment, to the first alert from their own file."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from stream_guard.distribution import NAME, install_line
from tests.install.published import CLIENTS, PYTHONS, ROOT, TOOLS, Environment, install_with_uv, run_well

pytestmark = pytest.mark.slow

TRACE = {
    "session_id": "order-7",
    "messages": [
        {"role": "user", "content": "Refund order A1"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "issue_refund", "arguments": "{}"}}],
        },
    ],
}
POLICY = "rules: [{id: confirm, kind: must_call_before, params: {first: confirm, second: issue_refund}}]"
EXTRAS = sorted(
    set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]) - {"dev", "docs"}
)
# What only works with the extra: imported in an environment that has no other.
USES = {
    "analysis": "stream_guard_diff.command",
    "apprise": "apprise",
    "archives": "fastavro pyarrow.parquet zstandard",
    "claude-agent": "stream_guard.integrations.claude_agent claude_agent_sdk",
    "contract": "stream_guard_contract.proxies",
    "judge": "httpx stream_guard_judge.endpoint",
    "kafka": "stream_guard.worker.kafka.process uvloop stream_guard.sources.kafka kafka",
    "langchain": "stream_guard.integrations.langchain langchain",
    "grpc": "stream_guard.serve.grpc_gateways",
    "mcp": "stream_guard.integrations.mcp mcp",
    "mcp-proxy": "stream_guard.mcp_proxy.http_relay",
    "openai-agents": "stream_guard.integrations.openai_agents agents",
    "otlp": "stream_guard_formats.spans.otlp_proto stream_guard.sources.otlp",
    "postgres": "psycopg stream_guard.history.database",
    "serve": "stream_guard.serve.assembly stream_guard.page.app",
    "sinks": "httpx stream_guard_sinks.http",
    "testing": "hypothesis stream_guard.testing.laws",
}


def find_first_alert(environment: Environment, folder: Path) -> subprocess.CompletedProcess[str]:
    """What a new user does: hold a trace of their own against a rule."""
    (folder / "trace.json").write_text(json.dumps(TRACE))
    (folder / "policy.yaml").write_text(POLICY)
    return environment.ask("check", "trace.json", "--policy", "policy.yaml", folder=folder)


def installed_extras(environment: Environment, folder: Path) -> list[str]:
    checks = json.loads(environment.ask("doctor", "--format", "json", folder=folder).stdout)
    [found] = [check["found"] for check in checks if check["about"] == "extras"]
    present, _, _ = found.removeprefix("installed: ").partition("; ")
    return [extra for extra in present.split(", ") if extra != "none"]


@pytest.mark.parametrize("minor", PYTHONS)
@pytest.mark.parametrize("client", CLIENTS)
def test_the_compiled_wheel_is_taken_where_it_is_on_offer(
    client: str, minor: str, pythons: dict[str, str], index: str, constraints: Path, tmp_path: Path
) -> None:
    environment = CLIENTS[client](tmp_path / "environment", pythons[minor], NAME, index, constraints)
    assert environment.wheel_tag.startswith(f"cp{minor.replace('.', '')}-")
    said = environment.ask("--version", folder=tmp_path).stdout
    assert f"(compiled build, Python {minor}." in said
    assert "--no-binary" in said
    alert = find_first_alert(environment, tmp_path)
    assert alert.returncode == 1, alert.stderr
    assert "confirm session=order-7" in alert.stdout


@pytest.mark.parametrize(("client", "minor"), [("pip", "3.13"), ("uv", "3.11")])
def test_the_plain_wheel_does_the_same_where_there_is_no_other(
    client: str, minor: str, pythons: dict[str, str], plain_index: str, constraints: Path, tmp_path: Path
) -> None:
    environment = CLIENTS[client](tmp_path / "environment", pythons[minor], NAME, plain_index, constraints)
    assert environment.wheel_tag == "py3-none-any"
    assert "(plain build, " in environment.ask("--version", folder=tmp_path).stdout
    alert = find_first_alert(environment, tmp_path)
    assert alert.returncode == 1, alert.stderr
    assert "confirm session=order-7" in alert.stdout


@pytest.fixture(scope="module")
def core(
    pythons: dict[str, str], index: str, constraints: Path, tmp_path_factory: pytest.TempPathFactory
) -> Environment:
    """An environment with the core alone."""
    folder = tmp_path_factory.mktemp("core") / "environment"
    return install_with_uv(folder, pythons["3.13"], NAME, index, constraints)


KAFKA = "kafka://127.0.0.1:9"


@pytest.mark.parametrize(
    ("extra", "line"),
    [
        ("serve", "serve --policy policy.yaml"),
        ("kafka", f"worker {KAFKA}/in --policy policy.yaml --alerts {KAFKA}/out --dead-letters {KAFKA}/dead"),
        ("kafka", f"run {KAFKA}/in --policy policy.yaml"),
        ("analysis", "diff trace.json trace.json"),
        ("otlp", "run otlp://127.0.0.1:0 --policy policy.yaml"),
        ("archives", "check trace.parquet --policy policy.yaml"),
        ("sinks", "run trace.json --policy policy.yaml --alerts webhook:http://127.0.0.1:9/"),
        ("apprise", "run trace.json --policy policy.yaml --alerts apprise:json://127.0.0.1:9"),
        ("postgres", "alerts list --history postgresql://127.0.0.1:9/x"),
    ],
)
def test_a_command_whose_extra_is_missing_says_which(extra: str, line: str, core: Environment, tmp_path: Path) -> None:
    find_first_alert(core, tmp_path)
    (tmp_path / "trace.parquet").write_bytes(b"PAR1")
    done = core.ask(*line.split(), folder=tmp_path)
    assert done.returncode in (2, 3), done.stdout + done.stderr
    assert install_line(extra) in done.stderr
    assert "Traceback" not in done.stderr


def test_every_extra_is_tried() -> None:
    assert sorted(USES) == EXTRAS


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_alone_brings_what_it_is_for(
    extra: str, core: Environment, pythons: dict[str, str], index: str, constraints: Path, tmp_path: Path
) -> None:
    wanted = f"{NAME}[{extra}]"
    environment = install_with_uv(tmp_path / "environment", pythons["3.13"], wanted, index, constraints)
    python = environment.folder / "bin" / "python"
    for module in USES[extra].split():
        run_well([python, "-W", "ignore", "-c", f"import {module}"], tmp_path)
    assert extra in installed_extras(environment, tmp_path)
    assert extra not in installed_extras(core, tmp_path)
    assert find_first_alert(environment, tmp_path).returncode == 1
    print(f"{extra}: {environment.megabytes - core.megabytes:.1f} MB beside the core's {core.megabytes:.1f}")


@pytest.mark.parametrize("minor", PYTHONS)
def test_all_extras_fit_together(
    minor: str, pythons: dict[str, str], index: str, constraints: Path, tmp_path: Path
) -> None:
    wanted = f"{NAME}[{','.join(EXTRAS)}]"
    environment = install_with_uv(tmp_path / "environment", pythons[minor], wanted, index, constraints)
    run_well([TOOLS / "uv", "pip", "check", "--python", environment.folder / "bin" / "python"])
    assert installed_extras(environment, tmp_path) == EXTRAS
    assert find_first_alert(environment, tmp_path).returncode == 1
