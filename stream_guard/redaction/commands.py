"""Secrets in command lines: a command is taken apart as a shell does it, and its program says where its secrets are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from stream_guard.redaction.named import SecretName, is_placeholder, secret_name

# Programs that take a secret in their command line, and where it stands in it.
#
# A row names programs, maybe the words of a subcommand, and places, as a manual would write them:
#
# ``-p@`` glued to the option; ``-p *`` behind it or glued; ``-k >`` behind it only; ``-u *:`` behind it or glued, and
# the secret begins behind the colon; ``AUTH *`` behind a word; ``/p:`` glued to the sign; ``=`` behind that sign in
# every word; ``+2`` the second word that is no option, ``+2 ~`` where it is no word of prose; ``-b $`` the last word,
# where that option is given; ``?`` behind a word that is the name of a secret; ``-c _`` an option that takes something
# else and is no word to be counted.


class SecretPlace(NamedTuple):
    """Where a secret stands: an option or a sign, and what follows it."""

    option: str
    how: str


class SecretProgram(NamedTuple):
    """The words of a subcommand, and the places of its secrets."""

    words: tuple[str, ...]
    places: tuple[SecretPlace, ...]


_ROWS: Final = (
    ("mysql|mysqldump|mysqladmin|mysqlimport|mysqlcheck|mysqlshow|mysqlslap|mysqlbinlog|mysqlsh|mycli", "-p@"),
    ("mariadb|mariadb-dump|mariadb-admin|xtrabackup|mariabackup", "-p@"),
    ("mysqladmin password", "+1"),
    ("redis-cli|valkey-cli|keydb-cli", "-a *, --pass *, AUTH *, auth *, requirepass *"),
    ("mongo|mongosh|mongodump|mongorestore|mongoexport|mongoimport|mongostat|cqlsh|cypher-shell|beeline", "-p *"),
    ("rabbitmqadmin|twine|elasticsearch-users|evil-winrm|smbmap|crackmapexec|netexec|psexec|rdesktop|hydra", "-p *"),
    ("ncftpget|ncftpput|sshpass|influx|useradd|usermod", "-p *"),
    ("sqlcmd|bcp|osql|isql|tsql|ipmitool|mosquitto_pub|mosquitto_sub|mosquitto_rr|zip|unzip", "-P *"),
    ("vsql|ldapsearch|ldapadd|ldapmodify|ldapdelete|ldapwhoami|ldapcompare|ldappasswd|kadmin", "-w *"),
    ("ldappasswd", "-s *, -a *"),
    ("nodetool", "-pw *"),
    ("docker|podman|nerdctl|buildah|skopeo|oras|az login", "-p *"),
    ("helm registry login", "-p *"),
    ("crane auth login", "-p *"),
    ("poetry publish", "-p *"),
    ("airflow users create", "-p *"),
    ("skopeo|podman|buildah", "--creds *:, --src-creds *:, --dest-creds *:"),
    ("smbclient|rpcclient|smbget|winexe|net", "-U *%, --user *%"),
    (
        "smbclient",
        "+2, -U _, -I _, -W _, -p _, -c _, -D _, -t _, -m _, -s _, -O _, -n _, -A _, -T _, -d _, -l _, -b _, -L _",
    ),
    ("net user", "+2 ~"),
    ("openssl", "-pass *pass:, -passin *pass:, -passout *pass:, -password *pass:, -k >, -K >, -hmac >"),
    ("openssl passwd", "+1, -salt _"),
    ("apksigner", "--ks-pass *pass:, --key-pass *pass:"),
    ("keytool|jarsigner", "-storepass *, -keypass *, -srcstorepass *, -deststorepass *, -srckeypass *, -destkeypass *"),
    ("7z|7za|7zr|rar|unrar", "-p@"),
    ("rar|unrar", "-hp@"),
    ("pdftk", "user_pw *, owner_pw *, input_pw *"),
    ("htpasswd", "-b $"),
    ("curl", "-u *:, --user *:, -U *:, --proxy-user *:, -E *:, --cert *:, --pass *, --proxy-pass *"),
    ("curl", "--oauth2-bearer *, -b *=, --cookie *="),
    ("http|https|xh", "-a *:, --auth *:"),
    ("ab", "-A *:, -P *:"),
    ("etcdctl", "--user *:"),
    ("lftp", "-u *,"),
    ("sqlplus|sqlldr|expdp|impdp|rman", "+1 */"),
    ("ssh-keygen", "-N *, -P *"),
    ("snmpget|snmpset|snmpwalk|snmpbulkwalk", "-A *, -X *, -c *"),
    ("xfreerdp|wlfreerdp", "/p:"),
    ("cmdkey", "/pass:"),
    ("schtasks", "/p *, /rp *"),
    ("security", "-w >"),
    ("security unlock-keychain", "-p >"),
    ("rabbitmqctl add_user", "+2"),
    ("rabbitmqctl change_password", "+2"),
    ("rabbitmqctl authenticate_user", "+2"),
    ("vault|cargo login", "+1 ~"),
    ("ngrok authtoken", "+1 ~"),
    ("ngrok config add-authtoken", "+1"),
    ("snyk auth", "+1 ~"),
    ("bw login", "+2 ~"),
    ("bw unlock", "+1 ~"),
    ("rclone obscure", "+1"),
    ("wpa_passphrase", "+2"),
    ("nmcli", "password *"),
    ("grafana-cli admin reset-admin-password", "+1"),
    ("mc alias set", "+4"),
    ("aws configure set", "?"),
    ("npm|pnpm|yarn|pip config set", "?"),
    ("git|poetry config", "?"),
    ("gh secret set", "-b *, --body *"),
    ("az keyvault secret set", "--value *"),
    ("aws ssm put-parameter", "--value *"),
    ("aws secretsmanager", "--secret-string *"),
    ("kubectl create secret", "--from-literal *="),
    ("fly|flyctl|doppler secrets set", "="),
    ("vault kv put", "="),
    ("vault write", "="),
    ("codecov|doctl", "-t *"),
    ("gitlab-runner register", "-r *, -t *"),
)


def _place(said: str) -> SecretPlace:
    option, _, how = said.partition(" ")
    return SecretPlace(said[:-1], "@") if said.endswith("@") else SecretPlace(option, how)


def _read_rows() -> dict[str, list[SecretProgram]]:
    found: dict[str, list[SecretProgram]] = {}
    for row, places in _ROWS:
        names, *words = row.split(" ")
        for name in names.split("|"):
            found.setdefault(name, []).append(SecretProgram(tuple(words), tuple(map(_place, places.split(", ")))))
    return found


PROGRAMS: Final = _read_rows()
"""The rows of each program."""


_LONGEST: Final = 4000  # characters of one command
_NAMES: Final = "|".join(sorted(map(re.escape, PROGRAMS), key=len, reverse=True))
# At the beginning of a word, or behind a folder, a quote, or a line end that is escaped.
ANCHOR: Final = rf"(?:{_NAMES})(?:\.exe)?\s"
_PROGRAM: Final = re.compile(rf"(?:^|[\s'\"`;|&(/\\=]|\\[nrt])({_NAMES})(?:\.exe)?(?=[ \t])", re.MULTILINE)
# A word: letters, escaped signs and quoted pieces. A quote without its other one is a letter.
_WORD: Final = re.compile(
    r"""(?:[ \t\r]|\\\r?\n)*+((?:'[^'\n]*+'|"(?:[^"\\\n]|\\.)*+"|\\.|[^\s;|&<>()`\\])++)""", re.DOTALL
)
_CLUSTER: Final = 5  # signs: more are the name of one option
_NUMBERS: Final = re.compile(r"[0-9]*")


