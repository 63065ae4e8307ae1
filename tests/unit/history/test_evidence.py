"""Evidence: a period of the history in a file, and every change of that file is found without the history."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stream_guard.cli.app import app
from stream_guard.errors import SettingsError
from stream_guard.guard.gate import Gate
from stream_guard.history import policies
from stream_guard.history.database import SqliteDatabase
from stream_guard.history.evidence import EvidencePeriod, EvidenceResult, EvidenceWriter, check_evidence
from stream_guard.history.records import canonical
from stream_guard.history.retention import prune
from stream_guard.judge.model import ToolCall
from stream_guard.policy.convert import to_native
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from tests.history.claims import World, call
from tests.history.retention_claims import DAY, KEEP, ago

KEY = b"k" * 32
POLICY = load_policy(
    "rules: [{id: stop, kind: no_call, params: {tool: wipe}, then: block}]", build_registry(), file="policy.yaml"
)


def write_history(path: Path, key: bytes = b"") -> SqliteDatabase:
    """Two decisions a day for three days, one for each of two tenants, under a policy that is noted."""
    database, now = SqliteDatabase(path, key), [0.0]
    policies.note(database, POLICY.version, to_native(POLICY), 0.0)
    gate = Gate(POLICY, database, clock=lambda: now[0])
    for day in range(3):
        for tenant in ("acme", "zeta"):
            now[0] = day * 86_400.0 + 10
            gate.check(
                ToolCall(
                    session_id=f"{tenant}/s{day}",
                    event_id=f"{tenant}{day}",
                    tool="wipe",
                    args={"secret-of": tenant},
                    labels={"tenant": tenant},
                )
            )
    return database


def export(database: SqliteDatabase, since: float = 86_400, until: float = 172_800, tenant: str = "") -> list[bytes]:
    writer = EvidenceWriter(database, EvidencePeriod(since=since, until=until, tenant=tenant))
    lines = list(writer.lines(1e6))
    database.close()
    assert check_evidence(lines, key=database.key, head=writer.head).problems == ()
    return lines


def bodies(lines: list[bytes], sort: str) -> list[dict[str, object]]:
    return [told["body"] for line in lines if (told := json.loads(line))["sort"] == sort]


def test_an_export_has_the_period_and_the_policy_that_judged_it(tmp_path: Path) -> None:
    lines = export(write_history(tmp_path / "history.db"))
    records = [json.loads(str(body["record"])) for body in bodies(lines, "audit")]
    assert {record["time"] for record in records} == {86_410.0}
    assert [record["session_id"] for record in records if record["what"] == "decision"] == ["acme/s1", "zeta/s1"]
    assert len(bodies(lines, "finding")) == 2
    [policy] = bodies(lines, "policy")
    assert (policy["version"], policy["policy"]) == (POLICY.version, to_native(POLICY))


def test_a_tenant_gets_nothing_of_another(tmp_path: Path) -> None:
    lines = export(write_history(tmp_path / "history.db"), 0, 1e9, tenant="acme")
    text = b"".join(lines).decode()
    assert "acme/s0" in text
    assert "zeta" not in text
    assert sum(bool(body.get("withheld")) for body in bodies(lines, "audit")) >= 3
    assert all("acme/" in str(body["alert"]) for body in bodies(lines, "finding"))


def _flip(lines: list[bytes]) -> list[bytes]:
    return [line.replace(b'"block"', b'"allow"').replace(b'\\"block\\"', b'\\"allow\\"') for line in lines]


TAMPERED: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "changed": _flip,
    "taken out": lambda lines: lines[:2] + lines[3:],
    "swapped": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "doubled": lambda lines: [*lines[:2], lines[1], *lines[2:]],
    "cut off": lambda lines: lines[:-1],
    "cut off inside": lambda lines: [*lines[:-1], lines[-1][:-9]],
    "without a line end": lambda lines: [*lines[:-1], lines[-1][:-1]],
    "added to": lambda lines: [*lines, lines[1]],
    "emptied": lambda _: [],
    "replaced": lambda _: [b"{}\n", b"\xff\n", b"[" * 100_000 + b"\n"],
}


@pytest.mark.parametrize("how", TAMPERED)
def test_a_file_that_was_tampered_with_is_found_out(how: str, tmp_path: Path) -> None:
    lines = export(write_history(tmp_path / "history.db"))
    assert check_evidence(TAMPERED[how](lines)).problems


def test_every_byte_counts(tmp_path: Path) -> None:
    lines = export(write_history(tmp_path / "history.db"))
    whole = b"".join(lines)
    for place in range(0, len(whole), 97):
        changed = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        head = sha256(lines[-1][:-1]).hexdigest()
        assert check_evidence(changed.splitlines(keepends=True), head=head).problems, place


def leaves(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of everything in JSON that is neither an object nor a list with something in it."""
    parts: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    for step, part in parts:
        yield from leaves(part, (*path, step))
    if not isinstance(value, dict | list) or not value:
        yield path


def changed(line: bytes, path: tuple[str | int, ...]) -> bytes:
    """Return the line with another value at the path, written as every line is."""
    told = json.loads(line)
    place = told
    for step in path[:-1]:
        place = place[step]
    old = place[path[-1]]
    if isinstance(old, bool):
        other: object = not old
    elif isinstance(old, int | float):
        other = old + 1
    else:
        other = f"{old}x"
    place[path[-1]] = other
    return canonical(told) + b"\n"


