"""git with a remote: push, clone, fetch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from stream_guard_shell.expansion.fields import NOTHING, Field, literal
from stream_guard_shell.shell.call import Options, ProgramCall, parse_options
from stream_guard_shell.shell.hosts import has_scheme, remote_path, url_host
from stream_guard_shell.shell.word_lists import word_list
from stream_guard_shell.tools.git_effects import git_effect

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
