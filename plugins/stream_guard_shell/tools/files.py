"""Programs that make, copy, move, pack and delete files."""

from __future__ import annotations

import re
from typing import Final

from stream_guard_shell.expansion import NOTHING, Field, FilePlace, Piece, literal, resolve, unknown
from stream_guard_shell.shell import Handler, Options, ProgramCall, parse_options, word_list

_COPY_VALUED: Final = word_list(
    "S t m o g target-directory suffix mode owner group preserve no-preserve reflink sparse backup context"
)
_TEMPLATE: Final = re.compile(r"X{3,}")


def delete(call: ProgramCall) -> Field:
    """Delete the operands: rm, rmdir, unlink."""
    options = parse_options(call.args, ("interactive-when",))
    recursive = call.name == "rm" and options.has("r", "R", "recursive")
    for operand in options.operands:
        call.recorder.delete(call.shell, operand, recursive=recursive)
    return NOTHING


def shred(call: ProgramCall) -> Field:
    """Overwrite files, or a disk."""
    for operand in parse_options(call.args, ("n", "s", "iterations", "size", "random-source")).operands:
        if not call.recorder.device(call.shell, operand, call.name):
            call.recorder.delete(call.shell, operand)
    return NOTHING


def tee(call: ProgramCall) -> Field:
    """Write the input to files, and pass it on."""
    options = parse_options(call.args, ("output-error",))
    append = options.has("a", "append")
    nets = (call.stdin or NOTHING).origins("net")
    for operand in options.operands:
        if not call.recorder.device(call.shell, operand, call.name):
            fetched = nets[0].host if nets else None
            call.recorder.write(call.shell, operand, append=append, fetched=fetched, made=not append)
    return call.stdin or NOTHING


def touch(call: ProgramCall) -> Field:
    """Write every operand: touch, mkfifo, truncate."""
    for operand in parse_options(
        call.args, ("r", "d", "t", "m", "s", "o", "date", "reference", "size", "mode")
    ).operands:
        call.recorder.write(call.shell, operand)
    return NOTHING


def mkdir(call: ProgramCall) -> Field:
    """Make folders; only without -p does that prove that they are new."""
    options = parse_options(call.args, ("m", "mode"))
    for operand in options.operands:
        call.recorder.write(call.shell, operand, made=not options.has("p", "parents"))
    return NOTHING


def mktemp(call: ProgramCall) -> Field:
    """Make a file or a folder with a name of its own; the name is what it writes."""
    options = parse_options(call.args, ("p", "suffix"))
    folder = options.value("p", "tmpdir")
    template = options.operands[0] if options.operands else None
    field = _temporary(template, folder, in_tmp=options.has("t") or options.has("tmpdir"))
    if not options.has("u", "dry-run"):
        call.recorder.write(call.shell, field, made=True)
    place = resolve(field, call.shell.folder)
    return Field((Piece(place.text, active=True),)) if place.kind == "glob" else field


def _temporary(template: Field | None, folder: Field | None, *, in_tmp: bool) -> Field:
    name = literal("tmp.") + Field((Piece("*", active=True),))
    if template is not None:
        text = template.literal
        found = _TEMPLATE.search(text or "")
        if text is None or not found:
            return template
        name = literal(text[: found.start()]) + Field((Piece("*", active=True),)) + literal(text[found.end() :])
        if folder is None and not in_tmp:
            return name
    return (folder or literal("/tmp")) + literal("/") + name  # noqa: S108


def copy(call: ProgramCall) -> Field:
    """Copy files: cp, install, ln; the sources are read, the target is written."""
    options = parse_options(call.args, _COPY_VALUED)
    if call.name == "install" and options.has("d", "directory"):
        for operand in options.operands:
            call.recorder.write(call.shell, operand)
        return NOTHING
    sources, target = _sources_and_target(options, call)
    recursive = call.name == "cp" and options.has("r", "R", "a", "recursive", "archive")
    if target is None:
        return NOTHING
    if call.name != "ln":
        for source in sources:
            call.recorder.read(call.shell, source, recursive=recursive)
            call.recorder.carry(_place(call, source), _place(call, target))
    if not call.recorder.device(call.shell, target, call.name):
        fetched = _host(call, sources)
        call.recorder.write(call.shell, target, recursive=recursive, fetched=fetched, into=True)
    return NOTHING


