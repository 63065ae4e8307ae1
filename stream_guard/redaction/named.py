"""Secrets that only a name or a place gives away: ``password=...``, headers, command lines, URLs with a login."""

from __future__ import annotations

import re
from typing import Any, Final

import re2

from stream_guard.redaction.names import SecretName, is_owned, is_short, secret_name
from stream_guard.redaction.words import is_mixed, is_path, is_placeholder, is_wording

# A name has one of these in it; ``secret_name`` says whether what stands under it is a secret.
_NOUN: Final = (
    r"pass(?:w(?:or)?d|phrase|code|key)?s?|pwd|pw|psk|pem|pfx|otp|secrets?|tokens?|credentials?|cookies?|jwt|pat|key|auth"
    r"|authorization|bearer|[cx]srf|cv[vc]2?|card[_ -]?number|mnemonic|phrase|codes?"
)
_NAME: Final = rf"[A-Za-z0-9_.\[\]-]{{0,60}}(?:{_NOUN})[A-Za-z0-9_.-]{{0,30}}"
_QUOTE: Final = r"""(?:\\{0,3}["'`]|%22|&quot;)"""
_SIGN: Final = r"(?:=>|:=|={1,2}|:|%3[DdAa])"
# In quotes an escaped quote is part of the value; in quotes that are escaped themselves it is their end.
_VALUE: Final = re.compile(
    r"""(?:"(?:[^"\\]|\\.){1,300}+|\\{1,3}"[^"\\]{1,300}|\\{0,3}'[^'\\]{1,300}|`[^`]{1,300}"""
    r"""|[^\s"'`,;&<>{}()\[\]\\|]{1,300})"""
)

# What stands behind a name of a secret and is none: types, placeholders, references and words about it.
_NO_SECRET: Final = re2.compile(
    r"(?i)^(?:\[masked[a-z ]*(?:\]|$)|\$(?:[{(]|[a-z_]+$)|%\(|\{|<|\*{3}|\.{3}|x{3,}$|getenv|input$"
    r"|(?:os|process|env|self|this|config|settings|options|args)(?:\.[a-z_]+)*$"
    r"|(?:none|null|nil|undefined|true|false|yes|no|str|string|bytes|text|int|number|final|optional|required|missing|invalid"
    r"|incorrect|wrong|expired|empty|unset|hidden|redacted|masked|reset|change|changed|field|unknown|default|the|a|an|must"
    r"|should|is|was|are|see|and|or|not|in|for|to|of|on|with|from|please|your|my|any|at|be)(?:[.:?!]*$|\s))"
)
_LEAST: Final = 8  # characters of what looks like chance


def is_chance(value: str) -> bool:
    """Whether a value looks as if a machine had drawn it."""
    if len(value) < _LEAST or is_wording(value):
        return False
    return any(map(str.isdigit, value)) or len(value) >= 20


def is_secret_text(name: str, text: str) -> bool:
    """Whether a text that stands alone under a name is a secret."""
    level = secret_name(name)
    if level is SecretName.NO or _NO_SECRET.search(text):
        return level >= SecretName.KEY
    if level is SecretName.CHANCE:
        return is_chance(text)
    return level is SecretName.PASSWORD or not is_path(text)


def mask_assigned(text: str) -> str:
    """Return the text with ``[masked]`` for what stands behind a name of a secret and a sign."""
    return _mask_behind(_ASSIGNED, text)


def mask_options(text: str) -> str:
    """Return the text with ``[masked]`` for what stands behind an option that is the name of a secret."""
    return _mask_behind(_OPTION, text)


def _mask_behind(named: Any, text: str) -> str:
    shown, at = list[str](), 0
    for found in named.finditer(text):
        if found.start() < at:
            continue  # inside of what is masked
        value = _VALUE.match(text, found.end())
        if value is not None and _is_secret_behind(found.group(1), found.group(2), value[0]):
            shown += [text[at : found.end()], "[masked]"]
            at = value.end()
    return "".join((*shown, text[at:]))


