"""Programs with tasks of their own, and subcommands that only look."""

from __future__ import annotations

from typing import Final

from stream_guard_shell.expansion import Field, unknown
from stream_guard_shell.shell import Handler, Options, ProgramCall, parse_options, word_list

LOOKING_VERBS: Final = frozenset(
    word_list("""
    status log diff show list ls get describe logs ps images inspect plan validate view info search outdated blame grep
    rev-parse ls-files version help
    """)
)
"""Subcommands that only look, whichever tool they are of."""

_RUNNERS: Final = {
    "make": "C f I o W j l directory file makefile jobs",
    "gmake": "C f I o W j directory file makefile jobs",
    "just": "f d justfile working-directory shell set",
    "rake": "f I r C j rakefile",
    "dotnet": "c f o r v configuration framework output runtime verbosity project",
    "gradle": "b c p I x g",
    "gradlew": "b c p I x g",
    "mvn": "f P D s pl T projects file",
    "mvnw": "f P D s pl T projects file",
}


def task_of(program: str, operands: list[Field]) -> str | None:
    """Return the task among operands: the first, or what stands behind ``run`` of npm and its like."""
    if (
        program in ("npm", "pnpm", "yarn", "bun")
        and operands
        and operands[0].literal in ("run", "run-script")
        and len(operands) > 1
    ):
        operands = operands[1:]
    return operands[0].literal if operands else None


def run_task(call: ProgramCall) -> Field:
    """Run a task of which nothing is known."""
    options = parse_options(call.args, _RUNNERS.get(call.name, "").split())
    if call.name in ("make", "gmake", "just") and options.has("n", "dry-run", "just-print", "recon", "l", "list"):
        return unknown()
    operands = [one for one in options.operands if "=" not in one.head]
    call.run(task_of(call.name, operands))
    return unknown()


def looks(options: Options, depth: int = 2) -> bool:
    """Whether one of the first operands is a subcommand that only looks, or nothing is asked for."""
    return not options.operands or any(one.literal in LOOKING_VERBS for one in options.operands[:depth])


def is_dry(options: Options) -> bool:
    """Whether a call only shows what it would do."""
    return any(
        name in ("dry-run", "dryrun") and (value is None or value.literal != "none") for name, value in options.given
    )


TOOLS: Final[dict[str, Handler]] = dict.fromkeys(_RUNNERS, run_task)