@pytest.mark.parametrize("key", [b"", KEY], ids=["by its head", "by its signature"])
def test_a_change_of_any_field_is_found_and_its_line_is_named(key: bytes, tmp_path: Path) -> None:
    lines = export(write_history(tmp_path / "history.db", key))
    head = "" if key else check_evidence(lines).head
    tried = 0
    for number, line in enumerate(lines):
        for path in leaves(json.loads(line)):
            tampered = [*lines[:number], changed(line, path), *lines[number + 1 :]]
            problems = check_evidence(tampered, key=key, head=head).problems
            named = {int(found) for problem in problems for found in re.findall(r"line (\d+)", problem)}
            last = number == len(lines) - 1
            assert number + 1 in named or (last and problems), (number, path, problems)
            tried += 1
    assert tried > 50


def test_a_line_that_is_missing_added_or_moved_is_named_once(tmp_path: Path) -> None:
    lines = export(write_history(tmp_path / "history.db"))
    for number in range(1, len(lines) - 1):
        without = check_evidence([*lines[:number], *lines[number + 1 :]]).problems
        assert without[0].startswith(f"line {number + 1} is number {number + 1} of the export, where {number} should")
        assert not any(problem.startswith(f"line {number + 3}") for problem in without[1:-1])
        doubled = check_evidence([*lines[:number], lines[number], *lines[number:]]).problems
        assert doubled[0].startswith(f"line {number + 2} is number {number}")
        cut = check_evidence(lines[:number]).problems
        assert cut == ("the end is missing: the file was cut off",)
        inside = check_evidence([*lines[:number], lines[number][:-20]]).problems
        assert inside[0] == f"line {number + 1} is cut off"


def rewrite(lines: list[bytes]) -> list[bytes]:
    """Change a decision and write everything anew that hangs on it, as somebody with all of the code would."""
    before, written = "0" * 64, list[bytes]()
    digests: dict[str, str] = {}
    for line in lines:
        told = json.loads(line)
        if told["sort"] == "audit":
            record = json.loads(told["body"]["record"].replace("block", "allow"))
            record["previous"] = digests.get(record["previous"], record["previous"])
            text = canonical(record)
            digests[told["body"]["digest"]] = told["body"]["digest"] = sha256(text).hexdigest()
            told["body"]["record"] = text.decode()
        told["previous"] = before
        written.append(canonical(told) + b"\n")
        before = sha256(written[-1][:-1]).hexdigest()
    return written


def test_a_file_that_was_written_anew_is_told_by_its_head_or_its_signature(tmp_path: Path) -> None:
    plain = export(write_history(tmp_path / "plain.db"))
    head = check_evidence(plain).head
    assert check_evidence(rewrite(plain)).problems == ()  # nothing in the file itself can tell
    assert "not signed" in " ".join(check_evidence(plain).remarks)
    assert "the head is" in check_evidence(rewrite(plain), head=head).problems[0]
    signed = export(write_history(tmp_path / "signed.db", KEY))
    result: EvidenceResult = check_evidence(rewrite(signed), key=KEY)
    assert any("signature" in problem for problem in result.problems)
    assert check_evidence(signed, key=b"x" * 32).problems
    assert check_evidence(signed).problems == ()
    assert "--key-file" in " ".join(check_evidence(signed).remarks)


def test_a_policy_is_noted_when_it_changes(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "history.db")
    noted = [policies.note(database, version, {"rules": []}, at) for at, version in enumerate(["a", "a", "b", "a"])]
    assert noted == [True, False, True, True]
    assert [(one.version, one.since) for one in policies.listing(database)] == [("a", 0.0), ("b", 2.0), ("a", 3.0)]
    database.close()


def test_the_commands_export_once_and_verify_anywhere(tmp_path: Path) -> None:
    write_history(tmp_path / "history.db").close()
    out = tmp_path / "evidence.jsonl"
    command = ["evidence", "export", "--history", str(tmp_path / "history.db"), "--since", "1970-01-01", "-o", str(out)]
    runner = CliRunner()
    exported = runner.invoke(app, command)
    assert exported.exit_code == 0, exported.output
    assert isinstance(runner.invoke(app, command).exception, SettingsError)  # it is there already
    (tmp_path / "history.db").unlink()
    head = exported.stdout.strip()
    assert runner.invoke(app, ["evidence", "verify", str(out), "--head", head]).exit_code == 0
    out.write_bytes(out.read_bytes().replace(b"acme/s1", b"acme/s2"))
    refused = runner.invoke(app, ["evidence", "verify", str(out)])
    assert refused.exit_code == 1
    assert "one of the two was changed" in refused.output
    assert out.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("since", ["yesterday", "2026-13-01", ""])
def test_a_moment_that_is_none_is_explained(since: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["evidence", "export", "--since", since, "-o", str(tmp_path / "x")])
    assert isinstance(done.exception, SettingsError)
    assert "is not a time; write" in str(done.exception)
    assert not (tmp_path / "x").exists()


def test_what_was_pruned_of_the_period_is_said_in_the_file(tmp_path: Path) -> None:
    def exported(days: float) -> list[bytes]:
        now = world.database.time()
        writer = EvidenceWriter(world.database, EvidencePeriod(since=now - days * DAY, until=now))
        return list(writer.lines(exported=now))

    with World(lambda: SqliteDatabase(tmp_path / "history.db")) as world:
        for days in (100, 40, 5):
            ago(world, days)
            world.gate().check(call("drop", session=str(days)))
        before = exported(110)
        prune(world.database, KEEP)
        for days, is_said in ((110, True), (20, False)):
            result = check_evidence(exported(days))
            said = any("record 4 of the audit and those before it had been pruned" in one for one in result.remarks)
            assert (result.problems, said) == ((), is_said)
    assert check_evidence(before).problems == (), "what was exported stays whole"
