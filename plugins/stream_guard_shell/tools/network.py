"""Other machines: connections and name lookups, HTTP clients, copies and uploads."""

from __future__ import annotations

import re
from typing import Final

from stream_guard_shell.expansion import NOTHING, Field, joined_words, literal, unknown
from stream_guard_shell.shell import (
    Handler,
    Options,
    ProgramCall,
    Shell,
    has_scheme,
    host_of,
    parse_options,
    remote_path,
    url_host,
    word_list,
)

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


_CURL_VALUED: Final = word_list(
    "A b c C d D e E F h H K m o P Q r t T u U w x X y Y z "
    "request header data data-raw data-binary data-ascii data-urlencode json form form-string upload-file output user "
    "user-agent referer cookie cookie-jar proxy max-time connect-timeout retry retry-delay retry-max-time cacert cert "
    "key range config write-out url resolve interface dump-header limit-rate output-dir oauth2-bearer aws-sigv4 "
    "proxy-user unix-socket connect-to tls-max ciphers max-filesize max-redirs url-query netrc-file socks5 "
    "socks5-hostname doh-url dns-servers noproxy local-port speed-limit speed-time trace trace-ascii stderr"
)
_CURL_BODY: Final = word_list(
    "d data data-ascii data-raw data-binary data-urlencode json F form form-string T upload-file"
)
_WGET_VALUED: Final = word_list(
    "O P o a i e t T w Q U A R D I X B l output-document directory-prefix output-file append-output input-file execute "
    "tries timeout wait quota user-agent header post-data post-file body-data body-file method user password http-user "
    "http-password referer load-cookies save-cookies accept reject domains level base limit-rate ca-certificate "
    "certificate private-key max-redirect bind-address dns-timeout connect-timeout read-timeout waitretry"
)
_HTTP_VALUED: Final = word_list(
    "a A o p s f session auth auth-type output print style timeout proxy verify cert cert-key"
)
_METHOD: Final = re.compile(r"[A-Z]+")
_HTTP_ITEM: Final = re.compile(r"[^\s:=@]+(:=@|:=|==|=@|=|@|:)")


def curl(call: ProgramCall) -> Field:
    """Send and fetch; files may be the body, or take the answer."""
    options = parse_options(call.args, _CURL_VALUED)
    for name, value in options.given:
        if value is not None:
            _curl_file(call, name, value)
    urls = [*options.operands, *options.values("url")]
    # With -G the data stands in the address, so that only a file among it is sent.
    in_address = options.has("G", "get") and not any("@" in one.head for one in options.values(*_CURL_BODY))
    body = options.has(*_CURL_BODY) and not in_address
    up = call.carried or body or _sends(options.value("X", "request"))
    hosts = []
    for url in urls:
        if url.head.startswith("file://"):
            call.recorder.read(call.shell, url.behind(7))
            continue
        host = url_host(call.recorder, url)
        call.emit("net", host=host, direction="up" if up else "down", tool="curl")
        hosts.append(host or "")
    return _curl_output(call, options, urls, hosts)


def _sends(method: Field | None) -> bool:
    return method is not None and (method.literal or "?").upper() not in ("GET", "HEAD")


def _curl_file(call: ProgramCall, name: str, value: Field) -> None:
    head = value.head
    if name in ("d", "data", "data-ascii", "data-binary", "json", "H", "header") and head.startswith("@"):
        call.recorder.read(call.shell, value.behind(1))
    elif name == "data-urlencode" and "@" in head.partition("=")[0]:
        call.recorder.read(call.shell, value.behind(head.index("@") + 1))
    elif name in ("F", "form"):
        found = re.match(r"[^=]*=[@<]", head)
        if found:
            file = value.behind(found.end())
            call.recorder.read(call.shell, literal(file.text.partition(";")[0]) if file.known else file)
    elif name in ("T", "upload-file", "K", "config"):
        call.recorder.read(call.shell, value)
    elif name in ("c", "cookie-jar", "D", "dump-header"):
        call.recorder.write(call.shell, value)
    elif name in ("b", "cookie") and "=" not in value.text:
        call.recorder.read(call.shell, value)


