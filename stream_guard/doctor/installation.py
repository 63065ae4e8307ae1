"""The checks of the installation: which build runs, which extras are there, and what this system lacks."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from typing import Final

from stream_guard.distribution import NAME, describe_build, install_line, other_build
from stream_guard.doctor.topics import Check, Status

# For people who change the project; nobody misses them in an installation.
_OF_DEVELOPERS: Final = frozenset(("dev", "docs"))
_REQUIREMENT: Final = re.compile(r"^([A-Za-z0-9._-]+).*;.*\bextra == ['\"]([A-Za-z0-9._-]+)['\"]")
_LACKS: Final = {
    "linux": "",
    "darwin": (
        "macOS: workers outlive a supervisor that is killed, the processes of --jobs take a second to start, "
        "and the extra kafka compiles Faust"
    ),
}
_ELSEWHERE: Final = "not a system that stream_guard is tested on: Linux is, and macOS with less"


def check_installation() -> Iterator[Check]:
    """Yield what is installed, and on what."""
    yield Check("build", Status.OK, describe_build(), other_build())
    try:
        missing = _missing_extras()
    except PackageNotFoundError:
        yield Check("extras", Status.WARN, f"{NAME} is not installed, only on the path", install_line())
    else:
        yield _check_extras(missing)
    lacks = _LACKS.get(sys.platform, _ELSEWHERE)
    yield Check("system", Status.WARN if lacks else Status.OK, lacks or "everything works here")


def _check_extras(missing: dict[str, list[str]]) -> Check:
    present = ", ".join(sorted(extra for extra, packages in missing.items() if not packages)) or "none"
    absent = ", ".join(sorted(extra for extra, packages in missing.items() if packages)) or "none"
    advice = f"where you need one: {install_line('NAME')}" if absent != "none" else ""
    return Check("extras", Status.OK, f"installed: {present}; not installed: {absent}", advice)


def _missing_extras() -> dict[str, list[str]]:
    """Return the packages that each extra lacks."""
    needed: dict[str, list[str]] = {}
    for line in distribution(NAME).requires or ():
        if (found := _REQUIREMENT.match(line)) and found[2] not in _OF_DEVELOPERS:
            needed.setdefault(found[2], []).append(found[1])
    return {extra: [name for name in packages if not _is_installed(name)] for extra, packages in needed.items()}


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
