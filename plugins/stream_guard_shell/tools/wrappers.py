"""Programs that run the program behind their options, and texts that they give to a shell."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from stream_guard_shell.effects import RAISING
from stream_guard_shell.expansion import NOTHING, Field, joined_words, unknown
from stream_guard_shell.shell import Handler, ProgramCall, Shell, Variable, parse_options
from stream_guard_shell.tools.install import installs_from_registry

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")


class _Wrapper(NamedTuple):
    """Options of a wrapper that take a value, how many operands come before the program, and whether it is sudo."""

    valued: str = ""
    operands: int = 0
    assignments: bool = False


_WRAPPERS: Final = {
    "sudo": _Wrapper("u g h p C D R T U t r user group host prompt chdir chroot close-from type role", 0, True),
    "doas": _Wrapper("u C", 0, True),
    "pkexec": _Wrapper("user"),
    "nohup": _Wrapper(),
    "setsid": _Wrapper(),
    "nice": _Wrapper("n adjustment"),
    "ionice": _Wrapper("c n p P u class classdata pid"),
    "timeout": _Wrapper("s k signal kill-after", 1),
    "time": _Wrapper("f o format output"),
    "stdbuf": _Wrapper("i o e input output error"),
    "strace": _Wrapper("o e p s u a E I O S P X trace output"),
    "builtin": _Wrapper(),
    "exec": _Wrapper("a"),
    "busybox": _Wrapper(),
    "toybox": _Wrapper(),
}


def wrapped(call: ProgramCall) -> Field:
    """Look through a wrapper."""
    spec = _WRAPPERS[call.name]
    options = parse_options(call.args, spec.valued.split(), stop=True)
    if call.name == "setsid":
        call.emit("background", via="setsid")
    if call.name in RAISING:
        user = options.value("u", "user")
        name = call.recorder.word(user) if user is not None else None
        call.emit("privilege", via=call.name, user=None if name == "root" else name)
    target = options.value("o", "output")
    if call.name in ("strace", "time") and target is not None:
        call.recorder.write(call.shell, target)
    words = options.rest[spec.operands :]
    shell = call.shell
    if spec.assignments:
        words, shell = assigned(call, words)
        folder = options.value("D", "chdir")
        shell = inside(shell, folder) if folder is not None else shell
    if call.name in RAISING:
        call.recorder.raised_for.add("packages" if installs_from_registry(words) else "more")
    if not words and call.name == "sudo" and options.has("s", "i", "shell", "login") and call.stdin is not None:
        return call.recorder.run_text(shell.subshell(process=True), call.stdin, "sh")
    return call.recorder.run_words(shell, words, call.stdin) if words else unknown()


def assigned(call: ProgramCall, words: list[Field]) -> tuple[list[Field], Shell]:
    """Return the words behind assignments, and a shell that has them exported."""
    shell = call.shell
    while words:
        found = _ASSIGNMENT.match(words[0].head)
        if not found:
            break
        if shell is call.shell:
            shell = shell.subshell()
        shell.assign(found.group(1), Variable(words[0].behind(found.end()), None, exported=True))
        words = words[1:]
    return words, shell


def inside(shell: Shell, folder: Field) -> Shell:
    """Return a shell in another folder."""
    inner = shell.subshell()
    inner.go(folder)
    return inner


def env(call: ProgramCall) -> Field:
    """Run a program with other variables; alone it shows all of them."""
    options = parse_options(call.args, ("u", "C", "S", "unset", "chdir", "split-string", "argv0", "a"), stop=True)
    words, shell = assigned(call, options.rest)
    folder = options.value("C", "chdir")
    shell = inside(shell, folder) if folder is not None else shell
    text = options.value("S", "split-string")
    if text is not None:
        return call.recorder.run_text(shell.subshell(), joined_words([text, *words]), "env")
    if words:
        return call.recorder.run_words(shell, words, call.stdin)
    if not options.has("i", "ignore-environment"):
        call.emit("secret", env="*")
    return unknown()


def su(call: ProgramCall) -> Field:
    """Become another user, and run a text."""
    options = parse_options(call.args, ("c", "s", "g", "G", "w", "command", "session-command", "shell", "group"))
    operands = [one for one in options.operands if one.literal != "-"]
    user = call.recorder.word(operands[0]) if operands else None
    call.emit("privilege", via="su", user=None if user == "root" else user)
    text = options.value("c", "command", "session-command")
    if text is not None:
        return call.recorder.run_text(call.shell.subshell(process=True), text, "sh", call.stdin)
    if call.stdin is not None and call.stdin.pieces:
        return call.recorder.run_text(call.shell.subshell(process=True), call.stdin, "sh")
    return unknown()


def command(call: ProgramCall) -> Field:
    """Pass by functions; -v only asks."""
    options = parse_options(call.args, stop=True)
    if options.has("v", "V") or not options.rest:
        return unknown()
    return call.recorder.run_words(call.shell, options.rest, call.stdin)


def flock(call: ProgramCall) -> Field:
    """Run a program or a text while a file is locked."""
    options = parse_options(call.args, ("w", "E", "timeout", "conflict-exit-code", "wait"), stop=True)
    words = options.rest[1:]
    if words and words[0].literal in ("-c", "--command"):
        return call.recorder.run_text(call.shell.subshell(process=True), words[1] if len(words) > 1 else NOTHING, "sh")
    return call.recorder.run_words(call.shell, words, call.stdin) if words else unknown()


def watch(call: ProgramCall) -> Field:
    """Run words as a text, again and again."""
    options = parse_options(call.args, ("n", "interval", "q", "equexit"), stop=True)
    return _joined_text(call, options.rest) if options.rest else unknown()


def _joined_text(call: ProgramCall, words: list[Field]) -> Field:
    return call.recorder.run_text(call.shell.subshell(process=True), joined_words(words), "sh")


def script(call: ProgramCall) -> Field:
    """Record a session into a file; -c runs a text."""
    options = parse_options(call.args, ("c", "command", "o", "t", "T", "O", "I", "B", "m", "E"))
    for file in options.operands[:1]:
        call.recorder.write(call.shell, file)
    text = options.value("c", "command")
    if text is not None:
        return call.recorder.run_text(call.shell.subshell(process=True), text, "sh", call.stdin)
    return unknown()


def second_verb(call: ProgramCall) -> Field:
    """Look through ``poetry run`` and its like; other subcommands are not known."""
    verb = {"poetry": "run", "pipenv": "run", "bundle": "exec"}[call.name]
    first = call.args[0].literal if call.args else None
    if first == verb and len(call.args) > 1:
        return call.recorder.run_words(call.shell, call.args[1:], call.stdin)
    if first not in (None, "show", "list", "check", "info", "version", "help", "search"):
        call.run(first)
    return unknown()


def terminal(call: ProgramCall) -> Field:
    """Run a text in a terminal of its own that outlives the command: tmux, screen."""
    if call.name == "screen":
        options = parse_options(call.args, ("S", "c", "s", "t", "T", "h", "p", "X", "Q", "r", "x"), stop=True)
        detached = options.has("d") and options.has("m")
        words = options.rest
    else:
        first = call.args[0].literal if call.args else None
        if first not in ("new", "new-session"):
            if first not in (None, "ls", "list-sessions", "capture-pane", "attach", "a", "has-session", "list-panes"):
                call.run(first)
            return unknown()
        options = parse_options(call.args[1:], ("s", "n", "c", "e", "x", "y", "t", "F", "f"), stop=True)
        detached, words = options.has("d"), options.rest
    if detached:
        call.emit("background", via=call.name)
    if call.name == "screen" and words:
        return call.recorder.run_words(call.shell.subshell(process=True), words)
    return _joined_text(call, words) if words else unknown()


TOOLS: Final[dict[str, Handler]] = {
    **dict.fromkeys(_WRAPPERS, wrapped),
    **dict.fromkeys(("poetry", "pipenv", "bundle"), second_verb),
    **dict.fromkeys(("tmux", "screen"), terminal),
    "env": env,
    "su": su,
    "command": command,
    "flock": flock,
    "watch": watch,
    "script": script,
}
