"""Secrets that only a name or a place gives away: ``password=...``, headers, command lines, URLs with a login."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final

import re2

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


# Names of secrets: whether what stands under a name is one, by the words of the name in any style.
#
# ``dbPassword``, ``DB_PASSWORD`` and ``db-password`` are the same two words. What follows the noun decides too: the
# ``password_confirmation`` is a password, the ``password_policy`` is not.


class SecretName(IntEnum):
    """How much a name says about what stands under it."""

    NO = 0
    CHANCE = 1  # a secret where it looks as if a machine had drawn it
    TEXT = 2  # a secret where it is a text; a count is none
    KEY = 3  # a secret, whatever it is; but the name may also begin a sentence about it
    PASSWORD = 4  # a secret, whatever it is


_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_PASSWORDS: Final = ("password", "passwd", "passphrase", "passcode")
_KEY: Final = (
    "secret credential credentials cvv cvc cvv2 cvc2 cardnumber authorization cookie token apikey secretkey accesskey "
    "privatekey privkey mnemonic seedphrase recoverycode"
)
_TEXT: Final = (
    "pass pw pwd psk pem pfx otp totp mfacode passwords passwds secrets cookies apikeys accesskeys privatekeys "
    "recoverycodes backupcodes passkey"
)
_CHANCE: Final = "auth basicauth bearer csrf xsrf jwt pat tokens"
# With "key" behind them they are secrets, as in ``ssh_key``.
_KEYS: Final = (
    "aes crypto decrypt decryption deploy dsa ecdsa ed25519 encrypt encryption gpg hmac jwt master pgp priv private "
    "root rsa sharedaccess sign signing ssh ssl symmetric tls wrapping"
)
# With these before "key" it may be a secret or a name: ``account_key`` may be ``ACME-EU``.
_NAMED_KEYS: Final = (
    "account admin app application auth client consumer function functions host ingest integration licence license "
    "personal publishable security server service session shared storage subscription vault webhook write"
)
_NOUNS: Final = (
    dict.fromkeys(_CHANCE.split(), SecretName.CHANCE)
    | {f"{word}key{many}": SecretName.CHANCE for word in _NAMED_KEYS.split() for many in ("", "s")}
    | dict.fromkeys(_TEXT.split(), SecretName.TEXT)
    | {f"{word}key{many}": SecretName.TEXT for word in _KEYS.split() for many in ("", "s")}
    | dict.fromkeys(_KEY.split(), SecretName.KEY)
    | dict.fromkeys(_PASSWORDS, SecretName.PASSWORD)
)
_MOST_WORDS: Final = 3  # of a noun that is written apart: ``shared_access_key``

# Whose it is. A ``pass`` of somebody else is a way over a mountain, and glued to another word part of it: ``compass``.
_OWNER_WORDS: Final = (
    "access account acct admin ansible api app application auth basic become bind bot cert client cluster "
    "current customer database db default demo dest dev docker elastic email enable encryption es ftp git github "
    "gitlab host http https id imap jdbc jenkins join kafka key keystore ldap login mail mariadb master mongo "
    "mongodb mq mqtt mssql my mysql neo4j new nexus oauth oauth2 old oracle owner p12 pg pgsql pkcs12 pop3 "
    "postgres postgresql private prod production proxy rabbitmq rdp redis refresh registry remote repl "
    "replication repo rest root rpc sa samba sasl secret server service session sftp signing smb smtp snmp socks "
    "source sql src ssh ssl staging storage store su sudo superuser svc svn sys sysadmin system target telnet "
    "temp test tls tmp trust truststore unix unlock user username usr vault vnc vpn web wifi windows wireless "
    "wlan wordpress wp wpa x509 xmpp zip"
)
# What may follow the noun, and it is still that secret.
_SAME_WORDS: Final = (
    "again b64 backup base64 body bytes clear cleartext confirm confirmation confirmed content current data "
    "decoded decrypted default der dev enc encoded encrypted env hash hashed header hex input json key keys live "
    "main new next old param pem plain plaintext prev previous primary prod production raw repeat repeated "
    "retype sandbox secondary stage staging str string temp test text tmp value values var verification verify"
)
_OWNERS: Final = frozenset(_OWNER_WORDS.split())
_STILL: Final = frozenset(_SAME_WORDS.split())
# What makes a token a place in a list.
_PLACES: Final = frozenset(("page", "pagination", "continuation", "cursor", "delta", "sync", "resume", "next", "skip"))
_SHORT: Final = frozenset(("pass", "pw"))


@lru_cache(maxsize=4000)
def secret_name(name: str) -> SecretName:
    """Return how much a name says about what stands under it."""
    words = words_of(name)
    found = SecretName.NO
    for at in range(len(words)):
        for size in range(1, min(_MOST_WORDS, len(words) - at) + 1):
            meant = _noun("".join(words[at : at + size]), words[:at])
            if size == 1:
                meant = max(meant, _glued(words[at]))
            found = max(found, min(meant, _what_is_left(words[at + size :])))
    return found


def words_of(name: str) -> list[str]:
    """Return the words of a name, in small letters."""
    return [word.lower() for word in _WORD.findall(name[-200:])]


def is_owned(name: str) -> bool:
    """Whether a name says whose or what it is: ``db_pass``, and not ``pass``."""
    words = words_of(name)
    return len(words) > 1 or words[0] not in (*_SHORT, "token")


def is_short(name: str) -> bool:
    """Whether the noun of a name is a short word for a password."""
    return words_of(name)[-1].endswith(("pass", "pw", "pwd"))


def _noun(word: str, before: list[str]) -> SecretName:
    """Return what a noun says, with the words before it."""
    if word in _SHORT and not all(owner in _OWNERS or owner.isdigit() for owner in before):
        return SecretName.CHANCE
    if word == "token" and before and before[-1] in _PLACES:
        return SecretName.NO
    return _NOUNS.get(word, SecretName.NO)


def _glued(word: str) -> SecretName:
    """Return what a word says that has its owner in it: ``dbpassword``, ``storepass``."""
    for size in range(2, len(word) - 1):
        if word[:size] in _OWNERS and (found := _NOUNS.get(word[size:])) is not None:
            return found
    if word not in _NOUNS and word.endswith(("password", "passwd")):
        return SecretName.PASSWORD
    return SecretName.CHANCE if word not in _NOUNS and word.endswith(("secret", "token", "apikey")) else SecretName.NO


def _what_is_left(rest: list[str]) -> SecretName:
    """Return the most that a name may say of a secret when these words follow the noun."""
    if all(word in _STILL or word.isdigit() for word in rest):
        return SecretName.PASSWORD
    return SecretName.CHANCE if rest == ["id"] else SecretName.NO


# Whether a piece of text is wording or chance: what begins like a key may be a file name or a slug.


_PIECE: Final = re.compile(r"[^-_./+=~]+")
# Letters and a short number behind them, or a short number alone: `report`, `q1`, `2026`, `3rd`.
_WORD_OR_NUMBER: Final = re.compile(r"[A-Za-z]*[0-9]{0,4}|[0-9]{1,4}[a-z]{0,2}")
_HUMP: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_VOWEL: Final = re.compile(r"[aeiouyAEIOUY]")
_RUN: Final = re.compile(r"[A-Z]+|[a-z]+|[0-9]+")
_RUNS: Final = 5  # runs of one sort of sign; sixteen drawn ones have ten on average
# A variable, a template or stars in the place of a secret.
_PLACEHOLDER: Final = re.compile(
    r"[\\\"'`]*(?:\$(?:[{(]|[A-Z_][A-Z0-9_]*\b(?!.*[a-z])|[a-z_]+$)|\{\{|<[^>]*>|%[({s]|\*{2,}|[xX]{3,}[\"']?$|\.{3}|\[masked|@?-$|$)"
)
_FILE: Final = re.compile(r"[\w./~\\: -]+")
_FOLDER: Final = re.compile(r"(?:~|\.{1,2})/")
_SUFFIX: Final = re.compile(
    r"\.(?:asc|cer|cfg|conf|crt|csr|der|env|gpg|ini|jks|json|kdbx|key|p12|pem|pfx|ppk|pub|txt|ya?ml)$"
)
_LONGEST: Final = 20  # letters of a word
_USUAL: Final = 3.5  # letters of a word on average, where only capitals divide them


def is_slug(text: str) -> bool:
    """Whether the text is several words and numbers in one case; chance mixes cases or puts digits between letters."""
    pieces = _PIECE.findall(text)
    words = [piece for piece in pieces if _WORD_OR_NUMBER.fullmatch(piece)]
    return len(words) == len(pieces) > 1 and (text.islower() or text.isupper()) and max(map(len, words)) <= _LONGEST


def is_wording(text: str) -> bool:
    """Whether the text is a slug, or words that capitals divide, as in ``getElementsByName``."""
    if is_slug(text):
        return True
    if not all(_WORD_OR_NUMBER.fullmatch(piece) for piece in _PIECE.findall(text)):
        return False
    humps = _HUMP.findall(text)
    if not humps or max(map(len, humps)) > _LONGEST or sum(map(len, humps)) < _USUAL * len(humps):
        return False
    return all(_VOWEL.search(hump) for hump in humps if len(hump) > 1)


def is_mixed(text: str) -> bool:
    """Whether the text changes often between capitals, small letters and digits; numbers of things keep to one case."""
    in_one_case = text == text.lower() or text == text.upper()
    return not in_one_case and len(_RUN.findall(text)) >= _RUNS


def is_path(text: str) -> bool:
    """Whether the text names a file: it begins in a folder, or ends like one."""
    if _FILE.fullmatch(text) is None:
        return False
    in_words = text[:1] == "/" and is_wording(text[1:])
    return in_words or _FOLDER.match(text) is not None or _SUFFIX.search(text) is not None


def is_placeholder(text: str) -> bool:
    """Whether the text stands where a secret would: a variable, a template, stars, or what was masked before."""
    return _PLACEHOLDER.match(text) is not None
