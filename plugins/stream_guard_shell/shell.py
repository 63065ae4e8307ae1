"""The state of a shell, what is recorded of it, and a call of a program in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from stream_guard_shell.effects import CommandReading, ShellEffect, make_effect
from stream_guard_shell.expansion import (
    Field,
    FilePlace,
    Folder,
    glob_folder,
    is_below,
    literal,
    nearest,
    normal,
    resolve,
)
from stream_guard_shell.secrets import is_secret
from stream_guard_shell.syntax.nodes import Command


class Variable(NamedTuple):
    """A variable: a value, or the items of an array; neither where it is not known."""

    value: Field | None = None
    items: tuple[Field, ...] | None = None
    exported: bool = False
    choices: tuple[Variable, ...] = ()  # where branches gave it several values


UNKNOWN: Final = Variable()
_MOST_CHOICES: Final = 8


class Alias(NamedTuple):
    """An alias, and the number of the line that made it: it is not in force before the next."""

    text: Field
    line: int


class Shell:
    """One shell. A subshell has the outer one as ``parent``; another process sees only what was exported."""

    def __init__(self, folder: Folder, home: Field, parent: Shell | None = None) -> None:
        self.folder = folder
        self.previous: Folder | None = None
        self.home = home
        self.parent = parent
        self.process = False
        self.level = 0
        self.on = ""
        self.mounts: tuple[tuple[str, str], ...] = ()
        self.positional: tuple[Field, ...] | None = None
        self.name: Field | None = None  # $0
        self.active: tuple[str, ...] = ()  # functions and aliases that are running
        self.export_all = False
        self.line = 0
        self.descriptors: dict[int, Field] = {}  # what can be read from them
        self.stack: tuple[Folder, ...] = ()
        self.traps: list[Field] = []
        self.variables_here: dict[str, Variable] = {}
        self.functions_here: dict[str, Command | None] = {}  # None: removed
        self.exported_here: set[str] = set()
        self.aliases_here: dict[str, Alias] = {}

    @property
    def away(self) -> bool:
        """Whether it runs elsewhere: nothing is known there."""
        return bool(self.on)

    def subshell(self, *, process: bool = False) -> Shell:
        """Return a shell of its own that begins with what this one knows."""
        inner = Shell(self.folder, self.home, self)
        inner.process = process
        inner.previous, inner.level = self.previous, self.level
        inner.on, inner.mounts = self.on, self.mounts
        inner.line, inner.descriptors = self.line, dict(self.descriptors)
        inner.active = self.active
        if not process:
            inner.positional, inner.name, inner.stack = self.positional, self.name, self.stack
            inner.export_all = self.export_all
        return inner

    def elsewhere(self, on: str, mounts: tuple[tuple[str, str], ...] = (), folder: str = "") -> Shell:
        """Return a shell on another machine, in which nothing is known."""
        inner = Shell(Folder(folder), literal("~"))
        inner.level, inner.on, inner.mounts, inner.active = self.level, on, mounts, self.active
        return inner

    def go(self, folder: Field) -> FilePlace:
        """Go to the folder that a field names, and return its place."""
        place = resolve(folder, self.folder, tilde=self.away)
        self.folder = Folder(place.text if place.kind in ("path", "glob") else None, place.kind == "glob")
        return place

    def variable(self, name: str) -> Variable | None:
        """Return a variable that the command assigned; None for all others."""
        shell: Shell | None = self
        outside = False
        while shell is not None:
            found = shell.variables_here.get(name)
            if found is not None:
                return found if found.exported or not outside else None
            outside = outside or shell.process
            shell = shell.parent
        return None

    def is_assigned(self, name: str) -> bool:
        """Whether the command gave the variable a value, known or not."""
        return self.variable(name) is not None

    def assign(self, name: str, variable: Variable) -> None:
        """Give a variable a value; once exported it stays so."""
        before = self.variable(name)
        exported = variable.exported or self.export_all or (before is not None and before.exported)
        self.variables_here[name] = variable._replace(exported=exported)

    def merge(self, branches: list[Shell], *, complete: bool) -> None:
        """Take over what branches did of which one runs; ``complete`` says that one of them must."""
        names = dict.fromkeys(name for branch in branches for name in branch.variables_here)
        for name in names:
            before = self.variable(name)
            values = [branch.variables_here.get(name, before) for branch in branches]
            if not complete:
                values.append(before)
            self.variables_here[name] = _either(values)
        for branch in branches:
            self.functions_here.update(branch.functions_here)
            self.aliases_here.update(branch.aliases_here)
            if branch.folder != self.folder:
                self.previous, self.folder = branch.previous, branch.folder

    def export(self, name: str) -> None:
        """Show a variable to other processes."""
        found = self.variable(name)
        if found is not None:
            self.variables_here[name] = found._replace(exported=True)

    def function(self, name: str) -> Command | None:
        """Return the function of this name."""
        shell: Shell | None = self
        outside = False
        while shell is not None:
            if name in shell.functions_here:
                return shell.functions_here[name] if not outside or name in shell.exported_here else None
            outside = outside or shell.process
            shell = shell.parent
        return None

    def export_function(self, name: str) -> None:
        """Show a function to other shells."""
        self.functions_here[name] = self.function(name)
        self.exported_here.add(name)

    def alias(self, name: str) -> Alias | None:
        """Return the alias of this name, if it is in force on this line."""
        shell: Shell | None = self
        while shell is not None:
            found = shell.aliases_here.get(name)
            if found is not None:
                return found if found.line < self.line and name not in self.active else None
            shell = None if shell.process else shell.parent
        return None


def _either(values: list[Variable | None]) -> Variable:
    """Return a variable that has one of these values."""
    distinct: dict[tuple[object, ...], Variable] = {}
    for value in values:
        one = value or UNKNOWN
        for choice in one.choices or (one,):
            pieces = choice.value.pieces if choice.value is not None else None
            items = tuple(item.pieces for item in choice.items) if choice.items is not None else None
            distinct[pieces, items] = choice
    choices = tuple(distinct.values())
    if len(choices) == 1:
        return choices[0]
    exported = any(choice.exported for choice in choices)
    return Variable(exported=exported, choices=choices if len(choices) <= _MOST_CHOICES else ())


_NAMES: Final = {
    **dict.fromkeys(
        (".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".zprofile", "config.fish", "rc.local"), "rc"
    ),
    "authorized_keys": "ssh_key",
    ".mcp.json": "agent",
}
_PREFIXES: Final = (("/etc/profile", "rc"), ("/etc/cron", "cron"), ("/var/spool/cron", "cron"))
_FOLDERS: Final = (
    (("systemd", "system"), "systemd"),
    (("systemd", "user"), "systemd"),
    (("LaunchAgents",), "launchd"),
    (("autostart",), "autostart"),
    ((".git", "hooks"), "hook"),
)
_ENDINGS: Final = frozenset(
    (
        (".cursor", "mcp.json"),
        (".codex", "config.toml"),
        (".gemini", "settings.json"),
        (".vscode", "settings.json"),
        (".vscode", "tasks.json"),
    )
)


def persistence_of(place: FilePlace, *, into: bool = False) -> str:
    """Return how what is written to a place comes to run later; empty where it does not.

    ``into`` says that the place may be a folder which gets the file: then a folder of such files counts too.
    """
    if place.kind not in ("path", "glob", "prefix"):
        return ""
    names = place.text.split("/")[-16:]
    name = names[-1]
    if name in _NAMES:
        return _NAMES[name]
    if name.startswith("settings") and name.endswith(".json") and names[-2:-1] == [".claude"]:
        return "agent"
    if tuple(names[-2:]) in _ENDINGS:
        return "agent"
    return _by_folder(place.text, names, into=into)


def _by_folder(text: str, names: list[str], *, into: bool) -> str:
    found = next((via for prefix, via in _PREFIXES if text.startswith(prefix)), "")
    if found:
        return found
    for folder, via in _FOLDERS:
        size = len(folder)
        last = len(names) - size + (1 if into else 0)
        if any(tuple(names[at : at + size]) == folder for at in range(last)):
            return via
    return ""


def raises_privilege(place: FilePlace) -> bool:
    """Whether what is written there says who may become root."""
    return place.kind in ("path", "glob", "prefix") and place.text.startswith("/etc/sudoers")


_NO_FILES = ("/dev/null", "/dev/tty", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/full")
_NO_FILES_IN = ("/dev/std", "/dev/fd/", "/dev/pts/", "/dev/tty", "/proc/self/fd/")
_NO_DEVICES_IN = ("/dev/shm/", "/dev/tcp/", "/dev/udp/", "/dev/mqueue", *_NO_FILES_IN)  # noqa: S108


class OverLimitError(Exception):
    """More work than a text of this length may take."""


class Recorder:
    """Records effects. Equal effects are one."""

    def __init__(self, budget: int) -> None:
        self.effects: dict[ShellEffect, None] = {}
        self.reasons: set[str] = set()
        self.in_code = 0
        self.in_test = 0
        self.fetched: dict[str, str] = {}  # paths that came from the network, with their host
        self.traps: list[tuple[Shell, Field]] = []  # texts that run at the end
        self.made_here: dict[str, None] = {}
        self.raised_for: set[str] = set()
        self.saved: dict[str, bool] = {}  # whether a mark of a repository holds from here on
        self.drops_older = False
        self._budget = budget

    def spend(self, amount: int = 1) -> None:
        """Count work; raise OverLimitError when there was too much of it."""
        self._budget -= amount
        if self._budget < 0:
            raise OverLimitError

    def opaque(self, reason: str) -> None:
        """Record why something could not be told; in code there is one reason only."""
        self.reasons.add("code" if self.in_code else reason)

    def reading(self) -> CommandReading:
        """Return what was recorded."""
        return CommandReading(
            tuple(self.effects),
            frozenset(self.reasons),
            tuple(self.made_here),
            tuple(self.fetched),
            frozenset(self.raised_for),
            tuple(mark for mark, holds in self.saved.items() if holds),
            tuple(mark for mark, holds in self.saved.items() if not holds),
            self.drops_older,
        )

    def emit(self, shell: Shell, kind: str, **fields: Any) -> None:
        """Record an effect of this shell."""
        self.spend()
        on = fields.pop("on", shell.on)
        self.effects[make_effect(kind, {**fields, "on": on})] = None

    def unknown(self, field: Field) -> None:
        """Record that something hangs on a field with unknown pieces."""
        for piece in field.pieces:
            if not piece.known:
                kind = piece.origin.kind if piece.origin else "other"
                if kind == "input":
                    self.opaque("input")
                elif kind != "text":
                    self.opaque("value")

    def word(self, field: Field) -> str | None:
        """Return the text of a field that an effect needs; None, recorded, where it is not known."""
        if field.known:
            return field.text
        self.unknown(field)
        return None

    def place(self, shell: Shell, field: Field) -> FilePlace:
        """Return the place that a field names."""
        place = resolve(field, shell.folder, tilde=shell.away)
        self.spend(len(place.text) // 64)
        if not field.known:
            self.unknown(field)
        elif not place.kind:
            self.opaque("value")
        return place

    def file(self, shell: Shell, field: Field) -> Field:
        """Return a file as it is named from here, for who runs it from elsewhere."""
        place = resolve(field, shell.folder, tilde=shell.away)
        return literal(place.text) if place.kind == "path" else field

    def located(self, shell: Shell, place: FilePlace) -> dict[str, Any]:
        """Return a place as fields; what is mounted into a container is here, without ``on``."""
        for here, there in shell.mounts:
            if place.text == there or place.text.startswith(there.rstrip("/") + "/"):
                inner = normal(f"{here}/{place.text[len(there) :]}")
                return {place.kind: inner, "on": ""}
        return {**place.fields, "on": shell.on}

    def read(self, shell: Shell, field: Field, *, recursive: bool = False) -> None:
        """Record that the content of a file is read."""
        if self._is_no_file(field):
            return
        place = self.place(shell, field)
        if is_secret(place):
            self.emit(shell, "secret", **self.located(shell, place))
        else:
            self.emit(shell, "read", recursive=recursive, **self.located(shell, place))

    def write(
        self,
        shell: Shell,
        field: Field,
        *,
        append: bool = False,
        recursive: bool = False,
        fetched: str | None = None,
        made: bool = False,
        into: bool = False,
    ) -> None:
        """Record that a file is written.

        ``fetched`` is the host that its content came from; ``made`` says that this command makes it anew; ``into``
        that it may be a folder which gets the file.
        """
        if self._is_no_file(field):
            return
        place = self.place(shell, field)
        came = fetched is not None
        where = self.located(shell, place)
        self.emit(shell, "write", append=append, recursive=recursive, fetched=came, **where)
        if fetched is not None and place.kind == "path" and not shell.on:
            self.fetched[place.text] = fetched
        if made:
            self.made(shell, place)
        self.stays(shell, place, into=into)

    def stays(self, shell: Shell, place: FilePlace, *, into: bool = False) -> None:
        """Record what a new file at a place means beyond itself: that it runs later, that it gives rights."""
        via = persistence_of(place, into=into)
        if via:
            self.emit(shell, "persistence", via=via, **self.located(shell, place))
        if raises_privilege(place):
            self.emit(shell, "privilege", via="sudoers")

    def made(self, shell: Shell, place: FilePlace) -> None:
        """Remember what this command made."""
        if place.kind in ("path", "glob") and not shell.on:
            self.made_here[place.text] = None

    def is_own(self, place: FilePlace) -> bool:
        """Whether this command made a place, or the folder of a glob."""
        if place.kind == "path":
            return is_below(place.text, self.made_here)
        return place.kind == "glob" and (
            is_below(place.text, self.made_here) or is_below(glob_folder(place.text), self.made_here)
        )

    def delete(self, shell: Shell, field: Field, *, recursive: bool = False) -> None:
        """Record that something is deleted."""
        place = self.place(shell, field)
        own = not shell.on and self.is_own(place)
        self.emit(shell, "delete", recursive=recursive, own=own, **self.located(shell, place))

    def move(self, shell: Shell, source: Field, target: Field) -> None:
        """Record that something gets another name."""
        to = self.place(shell, target)
        place = self.place(shell, source)
        text = to.text if to.kind in ("path", "glob") else ""
        self.emit(shell, "move", to=text, **self.located(shell, place))
        self.carry(place, to)
        self.stays(shell, to, into=True)

    def carry(self, place: FilePlace, to: FilePlace) -> None:
        """Remember that what was fetched is now elsewhere too."""
        host = self.host_of(place)
        if host is not None and to.kind == "path":
            self.fetched[to.text] = host

    def host_of(self, place: FilePlace) -> str | None:
        """Return the host that a place, or a folder above it, was fetched from; None where it was not."""
        found = nearest(place.text, self.fetched) if place.kind == "path" else None
        return None if found is None else self.fetched[found]

    def device(self, shell: Shell, field: Field, tool: str) -> bool:
        """Whether a field names a device that a tool overwrites; if so, that is recorded."""
        text = field.head
        if not text.startswith("/dev/") or text in _NO_FILES or text.startswith(_NO_DEVICES_IN):
            return False
        self.emit(shell, "disk", tool=tool, device=self.word(field))
        return True

    def _is_no_file(self, field: Field) -> bool:
        text = field.head
        if text.startswith("/dev/") and (text in _NO_FILES or text.startswith(_NO_FILES_IN)):
            return True
        return text == "-" or bool(field.origins("process"))

    def execute(self, shell: Shell, source: str, interpreter: str, *, host: str = "", path: str = "") -> None:
        """Record that text runs which the command does not contain."""
        self.emit(shell, "exec", source=source, interpreter=interpreter, host=host, path=path)
        self.opaque("text")

    def run(self, shell: Shell, program: str | None, task: str | None = None) -> None:
        """Record that a program runs of which nothing is known."""
        self.emit(shell, "run", program=program, task=task)
        self.opaque("program")

    def run_file(self, shell: Shell, field: Field, interpreter: str = "") -> None:
        """Record that a file is run: by an interpreter, or as it is."""
        if field.origins("process"):
            return
        place = self.place(shell, field)
        host = None if shell.on else self.host_of(place)
        if host is not None:
            self.execute(shell, "net", interpreter, host=host, path=place.text)
        elif place.kind:
            self.run(shell, place.text if place.kind == "path" else None)
        else:
            self.run(shell, None)

    def execute_unknown(self, shell: Shell, text: Field, interpreter: str) -> None:
        """Record that unknown text runs: where from, or which file it is."""
        for piece in text.pieces:
            origin = piece.origin
            if piece.known:
                continue
            if origin is not None and origin.kind == "file":
                for file in origin.fields:
                    self.run_file(shell, file, interpreter)
            elif origin is not None and origin.kind == "net":
                self.execute(shell, "net", interpreter, host=origin.host)
            elif origin is not None and origin.kind == "decoded":
                self.execute(shell, "decoded", interpreter)
            else:
                self.execute(shell, "computed", interpreter)

    def knows(self, name: str) -> bool:
        """Whether a program of this name is in the tables."""
        raise NotImplementedError

    def run_text(self, shell: Shell, text: Field, interpreter: str, stdin: Field | None = None) -> Field:
        """Read text as this shell would run it; return what it writes."""
        raise NotImplementedError

    def run_words(self, shell: Shell, words: list[Field], stdin: Field | None = None) -> Field:
        """Read words as a program and its arguments; return what it writes."""
        raise NotImplementedError


class ProgramCall(NamedTuple):
    """A program that runs in a shell."""

    name: str
    args: list[Field]
    shell: Shell
    recorder: Recorder
    program: str = ""  # the path that it was called by, where there is one
    stdin: Field | None = None  # what is on its input, where that is a pipe or a file

    @property
    def carried(self) -> bool:
        """Whether an argument holds a command's output or a secret variable."""
        return any(arg.carried for arg in self.args)

    def emit(self, kind: str, **fields: object) -> None:
        """Record an effect."""
        self.recorder.emit(self.shell, kind, **fields)

    def run(self, task: str | None = None) -> None:
        """Record that the program runs and nothing is known of what it does."""
        self.recorder.run(self.shell, self.program or self.name, task)


