"""The machine itself: processes, disks, services, rights, jobs that run later."""

from __future__ import annotations

import re
from typing import Final

from stream_guard_shell.expansion import NOTHING, Field, unknown
from stream_guard_shell.shell import Handler, ProgramCall, parse_options, word_list

_SIGNAL: Final = re.compile(r"-(?:\d+|[A-Z][A-Z0-9+]*)")
_PKILL_VALUED: Final = word_list(
    "g G P s t u U F r signal pgroup group parent session terminal euid uid pidfile ns nslist"
)
_GROUPS: Final = frozenset(("sudo", "wheel", "docker", "root", "admin"))
_SERVICE_LOOKING: Final = ("status", "show", "list-", "is-", "cat", "help", "get-default")


def kill(call: ProgramCall) -> Field:
    """Send a signal to processes; -0 and -l only ask."""
    args = list(call.args)
    if args and args[0].literal in ("-l", "-L", "-0", "-t"):
        return unknown()
    if args and args[0].literal in ("-s", "-n"):
        if len(args) > 1 and args[1].literal == "0":
            return unknown()
        args = args[2:]
    elif args and _SIGNAL.fullmatch(args[0].literal or "") and len(args) > 1:
        args = args[1:]
    for arg in args:
        if arg.literal == "--":
            continue
        own = bool(arg.origins("job")) or arg.head.startswith("%")
        call.emit("process", tool="kill", target=call.recorder.word(arg), own=own)
    return NOTHING


def kill_by_name(call: ProgramCall) -> Field:
    """Send a signal to all processes of a name: pkill, killall."""
    args = [arg for arg in call.args if not _SIGNAL.fullmatch(arg.literal or "")]
    if any(arg.literal in ("-0", "-l") for arg in call.args):
        return unknown()
    options = parse_options(args, _PKILL_VALUED)
    for operand in options.operands:
        call.emit("process", tool=call.name, target=call.recorder.word(operand))
    if not options.operands and call.args:
        call.emit("process", tool=call.name)
    return NOTHING


def fuser(call: ProgramCall) -> Field:
    """Kill who uses a file or a port, with -k."""
    options = parse_options(
        [arg for arg in call.args if not _SIGNAL.fullmatch(arg.literal or "")], ("n", "N", "namespace")
    )
    if options.has("k", "kill"):
        for operand in options.operands:
            call.emit("process", tool="fuser", target=call.recorder.word(operand))
    return unknown()


def systemctl(call: ProgramCall) -> Field:
    """Stop services, or have them run from now on."""
    options = parse_options(call.args, word_list("t p n H M o type property lines state output signal"))
    verb = options.operands[0].literal if options.operands else None
    if verb in ("stop", "restart", "disable", "kill"):
        for operand in options.operands[1:]:
            call.emit("process", tool="systemctl", target=call.recorder.word(operand))
    elif verb in ("reboot", "poweroff", "halt"):
        call.emit("process", tool="systemctl", target="system")
    elif verb == "enable":
        call.emit("persistence", via="systemd")
    elif verb is not None and not verb.startswith(_SERVICE_LOOKING):
        call.run(verb)
    return unknown()


def service(call: ProgramCall) -> Field:
    """Stop a service."""
    words = [arg.literal for arg in call.args]
    if words[1:2] in (["stop"], ["restart"]):
        call.emit("process", tool="service", target=call.recorder.word(call.args[0]))
    elif words and words[1:2] not in (["status"], []) and words[0] != "--status-all":
        call.run(words[1])
    return unknown()


def shut_down(call: ProgramCall) -> Field:
    """Stop the machine: shutdown, reboot, halt, poweroff."""
    if not any(arg.literal == "-c" for arg in call.args):
        call.emit("process", tool=call.name, target="system")
    return NOTHING


def disk(call: ProgramCall) -> Field:
    """Overwrite a device: mkfs, wipefs, blkdiscard, fdisk, parted."""
    options = parse_options(
        call.args, word_list("t L U b N i m o s l O u E I d T K e") if call.name != "fdisk" else ("b", "L")
    )
    looking = options.has("l", "list", "print") if call.name in ("fdisk", "parted") else options.has("n", "no-act")
    if looking or any(arg.literal == "print" for arg in call.args):
        return unknown()
    operands = options.operands[:1] if call.name == "parted" else options.operands
    for operand in operands:
        if operand.known and not operand.text.startswith("/dev/"):
            if call.name.startswith("mkfs") and "/" in operand.text:
                call.recorder.write(call.shell, operand)
        elif not call.recorder.device(call.shell, operand, call.name) and not operand.known:
            call.emit("disk", tool=call.name, device=call.recorder.word(operand))
    return NOTHING


def crontab(call: ProgramCall) -> Field:
    """Change the table of jobs, unless it is only shown."""
    options = parse_options(call.args, ("u",))
    if not options.has("l"):
        call.emit("persistence", via="cron")
    return unknown()


def at(call: ProgramCall) -> Field:
    """Have a text run later: at, batch."""
    options = parse_options(call.args, ("f", "q", "t"))
    if options.has("l", "r", "d", "c", "V"):
        return unknown()
    call.emit("persistence", via="at")
    file = options.value("f")
    if file is not None:
        call.recorder.run_file(call.shell, file, "sh")
    elif call.stdin is not None and call.stdin.pieces:
        call.recorder.run_text(call.shell.subshell(), call.stdin, "sh")
    return NOTHING


def usermod(call: ProgramCall) -> Field:
    """Give a user the rights of a group."""
    options = parse_options(call.args, word_list("G g d s u c l e f p groups gid home shell uid comment login"))
    groups = ",".join((value.literal or "") for value in options.values("G", "groups")).split(",")
    if any(group in _GROUPS for group in groups):
        call.emit("privilege", via="group")
    else:
        call.run()
    return NOTHING


def setcap(call: ProgramCall) -> Field:
    """Give a program rights of root."""
    if not any(arg.literal in ("-v", "-r") for arg in call.args):
        call.emit("privilege", via="setcap")
    return NOTHING


TOOLS: Final[dict[str, Handler]] = {
    **dict.fromkeys(("pkill", "killall"), kill_by_name),
    **dict.fromkeys(("shutdown", "reboot", "halt", "poweroff"), shut_down),
    **dict.fromkeys(("mkfs", "wipefs", "blkdiscard", "fdisk", "parted"), disk),
    **dict.fromkeys(("at", "batch"), at),
    "kill": kill,
    "fuser": fuser,
    "systemctl": systemctl,
    "service": service,
    "crontab": crontab,
    "usermod": usermod,
    "setcap": setcap,
}
