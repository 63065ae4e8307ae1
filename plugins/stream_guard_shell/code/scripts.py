"""Code of node, perl, ruby and php: calls with literals become effects, and all of it stays opaque."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from stream_guard_shell.expansion import Field, literal
from stream_guard_shell.secrets import is_secret_variable
from stream_guard_shell.shell.call import ProgramCall, host_of

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
