"""What is secret: places by their names, variables by the parts of theirs."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from stream_guard_shell.expansion import FilePlace

_PARTS: Final = frozenset(
    ("KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASS", "PAT", "CREDENTIALS"),
)
_NAMES: Final = (
    ".env", ".env.*", ".envrc", ".netrc", ".pgpass", ".git-credentials", ".npmrc", ".pypirc", ".vault-token", "id_rsa",
    "id_ed25519", "*.pem", "*.key", "terraform.tfstate",
)  # fmt: skip
_EXAMPLES: Final = (".example", ".sample", ".template", ".dist")
_ENDINGS: Final = ((".docker", "config.json"), (".kube", "config"), (".config", "gh", "hosts.yml"))
_FOLDERS: Final = ((".ssh",), (".aws",), (".gnupg",), (".config", "gcloud"))
_OPEN_IN_SSH: Final = ("*.pub", "known_hosts", "config", "authorized_keys")
_SAMPLES: Final = (
    ".env", ".env.local", ".env.production", ".envrc", ".netrc", ".pgpass", ".git-credentials", ".npmrc", ".pypirc",
    ".vault-token", "id_rsa", "id_ed25519", "server.pem", "server.key", "terraform.tfstate",
)  # fmt: skip


def is_secret_variable(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    return any(part in _PARTS for part in name.split("_"))


def is_secret(place: FilePlace) -> bool:
    """Whether the content of a place is secret; a folder above one is not."""
    if place.kind == "path":
        return _is_secret_path(place.text)
    return place.kind == "glob" and _is_secret_glob(place.text)


def _is_secret_path(text: str) -> bool:
    if text == "/etc/shadow" or fnmatchcase(text, "/proc/*/environ"):
        return True
    names = text.split("/")[-8:]
    name = names[-1]
    if any(fnmatchcase(name, pattern) for pattern in _NAMES):
        return not name.startswith(".env.") or not name.endswith(_EXAMPLES)
    return any(tuple(names[-len(ending) :]) == ending for ending in _ENDINGS) or _in_secret_folder(names)


def _in_secret_folder(names: list[str]) -> bool:
    for folder in _FOLDERS:
        size = len(folder)
        for at in range(len(names) - size + 1):
            if tuple(names[at : at + size]) != folder:
                continue
            inside = names[at + size :]
            if folder != (".ssh",) or not inside or not any(fnmatchcase(inside[-1], one) for one in _OPEN_IN_SSH):
                return True
    return False


@lru_cache(maxsize=256)
def _is_secret_glob(text: str) -> bool:
    """Whether a secret name fits the pattern, and the pattern asks for it: ``*`` alone asks for everything."""
    folder, _, pattern = text.rpartition("/")
    if len(pattern) > 256 or text.count("*") > 16:
        return False
    if _in_secret_folder([name for name in folder.split("/") if "*" not in name][-8:] or [""]):
        return not any(fnmatchcase(pattern, one) for one in _OPEN_IN_SSH)
    if not pattern.strip("*?"):  # all of a folder is no secret, even if one lies there
        return False
    if fnmatchcase("/etc/shadow", text) or (text.startswith("/proc/") and text.endswith("environ")):
        return True
    return any(_fits(name, pattern) for name in _SAMPLES) and not _names_examples(pattern)


def _fits(name: str, pattern: str) -> bool:
    """Whether a shell would put the name in place of the pattern; a dot in front must be written."""
    return fnmatchcase(name, pattern) and (not name.startswith(".") or pattern.startswith("."))


def _names_examples(pattern: str) -> bool:
    return pattern.startswith(".env.") and pattern.endswith(_EXAMPLES)
