"""sed and awk: programs whose program is an argument, with files and commands of its own in it."""

from __future__ import annotations

import re
from typing import Final

from stream_guard_shell.expansion import Field, literal, unknown
from stream_guard_shell.shell import Handler, ProgramCall, parse_options

_SED_ADDRESS: Final = re.compile(
    r"[\s;{}]*(?:(?:[0-9]+|\$|/(?:[^/\\\n]|\\.)*/|\\(.)(?:(?!\1|\\).|\\.)*\1)[IM]*(?:~[0-9]+)?\s*,?\s*\+?){0,2}[\s!]*",
    re.DOTALL,
)
_SED_FLAGS: Final = re.compile(r"[gpiIeEmM0-9]*")
_SED_LINE: Final = re.compile(r"[^\n]*")
_SED_TEXT: Final = re.compile(r"(?:[^\\\n]|\\.)*", re.DOTALL)  # goes on behind a backslash at the end of a line
_SED_SHORT: Final = re.compile(r"[^;}\n]*")
_AWK_PART: Final = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|(?:(?<![^~(,{;!&|\n])|(?<=[~(,{;!&|\n] ))/(?:[^/\\\n]|\\.)*/|#[^\n]*'
)
_AWK_SYSTEM: Final = re.compile(r"system\s*\(\s*(?:S(\d+)S\s*\))?")
_AWK_PIPE: Final = re.compile(r"\bprintf?\b([^|;{}\n]{0,160})\|&?\s*(?:S(\d+)S)?")
_AWK_GETLINE: Final = re.compile(r"(?:S(\d+)S|[\w\])])\s*\|&?\s*getline\b")
_AWK_WRITE: Final = re.compile(r"\bprintf?\b([^|;{}\n>]{0,160})(>>?)\s*(?:S(\d+)S)?\s*([^;}\n)]{0,160})")
_AWK_READ: Final = re.compile(r"\bgetline\b\s*\w*\s*<\s*S(\d+)S")


def sed(call: ProgramCall) -> Field:
    """Read files; with -i they are written instead. The script may read, write and run, too."""
    options = parse_options(call.args, ("e", "f", "l", "expression", "file", "line-length"))
    in_place = any(name in ("i", "in-place") for name, _ in options.given)
    operands, scripts = options.operands, options.values("e", "expression")
    for file in options.values("f", "file"):
        call.recorder.read(call.shell, file)
    if not options.has("e", "f", "expression", "file"):
        scripts, operands = operands[:1], operands[1:]
    for operand in operands:
        if in_place:
            call.recorder.write(call.shell, operand)
        else:
            call.recorder.read(call.shell, operand)
    for script in scripts:
        _sed_script(call, script.with_holes)
    return unknown()


def _sed_script(call: ProgramCall, text: str) -> None:
    """Look at each command of a script; where it cannot be followed any more, what came before counts."""
    call.recorder.spend(len(text) // 16)
    at = 0
    while at < len(text):
        found = _SED_ADDRESS.match(text, at)
        at = found.end() if found else at
        command, at = text[at : at + 1], at + 1
        if command in ("s", "y"):
            at = _sed_substitution(call, text, at)
        elif command in ("r", "R", "w", "W", "e"):
            at = _sed_file(call, command, text, at)
        elif command in ("a", "i", "c"):
            at = _end(_SED_TEXT, text, at)
        elif command and command.isascii() and command in "bBtTdDgGhHxnNpPqQlzF=:v#":
            at = _end(_SED_LINE if command == "#" else _SED_SHORT, text, at)
        else:
            return


def _sed_substitution(call: ProgramCall, text: str, at: int) -> int:
    """Pass over both halves of a substitution; its flags may write the line to a file, or run it."""
    sign, at = text[at : at + 1], at + 1
    for _ in range(2):
        while at < len(text) and text[at] != sign:
            at += 2 if text[at] == "\\" else 1
        at += 1
    end = _end(_SED_FLAGS, text, at)
    if "e" in text[at:end]:
        call.recorder.execute(call.shell, "computed", "sh")
    return _sed_file(call, "w", text, end + 1) if text[end : end + 1] == "w" else end


def _sed_file(call: ProgramCall, command: str, text: str, at: int) -> int:
    end = _end(_SED_LINE, text, at)
    named = text[at:end].strip()
    if command == "e":
        if named:
            call.recorder.run_text(call.shell.subshell(process=True), _field(named), "sh")
        else:
            call.recorder.execute(call.shell, "computed", "sh")
    elif named and command in ("r", "R"):
        call.recorder.read(call.shell, _field(named, "other"))
    elif named:
        call.recorder.write(call.shell, _field(named, "other"))
    return end


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def awk(call: ProgramCall) -> Field:
    """Read files; the program may read and write others, and what it gives to a shell is text for one."""
    options = parse_options(call.args, ("F", "v", "f", "field-separator", "assign", "file", "e", "source"))
    operands = options.operands
    programs = options.values("e", "source")
    for file in options.values("f", "file"):
        call.recorder.run_file(call.shell, file, call.name)
    if not programs and not options.values("f", "file"):
        programs, operands = operands[:1], operands[1:]
    for operand in operands:
        if not re.match(r"[A-Za-z_]\w*=", operand.head):
            call.recorder.read(call.shell, operand)
    for program in programs:
        _awk_program(call, program.with_holes)
    return unknown()


def _awk_program(call: ProgramCall, text: str) -> None:
    """Look for commands and files among the strings of a program, which stand as S0S, S1S in its frame."""
    call.recorder.spend(len(text) // 16)
    strings: list[str] = []

    def number(found: re.Match[str]) -> str:
        part = found.group()
        if not part.startswith('"'):
            return " "
        strings.append(re.sub(r"\\(.)", _unescaped, part[1:-1]))
        return f"S{len(strings) - 1}S"

    frame = _AWK_PART.sub(number, text)
    for found in _AWK_SYSTEM.finditer(frame):
        _awk_command(call, strings, found.group(1))
    for found in _AWK_GETLINE.finditer(frame):
        _awk_command(call, strings, found.group(1))
    for found in _AWK_PIPE.finditer(frame):
        if frame[found.end() - 1] != "|" or frame[found.end() : found.end() + 1] != "|":
            printed = re.fullmatch(r"[\s(]*S(\d+)S[\s)]*", found.group(1))
            given = _field(strings[int(printed.group(1))]) if printed else unknown("text")
            _awk_command(call, strings, found.group(2), given)
    for found in _AWK_READ.finditer(frame):
        call.recorder.read(call.shell, _field(strings[int(found.group(1))], "other"))
    for found in _AWK_WRITE.finditer(frame):
        if found.group(1).count("(") <= found.group(1).count(")"):
            whole = found.group(3) and not found.group(4).strip()
            target = _field(strings[int(found.group(3))], "other") if whole else unknown()
            call.recorder.write(call.shell, target, append=found.group(2) == ">>")


def _awk_command(call: ProgramCall, strings: list[str], named: str | None, given: Field | None = None) -> None:
    if named is None:
        call.recorder.execute(call.shell, "computed", "sh")
    else:
        call.recorder.run_text(call.shell.subshell(process=True), _field(strings[int(named)]), "sh", given)


def _unescaped(found: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t"}.get(found.group(1), found.group(1))


def _field(text: str, hole: str = "text") -> Field:
    """Return a text with holes as a field; holes in the name of a file are of another kind."""
    first, *rest = text.split("\0")
    field = literal(first)
    for part in rest:
        field = field + unknown(hole) + literal(part)
    return field


TOOLS: Final[dict[str, Handler]] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), awk),
    "sed": sed,
    "gsed": sed,
}
