"""Commands that prompts speak of in plain words, and the texts by which the arguments of a call show them."""

from __future__ import annotations

from typing import Final

import re2

from stream_guard_compliance.reading.word_lists import word_set

_GIT: Final = r"\bgit\b[^|;&\n]*\s"
_DEEDS: Final[dict[str, tuple[str, str]]] = {
    "git commit": (
        (
            "commit | commits | committing | commit changes | commit your changes | commit the changes | commit code | "
            "make commits | create commits | create a commit | git commit | git commits | "
            "commit any changes | commit it"
        ),
        rf"{_GIT}commit\b",
    ),
    "git push": (
        (
            "push | pushing | push changes | push your changes | push the changes | push code | "
            "git push | push commits | "
            "push to remote | push to the remote | push to the remote branch | push to a remote "
            "branch | push to a remote | push changes to a remote repository | "
            "push to the remote repository | push to remote repositories | push any changes | push it | "
            "push to a remote repository | push changes to remote | push changes to the remote repository"
        ),
        rf"{_GIT}push\b",
    ),
    "git push --force": (
        "force push | force pushes | force-push | force pushing",
        rf"{_GIT}push\b[^|;&\n]*\s(?:--force\b|-f\b|--force-with-lease|\+)",
    ),
    "git commit --amend": (
        "amend | amend commits | amend a commit | amending commits",
        rf"{_GIT}commit\b[^|;&\n]*--amend",
    ),
    "git config": (
        (
            "update the git config | update git config | modify the git config | modify git "
            "config | change git config | "
            "change the git config | change the git configuration | modify git configuration | edit the git config | "
            "update git configuration | alter the git config | modify the git configuration | "
            "update the git configuration"
        ),
        r"\bgit\s+config\s+(?:--(?:global|local|system|add|unset|replace-all)\s+)*[A-Za-z][\w.-]*\s+[^\s|;&]",
    ),
    "gh pr create": (
        (
            "open a pull request | open pull requests | create a pull request | create pull requests | "
            "start a pull request | submit a pull request | create prs | open prs | create a pr | open a pr"
        ),
        r"\bgh\s+pr\s+create\b|\bglab\s+mr\s+create\b",
    ),
    "git rebase": ("rebase | rebasing | git rebase", rf"{_GIT}rebase\b"),
    "git checkout -b": (
        (
            "create branches | create new branches | create new git branches | create a branch | create a new branch | "
            "create git branches"
        ),
        rf"{_GIT}(?:checkout\s+-[bB]|switch\s+(?:-c|--create)|branch\s+[A-Za-z])",
    ),
    "--no-verify": (
        "skip hooks | skip git hooks | bypass hooks | skip pre-commit hooks | bypass pre-commit hooks",
        r"\s--no-verify\b",
    ),
    "install": (
        (
            "install packages | install dependencies | install new packages | install new dependencies | "
            "install additional packages | install any packages | install software"
        ),
        r"\b(?:pip3?|uv|npm|pnpm|yarn|bun|apt|apt-get|brew|cargo|poetry|conda|gem|go|dnf|apk)\s+(?:pip\s+)?(?:install|add|i|get)\b",
    ),
}
NAMES: Final = {phrase: name for name, (phrases, _) in _DEEDS.items() for phrase in phrases.split(" | ")}
PHRASES: Final = " | ".join(NAMES)
_PROGRAMS: Final = word_set(
    "git sed awk grep cat rm mv cp ls cd find curl wget sudo chmod chown kill pkill npm npx pip "
    "pip3 python python3 node "
    "make docker kubectl helm terraform vim vi nano emacs less more tail head echo ssh scp bash "
    "sh apply_patch rg ps top "
    "yarn pnpm apt apt-get brew cargo go uv poetry psql mysql reboot shutdown"
)


def is_command(text: str) -> bool:
    """Whether a text is a command, a flag, a home folder or a variable of a shell, and no word of prose."""
    first = text.split(maxsplit=1)[0] if text.split() else ""
    flagged = text.startswith(("-", "$")) or " -" in text
    return first in _PROGRAMS or text.startswith("~") or (flagged and sum(map(str.isalnum, text)) > 1)


def pattern_of(items: tuple[str, ...], about: tuple[str, ...] = ()) -> str:
    """Return a pattern for commands; ``about`` are files that make it one that is meant."""
    if about:
        files = "|".join(str(re2.escape(name)) for name in about)
        added = rf"{_GIT}(?:add|commit)\b" if "git commit" in items else "|".join(map(_pattern, items))
        return rf"(?:{added})[^|;&\n]*(?:^|[\s/'\"])(?:{files})(?:$|[\s'\";&|])"
    return "|".join(map(_pattern, items))


def _pattern(item: str) -> str:
    if item in _DEEDS:
        return _DEEDS[item][1]
    if item.startswith("~"):
        return r"(?:^|[\s\"'=:(])~(?:/|$|[\s\"'])"
    if item.startswith("$"):
        return rf"\$\{{?{re2.escape(item.strip('${}'))}\b"
    words = [str(re2.escape(word)) for word in item.split()]
    # Between the words of a command there may be others: "git push origin --force".
    gap = r"(?:\s[^|;&\n]*)?\s" if any(word.startswith("-") for word in item.split()[1:]) else r"\s+"
    start = r"(?:^|[\s\"'`;|&(/])" if not item.startswith("-") else r"(?:^|\s)"
    return rf"{start}{gap.join(words)}(?:$|[\s\"'`;|&)=])"
