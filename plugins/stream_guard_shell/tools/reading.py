"""Programs that only look or read: what they say of themselves, and which of their operands are files."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from stream_guard_shell.expansion import NOTHING, NUL, Field, Origin, Piece, literal, resolve, unknown
from stream_guard_shell.shell import Handler, Options, ProgramCall, Variable, parse_options, word_list
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


_VALUED: Final = {
    "head": "n c lines bytes",
    "tail": "n c s lines bytes pid sleep-interval",
    "less": "p P x",
    "nl": "b d f h i l n s v w",
    "sort": "k t o S T key field-separator output buffer-size temporary-directory parallel compress-program",
    "uniq": "f s w",
    "cut": "b c d f bytes characters delimiter fields output-delimiter",
    "paste": "d delimiters",
    "diff": "U C I x X W L label exclude unified context ignore-matching-lines width",
    "cmp": "i n",
    "strings": "n e t",
    "xxd": "c g l s o",
    "od": "A j N t w S",
    "hexdump": "n s e C",
    "base64": "w wrap",
    "jq": "L indent",
    "fold": "w",
    "column": "s t c o N",
    "comm": "output-delimiter",
    "join": "1 2 j t a v e o",
    "wc": "files0-from",
}
_READERS: Final = word_list(
    "tac head tail less more nl wc sort uniq cut paste diff cmp strings xxd od base64 base32 sha256sum md5sum sha1sum "
    "sha512sum sha224sum sha384sum b2sum cksum sum shasum hexdump hd fold fmt expand unexpand column comm join bat "
    "zcat bzcat xzcat rev zless"
)
_NARROWING: Final = frozenset(("sort", "head", "tail", "uniq", "tac"))
_DECODERS: Final = frozenset(("zcat", "bzcat", "xzcat", "rev"))
_GREP_VALUED: Final = word_list(
    "e f A B C m d D regexp file after-context before-context context max-count include exclude exclude-dir label "
    "binary-files directories exclude-from"
)
_RG_VALUED: Final = word_list(
    "e f A B C m g t T j M E r regexp file glob type type-not after-context before-context context max-count iglob "
    "max-depth replace sort sortr color colors encoding engine max-filesize threads type-add path-separator"
)


def read_files(call: ProgramCall) -> Field:
    """Read every operand."""
    options = parse_options(call.args, _VALUED.get(call.name, "").split())
    operands = options.operands
    if call.name in ("less", "more", "zless"):
        operands = [one for one in operands if not _pager_command(call, one)]
    if call.name in ("uniq", "xxd"):
        for made in operands[1:2]:
            call.recorder.write(call.shell, made)
        operands = operands[:1]
    for operand in operands:
        call.recorder.read(call.shell, operand)
    target = options.value("o", "output") if call.name == "sort" else None
    if target is not None:
        call.recorder.write(call.shell, target)
    for program in options.values("compress-program"):
        call.recorder.run_text(call.shell.subshell(process=True), program, "sh")
    return _passed(call, options, operands)


def _pager_command(call: ProgramCall, operand: Field) -> bool:
    """Whether an operand is what a pager does first, not a file; behind ``!`` it is text for a shell."""
    if not operand.head.startswith("+"):
        return False
    if operand.head.startswith("+!"):
        call.recorder.run_text(call.shell.subshell(process=True), operand.behind(2), "sh")
    return True


def _passed(call: ProgramCall, options: Options, operands: list[Field]) -> Field:
    """Return what a reader writes, as far as it matters who reads on."""
    source = _content(call, operands)
    if call.name in ("base64", "base32") and options.has("d", "D", "decode"):
        return _decoded(source, call.name)
    if call.name in _DECODERS or (call.name == "xxd" and options.has("r", "revert")):
        return unknown("net", host=source.origins("net")[0].host) if source.origins("net") else unknown("decoded")
    if call.name in _NARROWING and source.origins("names"):
        return source
    return unknown()


def _content(call: ProgramCall, operands: list[Field]) -> Field:
    """Return what a program reads: its first file that is a command's output, or its input."""
    for operand in operands:
        inner = operand.origins("process")
        if inner:
            return inner[0].fields[0] if inner[0].fields else NOTHING
        host = call.recorder.host_of(resolve(operand, call.shell.folder))
        if host is not None:
            return unknown("net", host=host)
    return NOTHING if operands else call.stdin or NOTHING


