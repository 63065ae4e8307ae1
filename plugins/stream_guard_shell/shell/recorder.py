"""What is recorded while a command is read: effects, reasons, what was made and fetched, and how much work is left."""

from __future__ import annotations

from typing import Any, Final

from stream_guard_shell.effects import CommandReading, ShellEffect, make_effect
from stream_guard_shell.expansion import (
    Field,
    FilePlace,
    glob_folder,
    is_below,
    literal,
    nearest,
    normal,
    resolve,
)
from stream_guard_shell.secrets import is_secret
from stream_guard_shell.shell.state import Shell

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

    def flattened(self, text: Field) -> Field:
        """Return a text with the outputs that it holds in place of unknown pieces."""
        raise NotImplementedError

    def execute_unknown(self, shell: Shell, text: Field, interpreter: str) -> None:
        """Record that unknown text runs: where from, or which file it is."""
        raise NotImplementedError

    def knows(self, name: str) -> bool:
        """Whether a program of this name is in the tables."""
        raise NotImplementedError

    def run_text(self, shell: Shell, text: Field, interpreter: str, stdin: Field | None = None) -> Field:
        """Read text as this shell would run it; return what it writes."""
        raise NotImplementedError

    def run_words(self, shell: Shell, words: list[Field], stdin: Field | None = None) -> Field:
        """Read words as a program and its arguments; return what it writes."""
        raise NotImplementedError
