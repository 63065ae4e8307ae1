"""Builtins of the shell: folders, variables, texts to run, aliases, traps."""

from __future__ import annotations

import re
from typing import Final

from stream_guard_shell.expansion import NOTHING, Field, Folder, joined_words, literal, resolve, unknown
from stream_guard_shell.secrets import is_secret, is_secret_variable
from stream_guard_shell.shell import Alias, Handler, ProgramCall, Shell, Variable, parse_options

_NAME: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=)?")


def _go(shell: Shell, folder: Folder) -> None:
    shell.previous, shell.folder = shell.folder, folder


def change_folder(call: ProgramCall) -> Field:
    """Go to a folder: cd, pushd; it is taken to succeed."""
    shell = call.shell
    operands = parse_options(call.args, stop=False).operands
    operands = [one for one in operands if not re.fullmatch(r"\+\d+", one.literal or "")]
    if call.name == "pushd":
        shell.stack = (*shell.stack, shell.folder)
    if not operands or operands[0].literal == "":
        home = shell.variable("HOME")
        target = (home.value if home is not None else shell.home) or unknown()
    elif operands[0].literal == "-":
        _go(shell, shell.previous or Folder(None))
        return NOTHING
    else:
        target = operands[0]
    shell.previous = shell.folder
    call.recorder.spend(len(shell.go(target).text) // 16)
    return NOTHING


def popd(call: ProgramCall) -> Field:
    """Go back to the folder before."""
    shell = call.shell
    if shell.stack:
        _go(shell, shell.stack[-1])
        shell.stack = shell.stack[:-1]
    else:
        _go(shell, Folder(None))
    return NOTHING


def declare(call: ProgramCall) -> Field:
    """Assign, export or show variables: export, declare, typeset, local, readonly."""
    options = parse_options([arg for arg in call.args if not arg.head.startswith("+")])
    if not options.operands:
        if options.has("p") or not options.given:
            call.emit("secret", env="*") if call.name != "local" else None
        return unknown()
    exported = call.name == "export" or options.has("x")
    for operand in options.operands:
        found = _NAME.match(operand.head)
        if not found:
            continue
        name = found.group(1)
        if options.has("f"):
            call.shell.export_function(name)
        elif found.group(2) == "=":
            call.shell.assign(name, Variable(operand.behind(found.end()), None, exported))
        elif found.group(2):
            call.shell.assign(name, Variable(None, None, exported))
        elif call.name == "local" and not options.has("p"):
            call.shell.assign(name, Variable(literal("")))
        elif exported:
            call.shell.export(name)
    return NOTHING


def unset(call: ProgramCall) -> Field:
    """Remove variables or functions: afterwards they are empty."""
    options = parse_options(call.args)
    for operand in options.operands:
        name = operand.literal or ""
        if options.has("f"):
            call.shell.functions_here[name] = None
        else:
            call.shell.assign(name, Variable(literal("")))
    return NOTHING


def read(call: ProgramCall) -> Field:
    """Take values from the input, which are not known: read, mapfile, getopts."""
    options = parse_options(
        call.args, ("a", "d", "i", "n", "N", "p", "t", "u", "O", "s", "C", "c") if call.name == "read" else ()
    )
    names = [*options.operands, *options.values("a")]
    for name in names or [literal("REPLY")]:
        call.shell.assign((name.literal or "").partition("[")[0], Variable())
    return NOTHING


def set_options(call: ProgramCall) -> Field:
    """Set options and parameters; alone it shows all variables."""
    if not call.args:
        call.emit("secret", env="*")
        return unknown()
    for number, arg in enumerate(call.args):
        text = arg.literal or ""
        if text in ("--", "-") or not arg.head.startswith(("-", "+")):
            start = number + 1 if text in ("--", "-") else number
            if call.args[number - 1 : number] and (call.args[number - 1].literal or "") in ("-o", "+o"):
                continue
            call.shell.positional = tuple(call.args[start:])
            break
        if text.startswith("-") and "a" in text[1:]:
            call.shell.export_all = True
        elif text.startswith("+") and "a" in text[1:]:
            call.shell.export_all = False
    return NOTHING


def shift(call: ProgramCall) -> Field:
    """Forget the first parameters."""
    count = (call.args[0].literal or "") if call.args else "1"
    if call.shell.positional is not None:
        known = count.isdigit() and len(count) < 6
        call.shell.positional = call.shell.positional[int(count) :] if known else None
    return NOTHING


def shopt(call: ProgramCall) -> Field:
    """Note that patterns such as ``!(a)`` are on."""
    texts = [arg.literal for arg in call.args]
    if "-s" in texts and "extglob" in texts:
        call.shell.assign("extglob", Variable(literal("on")))
    return NOTHING


def evaluate(call: ProgramCall) -> Field:
    """Run the words, joined, as text of this shell."""
    args = call.args[1:] if call.args and call.args[0].literal == "--" else call.args
    text = joined_words(args)
    return call.recorder.run_text(call.shell, text, "eval", call.stdin) if text.pieces else NOTHING


def source(call: ProgramCall) -> Field:
    """Run a file as text of this shell; a secret one is read."""
    if not call.args:
        return NOTHING
    file = call.args[0]
    inner = file.origins("process")
    if inner:
        text = inner[0].fields[0] if inner[0].fields else unknown()
        return call.recorder.run_text(call.shell, text, "source")
    if file.literal == "/dev/stdin" and call.stdin is not None:
        return call.recorder.run_text(call.shell, call.stdin, "source")
    if is_secret(resolve(file, call.shell.folder, tilde=call.shell.away)):
        call.recorder.read(call.shell, file)
    elif file.wholly_unknown:
        call.recorder.execute(call.shell, "computed", "source")
    else:
        call.recorder.run_file(call.shell, file, "source")
    return unknown()


def alias(call: ProgramCall) -> Field:
    """Make aliases; they are in force on later lines."""
    for arg in call.args:
        name, equals, _ = arg.head.partition("=")
        if equals:
            call.shell.aliases_here[name] = Alias(arg.behind(len(name) + 1), call.shell.line)
    return NOTHING


def trap(call: ProgramCall) -> Field:
    """Note a text that runs at the end."""
    options = parse_options(call.args, stop=True)
    if options.has("l", "p") or len(options.rest) < 2:
        return unknown()
    text = options.rest[0]
    if text.literal not in ("", "-"):
        call.recorder.traps.append((call.shell, text))
    return NOTHING


def printenv(call: ProgramCall) -> Field:
    """Show variables: all of them, or those that are named."""
    operands = parse_options(call.args).operands
    if not operands:
        call.emit("secret", env="*")
    for operand in operands:
        name = call.recorder.word(operand)
        if name is not None and is_secret_variable(name) and not call.shell.is_assigned(name):
            call.emit("secret", env=name)
    return unknown()


def nothing(_call: ProgramCall) -> Field:
    """Change nothing that matters."""
    return NOTHING


TOOLS: Final[dict[str, Handler]] = {
    **dict.fromkeys(("cd", "pushd", "chdir"), change_folder),
    **dict.fromkeys(("export", "declare", "typeset", "local", "readonly"), declare),
    **dict.fromkeys(("read", "mapfile", "readarray", "getopts"), read),
    **dict.fromkeys(("source", "."), source),
    **dict.fromkeys(("unalias", "enable", "suspend", "logout", "history"), nothing),
    "popd": popd,
    "unset": unset,
    "set": set_options,
    "shift": shift,
    "shopt": shopt,
    "eval": evaluate,
    "alias": alias,
    "trap": trap,
    "printenv": printenv,
}
