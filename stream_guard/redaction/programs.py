"""Programs that take a secret in their command line, and where it stands in it.

A row names programs, maybe the words of a subcommand, and places, as a manual would write them:

``-p@`` glued to the option; ``-p *`` behind it or glued; ``-k >`` behind it only; ``-u *:`` behind it or glued, and
the secret begins behind the colon; ``AUTH *`` behind a word; ``/p:`` glued to the sign; ``=`` behind that sign in every
word; ``+2`` the second word that is no option, ``+2 ~`` where it is no word of prose; ``-b $`` the last word, where
that option is given; ``?`` behind a word that is the name of a secret; ``-c _`` an option that takes something else and
is no word to be counted.
"""

from __future__ import annotations

from typing import Final, NamedTuple


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
