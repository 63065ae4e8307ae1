"""git: what is pushed, discarded, rewritten, configured or cloned."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from stream_guard_shell.effects import APPLIED, CLEAN, POPPED
from stream_guard_shell.expansion import NOTHING, Field, joined_words, literal, unknown
from stream_guard_shell.shell import (
    Handler,
    Options,
    ProgramCall,
    has_scheme,
    parse_options,
    remote_path,
    url_host,
    word_list,
)


def git_effect(call: ProgramCall, op: str, **fields: Any) -> None:
    """Record an operation; the repository is the folder that git runs in."""
    folder = call.shell.folder
    if folder.text is None:
        call.recorder.opaque("value")
    call.emit("git", op=op, repo=folder.text, **fields)


def mark(call: ProgramCall, **marks: bool) -> None:
    """Record which marks of the repository hold once this command has succeeded, and which do not."""
    folder = call.shell.folder
    if folder.text is not None and not folder.glob and not call.shell.on:
        files = {"clean": CLEAN, "applied": APPLIED, "popped": POPPED}
        call.recorder.saved |= {f"{folder.text}{files[name]}": holds for name, holds in marks.items()}


_PUSH_VALUED: Final = ("o", "push-option", "receive-pack", "exec", "repo")
_CLONE_VALUED: Final = word_list(
    "b o c u j branch origin config depth reference separate-git-dir template upload-pack filter jobs shallow-since "
    "shallow-exclude server-option bundle-uri reference-if-able"
)


def push(call: ProgramCall) -> Field:
    """Push: what is deleted, forced or only sent, ref by ref."""
    options = parse_options(call.args, _PUSH_VALUED)
    if options.has("n", "dry-run"):
        return NOTHING
    remote = options.operands[0] if options.operands else options.value("repo")
    name = call.recorder.word(remote) if remote is not None else None
    shared = {"remote": name, "no_verify": options.has("no-verify")}
    refs: list[Field | None] = [*options.operands[1:]]
    for ref in refs or [None]:
        _push_ref(call, options, ref, shared)
    if remote is not None:
        _connect(call, remote, "up")
    return NOTHING


def _push_ref(call: ProgramCall, options: Options, ref: Field | None, shared: Mapping[str, object]) -> None:
    everything = options.has("all", "mirror", "branches")
    text = "*" if ref is None and everything else None if ref is None else call.recorder.word(ref)
    forced = bool(ref is not None and ref.head.startswith("+"))
    target = _branch_on_remote(text, ref)
    kind = "tag_delete" if text is not None and "refs/tags/" in text else "branch_delete"
    deletes = options.has("d", "delete") or (ref is not None and ref.head.startswith((":", "+:")) and text != ":")
    if deletes and ref is not None:
        git_effect(call, kind, ref=target, **shared)
    elif forced or any(name in ("f", "force", "mirror") for name, _ in options.given):
        git_effect(call, "force_push", ref=target, **shared)
    elif any(name in ("force-with-lease", "force-if-includes") for name, _ in options.given):
        git_effect(call, "force_with_lease", ref=target, **shared)
    else:
        git_effect(call, "push", ref=target, **shared)


def _branch_on_remote(text: str | None, ref: Field | None) -> str | None:
    if text is None:  # the end may still be known: `$LOCAL:main`
        tail = ref.tail if ref is not None else ""
        return _without_folder(tail.rpartition(":")[2]) if ":" in tail else None
    if text in (":", "+:"):
        return None
    return _without_folder(text.removeprefix("+").rpartition(":")[2])


def _without_folder(ref: str) -> str | None:
    for folder in ("refs/heads/", "refs/tags/", "heads/", "tags/"):
        ref = ref.removeprefix(folder)
    return ref or None


def _connect(call: ProgramCall, remote: Field, direction: str) -> str | None:
    """Record a connection where the remote is an address; return its host."""
    found = remote_path(remote) if not has_scheme(remote) else None
    if has_scheme(remote):
        if remote.head.startswith("file://"):
            return None
        host = url_host(call.recorder, remote)
    elif found is not None:
        host = found[0] or None
    else:
        return None
    way = "up" if call.carried else direction
    call.emit("net", host=host, direction=way, tool="git")
    return host or ""


def clone(call: ProgramCall) -> Field:
    """Clone: a new folder, fetched unless it comes from here."""
    options = parse_options(call.args, _CLONE_VALUED)
    if not options.operands:
        return NOTHING
    source = options.operands[0]
    host = _connect(call, source, "down")
    if host is None and not source.known and not source.head:
        call.recorder.unknown(source)
        call.emit("net", direction="up" if call.carried else "down", tool="git")
        host = ""
    target = options.operands[1] if len(options.operands) > 1 else _folder_of(source, options)
    call.recorder.write(call.shell, target, recursive=True, fetched=host, made=True)
    return NOTHING


def _folder_of(source: Field, options: Options) -> Field:
    bare = options.has("bare", "mirror")
    text = source.literal
    if text is None:
        return Field([piece for piece in source.pieces if not piece.known][-1:])
    name = re.split(r"[/:]", text.rstrip("/").removesuffix("/.git"))[-1].removesuffix(".git")
    return literal(name + ".git" if bare else name)


def fetch(call: ProgramCall) -> Field:
    """Fetch or pull: only an address is a connection."""
    options = parse_options(call.args, ("o", "depth", "j", "upload-pack", "s", "X", "refmap", "deepen"))
    if options.operands and not options.has("dry-run"):
        _connect(call, options.operands[0], "down")
    return NOTHING


_GLOBAL_VALUED: Final = word_list("C c git-dir work-tree namespace exec-path super-prefix config-env")
_NOTHING: Final = frozenset(
    word_list("""
    add merge revert cherry-pick switch checkout tag branch init status log diff show list ls blame rev-parse
    ls-files describe shortlog help version ls-tree cat-file ls-remote rev-list merge-base name-rev for-each-ref
    show-ref var whatchanged count-objects fsck check-ignore diff-tree diff-files diff-index symbolic-ref notes
    show-branch cherry range-diff archive bundle format-patch column
    """)
)
# Settings and variables whose value is a command that git runs.
_COMMAND_SETTINGS: Final = re.compile(
    r"(?:core\.(?:pager|editor|sshcommand|fsmonitor|gitproxy|askpass)|sequence\.editor|diff\.external|pager\.[^=]+"
    r"|[^=]+\.(?:cmd|textconv|command|clean|smudge|process|driver)|credential\.(?:[^=]+\.)?helper|gpg\.program)=",
    re.IGNORECASE,
)
_COMMAND_VARIABLES: Final = tuple(
    f"GIT_{name}" for name in ("SSH_COMMAND", "EDITOR", "SEQUENCE_EDITOR", "PAGER", "EXTERNAL_DIFF", "ASKPASS")
)
_LAST_STASH: Final = ("stash@{0}", "0")
_UNKNOWN_LOOKING: Final = frozenset(
    ("get", "logs", "ps", "images", "inspect", "plan", "validate", "view", "info", "search")
)
_CONFIG_LOOKING: Final = frozenset(
    word_list("get get-all get-regexp get-urlmatch l list get-color get-colorbool show-origin e edit")
)


def git(call: ProgramCall) -> Field:
    """Look through the options before the subcommand, then at it."""
    options = parse_options(call.args, _GLOBAL_VALUED, stop=True)
    shell = call.shell
    for folder in options.values("C"):
        shell = shell.subshell()
        call.recorder.spend(len(shell.go(folder).text) // 16)
    _configured_commands(call, options)
    if not options.rest:
        return unknown()
    name = options.rest[0].literal
    inner = call._replace(shell=shell, args=options.rest[1:])
    if name is None:
        call.recorder.unknown(options.rest[0])
        call.run()
        return unknown()
    text = _alias(options, name)
    if text is not None:
        return _run_alias(inner, text)
    handler = _SUBCOMMANDS.get(name)
    if handler is not None:
        before = dict(call.recorder.saved)
        found = handler(inner)
        if options.has("git-dir", "work-tree") or any(arg.literal == "--help" for arg in inner.args):
            call.recorder.saved = before  # the tree of another folder, or of none
        return found
    if name not in _NOTHING and name not in _UNKNOWN_LOOKING:
        call.run(name)
    return unknown()


def _configured_commands(call: ProgramCall, options: Options) -> None:
    """Read commands that git is told to run by ``-c`` or a variable; one word is a program that a person chose."""
    given = [(one, _COMMAND_SETTINGS.match(one.head)) for one in options.values("c")]
    texts = [one.behind(found.end()) for one, found in given if found]
    variables = [call.shell.variable(name) for name in _COMMAND_VARIABLES]
    texts += [one.value for one in variables if one is not None and one.value is not None and one.exported]
    for text in texts:
        plain = text.behind(1) if text.head.startswith("!") else text
        if not plain.known or len(plain.text.split()) > 1:
            call.recorder.run_text(call.shell.subshell(process=True), plain, "sh")


def _bisect(call: ProgramCall) -> Field:
    if call.args and call.args[0].literal == "run":
        return call.recorder.run_words(call.shell.subshell(), call.args[1:])
    return unknown()


def _grep(call: ProgramCall) -> Field:
    for text in parse_options(call.args, ("e", "f", "A", "B", "C", "m")).values("open-files-in-pager"):
        call.recorder.run_text(call.shell.subshell(process=True), text, "sh")
    for arg in call.args:
        if arg.head.startswith("-O") and len(arg.head) > 2:
            call.recorder.run_text(call.shell.subshell(process=True), arg.behind(2), "sh")
    return unknown()


def _alias(options: Options, name: str) -> Field | None:
    """Return the text of an alias that ``-c`` defines for this subcommand."""
    start = f"alias.{name}="
    return next((one.behind(len(start)) for one in options.values("c") if one.head.startswith(start)), None)


def _run_alias(call: ProgramCall, text: Field) -> Field:
    shell = call.shell.subshell(process=True)
    if text.head.startswith("!"):
        return call.recorder.run_text(shell, joined_words([text.behind(1), *call.args]), "sh")
    return call.recorder.run_text(shell, joined_words([literal("git"), text, *call.args]), "git")


def _commit(call: ProgramCall) -> Field:
    valued = word_list("m F C c t author date message file template fixup squash reuse-message cleanup S u")
    options = parse_options(call.args, valued)
    if options.has("dry-run"):
        return NOTHING
    if options.has("amend"):
        git_effect(call, "rewrite_history", no_verify=options.has("n", "no-verify"))
    else:
        git_effect(call, "commit", no_verify=options.has("n", "no-verify"))
    if options.has("a", "all") and not options.operands:
        mark(call, clean=True)
    return NOTHING


def _reset(call: ProgramCall) -> Field:
    options = parse_options(call.args, ("pathspec-from-file",))
    ref = options.operands[0] if options.operands else None
    if options.has("hard"):
        moved = ref is not None and ref.literal not in ("HEAD", "@")
        git_effect(call, "reset_hard", ref=call.recorder.word(ref) if moved and ref is not None else None)
        return NOTHING
    paths = len(options.operands) > 1 or any(arg.literal == "--" for arg in call.args)
    if ref is not None and not paths and _is_commit(ref, options):
        git_effect(call, "rewrite_history")
    return NOTHING


def _is_commit(ref: Field, options: Options) -> bool:
    """Whether a reset goes to another commit: with a mode it must, else its name looks like one."""
    text = ref.literal
    if text in ("HEAD", "@"):
        return False
    if options.has("soft", "mixed", "keep", "merge") or text is None:
        return True
    return (
        re.fullmatch(r"(?:HEAD|@|ORIG_HEAD|[\w./-]+)[~^@{][\w~^{}@]*|ORIG_HEAD|[0-9a-f]{7,40}|origin/\S+", text)
        is not None
    )


def _clean(call: ProgramCall) -> Field:
    options = parse_options(call.args, ("e", "exclude"))
    if options.has("f", "force") and not options.has("n", "dry-run"):
        git_effect(call, "clean")
    return NOTHING


def _checkout(call: ProgramCall) -> Field:
    options = parse_options(call.args, ("b", "B", "orphan", "conflict", "pathspec-from-file"))
    at = next((number for number, arg in enumerate(call.args) if arg.literal == "--"), None)
    paths = call.args[at + 1 :] if at is not None else []
    if at is None and not options.has("b", "B", "orphan"):
        operands = options.operands
        paths = operands[1:] or [one for one in operands if one.literal in (".", "./")]
    if options.has("b", "B", "orphan"):
        return NOTHING
    _discard(call, paths)
    if not paths and options.has("f", "force"):
        git_effect(call, "checkout_discard")
    return NOTHING


def _discard(call: ProgramCall, paths: list[Field]) -> None:
    for path in paths:
        place = call.recorder.place(call.shell, path)
        git_effect(call, "checkout_discard", **place.fields)


def _restore(call: ProgramCall) -> Field:
    options = parse_options(call.args, ("s", "source", "conflict", "pathspec-from-file"))
    if not options.has("S", "staged") or options.has("W", "worktree"):
        _discard(call, options.operands)
    return NOTHING


def _switch(call: ProgramCall) -> Field:
    if parse_options(call.args, ("c", "C", "orphan")).has("f", "discard-changes", "force"):
        git_effect(call, "checkout_discard")
    return NOTHING


def _rebase(call: ProgramCall) -> Field:
    options = parse_options(call.args, ("onto", "x", "exec", "s", "X", "strategy"))
    for text in options.values("x", "exec"):
        call.recorder.run_text(call.shell.subshell(process=True), text, "sh")
    if not options.has("abort", "quit", "show-current-patch"):
        git_effect(call, "rewrite_history")
    if not options.has("quit", "show-current-patch", "autostash"):
        mark(call, clean=True)  # it begins with nothing uncommitted, or not at all
    return NOTHING


def _rewrite(call: ProgramCall) -> Field:
    git_effect(call, "rewrite_history")
    return NOTHING


def _stash(call: ProgramCall) -> Field:
    verb = call.args[0].literal if call.args else "push"
    options = parse_options(call.args, ("m", "message"))
    named = options.operands[1:] if verb in ("push", "drop", "pop", "apply") else options.operands
    is_last = all(one.literal in _LAST_STASH for one in named)
    if verb in ("drop", "clear"):
        git_effect(call, "stash_drop")
        call.recorder.drops_older = call.recorder.drops_older or not is_last or verb == "clear"
        mark(call, applied=False)
    elif verb in ("pop", "apply"):
        mark(call, clean=False, applied=is_last and verb == "apply", popped=is_last and verb == "pop")
    elif verb == "push" or (verb or "").startswith("-"):
        some = options.has("p", "patch", "k", "keep-index", "S", "staged", "pathspec-from-file")
        mark(call, clean=not named and not some, applied=False)
    elif verb not in ("list", "show"):
        mark(call, applied=False)
    return NOTHING


def _branch(call: ProgramCall) -> Field:
    options = parse_options(call.args, ("u", "set-upstream-to", "sort", "format", "contains", "merged", "points-at"))
    if options.has("d", "D", "delete"):
        for ref in options.operands:
            git_effect(call, "branch_delete", ref=call.recorder.word(ref))
    return unknown()


def _tag(call: ProgramCall) -> Field:
    options = parse_options(call.args, ("m", "F", "u", "sort", "format", "message", "file"))
    if options.has("d", "delete"):
        for ref in options.operands:
            git_effect(call, "tag_delete", ref=call.recorder.word(ref))
    return unknown()


def _prune(call: ProgramCall) -> Field:
    first = call.args[0].literal if call.args else None
    expires = call.name == "reflog" and first in ("expire", "delete")
    now = any(arg.literal in ("--prune=now", "--prune=all", "--prune") for arg in call.args)
    if expires or (call.name == "gc" and now):
        git_effect(call, "prune")
    return NOTHING


def _config(call: ProgramCall) -> Field:
    options = parse_options(call.args, ("f", "file", "blob", "type", "default", "comment"))
    operands = options.operands
    changing = options.has("unset", "unset-all", "replace-all", "add", "remove-section", "rename-section")
    if operands and operands[0].literal in ("get", "list", "edit"):
        return unknown()
    if operands and operands[0].literal in ("set", "unset"):
        changing, operands = True, operands[1:]
    looks = any(name in _CONFIG_LOOKING for name, _ in options.given)
    if operands and not looks and (changing or len(operands) > 1):
        git_effect(call, "config", key=call.recorder.word(operands[0]))
    return unknown()


def _remote(call: ProgramCall) -> Field:
    options = parse_options(call.args, ("t", "m"))
    verb = options.operands[0].literal if options.operands else None
    if verb in ("add", "set-url", "remove", "rm"):
        name = options.operands[1] if len(options.operands) > 1 else unknown()
        git_effect(call, "remote", remote=call.recorder.word(name))
    elif verb not in (None, "show", "get-url", "prune", "update"):
        call.recorder.run(call.shell, "git", "remote")
    return unknown()


def _rm(call: ProgramCall) -> Field:
    options = parse_options(call.args, ("pathspec-from-file",))
    if not options.has("cached", "n", "dry-run"):
        for operand in options.operands:
            call.recorder.delete(call.shell, operand, recursive=options.has("r"))
    return NOTHING


def _mv(call: ProgramCall) -> Field:
    options = parse_options(call.args)
    if len(options.operands) > 1 and not options.has("n", "dry-run"):
        for source in options.operands[:-1]:
            call.recorder.move(call.shell, source, options.operands[-1])
    return NOTHING


def _worktree(call: ProgramCall) -> Field:
    options = parse_options(call.args, ("b", "B", "reason"))
    verb = options.operands[0].literal if options.operands else None
    if verb == "add" and len(options.operands) > 1:
        call.recorder.write(call.shell, options.operands[1], made=True)
    elif verb not in (None, "list", "lock", "unlock", "prune", "add"):
        call.recorder.run(call.shell, "git", "worktree")
    return unknown()


def _filter(call: ProgramCall) -> Field:
    valued = word_list("tree-filter index-filter msg-filter env-filter commit-filter tag-name-filter parent-filter d")
    options = parse_options(call.args, valued)
    for name, value in options.given:
        if name.endswith("-filter") and value is not None:
            call.recorder.run_text(call.shell.subshell(process=True), value, "sh")
    return _rewrite(call)


_SUBCOMMANDS: Final[dict[str, Handler]] = {
    "commit": _commit,
    "push": push,
    "clone": clone,
    "fetch": fetch,
    "pull": fetch,
    "reset": _reset,
    "clean": _clean,
    "checkout": _checkout,
    "restore": _restore,
    "switch": _switch,
    "rebase": _rebase,
    "filter-branch": _filter,
    "filter-repo": _rewrite,
    "stash": _stash,
    "branch": _branch,
    "tag": _tag,
    "reflog": lambda call: _prune(call._replace(name="reflog")),
    "gc": lambda call: _prune(call._replace(name="gc")),
    "config": _config,
    "remote": _remote,
    "rm": _rm,
    "mv": _mv,
    "worktree": _worktree,
    "bisect": _bisect,
    "grep": _grep,
}

TOOLS: Final[dict[str, Handler]] = {"git": git}
