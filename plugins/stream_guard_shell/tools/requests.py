"""HTTP clients: curl, wget, httpie."""

from __future__ import annotations

import re
from typing import Final

from stream_guard_shell.expansion.fields import NOTHING, Field, literal, unknown
from stream_guard_shell.shell.call import Handler, Options, ProgramCall, parse_options
from stream_guard_shell.shell.hosts import url_host
from stream_guard_shell.shell.word_lists import word_list

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


TOOLS: Final[dict[str, Handler]] = {"curl": curl, "wget": wget, "http": httpie}