class _Word(NamedTuple):
    start: int
    end: int
    text: str


def mask_commands(text: str) -> str:
    """Return the text with ``[masked]`` for the secrets of the commands in it."""
    spans: set[tuple[int, int]] = set()
    for found in _PROGRAM.finditer(text):
        words = list(_words(text, found.end(), found.end() + _LONGEST))
        for program in PROGRAMS[found[1]]:
            spans.update(_secrets(program, words))
    shown, at = [], 0
    for start, end in sorted(spans):
        if start >= at and not is_placeholder(text[start:end]):
            shown += [text[at:start], "[masked]"]
            at = end
    return "".join((*shown, text[at:]))


def _words(text: str, at: int, end: int) -> Iterator[_Word]:
    """Yield the words of a command up to its end."""
    while (word := _WORD.match(text, at, end)) is not None:
        at = word.end()
        yield _Word(word.start(1), at, word[1])


def _secrets(program: SecretProgram, words: list[_Word]) -> Iterator[tuple[int, int]]:
    """Yield where the secrets of a command stand."""
    taken = {place.option for place in program.places if place.how not in ("@", "$", "") and place.option[0] != "+"}
    plain = _plain(words, taken)
    if program.words:
        texts = tuple(word.text for word in plain)
        behind = next((at for at in range(len(texts)) if texts[at : at + len(program.words)] == program.words), None)
        if behind is None:
            return
        plain = plain[behind + len(program.words) :]
    for place in program.places:
        if place.option[0] == "+":
            yield from _counted(place, plain)
        elif place.option == "?":
            yield from _behind_names(plain)
        elif place.how == "$":
            if plain and any(_is_cluster(word.text, place.option[1]) for word in words):
                yield plain[-1].start, plain[-1].end
        else:
            yield from _behind_option(place, words)