def _curl_output(call: ProgramCall, options: Options, urls: list[Field], hosts: list[str]) -> Field:
    host = hosts[0] if hosts else ""
    files = list(options.values("o", "output"))
    if options.has("O", "remote-name", "remote-name-all"):
        files.extend(last_name(url) for url in urls[len(files) :])
    folder = options.value("output-dir")
    stdout = len(files) < len(urls)
    for file in files if hosts else []:
        if file.literal == "-":
            stdout = True
            continue
        target = folder + literal("/") + file if folder is not None else file
        call.recorder.write(call.shell, target, fetched=host, made=True)
    return unknown("net", host=host) if stdout and hosts else NOTHING


def last_name(url: Field) -> Field:
    """Return the last name of a URL, under which a download is kept."""
    text = url.with_holes
    path = re.sub(r"^[A-Za-z][\w+.-]*://", "", text).partition("#")[0].partition("?")[0]
    name = path.rpartition("/")[2] if "/" in path else ""
    if "\0" in name or (not name and not url.known):
        return Field([piece for piece in url.pieces if not piece.known])
    return literal(name or "index.html")


def wget(call: ProgramCall) -> Field:
    """Fetch into files, or post."""
    options = parse_options(call.args, _WGET_VALUED)
    for file in options.values("post-file", "body-file", "i", "input-file"):
        call.recorder.read(call.shell, file)
    for file in options.values("o", "output-file", "a", "append-output"):
        call.recorder.write(call.shell, file)
    sends = options.has("post-data", "post-file", "body-data", "body-file") or _sends(options.value("method"))
    output = NOTHING
    for url in options.operands:
        host = url_host(call.recorder, url)
        call.emit("net", host=host, direction="up" if sends or call.carried else "down", tool="wget")
        if not options.has("spider"):
            output = _wget_output(call, options, url, host or "")
    if not options.operands and options.value("i", "input-file") is not None:
        call.emit("net", direction="up" if call.carried else "down", tool="wget")
        call.recorder.opaque("input")
    return output


def _wget_output(call: ProgramCall, options: Options, url: Field, host: str) -> Field:
    file = options.value("O", "output-document")
    if file is not None and file.literal == "-":
        return unknown("net", host=host)
    folder = options.value("P", "directory-prefix")
    if file is None and folder is not None:
        file = folder + literal("/") + last_name(url)
    call.recorder.write(call.shell, file or last_name(url), fetched=host, made=True)
    return NOTHING


def httpie(call: ProgramCall) -> Field:
    """Send what items name, with the method that is written, or fetch."""
    options = parse_options(call.args, _HTTP_VALUED)
    operands = list(options.operands)
    method = operands.pop(0) if operands and _METHOD.fullmatch(operands[0].literal or "") else None
    if not operands:
        return unknown()
    url, items = operands[0], operands[1:]
    up = call.carried or _sends(method) or call.stdin is not None
    for item in items:
        found = _HTTP_ITEM.match(item.head)
        sign = found.group(1) if found else "="
        up = up or sign not in ("==", ":")
        if "@" in sign and found:
            call.recorder.read(call.shell, item.behind(found.end()))
    host = url_host(call.recorder, literal("localhost") + url if url.head.startswith(":") else url)
    call.emit("net", host=host, direction="up" if up else "down", tool="http")
    target = options.value("o", "output")
    if target is not None:
        call.recorder.write(call.shell, target, fetched=host or "", made=True)
        return NOTHING
    return unknown("net", host=host or "")


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


TOOLS: Final[dict[str, Handler]] = {
    **dict.fromkeys(("nc", "ncat", "netcat"), netcat),
    **dict.fromkeys(("telnet", "ftp", "sftp"), dial),
    **dict.fromkeys(("dig", "nslookup", "host", "ping", "ping6"), lookup),
    "ssh": ssh,
    "mail": mail,
    "openssl": openssl,
    "curl": curl,
    "wget": wget,
    "http": httpie,
    "scp": scp,
    "rsync": rsync,
    "twine": twine,
}
