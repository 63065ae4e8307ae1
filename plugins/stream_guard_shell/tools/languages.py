"""Shells and languages: texts and files that they are given to run, and calls with literals in code of some of them."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Final

from stream_guard_shell.expansion import NOTHING, Field, flat, joined_words, literal, unknown
from stream_guard_shell.python_code import read_python
from stream_guard_shell.secrets import is_secret_variable
from stream_guard_shell.shell import Handler, ProgramCall, Shell, host_of, parse_options, word_list
from stream_guard_shell.tools.databases import destroyed_by_script

# Every repeat is bounded or ends with its line: code of an agent must not take more than linear time.
_TEXT: Final = r"""(?:'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.){0,500})`)"""
_CALL: Final = re.compile(
    r"(?<![\w$])([A-Za-z_$][\w$]{0,60})(?:\s{0,8}\(\s{0,8}|\s{1,8})" + _TEXT + r"(?=([^\n;]{0,200}))"
)
_ENV: Final = re.compile(
    r"process\.env(?:\.(\w+)|\[['\"](\w+)['\"]\])?|\$ENV\{['\"]?(\w+)['\"]?\}|ENV\[['\"](\w+)['\"]\]"
)
_BACKQUOTES: Final = re.compile(r"`([^`]{0,500})`|\bqx\{([^}]{0,500})\}|%x\(([^)]{0,500})\)")
_EVALUATES: Final = re.compile(r"(?<![\w.])eval\s{0,8}\(\s{0,8}(?!['\"`\s])")
_FURTHER: Final = re.compile(r"^\s*,\s*" + _TEXT)


def read_script(call: ProgramCall, code: Field) -> None:
    """Record the calls with literals in a piece of code; it stays opaque as a whole."""
    recorder = call.recorder
    recorder.in_code += 1
    recorder.opaque("code")
    text = code.with_holes
    recorder.spend(len(text) // 4)
    for found in _CALL.finditer(text):
        value = next((one for one in found.groups()[1:4] if one is not None), "")
        action = _ACTIONS.get(found.group(1))
        if action is not None and "\0" not in value:
            action(call, re.sub(r"\\(.)", r"\1", value), found.group(5))
    for found in _ENV.finditer(text):
        name = next((one for one in found.groups() if one), "*")
        if name == "*" or is_secret_variable(name):
            call.emit("secret", env=name)
    if call.name in ("perl", "ruby", "php"):
        for found in _BACKQUOTES.finditer(text):
            _run(call, next((one for one in found.groups() if one), ""), "")
    if _EVALUATES.search(text):
        recorder.execute(call.shell, "computed", call.name)
    recorder.in_code -= 1


def _delete(call: ProgramCall, path: str, rest: str) -> None:
    recursive = re.search(r"recursive\s*:\s*true", rest) is not None
    call.recorder.delete(call.shell, literal(path), recursive=recursive)


def _delete_tree(call: ProgramCall, path: str, _rest: str) -> None:
    call.recorder.delete(call.shell, literal(path), recursive=True)


def _read(call: ProgramCall, path: str, _rest: str) -> None:
    call.recorder.read(call.shell, literal(path))


def _write(call: ProgramCall, path: str, _rest: str) -> None:
    call.recorder.write(call.shell, literal(path))


def _append(call: ProgramCall, path: str, _rest: str) -> None:
    call.recorder.write(call.shell, literal(path), append=True)


def _run(call: ProgramCall, text: str, rest: str) -> None:
    words = [text]
    while True:
        found = _FURTHER.match(rest)
        if not found or call.name == "node":
            break
        words.append(next((one for one in found.groups() if one is not None), ""))
        rest = rest[found.end() :]
    if len(words) > 1:
        call.recorder.run_words(call.shell.subshell(process=True), [literal(word) for word in words])
    elif text:
        call.recorder.run_text(call.shell.subshell(process=True), literal(text), "sh")


def _fetch(call: ProgramCall, url: str, rest: str) -> None:
    if "://" not in url:
        return
    sends = re.search(r"body\s*:|method\s*:\s*['\"](?!GET|HEAD)", rest) is not None
    call.emit("net", host=host_of(url.partition("://")[2]), direction="up" if sends else "down", tool="node")


_ACTIONS: Final[dict[str, Callable[[ProgramCall, str, str], None]]] = {
    **dict.fromkeys(("rmSync", "unlinkSync", "rmdirSync", "unlink", "delete", "rm_f", "rmdir"), _delete),
    **dict.fromkeys(("rm_rf", "rm_r", "remove_tree", "rmtree", "remove_dir"), _delete_tree),
    **dict.fromkeys(("readFileSync", "file_get_contents"), _read),
    **dict.fromkeys(("writeFileSync", "file_put_contents"), _write),
    "appendFileSync": _append,
    **dict.fromkeys(("execSync", "system", "shell_exec", "passthru", "exec", "popen"), _run),
    "fetch": _fetch,
}

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
    _script_file(call, args)
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
    plain = flat(code)
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
    plain = flat(text)
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