def _is_secret_behind(name: str, sign: str, value: str) -> bool:
    """Whether a value in a running text is a secret, by the name before it and the sign between them."""
    level, bare = secret_name(name), value.lstrip("\\\"'`")
    if level is SecretName.NO or not bare or _NO_SECRET.search(bare):
        return False
    if level is SecretName.PASSWORD:
        return True
    if level is SecretName.TEXT and is_short(name) and not is_owned(name) and "=" not in sign and name.isupper():
        return False  # PASS: the name of a test
    if is_chance(bare) or (is_mixed(bare) and not is_wording(bare)):
        return not is_path(bare)
    if level is SecretName.TEXT and is_short(name):
        # A pass alone is a word of prose too, and a count of what passed.
        return (is_owned(name) or "=" in sign) and not (_COUNT.fullmatch(bare) or is_path(bare))
    quoted = value[:1] in "\\\"'`"
    return quoted and level >= SecretName.TEXT and is_owned(name) and not is_path(bare)


def _mask_password(match: Any) -> str:
    head, value = match.group(1, 2)
    bare = value.lstrip("\\\"'`")
    if not bare or _NO_SECRET.search(bare):
        return str(match.group())
    return f"{head}[masked]"


def _mask_piped(match: Any) -> str:
    head, value, tail = match.group(1, 2, 3)
    return str(match.group()) if is_placeholder(value) else f"{head}[masked]{tail}"


def _mask_key(match: Any) -> str:
    head, value = match.group(1, 2)
    bare = value.lstrip("\\\"'`")
    if not bare or _NO_SECRET.search(bare) or not is_chance(bare):
        return str(match.group())
    return f"{head}[masked]"


def _mask_login(match: Any) -> str:
    head, token = match.group(1, 2)
    found: str = match.group()
    # "bearer instruments" is prose: a token has digits, or is longer than words are.
    return f"{head}[masked]" if len(token) >= 24 or any(map(str.isdigit, token)) else found


def _mask_header(match: Any) -> str:
    head, value = match.group(1, 2)
    found: str = match.group()
    return found if _NO_SECRET.search(value) else f"{head}[masked]"


def _mask_dsn(match: Any) -> str:
    head, password = match.group(1, 2)
    found: str = match.group()
    return found if is_placeholder(password) else f"{head}[masked]{found[len(head) + len(password) :]}"


def _mask_url_login(match: Any) -> str:
    head, user, password = match.group(1, 2, 3)
    if password is None:  # a token in the place of the user's name
        return f"{head}[masked]@" if is_chance(user) else str(match.group())
    return f"{head}{user}:[masked]@"


_QUERY: Final = "sig|signature|x-amz-signature|x-amz-security-token|x-goog-signature|code|key"
_ASSIGNED: Final = re2.compile(rf"(?i:({_NAME}){_QUOTE}?(\s{{0,3}}{_SIGN})\s{{0,3}})")
_OPTION: Final = re2.compile(rf"(?i:(?:^|[\s\"'])--?({_NAME})(\s{{1,3}}))")
_SAID: Final = r"pass(?:word|wd|phrase|code)|pwd|secret|token|credentials?|jwt|(?:api|access|private|secret)[ _-]key"
_COUNT: Final = re.compile(r"[0-9.,%/]*")
_QUOTED: Final = r"""(?:'[^'\n]{1,200}'|"[^"\n]{1,200}")"""
_STDIN: Final = (
    r"(?:--password-stdin|--stdin\b|sudo\s(?:-[a-zA-Z]+\s){0,3}-[a-zA-Z]*S\b|chpasswd\b|--passphrase-fd|smbpasswd\s)"
)

ASSIGNED_ANCHOR: Final = rf"(?i:(?:{_NOUN})[a-z0-9_.-]*{_QUOTE}?\s*{_SIGN})"
OPTION_ANCHOR: Final = rf"(?i:-[a-z0-9-]*(?:{_NOUN})[a-z0-9-]*\s)"