Handler: TypeAlias = Callable[[ProgramCall], Field]
"""Says what a call does, and returns what it writes to its output."""


class Options:
    """Options and operands of a call."""

    def __init__(self) -> None:
        self.given: list[tuple[str, Field | None]] = []
        self.operands: list[Field] = []
        self.rest: list[Field] = []  # from the first operand on, where options end there

    def has(self, *names: str) -> bool:
        """Whether one of these options was given; a long one may be cut short."""
        return any(name in names or _is_short_for(name, names) for name, _ in self.given)

    def value(self, *names: str) -> Field | None:
        """Return the last value of an option."""
        return next((value for name, value in reversed(self.given) if name in names and value is not None), None)

    def values(self, *names: str) -> list[Field]:
        """Return every value of an option."""
        return [value for name, value in self.given if name in names and value is not None]


def _is_short_for(name: str, names: Collection[str]) -> bool:
    return len(name) > 3 and any(len(one) > len(name) and one.startswith(name) for one in names)


def parse_options(
    args: list[Field], valued: Collection[str] = (), *, stop: bool = False, single: Collection[str] = ()
) -> Options:
    """Tell options from operands, as getopt does.

    ``valued`` are options that take a value: letters, and long names without dashes. With ``stop``, options end at
    the first operand. ``single`` are long names that are written with one dash.
    """
    options = Options()
    waiting = iter(args)
    for field in waiting:
        head = field.head
        if head == "--" and field.known:
            options.rest = list(waiting)
            options.operands.extend(options.rest)
            break
        if not head.startswith("-") or head == "-":
            if stop:
                options.rest = [field, *waiting]
                options.operands = options.rest
                break
            options.operands.append(field)
        elif head.startswith("--") or head[1:].partition("=")[0] in single:
            _long(field, valued, options, waiting)
        else:
            _short(field, valued, options, waiting)
    return options


