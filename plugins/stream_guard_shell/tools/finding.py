"""find and xargs: names that one program gives to another."""

from __future__ import annotations

from typing import Final, NamedTuple

from stream_guard_shell.expansion import NOTHING, NUL, Field, Piece, literal, unknown
from stream_guard_shell.shell import Handler, ProgramCall, parse_options, word_list

_ACTIONS: Final = frozenset(("-delete", "-exec", "-execdir", "-ok", "-okdir", "-print", "-print0", "-ls", "-prune"))
_NO_TESTS: Final = frozenset(
    word_list(
        "-depth -d -xdev -mount -noleaf -follow -print -print0 -ls -a -and -quit -warn -nowarn -ignore_readdir_race "
        "-daystart -regextype"
    )
)
_CHOOSING: Final = frozenset(("!", "-not", "-o", "-or", ","))
_VALUED: Final = frozenset(
    ("-" + name)
    for name in word_list(
        "name iname path ipath wholename iwholename regex iregex type xtype size mtime atime ctime mmin amin cmin "
        "newer anewer cnewer perm user group uid gid links inum maxdepth mindepth fstype samefile lname ilname used "
        "context newermt printf regextype"
    )
)
_XARGS_VALUED: Final = word_list("n P L I d a s E max-args max-procs max-lines replace delimiter arg-file max-chars")


class _Search(NamedTuple):
    """What a find looks for, and what it does with it."""

    starts: list[Field]
    names: list[Field]
    tests: int
    chooses: bool
    commands: list[list[Field]]
    deletes: bool
    files: list[Field]


def find(call: ProgramCall) -> Field:
    """Look for files, and delete them or run a program on them."""
    search = _read(call.args)
    for file in search.files:
        call.recorder.write(call.shell, file)
    found = _patterns(search)
    if search.deletes:
        alone = not search.tests
        for pattern in found:
            call.recorder.delete(call.shell, pattern, recursive=alone)
    for command in search.commands:
        for pattern in found:
            words = [_put(word, literal("{}"), pattern) for word in command]
            if words:
                call.recorder.run_words(call.shell.subshell(), words)
    return unknown("names", fields=tuple(found))


def _read(args: list[Field]) -> _Search:
    waiting = list(reversed(args))
    starts: list[Field] = []
    while waiting and waiting[-1].literal in ("-H", "-L", "-P"):
        waiting.pop()
    while waiting and not _begins_expression(waiting[-1]):
        starts.append(waiting.pop())
    search = _Search(starts or [literal(".")], [], 0, False, [], False, [])
    while waiting:
        search = _read_one(waiting.pop(), waiting, search)
    return search


def _begins_expression(field: Field) -> bool:
    return field.head.startswith("-") or field.literal in ("!", "(", ")", ",")


def _read_one(field: Field, waiting: list[Field], search: _Search) -> _Search:
    text = field.literal or ""
    if text in ("-exec", "-execdir", "-ok", "-okdir"):
        command: list[Field] = []
        while waiting:
            word = waiting.pop()
            if word.literal == ";" or (word.literal == "+" and command and "{}" in command[-1].text):
                break
            command.append(word)
        return search._replace(commands=[*search.commands, command])
    if text == "-delete":
        return search._replace(deletes=True)
    if text in ("-fprint", "-fls", "-fprint0", "-fprintf"):
        files = [*search.files, *([waiting.pop()] if waiting else [])]
        if text == "-fprintf" and waiting:
            waiting.pop()
        return search._replace(files=files)
    if text in _CHOOSING:
        return search._replace(chooses=True, tests=search.tests + 1)
    value = waiting.pop() if text in _VALUED and waiting else None
    if text in _NO_TESTS or text in _ACTIONS or text in ("(", ")", "-printf"):
        return search
    names = [*search.names, value] if text == "-name" and value is not None else search.names
    return search._replace(names=names, tests=search.tests + 1)


def _patterns(search: _Search) -> list[Field]:
    """Return the patterns that fit what is found."""
    if not search.tests:
        return search.starts
    below = literal("/") + Field((Piece("**", active=True),))
    if len(search.names) == 1 and not search.chooses:
        name = search.names[0]
        below = below + literal("/") + Field([piece._replace(active=piece.known) for piece in name.pieces])
    return [start + below for start in search.starts]


def _put(word: Field, mark: Field, value: Field) -> Field:
    """Return a word with a value in place of a mark."""
    sign = mark.text
    if not sign or sign not in word.text:
        return word
    pieces: list[Piece] = []
    for piece in word.pieces:
        parts = piece.text.split(sign) if piece.known else [piece.text]
        for number, part in enumerate(parts):
            if number:
                pieces.extend(value.pieces)
            if part or not piece.known:
                pieces.append(piece._replace(text=part))
    return Field(pieces)


def xargs(call: ProgramCall) -> Field:
    """Run a program with the words of the input as operands."""
    options = parse_options(call.args, _XARGS_VALUED, stop=True)
    words = list(options.rest) or [literal("echo")]
    file = options.value("a", "arg-file")
    if file is not None:
        call.recorder.read(call.shell, file)
    source = NOTHING if file is not None else call.stdin
    delimiter = literal("\0") if options.has("0", "null") else options.value("d", "delimiter")
    operands = _operands(source, delimiter)
    mark = options.value("I", "i", "replace")
    if mark is None and options.has("i"):
        mark = literal("{}")
    shell = call.shell.subshell()
    if mark is None:
        return call.recorder.run_words(shell, [*words, *operands])
    output = NOTHING
    for operand in operands:
        output = output + call.recorder.run_words(shell, [_put(word, mark, operand) for word in words])
    return output


def _operands(source: Field | None, delimiter: Field | None) -> list[Field]:
    """Return the words of an input: known ones, the patterns of names, or one that is not known."""
    if source is None or not source.pieces:
        return [unknown("input")]
    names = [field for origin in source.origins("names") for field in origin.fields]
    if names and not source.text.strip():
        return names
    if not source.known or source.origins("decoded"):
        return [unknown("input")]
    if delimiter is not None and delimiter.literal:
        sign = delimiter.text.replace("\\n", "\n").replace("\\0", "\0").replace("\\t", "\t")
        text = "".join("\0" if piece == NUL else piece.text for piece in source.pieces)
        return [Field((Piece(word, active=source.active),)) for word in text.split(sign) if word.strip("\n\0")]
    if source.active:
        return [Field((Piece(word, active=True),)) for word in source.text.split()]
    return [literal(word.strip("'\"")) for word in source.text.split()]


TOOLS: Final[dict[str, Handler]] = {"find": find, "gfind": find, "xargs": xargs, "gxargs": xargs}
