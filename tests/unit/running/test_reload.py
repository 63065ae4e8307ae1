"""A policy that follows its file, and sessions in flight that go on under another policy."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stream_guard as sg
from stream_guard.alerting.delivery import Delivery
from stream_guard.asking.desk import JudgedAlerts
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.errors import PolicyError
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Alert, Finding
from stream_guard.judge.spec import Policy
from stream_guard.pipeline import Pipeline
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.running.embedded import EmbeddedRunner
from stream_guard.running.reload import ReloadingPolicy
from stream_guard.storage.stores import MemoryStore
from stream_guard.testing import events

REGISTRY = build_registry()
ORDER = "{id: order, kind: must_call_before, params: {first: confirm, second: refund}}"


def rules(*texts: str, idle: str = "30m") -> str:
    return f"sessions: {{idle: {idle}}}\nrules:\n" + "".join(f"  - {text}\n" for text in texts)


def policy_of(*texts: str, idle: str = "30m") -> Policy:
    return load_policy(rules(*texts, idle=idle), REGISTRY)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(rules(ORDER))
    return path


def write(path: Path, text: str, tick: list[int] = [0]) -> None:  # noqa: B006  # a clock of its own: dates may be coarse
    tick[0] += 1
    path.write_text(text)
    os.utime(path, ns=(tick[0] * 10**9, tick[0] * 10**9))


def test_a_file_that_stays_as_it_is_gives_nothing(file: Path) -> None:
    reloading = ReloadingPolicy(file, REGISTRY)
    assert reloading.poll() is None
    assert reloading.results == {}


def test_a_good_change_comes_into_force_once(file: Path) -> None:
    reloading = ReloadingPolicy(file, REGISTRY)
    before = reloading.current.version
    write(file, rules(ORDER.replace("refund", "payout")))
    changed = reloading.poll()
    assert changed is not None
    assert reloading.current is changed
    assert changed.version != before
    assert reloading.poll() is None
    assert reloading.results == {"ok": 1}


def test_a_change_that_decides_nothing_replaces_nothing(file: Path) -> None:
    reloading = ReloadingPolicy(file, REGISTRY)
    write(file, "# a comment\n" + rules(ORDER))
    assert reloading.poll() is None
    assert reloading.results == {"unchanged": 1}


def test_a_bad_file_keeps_the_old_policy_and_is_reported_once(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    reloading = ReloadingPolicy(file, REGISTRY)
    old = reloading.current
    write(file, rules("{id: x, kind: no_cal, params: {tool: a}}"))
    assert reloading.poll() is None
    assert reloading.current is old
    assert [problem.rule_id for problem in reloading.problems] == ["x"]
    assert "no_cal" in caplog.text
    said = len(caplog.records)
    assert reloading.poll() is None
    write(file, rules("{id: x, kind: no_cal, params: {tool: a}}"))  # saved again, as bad as before
    assert reloading.poll() is None
    assert len(caplog.records) == said
    assert reloading.results == {"failed": 2}
    write(file, rules(ORDER.replace("confirm", "agree")))
    assert reloading.poll() is not None
    assert reloading.problems == ()


def test_a_file_that_is_being_written_is_not_read_before_it_stays_the_same(file: Path) -> None:
    reloading = ReloadingPolicy(file, REGISTRY, settle=True)
    first, second = rules(ORDER.replace("refund", "payout")), "  - {id: x, kind: no_call, params: {tool: a}}\n"
    write(file, first)  # valid, and one rule short
    assert reloading.poll() is None
    write(file, first + second)
    assert reloading.poll() is None
    changed = reloading.poll()
    assert changed is not None
    assert [rule.id for rule in changed.rules] == ["order", "x"]
    assert reloading.results == {"ok": 1}


def test_a_file_that_is_gone_keeps_the_old_policy(file: Path) -> None:
    reloading = ReloadingPolicy(file, REGISTRY)
    file.unlink()
    assert reloading.poll() is None
    assert reloading.problems
    write(file, rules(ORDER.replace("refund", "payout")))
    assert reloading.poll() is not None


def test_a_link_that_is_turned_is_noticed(tmp_path: Path) -> None:
    for name, tool in (("old", "refund"), ("new", "payout")):
        (tmp_path / f"{name}.yaml").write_text(rules(ORDER.replace("refund", tool)))
    link = tmp_path / "policy.yaml"
    link.symlink_to("old.yaml")
    reloading = ReloadingPolicy(link, REGISTRY)
    link.unlink()
    link.symlink_to("new.yaml")
    assert reloading.poll() is not None


SHAPE = "{id: shape, kind: must_match_json_schema, params: {schema_path: shape.json}}"


def test_a_changed_schema_beside_the_policy_comes_into_force_and_a_broken_one_does_not(file: Path) -> None:
    schema = file.with_name("shape.json")
    write(schema, '{"type": "object"}')
    write(file, rules(SHAPE))
    reloading = ReloadingPolicy(file, REGISTRY)
    first = reloading.current
    assert reloading.poll() is None
    write(schema, '{"type": "array"}')
    second = reloading.poll()
    assert second is not None
    assert second.version != first.version
    assert reloading.poll() is None
    write(schema, '{"type": "no such type"}')
    assert reloading.poll() is None
    assert [problem.rule_id for problem in reloading.problems] == ["shape"]
    schema.unlink()
    assert reloading.poll() is None
    assert reloading.current is second
    write(schema, '{"type": "object"}')
    assert reloading.poll() is not None
    assert reloading.current.version == first.version
    assert (reloading.problems, reloading.results) == ((), {"ok": 2, "failed": 2})


def test_a_schema_that_no_rule_names_any_more_is_not_followed(file: Path) -> None:
    schema = file.with_name("shape.json")
    write(schema, '{"type": "object"}')
    write(file, rules(SHAPE))
    reloading = ReloadingPolicy(file, REGISTRY)
    write(file, rules(ORDER))
    assert reloading.poll() is not None
    write(schema, '{"type": "array"}')
    assert reloading.poll() is None
    assert reloading.results == {"ok": 1}


def test_a_schema_that_is_being_written_is_not_read_before_it_stays_the_same(file: Path) -> None:
    schema = file.with_name("shape.json")
    write(schema, '{"type": "object"}')
    write(file, rules(SHAPE))
    reloading = ReloadingPolicy(file, REGISTRY, settle=True)
    write(schema, "{}")
    assert reloading.poll() is None
    write(schema, '{"type": "array"}')
    assert reloading.poll() is None
    assert reloading.poll() is not None
    assert reloading.results == {"ok": 1}


def test_a_changed_pack_comes_into_force(file: Path) -> None:
    class Bringer:
        @sg.hookimpl
        def stream_guard_policy_packs(self) -> list[sg.PolicyPack]:
            return [sg.PolicyPack(name="house", summary="Rules of the house.", file=pack)]

    pack = file.with_name("house.yaml")
    write(pack, rules(ORDER))
    write(file, "packs: [house]\nrules: []\n")
    reloading = ReloadingPolicy(file, build_registry(extra=[Bringer()]))
    write(pack, rules(ORDER, "{id: drop, kind: no_call, params: {tool: drop}}"))
    changed = reloading.poll()
    assert changed is not None
    assert [rule.id for rule in changed.rules] == ["order", "drop"]


def test_a_bad_file_at_the_start_is_refused(file: Path) -> None:
    write(file, "rules: 5\n")
    with pytest.raises(PolicyError):
        ReloadingPolicy(file, REGISTRY)


class Swapped:
    """A table whose policy changes while sessions are open."""

    def __init__(self, policy: Policy) -> None:
        self.counts = Counts()
        self.table = Judge(policy, mode="stream", store=MemoryStore(), counts=self.counts)
        self.fed = 0

    def use(self, policy: Policy) -> None:
        self.table.use(policy)

    def feed(self, *trace: dict[str, Any]) -> list[str]:
        found: list[Finding] = []
        for item in trace:
            self.fed += 1
            [event] = events([{"event_id": f"e{self.fed}", **item}], item.get("session", "s"))
            found += self.table.feed(event).findings
        return [finding.rule_id for finding in found]

    def end(self) -> list[str]:
        found: list[Finding] = []
        found += self.table.end()
        return [finding.rule_id for finding in found]


ONCE = "{id: once, kind: must_call_once, params: {tool: ping}}"


def test_a_session_in_flight_keeps_what_unchanged_rules_remember() -> None:
    swapped = Swapped(policy_of(ORDER, ONCE))
    swapped.feed({"call": "confirm", "at": 1})
    swapped.use(policy_of("{id: new, kind: no_call, params: {tool: drop}}", ORDER))
    assert swapped.feed({"call": "refund", "at": 2}, {"call": "drop", "at": 3}) == ["new"]
    assert swapped.counts.sessions == 1


def test_a_changed_rule_starts_afresh_and_is_counted() -> None:
    swapped = Swapped(policy_of(ORDER))
    swapped.feed({"call": "confirm", "at": 1})
    swapped.use(policy_of(ORDER.replace("}}", ", within_seconds: 500}}")))
    assert swapped.counts.state_resets == 0, "sessions are read again when they are needed"
    assert swapped.feed({"call": "refund", "at": 2}) == ["order"]
    assert swapped.counts.state_resets == 1


def test_events_seen_before_the_swap_are_still_duplicates_after_it() -> None:
    swapped = Swapped(policy_of(ORDER))
    swapped.feed({"call": "confirm", "at": 1, "event_id": "same"})
    swapped.use(policy_of(ORDER, ONCE))
    swapped.feed({"call": "confirm", "at": 1, "event_id": "same"})
    assert swapped.counts.duplicate_events == 1


FOLLOWUP = (
    "{id: answer, kind: must_followup, params: {trigger: {path: response.content.0.text, op: contains, value: ask}, "
    "must: {kind: tool_call, tool_name: answer}, within_seconds: 60}}"
)


def test_the_deadline_of_an_unchanged_rule_fires_after_the_swap() -> None:
    swapped = Swapped(policy_of(FOLLOWUP))
    assert swapped.feed({"turn": "ask", "at": 100}) == []
    swapped.use(policy_of(FOLLOWUP, ONCE))
    assert swapped.feed({"call": "x", "at": 500, "session": "other"}) == ["answer"]


def test_the_deadline_of_a_changed_rule_is_gone_after_the_swap() -> None:
    swapped = Swapped(policy_of(FOLLOWUP))
    swapped.feed({"turn": "ask", "at": 100})
    swapped.use(policy_of(FOLLOWUP.replace("60", "90")))
    assert swapped.feed({"call": "x", "at": 500, "session": "other"}) == []


def test_a_shorter_silence_ends_sessions_that_were_open_before_the_swap() -> None:
    swapped = Swapped(policy_of(ONCE, idle="30m"))
    swapped.feed({"call": "x", "at": 100})
    swapped.use(policy_of(ONCE, idle="5m"))
    assert swapped.feed({"call": "ping", "at": 100 + 301, "session": "other"}) == ["once"]


SPANNING = "{id: first, kind: must_call_before, params: {first: confirm, second: refund}, key: [agent]}"


def test_a_cell_that_spans_sessions_keeps_the_memory_of_an_unchanged_rule() -> None:
    swapped = Swapped(policy_of(SPANNING))
    swapped.feed({"call": "confirm", "at": 1, "agent": "a"})
    swapped.use(policy_of(ONCE, SPANNING))
    assert swapped.feed({"call": "refund", "at": 2, "agent": "a", "session": "other"}) == []
    assert swapped.feed({"call": "refund", "at": 3, "agent": "b", "session": "other"}) == ["first"]


def test_a_cell_of_a_key_that_no_rule_has_any_more_ends_in_silence() -> None:
    swapped = Swapped(policy_of(SPANNING))
    swapped.feed({"call": "confirm", "at": 1, "agent": "a"})
    swapped.use(policy_of(ONCE))
    assert swapped.end() == ["once"], "the session is judged, the cell of the agent is not"
    assert swapped.counts.sessions == 0


class Lines:
    """A source that does something between two records, as the world does."""

    def __init__(self, steps: list[bytes | Callable[[], None]]) -> None:
        self._steps = steps

    def __iter__(self) -> Iterator[Record | None]:
        for step in self._steps:
            if callable(step):
                yield None
                step()
                yield None
            else:
                yield Record(step, "lines")

    def positions(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        """Nothing is open."""


class Sent:
    """A sink that is a list."""

    def __init__(self) -> None:
        self.alerts: list[Alert] = []

    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: Any = None) -> Sent:
        return cls()

    def send(self, alerts: Any) -> None:
        self.alerts += alerts

    def flush(self) -> int:
        return 0

    def close(self) -> None:
        """Nothing is open."""


def run(file: Path, steps: list[bytes | Callable[[], None]]) -> tuple[list[Alert], Counts]:
    reloading, counts, sink = ReloadingPolicy(file, REGISTRY), Counts(), Sent()
    judge = Judge(reloading.current, mode="stream", store=MemoryStore(), counts=counts)
    letters = DeadLetters(None, counts, format_name="native")
    runner = EmbeddedRunner(
        source=Lines(steps),
        pipeline=Pipeline(REGISTRY.decoders["native"](), judge, letters),
        judge=judge,
        alerts=JudgedAlerts(Delivery({"list": sink}, counts)),
        dead_letters=letters,
    )
    runner.run(reloading=reloading)
    return sink.alerts, counts


def call(tool: str, number: int) -> bytes:
    return b'{"kind":"tool_call","session_id":"s","event_id":"%d","time":%d,"tool":"%s"}' % (
        number,
        number,
        tool.encode(),
    )


def test_alerts_carry_the_version_of_the_policy_that_judged(file: Path) -> None:
    other = ORDER.replace("}}", "}, severity: info}")
    alerts, counts = run(file, [call("refund", 1), lambda: write(file, rules(other)), call("refund", 2)])
    versions = [policy_of(ORDER).version, policy_of(other).version]
    assert [alert.policy_version for alert in alerts] == versions
    assert [alert.severity for alert in alerts] == ["error", "info"]
    assert counts.total("findings") == 2
    assert counts.findings == {0: 1}, "by rule, of the policy in force"


def test_a_bad_file_during_a_run_changes_nothing(file: Path) -> None:
    alerts, _ = run(file, [call("refund", 1), lambda: write(file, "rules: 5"), call("refund", 2)])
    assert len({alert.policy_version for alert in alerts}) == 1
    assert len(alerts) == 2


def test_a_shadow_rule_is_counted_and_kept_out_of_the_sinks_until_it_is_switched_on(file: Path) -> None:
    shadow = ORDER.replace("}}", "}, mode: shadow}")
    write(file, rules(shadow))
    alerts, counts = run(file, [call("refund", 1), lambda: write(file, rules(ORDER)), call("refund", 2)])
    assert [alert.event_id for alert in alerts] == ["2"]
    assert counts.total("findings") == 2
    assert counts.state_resets == 0, "switching a rule on keeps what it remembers"
