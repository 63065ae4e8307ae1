"""The stranger's path: a distribution we know nothing of is built, installed, listed, used and blocked."""

from __future__ import annotations

from pathlib import Path

import pytest

import stream_guard as sg
from stream_guard.errors import PluginError
from stream_guard.registry import build_registry
from tests.laws.examples import listed, run, run_tests

POLICY = """
rules:
  - id: closed-is-closed
    kind: no_call_after
    params: {tool: charge_card, after: close_account}
"""

# Runs where the example is installed, which is never the process of the tests.
PROGRAM = """
import sys
from pathlib import Path
from stream_guard.running.batch import evaluate
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.testing import calls, events

policy = load_policy(Path(sys.argv[1]), build_registry())
for finding in evaluate(events(calls("close_account", "charge_card")), policy):
    print(finding.rule_id, finding.detail)
"""


def test_example_is_not_installed_with_the_project() -> None:
    assert "no_call_after" not in build_registry().kinds


def test_installed_example_is_listed_with_its_origin(installed: Path) -> None:
    plugin = listed(installed)["example_rule"]
    assert plugin["distribution"] == "stream-guard-example-rule"
    assert plugin["version"] == "0.1.0"
    assert plugin["provides"] == {"rules": ["no_call_after"]}


def test_kind_of_the_example_works_in_a_policy(installed: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    said = run(["-c", PROGRAM, str(policy)], installed)
    assert said == "closed-is-closed charge_card was called after close_account\n"


def test_blocking_the_example_removes_it(installed: Path) -> None:
    assert "example_rule" not in listed(installed, STREAM_GUARD_PLUGINS__BLOCK='["example_rule"]')


@pytest.mark.long
def test_allow_list_without_the_example_leaves_it_out(installed: Path) -> None:
    assert set(listed(installed, STREAM_GUARD_PLUGINS__ALLOW='["rules"]')) == {"rules"}


@pytest.mark.long
def test_example_passes_its_own_tests(installed: Path, root: Path) -> None:
    assert "3 passed" in run_tests("example_rule", root, installed)


def test_kind_that_our_packs_have_already_is_refused() -> None:
    taken = next(iter(build_registry().kinds))

    class Impostor(sg.Rule[sg.Params, sg.NoState]):
        kind = taken

    class Stranger:
        @sg.hookimpl
        def stream_guard_rules(self) -> list[sg.RuleType]:
            return [Impostor]

    with pytest.raises(PluginError, match=rf'"{taken}" comes from two plugins, "Stranger" and "rules"'):
        build_registry(extra=[Stranger()])