def _long(field: Field, valued: Collection[str], options: Options, waiting: Iterator[Field]) -> None:
    head = field.head
    dashes = 2 if head.startswith("--") else 1
    name, equals, _ = head[dashes:].partition("=")
    value: Field | None = None
    if equals:
        value = field.behind(dashes + len(name) + 1)
    elif name in valued:
        value = next(waiting, None)
    options.given.append((name, value))


def _short(field: Field, valued: Collection[str], options: Options, waiting: Iterator[Field]) -> None:
    head = field.head
    for at in range(1, len(head)):
        letter = head[at]
        if letter in valued:
            rest = field.behind(at + 1)
            options.given.append(
                (letter, rest if rest.pieces and (rest.text or not rest.known) else next(waiting, None))
            )
            return
        options.given.append((letter, None))


_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_REMOTE: Final = re.compile(r"(?:[^/:@\0]*@)?(\[[^\]]*\]|[^/:@]+):(?!//)")


def url_host(recorder: Recorder, field: Field) -> str | None:
    """Return the host of a URL, with or without a scheme; None, recorded, where it is not known.

    With an unknown beginning it is ``*`` and the known end.
    """
    text = field.with_holes
    found = _SCHEME.match(text)
    host = host_of(text[found.end() if found else 0 :])
    if host is None or "\0" in host:
        recorder.unknown(field)
    return _shown(host)


def host_of(text: str) -> str | None:
    """Return the host before the path, without user, port and brackets; holes stay in it."""
    name = re.split(r"[/?#\\]", text, maxsplit=1)[0]
    name = name.rpartition("@")[2]
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") <= 1:
        name = name.partition(":")[0]
    return name.lower() or None


def _shown(host: str | None) -> str | None:
    if host is None or "\0" not in host:
        return host
    known = host.rpartition("\0")[2]
    return f"*{known}" if known.startswith(".") or (known and "\0" not in known) else None


def has_scheme(field: Field) -> bool:
    """Whether a field is a URL with a scheme."""
    return _SCHEME.match(field.head) is not None


def remote_path(field: Field) -> tuple[str, Field] | None:
    """Return host and path of ``user@host:path``; None where it is a path here."""
    found = _REMOTE.match(field.with_holes)
    if not found or (len(found.group(1)) == 1 and found.group(1).isalpha() and field.head[2:3] in ("\\", "/")):
        return None
    host = found.group(1).strip("[]").lower()
    if "\0" in found.group():
        return (_shown(host) or "", field)
    return host, field.behind(found.end())


def word_list(text: str) -> tuple[str, ...]:
    """Return the words of a text."""
    return tuple(text.split())
