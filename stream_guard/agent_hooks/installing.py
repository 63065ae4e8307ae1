"""Writes hooks into the settings of coding agents, and takes them out again; whatever else is there stays."""

from __future__ import annotations

import compileall
import copy
import hashlib
import json
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from stream_guard.agent_hooks.settings_files import COMMAND, PLANS, HooksFile, WholeFiles
from stream_guard.errors import StreamGuardError


class HookInstallError(StreamGuardError):
    """A settings file cannot be changed."""


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one file; ``after`` None: it goes."""

    path: Path
    before: str | None
    after: str | None
    executable: bool = False

    def shown(self) -> str:
        """Return the change as a diff."""
        lines = [(text or "").splitlines(keepends=True) for text in (self.before, self.after)]
        return "".join(unified_diff(lines[0], lines[1], str(self.path), str(self.path)))

    def write(self) -> None:
        """Carry it out, whole or not at all."""
        if self.after is None:
            self.path.unlink()
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_name(f"{self.path.name}.stream-guard")
        beside.write_text(self.after, encoding="utf-8")
        if self.path.exists():
            beside.chmod(self.path.stat().st_mode & 0o777)
        elif self.executable:
            beside.chmod(0o755)
        beside.replace(self.path)


def compile_hook() -> None:
    """Compile what a hook imports, so that the first one is as quick as the others, where a folder can be written."""
    hooks = Path(__file__).parent
    started = [hooks.parent / name for name in ("__init__.py", "cli/__init__.py", "cli/process.py")]
    for file in (*started, *hooks.glob("*.py")):
        compileall.compile_file(file, quiet=2)


def remember(changes: list[Change], state: Path) -> None:
    """Keep what each file was when it was written, so that a later change shows; what was taken out is forgotten."""
    if not changes:
        return
    known = _remembered(state)
    for change in changes:
        known.pop(str(change.path), None)
        if change.after is not None:
            known[str(change.path)] = _digest(change.after)
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def compare(state: Path) -> dict[str, str]:
    """Return, for each file that was written, what became of it: as installed, changed, or gone."""
    found = {}
    for name, digest in sorted(_remembered(state).items()):
        try:
            now = _read(Path(name))
        except HookInstallError:
            now = ""
        same = "as installed" if now is not None and _digest(now) == digest else "changed since it was installed"
        found[name] = "gone" if now is None else same
    return found


def _remembered(state: Path) -> dict[str, str]:
    try:
        known = json.loads(state.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(name): str(digest) for name, digest in known.items()} if isinstance(known, dict) else {}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def plan(agent: str, project: Path, home: Path, *, flags: str = "", undo: bool = False) -> list[Change]:
    """Return what would change, or nothing; HookInstallError for files that cannot be changed safely."""
    wanted, command = PLANS[agent], " ".join(filter(None, (COMMAND, agent, flags)))
    if isinstance(wanted, HooksFile):
        made = [_json_change(wanted, _place(wanted.path, project, home), command, undo=undo)]
    else:
        made = [
            _whole_change(_place(name, project, home), text.format(command=command), wanted, undo=undo)
            for name, text in wanted.files.items()
        ]
    return [change for change in made if change.before != change.after]


def _json_change(wanted: HooksFile, path: Path, command: str, *, undo: bool) -> Change:
    before = _read(path)
    document = _parse(before, path)
    after = _without_ours(document)
    if undo and after == wanted.frame:
        return Change(path, before, None)  # nothing but ours was in it
    if not undo:
        after = _with_ours(after, wanted, command)
    return Change(path, before, before if after == document else json.dumps(after, indent=2) + "\n")


def _whole_change(path: Path, text: str, wanted: WholeFiles, *, undo: bool) -> Change:
    before = _read(path)
    if before is not None and "stream_guard" not in before and COMMAND not in before:
        raise HookInstallError(f"{path} is there already and is not ours; move it away, or call ours from it")
    return Change(path, before, None if undo else text, executable=wanted.executable)


def _place(name: str, project: Path, home: Path) -> Path:
    return home / name[2:] if name.startswith("~/") else project / name


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise HookInstallError(f"{path} cannot be read: {error}") from None


def _parse(text: str | None, path: Path) -> dict[str, Any]:
    try:
        document = json.loads(text or "{}")
    except ValueError as error:
        raise HookInstallError(f"{path} is no JSON, so that it cannot be changed safely: {error}") from None
    hooks = document.get("hooks", {}) if isinstance(document, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(entries, list) for entries in hooks.values()):
        raise HookInstallError(f"{path} does not look like settings with hooks; mend it first")
    return document  # type: ignore[no-any-return]  # an object, as was looked


def _with_ours(document: dict[str, Any], wanted: HooksFile, command: str) -> dict[str, Any]:
    made = {**wanted.frame, **copy.deepcopy(document)}
    hooks = made.setdefault("hooks", {})
    for event in wanted.events:
        hooks[event] = [*hooks.get(event, []), wanted.entry(event, command)]
    return made


def _without_ours(document: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without our entries, and without what is empty then."""
    made = copy.deepcopy(document)
    hooks = made.get("hooks")
    if not isinstance(hooks, dict):
        return made
    for event, entries in list(hooks.items()):
        kept = [entry for entry in map(_without_command, entries) if entry is not None]
        if kept or not entries:
            hooks[event] = kept
        else:
            del hooks[event]
    if not hooks:
        del made["hooks"]
    return made


def _without_command(entry: Any) -> Any:
    """Return an entry without our command; None where nothing is left of it."""
    if not isinstance(entry, dict):
        return entry
    if isinstance(entry.get("hooks"), list):
        left = [hook for hook in entry["hooks"] if not _is_ours(hook)]
        return {**entry, "hooks": left} if left else None
    return None if _is_ours(entry) else entry


def _is_ours(hook: Any) -> bool:
    return isinstance(hook, dict) and any(
        isinstance(hook.get(key), str) and COMMAND in hook[key] for key in ("command", "bash")
    )
