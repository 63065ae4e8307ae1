"""Programs that only look, and those whose output is known: echo, printf, pwd, cat."""

from __future__ import annotations

import re
from typing import Final

from stream_guard_shell.expansion import NOTHING, NUL, Field, Piece, literal, unknown
from stream_guard_shell.shell.call import Handler, ProgramCall, parse_options, word_list
from stream_guard_shell.syntax.ansi import ansi_parts

LOOKING: Final = frozenset(
    word_list("""
    ls dir vdir stat pwd which type whereis man info apropos whatis date cal id whoami hostname hostnamectl uname uptime
    ps pgrep pstree lsof df du file tree true false : sleep seq basename dirname readlink realpath
    arch nproc free vmstat iostat top htop w who last users groups logname tty stty tput clear lscpu lsblk lsusb lspci
    lsmod dmesg journalctl getconf getent locale ulimit umask jobs wait hash help times caller compgen complete bind
    dirs disown fg bg let expr bc factor numfmt yes sync logger test [ exit return break continue netstat ss
    tldr look tsort neofetch timedatectl loginctl xset cls return sw_vers say
    """)
)
"""Programs and builtins that say something and change nothing."""

_CONVERSION: Final = re.compile(r"%[-+ #0]*[0-9*]*(?:\.[0-9*]+)?([a-zA-Z%])|\\")
_MOST_FORMAT: Final = 4096


def look(_call: ProgramCall) -> Field:
    """Say nothing of a call that only looks; what it writes is not known."""
    return unknown()


def echo(call: ProgramCall) -> Field:
    """Write the arguments."""
    args = list(call.args)
    escapes = newline = True
    escapes = False
    while args and args[0].literal is not None and re.fullmatch(r"-[neE]+", args[0].text):
        flags = args.pop(0).text
        newline = newline and "n" not in flags
        escapes = "e" in flags or escapes
    pieces: list[Piece] = []
    for number, arg in enumerate(args):
        if number:
            pieces.append(Piece(" "))
        pieces.extend(arg.pieces)
    if escapes:
        pieces = [part for piece in pieces for part in _unescaped(piece)]
    return Field([*pieces, Piece("\n")] if newline else pieces)


def printf(call: ProgramCall) -> Field:
    """Write the arguments as the format says; ``-v`` puts them into a variable instead."""
    from stream_guard_shell.shell.state import Variable  # noqa: PLC0415

    args = list(call.args)
    variable = None
    if len(args) > 1 and args[0].literal == "-v":
        variable = args[1].literal
        args = args[2:]
    if args and args[0].literal == "--":
        args = args[1:]
    output = _formatted(args[0], args[1:]) if args else NOTHING
    if variable is not None:
        call.shell.assign(variable, Variable(output))
        return NOTHING
    return output


def _formatted(form: Field, args: list[Field]) -> Field:
    text = form.literal
    if text is None or len(text) > _MOST_FORMAT:
        return form if form.active else unknown()
    waiting = list(reversed(args))
    pieces: list[Piece] = []
    for _ in range(max(len(args), 1)):
        _fill(text, waiting, pieces)
        if not waiting:
            break
    return Field(pieces)


def _fill(text: str, waiting: list[Field], pieces: list[Piece]) -> None:
    """Put arguments into the format once."""
    start = 0
    found_any = False
    for found in _CONVERSION.finditer(text):
        letter = found.group(1)
        if letter is None:
            continue
        pieces.extend(_unescaped(Piece(text[start : found.start()])))
        start = found.end()
        if letter == "%":
            pieces.append(Piece("%"))
            continue
        found_any = True
        if not waiting:
            continue
        arg = waiting.pop()
        if letter == "b":
            pieces.extend(part for piece in arg.pieces for part in _unescaped(piece))
        elif letter in "sdiq":
            pieces.extend(arg.pieces)
        else:
            pieces.append(Piece(known=False))
    pieces.extend(_unescaped(Piece(text[start:])))
    if not found_any:
        waiting.clear()


def _unescaped(piece: Piece) -> list[Piece]:
    """Return a piece with its escapes replaced; where a NUL is written, a mark of its own stands."""
    if not piece.known:
        return [piece]
    first, *rest = ansi_parts(piece.text)
    pieces = [piece._replace(text=first)]
    for part in rest:
        pieces += [NUL, piece._replace(text=part)]
    return pieces


def pwd(call: ProgramCall) -> Field:
    """Write the folder."""
    folder = call.shell.folder
    if folder.text is None or call.shell.away:
        return unknown()
    return Field((Piece(folder.text, active=folder.glob), Piece("\n")))


def cat(call: ProgramCall) -> Field:
    """Write files, or the input, as they are."""
    operands = parse_options(call.args).operands
    pieces: list[Piece] = []
    for operand in operands or [literal("-")]:
        if operand.literal in ("-", "/dev/stdin"):
            pieces.extend((call.stdin or NOTHING).pieces)
        elif operand.origins("process"):
            inner = operand.origins("process")[0].fields
            pieces.extend(inner[0].pieces if inner else ())
        else:
            call.recorder.read(call.shell, operand)
            pieces.extend(unknown("file", fields=(call.recorder.file(call.shell, operand),)).pieces)
    return Field(pieces)


TOOLS: Final[dict[str, Handler]] = {
    **dict.fromkeys(LOOKING, look),
    "echo": echo,
    "printf": printf,
    "pwd": pwd,
    "cat": cat,
}