def _decoded(source: Field, name: str) -> Field:
    nets = source.origins("net")
    if nets:
        return unknown("net", host=nets[0].host)
    if not source.pieces or not source.known:
        return unknown("decoded")
    decode = base64.b64decode if name == "base64" else base64.b32decode
    text = "".join(source.text.split())
    try:
        data = decode(text + "=" * (-len(text) % (4 if name == "base64" else 8)))
    except (binascii.Error, ValueError):
        return unknown("decoded")
    return Field((Piece(data.decode("utf-8", "replace").replace("\0", ""), origin=Origin("decoded")),))


def grep(call: ProgramCall) -> Field:
    """Read files, recursively with -r; the first operand is the pattern."""
    ripgrep = call.name == "rg"
    options = parse_options(call.args, _RG_VALUED if ripgrep else _GREP_VALUED)
    operands = options.operands
    for file in options.values("f", "file"):
        call.recorder.read(call.shell, file)
    if not options.has("e", "f", "regexp", "file", "files"):
        operands = operands[1:]
    recursive = ripgrep or options.has("r", "R", "recursive", "dereference-recursive")
    if recursive and not operands and (call.stdin is None or not ripgrep):
        operands = [literal(".")]
    for operand in operands:
        call.recorder.read(call.shell, operand, recursive=recursive)
    source = NOTHING if operands else call.stdin or NOTHING
    return source if source.origins("names") else unknown()


def jq(call: ProgramCall) -> Field:
    """Read files; the first operand is the filter."""
    args: list[Field] = []
    files: list[Field] = []
    waiting = iter(call.args)
    has_filter = True
    for arg in waiting:
        if arg.literal in ("--arg", "--argjson"):
            next(waiting, None), next(waiting, None)
        elif arg.literal in ("--slurpfile", "--rawfile"):
            next(waiting, None)
            files.extend(file for file in (next(waiting, None),) if file)
        elif arg.literal in ("-f", "--from-file"):
            has_filter = False
            files.extend(file for file in (next(waiting, None),) if file)
        elif arg.literal in ("--args", "--jsonargs"):
            break
        else:
            args.append(arg)
    operands = parse_options(args, ("L", "indent")).operands
    for file in [*(operands[1:] if has_filter else operands), *files]:
        call.recorder.read(call.shell, file)
    return unknown()


def tr(call: ProgramCall) -> Field:
    """Change signs of the input: what a shell runs of that was hidden before."""
    source = call.stdin or NOTHING
    return unknown("net", host=source.origins("net")[0].host) if source.origins("net") else unknown("decoded")


def gunzip(call: ProgramCall) -> Field:
    """Unpack to the output with -c, or with no file; else nothing is known of it."""
    options = parse_options(call.args, ("S", "suffix"))
    if not options.has("c", "stdout", "to-stdout") and options.operands:
        call.run()
        return NOTHING
    for operand in options.operands:
        call.recorder.read(call.shell, operand)
    source = _content(call, options.operands)
    return unknown("net", host=source.origins("net")[0].host) if source.origins("net") else unknown("decoded")


TOOLS: Final[dict[str, Handler]] = {
    **dict.fromkeys(LOOKING, look),
    "echo": echo,
    "printf": printf,
    "pwd": pwd,
    "cat": cat,
    **dict.fromkeys(_READERS, read_files),
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg", "zgrep"), grep),
    "jq": jq,
    "tr": tr,
    "gunzip": gunzip,
}
