"""The tool classes of a policy: checked once, so that a rule that names one can rely on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from stream_guard.language.patterns import ToolPattern
from stream_guard.policy.codes import Code
from stream_guard.policy.report import ProblemReport
from stream_guard.policy.wording import did_you_mean, show

MAX_EXPANDED: Final = 10_000
MAX_DEPTH: Final = 16


def check_classes(classes: Mapping[str, Sequence[str]], report: ProblemReport) -> dict[str, Sequence[str]]:
    """Return the classes that rules may use; a broken one is reported and left empty, so that its users are not."""
    sizes: dict[str, int] = {}
    sound: dict[str, Sequence[str]] = dict.fromkeys(classes, ())
    for name, members in classes.items():
        if not name.isidentifier():
            message = f"{show(name)} is not a usable name; write letters, digits and underscores, without the @"
            report.add(("tool_classes", name), message, Code.TOOLS, on_key=True)
            continue
        wrong = [number for number, _ in enumerate(members) if not _check_member(name, number, classes, sizes, report)]
        if not wrong:
            sound[name] = members
    return sound


def _check_member(
    name: str, number: int, classes: Mapping[str, Sequence[str]], sizes: dict[str, int], report: ProblemReport
) -> bool:
    member = classes[name][number]
    at = ("tool_classes", name, number)
    if not member.startswith("@"):
        try:
            ToolPattern(member)
        except ValueError as error:
            report.add(at, str(error), Code.TOOLS)
            return False
        return True
    if member[1:] not in classes:
        near = did_you_mean(member, [f"@{known}" for known in classes if known != name]) or "; it is not declared here"
        report.add(at, f"unknown tool class {show(member)}{near}", Code.TOOLS)
    elif (size := _size(member[1:], classes, sizes, (name,))) is None:
        message = f"tool class {show('@' + name)} contains itself, or classes nest more than {MAX_DEPTH} deep"
        report.add(at, message, Code.TOOLS)
    elif size > MAX_EXPANDED:
        report.add(at, f"tool class {show(member)} stands for more than {MAX_EXPANDED:,} tools", Code.TOO_BIG)
    else:
        return True
    return False


def _size(
    name: str, classes: Mapping[str, Sequence[str]], sizes: dict[str, int], inside: tuple[str, ...]
) -> int | None:
    """Return how many patterns the class stands for; None when it contains itself or nests too deep."""
    if name in inside or len(inside) > MAX_DEPTH:
        return None
    if name not in sizes:
        total = 0
        for member in classes.get(name, ()):
            part = _size(member[1:], classes, sizes, (*inside, name)) if member.startswith("@") else 1
            if part is None:
                return None
            total = min(total + part, MAX_EXPANDED + 1)
        sizes[name] = total
    return sizes[name]