def _host(call: ProgramCall, sources: list[Field]) -> str | None:
    hosts = [call.recorder.host_of(_place(call, source)) for source in sources]
    return next((host for host in hosts if host is not None), None) if call.name != "ln" else None


def _place(call: ProgramCall, field: Field) -> FilePlace:
    return resolve(field, call.shell.folder, tilde=call.shell.away)


def _sources_and_target(options: Options, call: ProgramCall) -> tuple[list[Field], Field | None]:
    target = options.value("t", "target-directory")
    if target is not None:
        return options.operands, target
    if len(options.operands) > 1:
        return options.operands[:-1], options.operands[-1]
    if call.name == "ln" and options.operands:  # into the folder, under its own name
        name = options.operands[0].tail.rpartition("/")[2]
        return options.operands, literal(name) if name else options.operands[0]
    return options.operands, None


def move(call: ProgramCall) -> Field:
    """Give every source another name."""
    sources, target = _sources_and_target(parse_options(call.args, ("S", "t", "target-directory", "suffix")), call)
    for source in sources if target is not None else []:
        call.recorder.move(call.shell, source, target or NOTHING)
    return NOTHING


def dd(call: ProgramCall) -> Field:
    """Copy from ``if=`` to ``of=``, which may be a disk."""
    output = NOTHING
    for arg in call.args:
        if arg.head.startswith("if="):
            call.recorder.read(call.shell, arg.behind(3))
        elif arg.head.startswith("of="):
            target = arg.behind(3)
            if not call.recorder.device(call.shell, target, "dd"):
                call.recorder.write(call.shell, target)
    if not any(arg.head.startswith("of=") for arg in call.args):
        output = call.stdin or NOTHING
    return output


def permission(call: ProgramCall) -> Field:
    """Change mode or owner of the operands: chmod, chown, chgrp."""
    args = [arg for arg in call.args if not _is_mode(arg)]
    modes = [arg for arg in call.args if _is_mode(arg)] if call.name == "chmod" else []
    options = parse_options(call.args if call.name != "chmod" else args, ("from", "reference"))
    operands = options.operands
    if not modes and not options.has("reference"):
        modes, operands = operands[:1], operands[1:]
    value = call.recorder.word(modes[0]) if modes and operands else None
    key = "mode" if call.name == "chmod" else "owner"
    recursive = options.has("R", "recursive")
    for operand in operands:
        place = call.recorder.place(call.shell, operand)
        where = call.recorder.located(call.shell, place)
        call.emit("permission", recursive=recursive, **{key: value}, **where)
    if key == "mode" and value is not None and operands and _is_setuid(value):
        call.emit("privilege", via="setuid")
    return NOTHING


def _is_mode(field: Field) -> bool:
    """Whether this is a mode that begins with a dash, such as ``-x``."""
    return re.fullmatch(r"-[rwxXst]+", field.literal or "") is not None


def _is_setuid(mode: str) -> bool:
    if re.fullmatch(r"0?[0-7]{4}", mode):
        return mode[-4] in "4567"
    return any(re.search(r"[+=][a-zA-Z]*s", part) is not None for part in mode.split(","))


_TAR_VALUED: Final = word_list(
    "f C T X I b g K L N V H file directory files-from exclude exclude-from transform strip-components "
    "use-compress-program checkpoint-action to-command owner group mode format"
)
_BUNDLE: Final = frozenset("AcdrtuxjJzZavpkmhOSPWlowf")


