"""Connections to other machines: nc, telnet, ssh, name lookups, mail."""

from __future__ import annotations

import re
from typing import Final

from stream_guard_shell.expansion.fields import NOTHING, Field, joined_words, unknown
from stream_guard_shell.shell.call import Handler, Options, ProgramCall, parse_options
from stream_guard_shell.shell.hosts import host_of, url_host
from stream_guard_shell.shell.word_lists import word_list

_NC_VALUED: Final = word_list("p s w q i g G x X I O P T V e c exec sh-exec source source-port wait")
_SSH_VALUED: Final = tuple("bcDeEFIiJlLmOopQRSWwB")
_PING_VALUED: Final = tuple("cisWtMIlmpQTw")
_DIG_VALUED: Final = tuple("bcfkpqtxy")
_RECORD: Final = re.compile(r"(?i:a|aaaa|any|axfr|caa|cname|dnskey|ds|mx|ns|ptr|soa|srv|txt|in)")


def netcat(call: ProgramCall) -> Field:
    """Connect or listen; -e gives a shell what comes from the network."""
    options = parse_options(call.args, _NC_VALUED)
    listens = options.has("l", "listen")
    host = None
    if not listens and options.operands:
        host = url_host(call.recorder, options.operands[0])
    call.emit("net", host=host, direction="listen" if listens else "up", tool=call.name)
    program = options.value("e", "exec", "c", "sh-exec")
    if program is not None:
        inner = call.shell.subshell(process=True)
        call.recorder.run_text(inner, program, "sh", unknown("net", host=host or ""))
    return unknown("net", host=host or "")


def dial(call: ProgramCall) -> Field:
    """Connect to the host that is the first operand: telnet, ftp, sftp."""
    options = parse_options(call.args, ("l", "n", "P", "b", "i", "o", "F", "B", "c", "D", "R", "s", "S", "J"))
    if not options.operands:
        return NOTHING
    host = url_host(call.recorder, options.operands[0])
    up = call.name == "telnet" or call.carried
    call.emit("net", host=host, direction="up" if up else "down", tool=call.name)
    return unknown("net", host=host or "")


def lookup(call: ProgramCall) -> Field:
    """Ask for a name: dig, nslookup, host, ping."""
    valued = (
        _PING_VALUED if call.name.startswith("ping") else _DIG_VALUED if call.name == "dig" else ("t", "W", "R", "c")
    )
    options = parse_options(call.args, valued)
    names = [one for one in options.operands if not one.head.startswith(("@", "+")) and not _is_record(one)]
    for name in names if call.name == "dig" else names[:1]:
        host = url_host(call.recorder, name)
        call.emit("net", host=host, direction="up" if call.carried else "down", tool=call.name)
    return unknown()


def _is_record(field: Field) -> bool:
    return _RECORD.fullmatch(field.literal or "") is not None


def ssh(call: ProgramCall) -> Field:
    """Connect, and run a text there; options may give texts to run here."""
    options = parse_options(call.args, _SSH_VALUED, stop=True)
    for option in options.values("o"):
        found = re.match(r"(?i:ProxyCommand|LocalCommand|KnownHostsCommand)\s*=?\s*", option.head)
        if found:
            text = option.behind(found.end())
            call.recorder.run_text(call.shell.subshell(process=True), text, "sh")
    if not options.rest:
        return unknown()
    host = url_host(call.recorder, options.rest[0])
    call.emit("net", host=host, direction="up", tool="ssh")
    words = _after_options(options)
    if not words:
        if call.stdin is not None and call.stdin.pieces:  # the shell there reads it
            call.recorder.run_text(call.shell.elsewhere(f"ssh:{host or ''}"), call.stdin, "sh")
        return unknown("net", host=host or "")
    text = joined_words(words)
    inner = call.shell.elsewhere(f"ssh:{host or ''}")
    call.recorder.run_text(inner, text, "sh", call.stdin)
    return unknown("net", host=host or "")


def _after_options(options: Options) -> list[Field]:
    """Return the command behind the host; options may stand there once more."""
    words = options.rest[1:]
    while words and words[0].head.startswith("-") and words[0].literal is not None:
        more = parse_options(words, _SSH_VALUED, stop=True)
        words = more.rest
    return words


def mail(call: ProgramCall) -> Field:
    """Send the input to addresses."""
    options = parse_options(call.args, tuple("sabcrqSATEu"))
    addresses = [*options.operands, *options.values("b", "c")]
    for address in addresses:
        text = address.with_holes
        host = host_of(text) if "@" in text else None
        if not address.known:
            call.recorder.unknown(address)
            host = None if host is None or "\0" in host else host
        call.emit("net", host=host, direction="up", tool="mail")
    for file in options.values("a", "A"):
        call.recorder.read(call.shell, file)
    return NOTHING


def openssl(call: ProgramCall) -> Field:
    """s_client connects, enc -d decodes."""
    verb = call.args[0].literal if call.args else None
    if verb is None or verb in ("version", "help", "list"):
        return unknown()
    if verb not in ("s_client", "enc"):
        call.run(verb)
        return unknown()
    valued = word_list("connect host port in out k pass pass K iv kfile proxy servername cert key CAfile")
    options = parse_options(call.args[1:], valued, single=[*valued, "d", "base64", "a", "pbkdf2", "salt"])
    return _connected(call, options) if verb == "s_client" else _encoded(call, options)


def _connected(call: ProgramCall, options: Options) -> Field:
    target = options.value("connect", "host") or (options.operands[0] if options.operands else None)
    host = url_host(call.recorder, target) if target is not None else None
    up = call.carried or (call.stdin is not None and bool(call.stdin.pieces))
    call.emit("net", host=host, direction="up" if up else "down", tool="openssl")
    return unknown("net", host=host or "")


def _encoded(call: ProgramCall, options: Options) -> Field:
    source, target = options.value("in"), options.value("out")
    if source is not None:
        call.recorder.read(call.shell, source)
    if target is not None:
        call.recorder.write(call.shell, target)
        return NOTHING
    return unknown("decoded") if options.has("d") else unknown()


TOOLS: Final[dict[str, Handler]] = {
    **dict.fromkeys(("nc", "ncat", "netcat"), netcat),
    **dict.fromkeys(("telnet", "ftp", "sftp"), dial),
    **dict.fromkeys(("dig", "nslookup", "host", "ping", "ping6"), lookup),
    "ssh": ssh,
    "mail": mail,
    "openssl": openssl,
}