# Anchor, pattern, mask.
SECRETS: Final = (
    # Any scheme: Bearer, Basic, Token, ApiKey, AWS4-HMAC-SHA256. It goes on to the end of the line or of the quotes.
    (
        "(?i:authorization)",
        (
            rf"(?i:((?:proxy-)?authorization{_QUOTE}?\s{{0,3}}(?:{_SIGN})\s{{0,3}}{_QUOTE}?"
            r"(?:(?:bearer|basic|digest|token|apikey|negotiate|aws4-[a-z0-9-]{1,20})\s{1,3})?)"
            r"([^\s\"'\\,;][^\n\r\"'\\]{0,500}))"
        ),
        _mask_header,
    ),
    (r"(?i:bearer|basic)\s", r"(?i:(\b(?:bearer|basic)\s+)([A-Za-z0-9._~+/-]{8,}=*))", _mask_login),
    (
        r"(?i:cookie)",
        rf"(?i:(\b(?:set-)?cookie{_QUOTE}?\s{{0,3}}:\s{{0,3}}{_QUOTE}?)([^\n\r\"'\\]{{4,500}}))",
        _mask_header,
    ),
    (
        r"://[^\s/\"'<>]*@",
        r"(://)([^\s/:@\"'<>]{0,100})(?::([^\s/\"'<>]{1,200}))?@",
        _mask_url_login,
    ),
    (
        rf"[?&](?i:{_QUERY})=",
        rf"([?&](?i:{_QUERY})=)([^\s&\"'<>#]{{1,500}})",
        _mask_key,
    ),
    # <password>...</password>
    (
        r"(?i:pass(?:word|wd|phrase)|pwd|secret|token|key)>",
        r"(?i:(<[a-z0-9:_-]{0,30}(?:pass(?:word|wd|phrase)|pwd|secret|token|api[_-]?key)>)([^<\n]{1,300})(</))",
        _mask_piped,
    ),
    # machine example.org login anna password hunter2
    (
        r"(?i:\slogin\s+\S+\s)",
        r"(?i:(\b(?:machine\s+\S{1,200}|default)\s+login\s+\S{1,100}\s+(?:account\s+\S{1,100}\s+)?password\s+)(\S{1,200}))",
        _mask_password,
    ),
    # host:port:database:user:password, as a line of .pgpass
    (
        r":(?:[0-9]+|\*):[^:\s]+:[^:\s]+:",
        r"(?m:(^[\w.*-]{1,100}:(?:[0-9]{1,5}|\*):[^:\s/]{1,60}:[^:\s/]{1,60}:)([^:\s]{1,200})$)",
        _mask_password,
    ),
    # CREATE USER anna IDENTIFIED BY 'hunter2'; ALTER ROLE anna PASSWORD 'hunter2'
    (
        r"(?i:identified\s|password[\s(])",
        r"(?i:(\b(?:identified\s+(?:with\s+\S{1,60}\s+)?by(?:\s+password)?\s+|password\s+|password\(\s*))('[^'\n]{1,200}'))",
        _mask_password,
    ),
    # anna:hunter2@tcp(db:3306)/shop and jdbc:oracle:thin:anna/hunter2@db
    (r"@(?:tcp|unix)\(", r"([\w.-]{1,60}:)([^\s@/]{1,200})@(?:tcp|unix)\(", _mask_dsn),
    (r"oracle:(?:thin|oci)", r"(?i:(oracle:(?:thin|oci8?):[\w.-]{1,60}/)([^\s@]{1,200}))", _mask_password),
    # echo hunter2 | sudo -S ..., and docker login --password-stdin <<< hunter2
    (
        _STDIN,
        rf"((?:echo|printf)\s+(?:-[neE]+\s+)?)({_QUOTED}|[^\s|]{{1,200}})(\s*\|[^|\n]{{0,200}}{_STDIN})",
        _mask_piped,
    ),
    (_STDIN, rf"({_STDIN}[^|\n]{{0,200}}<<<\s*)({_QUOTED}|[^\s|]{{1,200}})()", _mask_piped),
    # The password is hunter2; my token is 6c26...
    (
        rf"(?i:(?:{_SAID})\s(?:is|was)\s)",
        rf"(?i:(\b(?:{_SAID})\s(?:is|was)\s{{0,3}}:?\s?)([^\s,;&<>{{}}()\[\]|]{{1,300}}))",
        _mask_key,
    ),
)
