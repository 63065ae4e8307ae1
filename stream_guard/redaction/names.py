"""Names of secrets: whether what stands under a name is one, by the words of the name in any style.

``dbPassword``, ``DB_PASSWORD`` and ``db-password`` are the same two words. What follows the noun decides too: the
``password_confirmation`` is a password, the ``password_policy`` is not.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import Final


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
