"""Archives: tar, zip, unzip."""

from __future__ import annotations

from typing import Final

from stream_guard_shell.expansion.fields import NOTHING, Field, literal, unknown
from stream_guard_shell.expansion.places import Folder, resolve
from stream_guard_shell.shell.call import Handler, Options, ProgramCall, parse_options
from stream_guard_shell.shell.state import Shell
from stream_guard_shell.shell.word_lists import word_list

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
        shell = _inside(shell, folders[0])
    for operand in operands:
        if any(operand is folder for folder in folders):
            shell = _inside(call.shell.subshell(), operand)
            continue
        call.recorder.read(shell, operand, recursive=True)
    if archive is not None and archive.literal != "-":
        call.recorder.write(call.shell, archive)
        return NOTHING
    return unknown()


def _inside(shell: Shell, folder: Field) -> Shell:
    place = resolve(folder, shell.folder, tilde=shell.away)
    shell.folder = Folder(place.text if place.kind in ("path", "glob") else None, place.kind == "glob")
    return shell


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


TOOLS: Final[dict[str, Handler]] = {"tar": tar, "gtar": tar, "bsdtar": tar, "unzip": unzip, "zip": zip_files}
