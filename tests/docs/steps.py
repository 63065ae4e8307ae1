"""What a reader does with the blocks of a page, as steps of one shell script.

- ``console``: each line after ``$ `` is run; the lines below it are what it prints. A line ``...`` stands
  for any lines. A command fails the test when its exit code is not 0, unless the page asks for the code
  with ``$ echo $?`` next.
- A block below words that end in "`NAME`:" is written to the file NAME; below "in `NAME`, below `LINE`:" it
  is put into that file, below that line.
- ``python``: is run; a ``text`` block below it is what it prints.
- ``yaml``: is a policy that loads without a warning; a bare list is a list of rules.
- ``json``: is an event in the native format.
- ``text``: a picture, unless it stands below python.

Any other language is refused: a block that nobody runs is a block that nobody keeps true.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from tests.docs.blocks import Block, blocks_of

MARK = "@@@ step"
_NAMED = re.compile(r"(?:^|\s)`([\w./-]+)`:$")
_INSERTED = re.compile(r"`([\w./-]+)`, below `([^`]+)`:$")
# The reader's python, whether or not the page has put it on the path yet.
_PYTHON = '"$READER/.venv/bin/python"'


@dataclass
class Step:
    """One thing a reader does: the shell that does it, and what the page says it prints."""

    line: int
    shown: str
    shell: str
    prints: str | None = None  # None: the page does not say
    may_fail: bool = False
    check: Callable[[], None] | None = None  # what is quicker asked here than in a process of its own


def steps_of(page: str) -> list[Step]:
    """Return the steps of a page, in order."""
    steps: list[Step] = []
    after_python = False
    for block in blocks_of(page):
        if block.language == "text":
            if after_python:
                steps[-1].prints = block.text
        else:
            steps += _steps(block)
        after_python = block.language == "python" and not _is_file(block)
    return steps


def _is_file(block: Block) -> bool:
    return bool(_INSERTED.search(block.lead) or _NAMED.search(block.lead))


def _steps(block: Block) -> Iterator[Step]:
    if block.language == "console":
        yield from _commands(block)
    elif inserted := _INSERTED.search(block.lead):
        name, below = inserted.groups()
        yield Step(block.line, f"put into {name}", _insert(name, below, block.text), "")
    elif named := _NAMED.search(block.lead):
        yield Step(block.line, f"write {named[1]}", _write(named[1], block.text), "")
    elif block.language == "python":
        yield Step(block.line, "run python", f"{_PYTHON} - {_heredoc(block.text)}")
    elif block.language == "yaml":
        yield Step(block.line, "load yaml", "true", "", check=partial(_load, block.text))
    elif block.language == "json":
        yield Step(block.line, "decode json", "true", "", check=partial(_decode, block.text))
    else:
        raise ValueError(f"line {block.line - 1}: nobody would run a block of {block.language or 'no language'}")


def _commands(block: Block) -> Iterator[Step]:
    """Split a console session into commands and what each prints; a command may go on after a backslash."""
    steps: list[Step] = []
    command = ""
    for number, line in enumerate(block.text.splitlines(), block.line):
        if command or line.startswith("$ "):
            command += line.removeprefix("$ ") + "\n"
            if not line.endswith("\\"):
                steps.append(Step(number, f"$ {command.strip()}", _runnable(command.strip()), ""))
                command = ""
        elif steps:
            steps[-1].prints = (steps[-1].prints or "") + f"{line}\n"
        else:
            raise ValueError(f"line {number}: a console block begins with a command, after `$ `")
    for step, following in pairwise(steps):
        step.may_fail = following.shell == "echo $?"
    yield from steps


def _runnable(command: str) -> str:
    # What runs this test must not be run by it; that the recipe is in order is all that can be asked here.
    return f"{command} --dry-run > /dev/null" if command == "make test" else command


def _load(text: str) -> None:
    """Load the policy, or the bare list of rules; nothing may be wrong with it."""
    policy = f"rules:\n{text}" if text.startswith("- ") else text
    assert load_policy(policy, build_registry()).warnings == ()


def _decode(text: str) -> None:
    """Read one event; DecodeError says what is wrong with it."""
    decoder = build_registry().decoders["native"]()
    assert len(decoder.decode(Record(text.encode()))) == 1


def _heredoc(text: str) -> str:
    return f"<< 'END_OF_BLOCK'\n{text.rstrip(chr(10))}\nEND_OF_BLOCK"


def _write(name: str, text: str) -> str:
    return f'mkdir -p "$(dirname {name})"\ncat > {name} {_heredoc(text)}'


def _insert(name: str, below: str, text: str) -> str:
    """Put the text below the first line that says ``below``, indented as that line is."""
    program = (
        "import pathlib, textwrap\n"
        f"path, below, text = pathlib.Path({name!r}), {below!r}, {text!r}\n"
        "before, after = path.read_text().split(f'{below}\\n', 1)\n"
        "indent = ' ' * (len(before) - len(before.rstrip(' ')))\n"
        "path.write_text(f'{before}{below}\\n{textwrap.indent(text, indent)}{after}')\n"
    )
    return f"{_PYTHON} - {_heredoc(program)}"


def script_of(steps: list[Step]) -> str:
    """Return one script for all steps, so that a folder or a variable of one is there for the next."""
    parts = []
    for number, step in enumerate(steps):
        parts.append(
            f"{{ {step.shell}\n}} < /dev/null\ncode=$?\nprintf '\\n{MARK} {number} %s\\n' $code\n(exit $code)\n"
        )
    return "exec 2>&1\n" + "".join(parts)


def outputs_of(printed: str) -> list[tuple[str, int]]:
    """Return what each step printed and its exit code, from what the script printed."""
    pieces = re.split(rf"\n{MARK} \d+ (\d+)\n", printed)
    return [(output, int(code)) for output, code in zip(pieces[::2], pieces[1::2], strict=False)]


_CHANGING = (
    (re.compile(r"\b[0-9a-f]{16,32}\b"), "<digest>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:<port>"),
    (re.compile(r"\bin \d+\.\d+s\b"), "in <time>"),
    (re.compile(r"(?<=\S) {2,}"), "  "),  # the width of a column is the terminal's
)


def is_as_shown(printed: str, shown: str) -> bool:
    """Whether the output is what the page says, but for digests, ports, spacing and how long tests take."""
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else re.escape(f"{line}\n") for line in _settled(shown))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _settled(printed))) is not None


def _settled(text: str) -> list[str]:
    for pattern, word in _CHANGING:
        text = pattern.sub(word, text)
    return [line.rstrip() for line in text.strip("\n").splitlines()]
