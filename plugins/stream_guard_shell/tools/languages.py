"""Shells and languages: texts and files that they are given to run."""

from __future__ import annotations

import base64
import re
from typing import Final

from stream_guard_shell.code.python import read_python
from stream_guard_shell.code.scripts import read_script
from stream_guard_shell.expansion import NOTHING, Field, joined_words, literal, unknown
from stream_guard_shell.shell.call import Handler, ProgramCall, parse_options, word_list
from stream_guard_shell.shell.state import Shell
from stream_guard_shell.tools.databases import destroyed_by_script

_SHELLS: Final = ("sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "rbash", "mksh")
_POWERSHELL_LOOKS: Final = ("-version", "-v", "-help", "-h", "-?")
_SHELL_VALUED: Final = word_list("o O rcfile init-file")
_PYTHON: Final = re.compile(r"(?:python|pypy)[0-9.]*")
_VALUED: Final = {
    "node": "e r p C eval print require import env-file loader conditions",
    "perl": "e E I M m",
    "ruby": "e r I E",
    "php": "r d c z B E R F",
}
_CODE: Final = {"node": ("e", "p", "eval", "print"), "perl": ("e", "E"), "ruby": ("e",), "php": ("r",)}


def shell(call: ProgramCall) -> Field:
    """Run a text, a file or the input as a shell."""
    args = list(call.args)
    names: list[str] = []
    while args and args[0].head.startswith(("-", "+")) and args[0].literal not in ("-", "--"):
        flag = args.pop(0)
        names.extend(flag.text[1:] if not flag.text.startswith("--") else [flag.text[2:]])
        if names and names[-1] in _SHELL_VALUED and args:
            args.pop(0)
    if args and args[0].literal in ("-", "--"):
        args.pop(0)
    if "n" in names:
        return unknown()
    inner = call.shell.subshell(process=True)
    if "c" in names and args:
        inner.name = args[1] if len(args) > 1 else literal(call.name)
        inner.positional = tuple(args[2:])
        return call.recorder.run_text(inner, args[0], call.name, call.stdin)
    if args and "s" not in names and args[0].literal != "/dev/stdin":
        return _run_file(call, inner, args)
    if call.stdin is None:
        return NOTHING
    inner.positional = tuple(args)
    return call.recorder.run_text(inner, call.stdin, call.name)


def powershell(call: ProgramCall) -> Field:
    """Run a text, a file or the input as PowerShell, whose options may be cut short; it is read as bash would."""
    args = list(call.args)
    inner = call.shell.subshell(process=True)
    while args and args[0].head.startswith("-") and len(args[0].head) > 1:
        flag = args.pop(0).text.lower()
        if flag in _POWERSHELL_LOOKS:
            return unknown()
        if "-command".startswith(flag):
            return call.recorder.run_text(inner, joined_words(args), call.name, call.stdin)
        if flag in ("-ec", "-enc") or (len(flag) > 1 and "-encodedcommand".startswith(flag)):
            return _run_encoded(call, inner, args[0] if args else unknown())
        if "-file".startswith(flag) and args:
            return _run_file(call, inner, args)
        if args and not flag.startswith(("-no", "-mta", "-sta", "-login", "-interactive")):
            args.pop(0)  # -ExecutionPolicy Bypass and its like
    if args:
        return _run_file(call, inner, args)
    return call.recorder.run_text(inner, call.stdin, call.name) if call.stdin is not None else NOTHING


def _run_encoded(call: ProgramCall, inner: Shell, text: Field) -> Field:
    call.emit("exec", source="decoded", interpreter=call.name)
    try:
        plain = base64.b64decode(text.literal or "", validate=True).decode("utf-16-le")
    except ValueError:
        plain = ""
    if not plain:
        call.recorder.opaque("text")
        return unknown()
    return call.recorder.run_text(inner, literal(plain.replace("\0", "")), call.name, call.stdin)


def _run_file(call: ProgramCall, inner: Shell, args: list[Field]) -> Field:
    file = args[0]
    process = file.origins("process")
    if process:
        inner.positional = tuple(args[1:])
        text = process[0].fields[0] if process[0].fields else unknown()
        return call.recorder.run_text(inner, text, call.name)
    if file.wholly_unknown:
        call.recorder.execute(call.shell, "computed", call.name)
    else:
        call.recorder.run_file(call.shell, file, call.name)
    return unknown()


def python(call: ProgramCall) -> Field:
    """Run code, a module, a file or the input as Python."""
    args = list(call.args)
    while args and args[0].head.startswith("-") and args[0].literal != "-":
        flag = args.pop(0)
        letters = flag.text[1:]
        if letters in ("V", "VV", "-version", "h", "-help"):
            return unknown()
        if letters.startswith("-"):
            continue
        found = re.search(r"[cmWX]", letters)
        if found is None:
            continue
        rest = flag.behind(1 + found.end())
        value = rest if rest.text or not rest.known else args.pop(0) if args else NOTHING
        if found.group() == "c":
            return _code(call, value)
        if found.group() == "m":
            return _module(call, value, args)
    if args and args[0].literal not in ("-", "/dev/stdin"):
        return _python_file(call, args)
    return _code(call, call.stdin) if call.stdin is not None else NOTHING


def _python_file(call: ProgramCall, args: list[Field]) -> Field:
    file = args[0]
    process = file.origins("process")
    if process:
        return _code(call, process[0].fields[0] if process[0].fields else unknown())
    if file.wholly_unknown:
        call.recorder.execute(call.shell, "computed", call.name)
    else:
        call.recorder.run_file(call.shell, file, call.name)
        destroyed_by_script(call, file, args[1:])
    return unknown()


def _module(call: ProgramCall, module: Field, args: list[Field]) -> Field:
    name = module.literal
    if name is None:
        call.recorder.opaque("command")
        return unknown()
    if name == "http.server":
        call.emit("net", direction="listen", tool="python")
        return unknown()
    if name == "json.tool":
        for file in parse_options(args, ("indent",)).operands[:1]:
            call.recorder.read(call.shell, file)
        return unknown()
    if call.recorder.knows(name) and not _PYTHON.fullmatch(name):
        return call.recorder.run_words(call.shell, [module, *args], call.stdin)
    call.recorder.run(call.shell, name)
    return unknown()


def _code(call: ProgramCall, code: Field) -> Field:
    plain = call.recorder.flattened(code)
    if plain.wholly_unknown:
        call.recorder.execute_unknown(call.shell, plain, call.name)
    elif plain.pieces:
        if plain.known and plain.origins("decoded"):
            call.emit("exec", source="decoded", interpreter=call.name)
        read_python(call, plain)
    return unknown()


def script(call: ProgramCall) -> Field:
    """Run code, a file or the input as another language: node, perl, ruby, php."""
    name = "node" if call.name == "nodejs" else call.name
    options = parse_options(call.args, _VALUED[name].split(), stop=True)
    texts = options.values(*_CODE[name])
    operands = options.rest
    if name == "perl" and any(letter == "i" for letter, _ in options.given):
        for operand in operands:
            call.recorder.write(call.shell, operand)
    if texts:
        for text in texts:
            _script_code(call, text)
    elif operands and operands[0].literal != "-":
        _script_file(call, operands)
    elif call.stdin is not None and call.stdin.pieces:
        _script_code(call, call.stdin)
    return unknown()


def _script_code(call: ProgramCall, text: Field) -> None:
    plain = call.recorder.flattened(text)
    if plain.wholly_unknown:
        call.recorder.execute_unknown(call.shell, plain, call.name)
    else:
        read_script(call, plain)


def _script_file(call: ProgramCall, operands: list[Field]) -> None:
    if operands[0].wholly_unknown:
        call.recorder.execute(call.shell, "computed", call.name)
    else:
        call.recorder.run_file(call.shell, operands[0], call.name)
        destroyed_by_script(call, operands[0], operands[1:])


def is_python(name: str) -> bool:
    """Whether a program is a Python."""
    return _PYTHON.fullmatch(name) is not None


TOOLS: Final[dict[str, Handler]] = {
    **dict.fromkeys(_SHELLS, shell),
    **dict.fromkeys(("pwsh", "powershell"), powershell),
    **dict.fromkeys(("node", "nodejs", "perl", "ruby", "php"), script),
}
