"""Copies between machines: scp, rsync, and uploads of packages and files."""

from __future__ import annotations

from typing import Final

from stream_guard_shell.expansion.fields import NOTHING, Field, literal
from stream_guard_shell.shell.call import Handler, Options, ProgramCall, parse_options
from stream_guard_shell.shell.hosts import has_scheme, remote_path, url_host
from stream_guard_shell.shell.state import Shell
from stream_guard_shell.shell.word_lists import word_list

_SCP_VALUED: Final = tuple("cFiJloPSDX")
_RSYNC_VALUED: Final = word_list(
    "e f B T M rsh exclude include exclude-from include-from files-from filter backup-dir suffix block-size max-size "
    "min-size timeout port rsync-path compare-dest copy-dest link-dest chmod chown usermap groupmap log-file "
    "password-file bwlimit out-format partial-dir temp-dir max-delete info debug"
)


def scp(call: ProgramCall) -> Field:
    """Copy files to or from another machine."""
    options = parse_options(call.args, _SCP_VALUED)
    _copy(call, options, recursive=options.has("r"))
    return NOTHING


def rsync(call: ProgramCall) -> Field:
    """Copy folders here or to another machine; --delete removes what is only at the target."""
    options = parse_options(call.args, _RSYNC_VALUED)
    if options.has("n", "dry-run") or options.has("list-only"):
        return NOTHING
    for text in options.values("e", "rsh"):
        if (text.literal or "ssh").split(" ")[0].rpartition("/")[2] not in ("ssh", "rsh"):
            call.recorder.run_text(call.shell.subshell(process=True), text, "sh")
    for file in options.values("files-from", "exclude-from", "include-from", "password-file"):
        call.recorder.read(call.shell, file)
    recursive = options.has("r", "a", "recursive", "archive")
    target = _copy(call, options, recursive=recursive)
    deletes = any(name.startswith("del") for name, _ in options.given)
    if target is not None and deletes:
        shell, field = target
        call.recorder.delete(shell, field, recursive=True)
    return NOTHING


def _copy(call: ProgramCall, options: Options, *, recursive: bool) -> tuple[Shell, Field] | None:
    """Record a copy of the first operands to the last; return where that is."""
    if len(options.operands) < 2:
        return None
    *sources, target = options.operands
    shell, place, target_host = _side(call, target)
    fetched: str | None = None
    for source in sources:
        there, path, host = _side(call, source)
        call.recorder.read(there, path, recursive=recursive)
        if host is not None:
            fetched = host
            call.emit("net", host=host, direction="up" if call.carried else "down", tool=call.name)
    if target_host is not None:
        call.emit("net", host=target_host, direction="up", tool=call.name)
    call.recorder.write(shell, place, recursive=recursive, fetched=fetched if target_host is None else None, into=True)
    return shell, place


def _side(call: ProgramCall, field: Field) -> tuple[Shell, Field, str | None]:
    """Return the shell that a side of a copy is in, its path there, and its host; None where that is here."""
    if has_scheme(field):
        host = url_host(call.recorder, field) or ""
        rest = field.text.partition("://")[2].partition("/")
        return call.shell.elsewhere(f"ssh:{host}"), literal((rest[1] + rest[2]) or "."), host
    found = remote_path(field)
    if found is None:
        return call.shell, field, None
    host, path = found
    if not host:
        call.recorder.unknown(field)
    path = path.behind(1) if path.head.startswith(":") else path  # host::module
    return call.shell.elsewhere(f"ssh:{host}"), path if path.pieces else literal("."), host


def twine(call: ProgramCall) -> Field:
    """Upload packages."""
    options = parse_options(
        call.args, word_list("r u p c i s repository repository-url username password comment config-file cert")
    )
    verb = options.operands[0].literal if options.operands else None
    if verb != "upload":
        if verb != "check":
            call.run(verb)
        return NOTHING
    for file in options.operands[1:]:
        call.recorder.read(call.shell, file)
    address = options.value("repository-url")
    host = url_host(call.recorder, address) if address is not None else None
    call.emit("net", host=host, direction="up", tool="twine")
    return NOTHING


TOOLS: Final[dict[str, Handler]] = {"scp": scp, "rsync": rsync, "twine": twine}