def _plain(words: list[_Word], taking: set[str]) -> list[_Word]:
    """Return the words that are neither options nor what options take."""
    found, skipped = [], False
    for word in words:
        if skipped:
            skipped = False
        elif word.text[0] != "-":
            found.append(word)
        else:
            skipped = word.text in taking
    return found


def _counted(place: SecretPlace, plain: list[_Word]) -> Iterator[tuple[int, int]]:
    number = int(place.option[1:])
    if len(plain) < number:
        return
    word = plain[number - 1]
    if place.how in ("", "~"):
        if not (place.how and word.text.isalpha()):
            yield word.start, word.end
        return
    before, sign, secret = word.text.partition(place.how[1:])
    if before and sign:  # a login, and the host behind it
        start = word.start + len(before) + len(sign)
        yield start, start + len(secret.rpartition("@")[0] or secret)


def _behind_names(plain: list[_Word]) -> Iterator[tuple[int, int]]:
    for name, value in pairwise(plain):
        if secret_name(name.text) >= SecretName.TEXT:
            yield value.start, value.end


def _behind_option(place: SecretPlace, words: list[_Word]) -> Iterator[tuple[int, int]]:
    """Yield what stands behind an option, or is glued to it."""
    option, how = place
    for number, word in enumerate(words):
        text = word.text
        if option == "=":
            if "=" in text.strip("="):
                yield word.start + text.index("=") + 1, word.end
        elif how == "@" or not how:
            if text.startswith(option) and len(text) > len(option):
                yield word.start + len(option), word.end
        elif how != "_" and (value := _value_of(option, number, words, glued=how != ">")) is not None:
            yield from _part_of(value, how[1:])


def _value_of(option: str, number: int, words: list[_Word], *, glued: bool) -> _Word | None:
    """Return what an option takes, as a word; None where this word is not the option."""
    word = words[number]
    text, is_long = word.text, option.startswith("--")
    following = words[number + 1] if number + 1 < len(words) else None
    is_short = len(option) == 2 and option[0] == "-"
    if text == option or (is_short and _is_cluster(text, option[1]) and text[-1] == option[1] and text[1] != option[1]):
        return following if following is not None and following.text[0] != "-" else None
    if is_long and text.startswith(f"{option}="):
        return _Word(word.start + len(option) + 1, word.end, text[len(option) + 1 :])
    if glued and is_short and text.startswith(option):
        return _Word(word.start + 2, word.end, text[2:])
    return None


def _part_of(value: _Word, sign: str) -> Iterator[tuple[int, int]]:
    """Yield the part of a value that is the secret: all of it, or what stands behind the sign."""
    if not sign:
        yield value.start, value.end
        return
    before, found, secret = value.text.partition(sign)
    if not found or not secret or (sign == ":" and _NUMBERS.fullmatch(before) and _NUMBERS.fullmatch(secret)):
        return  # numbers on both sides are ids of a user and a group, or ports
    quoted = value.text[:1] in "'\"" and secret[-1:] == value.text[:1]
    yield value.start + len(before) + len(found), value.end - (1 if quoted else 0)


def _is_cluster(text: str, letter: str) -> bool:
    """Whether a word is short options written together, and this one is among them."""
    return text[0] == "-" and 1 < len(text) <= _CLUSTER and text[1:].isalpha() and letter in text[1:]
