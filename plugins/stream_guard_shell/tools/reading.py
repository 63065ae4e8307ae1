"""Programs that read the content of files: which of their operands are files, which options take a value."""

from __future__ import annotations

import base64
import binascii
from typing import Final

from stream_guard_shell.expansion import NOTHING, Field, Origin, Piece, literal, resolve, unknown
from stream_guard_shell.shell.call import Handler, Options, ProgramCall, parse_options, word_list

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
    **dict.fromkeys(_READERS, read_files),
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg", "zgrep"), grep),
    "jq": jq,
    "tr": tr,
    "gunzip": gunzip,
}
