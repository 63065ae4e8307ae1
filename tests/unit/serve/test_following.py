"""A server that follows its policy file: a change between two attempts, and none that opens what is shut."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any

import pytest

import stream_guard as sg
from stream_guard.errors import StoreError
from stream_guard.guard.gate import Gate, Ruling
from stream_guard.history.database import open_database
from stream_guard.judge.model import Action
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.running.reload import ReloadingPolicy
from stream_guard.serve.assembly import PolicyFollower
from stream_guard.serve.service import Service
from stream_guard.settings import ApiSettings

REGISTRY = build_registry()
DROP = "rules: [{id: %s, kind: no_call, params: {tool: '%s'}, then: block}]\n"


def policy_of(rule_id: str, tool: str) -> Policy:
    return load_policy(DROP % (rule_id, tool), REGISTRY)


@contextmanager
def service_of(folder: Path, policy: Policy, **settings: Any) -> Iterator[Service]:
    database = open_database(str(folder / "history.db"))
    service = Service(Gate(policy, database), ApiSettings(**settings))
    yield service
    service.close()
    database.close()


def write(file: Path, text: str) -> None:
    file.write_text(text)
    os.utime(file, ns=(time.time_ns(), time.time_ns()))


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.002)


def attempt(tool: str, number: int = 0) -> sg.ToolCall:
    return sg.ToolCall(session_id=f"s{number}", tool=tool, args={})


@pytest.mark.parametrize("budget", [30.0, 0.0005])
def test_what_both_policies_block_is_never_allowed_while_they_alternate(tmp_path: Path, budget: float) -> None:
    pair = [policy_of("exact", "drop"), policy_of("glob", "dr*")]
    wanted = {pair[0].version: "exact", pair[1].version: "glob"}

    async def ask(service: Service, done: Flag) -> list[tuple[Ruling, bool]]:
        answers: list[tuple[Ruling, bool]] = []
        while not (done.is_set() and answers):
            answers += await asyncio.gather(*(service.check(attempt("drop", number)) for number in range(8)))
            await service.run(int)  # those without an answer are judged all the same, and must not pile up
        return answers

    with service_of(tmp_path, pair[0], on_error="open", budget=budget) as service:
        done = Flag()

        def alternate() -> None:
            for number in range(1, 11):
                service.use_policy(pair[number % 2])
            done.set()

        thread = Thread(target=alternate)
        thread.start()
        answers = asyncio.run(ask(service, done))
        thread.join()
    assert {ruling.action for ruling, _ in answers} == {Action.BLOCK}
    for ruling, judged in answers:
        if judged and ruling.alerts:  # one policy gave the whole answer
            assert ruling.rules.checked == (wanted[ruling.policy_version],)
            assert {alert.rule_id for alert in ruling.alerts} == {wanted[ruling.policy_version]}
    assert any(judged for _, judged in answers) or budget < 1


def test_an_attempt_that_waits_for_the_change_stays_shut_if_either_policy_might_stop_it(tmp_path: Path) -> None:
    with service_of(tmp_path, policy_of("a", "drop"), on_error="open", budget=0.01) as service:
        busy, free = Flag(), Flag()
        service.submit(busy.set)
        service.submit(free.wait)
        busy.wait()
        changing = Thread(target=service.use_policy, args=(policy_of("b", "wipe"),))
        changing.start()
        wait_until(lambda: len(service._stopping) == 2)
        got = {tool: asyncio.run(service.check(attempt(tool)))[0].action for tool in ("drop", "wipe", "read")}
        free.set()
        changing.join()
        assert got == {"drop": Action.BLOCK, "wipe": Action.BLOCK, "read": Action.ALLOW}
        assert [rules.may_stop("drop") for rules in service._stopping] == [False]


def test_a_policy_waits_until_the_history_has_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, tried, is_down = tmp_path / "policy.yaml", [], Flag()
    file.write_text(DROP % ("a", "drop"))
    is_down.set()

    def note(policy: Policy) -> None:
        tried.append(policy.version)
        if is_down.is_set():
            raise StoreError("the disk is full")

    following = ReloadingPolicy(file, REGISTRY, settle=True)
    old = following.current.version
    with service_of(tmp_path, following.current) as service:
        follower = PolicyFollower(following, service, note, pause=0.002)
        write(file, DROP % ("b", "wipe"))
        wait_until(lambda: len(tried) >= 3)
        assert (service.gate.policy.version, following.current.version) == (old, old)
        assert following.results == {"failed": 1}
        is_down.clear()
        wait_until(lambda: following.results["ok"] == 1)
        assert service.gate.policy.version == tried[-1] != old
        assert asyncio.run(service.check(attempt("wipe")))[0].action is Action.BLOCK
        follower.close()
    assert caplog.text.count("the disk is full") == 1


def test_a_plugin_that_raises_leaves_the_old_policy_and_the_next_change_is_seen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, broken = tmp_path / "policy.yaml", [True]
    file.write_text(DROP % ("a", "drop"))

    def note(_policy: Policy) -> None:
        if broken:
            broken.clear()
            raise ZeroDivisionError

    following = ReloadingPolicy(file, REGISTRY, settle=True)
    old = following.current.version
    with service_of(tmp_path, following.current) as service:
        follower = PolicyFollower(following, service, note, pause=0.002)
        write(file, DROP % ("b", "wipe"))
        wait_until(lambda: following.results["failed"] == 1)
        assert service.gate.policy.version == old
        write(file, DROP % ("c", "wipe"))
        wait_until(lambda: following.results["ok"] == 1)
        assert [rule.id for rule in service.gate.policy.rules] == ["c"]
        follower.close()
    assert "ZeroDivisionError" in caplog.text


def test_tenants_stay_apart_whatever_the_file_says(tmp_path: Path) -> None:
    apart = load_policy(DROP % ("a", "drop"), REGISTRY)
    object.__setattr__(apart, "by_tenant", True)
    with service_of(tmp_path, apart) as service:
        service.use_policy(policy_of("b", "drop"))
        assert service.gate.policy.by_tenant
