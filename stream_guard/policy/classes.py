"""Tool classes: what is wrong with those of a policy, and which of them a tool is in, with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from stream_guard.judge.patterns import STANDARD_CLASSES, ToolPattern, readings, see_through
from stream_guard.policy.message_parts import Code, did_you_mean, show
from stream_guard.policy.native import ProblemReport

MAX_EXPANDED: Final = 10_000
MAX_DEPTH: Final = 16


def check_classes(classes: Mapping[str, Sequence[str]], report: ProblemReport) -> dict[str, Sequence[str]]:
    """Return the classes for the rules. A broken class is reported and left empty; its rules are not reported too."""
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
            ToolPattern(member.removeprefix("!"))
        except ValueError as error:
            report.add(at, str(error), Code.TOOLS)
            return False
        return True
    if member[1:] in STANDARD_CLASSES and member[1:] in (name, *(STANDARD_CLASSES.keys() - classes.keys())):
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
    if name in STANDARD_CLASSES and (name in inside or name not in classes):
        return len(STANDARD_CLASSES[name])
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


def classes_of(tool: str, classes: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the classes that a tool is in, of a policy and of every policy, each with the reason."""
    names = dict.fromkeys((*classes, *STANDARD_CLASSES))
    return {name: why for name in names if (why := why_matched(ToolPattern(f"@{name}", classes), tool))}


def why_matched(pattern: ToolPattern, tool: str) -> str:
    """Return why a pattern matches a tool, in a few words; nothing where it does not."""
    if not pattern.matches(tool):
        return ""
    if tool in pattern.names:
        return "it is listed"
    for part in pattern.expanded:
        if part == "*":
            return "every tool is, but for those that are taken out"
        glob = part.removeprefix("~")
        by_words = glob != part
        found = next(filter(ToolPattern(glob).matches, readings(see_through(tool)) if by_words else [tool]), None)
        if found is not None:
            # Where alternatives stand in brackets, the whole pattern is shown.
            alternatives = () if "(" in glob else glob.split("|")
            shown = next((one for one in alternatives if ToolPattern(one).matches(found)), glob)
            return f"it reads {found}, which is {shown}" if by_words else f"its name is {shown}"
    return ""
