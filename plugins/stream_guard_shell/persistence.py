"""Places whose content runs later by itself, and those that give rights."""

from __future__ import annotations

from typing import Final

from stream_guard_shell.expansion.places import FilePlace

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