def tar(call: ProgramCall) -> Field:
    """Pack, unpack or list; options may give it texts to run."""
    args = list(call.args)
    bundle: list[Field] = []
    if args and args[0].literal and not args[0].text.startswith("-") and set(args[0].text) <= _BUNDLE | set("CTXIb"):
        letters = args.pop(0).text
        for letter in letters:
            value = [args.pop(0)] if letter in "fCTXIb" and args else []
            bundle += [literal("-" + letter), *value]
    options = parse_options([*bundle, *args], _TAR_VALUED)
    _tar_texts(call, options)
    archive = options.value("f", "file")
    if options.has("x", "extract", "get"):
        return _unpack(call, options, archive)
    if options.has("c", "create", "r", "append", "u", "update"):
        return _pack(call, [*bundle, *args], options, archive)
    return unknown()


def _tar_texts(call: ProgramCall, options: Options) -> None:
    texts = [value.behind(5) for value in options.values("checkpoint-action") if value.head.startswith("exec=")]
    texts += options.values("to-command", "I", "use-compress-program")
    for text in texts:
        call.recorder.run_text(call.shell.subshell(process=True), text, "sh")


def _unpack(call: ProgramCall, options: Options, archive: Field | None) -> Field:
    nets = (call.stdin or NOTHING).origins("net")
    host = nets[0].host if nets else None
    if archive is not None and archive.literal != "-":
        call.recorder.read(call.shell, archive)
        host = call.recorder.host_of(resolve(archive, call.shell.folder))
    if options.has("O", "to-stdout"):
        return unknown("net", host=host) if host is not None else unknown()
    folder = options.value("C", "directory") or literal(".")
    call.recorder.write(call.shell, folder, recursive=True, fetched=host)
    return NOTHING


def _pack(call: ProgramCall, args: list[Field], options: Options, archive: Field | None) -> Field:
    shell = call.shell.subshell()
    operands = iter(parse_options(args, [one for one in _TAR_VALUED if one not in ("C", "directory")]).operands)
    folders = list(options.values("C", "directory"))
    if folders:
        shell.go(folders[0])
    for operand in operands:
        if any(operand is folder for folder in folders):
            shell = call.shell.subshell()
            shell.go(operand)
            continue
        call.recorder.read(shell, operand, recursive=True)
    if archive is not None and archive.literal != "-":
        call.recorder.write(call.shell, archive)
        return NOTHING
    return unknown()


def unzip(call: ProgramCall) -> Field:
    """Unpack into a folder, unless it only lists."""
    options = parse_options(call.args, ("d", "x", "P"))
    if options.has("l", "t", "v", "Z", "z") or not options.operands:
        return unknown()
    archive = options.operands[0]
    call.recorder.read(call.shell, archive)
    if options.has("p", "c"):
        return unknown()
    host = call.recorder.host_of(resolve(archive, call.shell.folder))
    call.recorder.write(call.shell, options.value("d") or literal("."), recursive=True, fetched=host)
    return NOTHING


def zip_files(call: ProgramCall) -> Field:
    """Pack files into an archive."""
    valued = ("x", "i", "b", "n", "t", "tt", "P", "TT", "unzip-command", "exclude", "include")
    options = parse_options(call.args, valued, single=("TT", "tt"))
    for text in options.values("TT", "unzip-command"):
        call.recorder.run_text(call.shell.subshell(process=True), text, "sh")
    recursive = options.has("r", "R", "recurse-paths")
    for operand in options.operands[1:]:
        call.recorder.read(call.shell, operand, recursive=recursive)
    for archive in options.operands[:1]:
        call.recorder.write(call.shell, archive)
    return NOTHING


TOOLS: Final[dict[str, Handler]] = {
    **dict.fromkeys(("rm", "rmdir", "unlink"), delete),
    **dict.fromkeys(("touch", "mkfifo", "truncate"), touch),
    **dict.fromkeys(("cp", "install", "ln"), copy),
    **dict.fromkeys(("chmod", "chown", "chgrp"), permission),
    "shred": shred,
    "tee": tee,
    "mkdir": mkdir,
    "mktemp": mktemp,
    "mv": move,
    "dd": dd,
    "tar": tar,
    "gtar": tar,
    "bsdtar": tar,
    "unzip": unzip,
    "zip": zip_files,
}
