"""Take the rules of shared policy files into a policy: a team's rules, to which a person may only add."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from stream_guard.errors import PolicyError, Problem
from stream_guard.judge.model import Json
from stream_guard.policy.codes import Code
from stream_guard.policy.dialects import NativePolicy, to_native
from stream_guard.policy.document import read_document
from stream_guard.policy.gates import Steps
from stream_guard.policy.message_parts import printable, show
from stream_guard.policy.nodes import PolicyDocument
from stream_guard.policy.packs import join_classes, with_packs
from stream_guard.registry import Registry


def with_shared(
    native: NativePolicy,
    document: PolicyDocument,
    registry: Registry,
    folder: Path | None,
    file_read: Callable[[Path], None],
) -> NativePolicy:
    """Return the policy with the rules and tool classes of its shared files behind its own.

    A rule of the policy that has the id of a shared one is a problem: what a team agreed on is not replaced. Shared
    files may take in packs, no further files. ``file_read`` is called with each file before it is read.
    """
    form = native.form
    if not isinstance(form, dict) or not isinstance(form.get("shared"), list):
        return native
    own = form.get("rules", [])
    if not isinstance(own, list):
        return native  # reported with the form
    rules, classes, problems = list(own), form.get("tool_classes", {}), list(native.problems)
    origins: dict[int, Steps] = dict(native.origins)
    for number, raw in enumerate(form["shared"]):
        if not isinstance(raw, str) or not raw:
            continue  # reported with the form
        at = ("shared", number)
        if folder is None:
            message = "a policy that is given as text takes in no files; write it into a file"
            problems.append(Problem(document.place(*at), message, Code.SHARED))
            continue
        path = folder / Path(raw).expanduser()
        file_read(path)
        taken, more, found = _read(path, registry, file_read)
        problems += [*found, *_replaced(own, taken, document)]
        origins |= {len(rules) + index: at for index in range(len(taken))}
        rules += taken
        classes = join_classes(classes, more)
    joined = {"tool_classes": classes} if classes else {}
    return replace(native, form={**form, **joined, "rules": rules}, problems=problems, origins=origins)


def _read(
    path: Path, registry: Registry, file_read: Callable[[Path], None]
) -> tuple[list[Json], dict[str, Json], list[Problem]]:
    """Return the rules of a shared file with those of its packs, its tool classes, and what is wrong with it."""
    try:
        document = read_document(path)
    except PolicyError as error:
        return [], {}, list(error.problems)
    native = with_packs(to_native(document, registry), document, registry, file_read)
    problems = [*document.problems, *native.problems]
    form = native.form if isinstance(native.form, dict) else {}
    if "shared" in form:
        message = "a shared file takes in no further files; name them all in the file of the person"
        problems.append(Problem(document.place("shared"), message, Code.SHARED))
    rules, classes = form.get("rules"), form.get("tool_classes", {})
    if not isinstance(rules, list):
        message = "a shared file is a policy: a mapping with `rules` or `packs`"
        problems.append(Problem(document.place(), message, Code.NOT_A_POLICY))
        rules = []
    return rules, classes if isinstance(classes, dict) else {}, problems


def _replaced(own: list[Json], shared: list[Json], document: PolicyDocument) -> list[Problem]:
    ids = {rule["id"] for rule in shared if isinstance(rule, dict) and isinstance(rule.get("id"), str)}
    return [
        Problem(
            document.place("rules", number, "id"),
            printable(f"the rule {show(rule['id'])} is a shared one, which nobody replaces; give yours another id"),
            Code.SHARED,
        )
        for number, rule in enumerate(own)
        if isinstance(rule, dict) and rule.get("id") in ids
    ]
