"""Secrets that only a name or a place gives away: ``password=...``, headers, command lines, URLs with a login."""

from __future__ import annotations

from typing import Any, Final

import re2

from stream_guard.redaction.words import is_wording

# Behind these names stands a secret, whatever it looks like.
_PASSWORDS: Final = r"pass(?:word|wd|phrase|code)|pwd"
# Behind these, what looks like chance.
_KEYS: Final = (
    r"secret|token|credentials?|jwt"
    r"|(?:api|access|account|admin|app|application|auth|client|deploy|encryption|hmac|host|ingest|integration|licen[cs]e|master"
    r"|personal|private|publishable|root|secret|security|service|shared[_ -]?access|signing|ssh|storage|subscription"
    r"|webhook|write)[_ -]?key|(?:auth|access|refresh|bearer|id|security|session)[_ -]?token|pat"
)
# A name goes on before and behind the word: TWILIO_AUTH_TOKEN, secretKeyBase64.
_NAME: Final = r"[A-Za-z0-9_.-]{{0,40}}(?:{words})(?:[_-]?(?:key|id|value|base64|str|string|hash|enc|[0-9]))?"
_QUOTE: Final = r"""(?:\\{0,3}["'`]|%22|&quot;)"""
_SIGN: Final = r"(?:=>|:=|={1,2}|:|%3[DdAa])"
_VALUE: Final = r"""(?:\\{0,3}"[^"\\]{1,300}|\\{0,3}'[^'\\]{1,300}|`[^`]{1,300}|[^\s"'`,;&<>{}()\[\]\\|]{1,300})"""

# What stands behind a name of a secret and is none: types, placeholders, references and words about it.
_NO_SECRET: Final = re2.compile(
    r"(?i)^(?:\[masked[a-z ]*(?:\]|$)|\$(?:[{(]|[a-z_]+$)|%\(|\{|<|\*{3}|\.{3}|x{3,}$|getenv|input$"
    r"|(?:os|process|env|self|this|config|settings|options|args)(?:\.[a-z_]+)*$"
    r"|(?:none|null|nil|undefined|true|false|yes|no|str|string|bytes|text|int|number|final|optional|required|missing|invalid"
    r"|incorrect|wrong|expired|empty|unset|hidden|redacted|masked|reset|change|changed|field|unknown|default|the|a|an|must"
    r"|should|is|was|are|see|and|or|not|in|for|to|of|on|with|from|please|your|my|any|at|be)(?:[.:?!]*$|\s))"
)
_LEAST: Final = 8  # characters of what looks like chance


def _mask_password(match: Any) -> str:
    head, value = match.group(1, 2)
    bare = value.lstrip("\\\"'`")
    if not bare or _NO_SECRET.search(bare):
        return str(match.group())
    return f"{head}[masked]"


def _mask_key(match: Any) -> str:
    head, value = match.group(1, 2)
    quoted = value[:1] in "\\\"'`"
    bare = value.lstrip("\\\"'`")
    if not bare or _NO_SECRET.search(bare) or not (_is_chance(bare) or (quoted and _is_strong(head))):
        return str(match.group())
    return f"{head}[masked]"


def _is_strong(name: str) -> bool:
    """Whether a quoted value behind the name is a secret even in words, as in ``"api_key": "open sesame"``."""
    return _STRONG.search(name) is not None


_STRONG: Final = re2.compile(
    r"(?i)(?:(?:api|access|private|secret|signing|encryption|master)[_ -]?key|secret"
    r"|(?:auth|access|refresh)[_ -]?token)[\\\"'` ]*[:=]"
)


def _is_chance(value: str) -> bool:
    """Whether a value looks as if a machine had drawn it."""
    if len(value) < _LEAST or is_wording(value):
        return False
    return any(map(str.isdigit, value)) or len(value) >= 20


def _mask_login(match: Any) -> str:
    head, token = match.group(1, 2)
    found: str = match.group()
    # "bearer instruments" is prose: a token has digits, or is longer than words are.
    return f"{head}[masked]" if len(token) >= 24 or any(map(str.isdigit, token)) else found


def _mask_header(match: Any) -> str:
    head, value = match.group(1, 2)
    found: str = match.group()
    return found if _NO_SECRET.search(value) else f"{head}[masked]"


def _mask_url_login(match: Any) -> str:
    head, user, password = match.group(1, 2, 3)
    if password is None:  # a token in the place of the user's name
        return f"{head}[masked]@" if _is_chance(user) else str(match.group())
    return f"{head}{user}:[masked]@"


def _assigned(words: str) -> str:
    return rf"(?i:(?:{words})[a-z0-9_-]{{0,8}}[\"'`\\%&;a-z0-9]{{0,6}}\s{{0,3}}(?:{_SIGN}))"


_QUERY: Final = "sig|signature|x-amz-signature|x-amz-security-token|x-goog-signature|code|key"


def _named(words: str) -> str:
    return rf"(?i:({_NAME.format(words=words)}{_QUOTE}?\s{{0,3}}(?:{_SIGN})\s{{0,3}})({_VALUE}))"


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
        r"(://)([^\s/:@\"'<>]{0,100})(?::([^\s/@\"'<>]{1,200}))?@",
        _mask_url_login,
    ),
    (
        rf"[?&](?i:{_QUERY})=",
        rf"([?&](?i:{_QUERY})=)([^\s&\"'<>#]{{1,500}})",
        _mask_key,
    ),
    (_assigned(_PASSWORDS), _named(_PASSWORDS), _mask_password),
    (_assigned(_KEYS), _named(_KEYS), _mask_key),
    # <password>...</password>
    (
        rf"(?i:{_PASSWORDS}|secret|token|key)>",
        rf"(?i:(<[a-z0-9:_-]{{0,30}}(?:{_PASSWORDS}|secret|token|api[_-]?key)>)([^<\n]{{1,300}}))",
        _mask_password,
    ),
    # --password hunter2, --api-key=..., and curl -u user:password
    (
        rf"--[a-z0-9-]*(?:{_PASSWORDS})\s",
        rf"(--[a-z0-9-]{{0,30}}(?:{_PASSWORDS})\s{{1,3}})({_VALUE})",
        _mask_password,
    ),
    (rf"--[a-z0-9-]*(?:{_KEYS})\s", rf"(--[a-z0-9-]{{0,30}}(?:{_KEYS})\s{{1,3}})({_VALUE})", _mask_key),
    (r"\s(?:-u|--user)[ =]", r"(\s(?:-u|--user)[ =][\"']?[^\s:\"']{1,100}:)([^\s\"']{1,200})", _mask_password),
    # The password is hunter2; my token is 6c26...
    (
        rf"(?i:(?:{_PASSWORDS}|{_KEYS})\s(?:is|was)\s)",
        rf"(?i:(\b(?:{_PASSWORDS}|{_KEYS})\s(?:is|was)\s{{0,3}}:?\s?)({_VALUE}))",
        _mask_key,
    ),
)
