"""Secrets in command lines, variables, headers, addresses and under names; and honest texts of the same shape."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from stream_guard.redaction import mask_secrets, redact
from tests.unit.redaction.planted import draw

COMMANDS = [
    # options of a program
    "mysql -h db -uroot -p%s shop",
    "/usr/bin/mysqldump --single-transaction -u backup -p'%s' shop > dump.sql",
    'mariadb -u root -p"%s" -e "select 1"',
    "sudo mysqladmin -u root -p%s status",
    "cd /srv && mysql -u root -p%s < seed.sql",
    "redis-cli -h cache -p 6380 -a %s ping",
    "redis-cli --pass %s info",
    "redis-cli -h cache AUTH %s",
    "redis-cli config set requirepass %s",
    "mongosh --host db -u root -p %s --authenticationDatabase admin",
    "mongodump -u root -p%s --out /backup",
    "sqlcmd -S db -U sa -P %s -Q 'select 1'",
    "cqlsh -u cassandra -p %s node1",
    "cypher-shell -u neo4j -p %s 'match (n) return n'",
    "sqlplus scott/%s@orcl",
    "ldapsearch -x -H ldap://dc -D cn=admin,dc=x -w %s -b dc=x",
    "ldapmodify -xD cn=admin -w %s -f change.ldif",
    "sshpass -p %s scp a.txt anna@example.org:",
    "sshpass -p'%s' rsync -a src/ anna@example.org:dst/",
    "docker login registry.example.org -u anna -p %s",
    "docker login --username anna --password %s registry.example.org",
    "podman login -p%s -u anna quay.io",
    "helm registry login -u anna -p %s registry.example.org",
    "skopeo copy --src-creds anna:%s docker://a docker://b",
    "twine upload -u __token__ -p %s dist/*",
    "smbclient //files/share -U 'anna%%%s' -c ls",
    "smbclient //files/share %s -U anna",
    "rpcclient -U anna%%%s dc1",
    "openssl pkcs12 -in a.p12 -passin pass:%s -nodes",
    "openssl enc -d -aes-256-cbc -k %s -in a.enc",
    "keytool -list -keystore a.jks -storepass %s",
    "zip -rP %s out.zip notes",
    "unzip -P %s notes.zip",
    "7z x -p%s archive.7z",
    "htpasswd -nb anna %s",
    "htpasswd -bc /etc/users anna %s",
    "curl -u anna:%s https://example.org",
    "curl -sSLu 'anna:%s' https://example.org",
    "curl --proxy-user=anna:%s https://example.org",
    "curl -b 'session=%s' https://example.org",
    "curl --oauth2-bearer %s https://example.org",
    "http -a anna:%s example.org/api",
    "lftp -u anna,%s ftp.example.org",
    "mosquitto_pub -h broker -u anna -P %s -t a -m b",
    "ipmitool -H bmc -U admin -P %s power status",
    "xfreerdp /u:anna /p:%s /v:host",
    "rabbitmqctl add_user anna %s",
    "vault login %s",
    "cargo login %s",
    "wpa_passphrase home %s",
    "nmcli device wifi connect home password %s",
    "aws configure set aws_secret_access_key %s",
    "npm config set //registry.example.org/:_authToken %s",
    "kubectl create secret generic db --from-literal=password=%s",
    "vault kv put secret/db value=%s",
    "ssh-keygen -t ed25519 -N %s -f key",
    "echo %s | sudo -S systemctl restart web",
    "echo '%s' | docker login -u anna --password-stdin",
    "echo 'anna:%s' | chpasswd",
    "sudo -S id <<< '%s'",
    "tool --db-password=%s --verbose",
    "tool --db-pass %s --verbose",
    "java -Djavax.net.ssl.keyStorePassword=%s -jar app.jar",
    "ansible-playbook site.yml -e 'ansible_become_pass=%s'",
    'bash -c "mysql -u root -p%s shop"',
    '{"cmd": "mysql -u root -p%s shop", "cwd": "/srv"}',
    "first\\nmysql -u root -p%s shop\\nlast",
]
OTHERS = [
    # variables
    "export DB_PASS=%s",
    "PGPASSWORD=%s psql -h db",
    "MYSQL_PWD='%s' mysql shop",
    "$env:SMTP_PASS = '%s'",
    "set REDIS_PW=%s",
    "user_pass: %s",
    "ansible_ssh_pass=%s",
    "spring.mail.pass=%s",
    'DATABASE_PASSWORD_PROD="%s"',
    "bindpw %s",
    "password_confirmation=%s&commit=1",
    # addresses and connections
    "postgres://app:%s@db.example.org:5432/shop?sslmode=require",
    "mongodb+srv://app:%s@cluster0.example.org/shop",
    "amqp://guest:%s@mq:5672/%%2F",
    "anna:%s@tcp(db:3306)/shop",
    "jdbc:oracle:thin:anna/%s@db:1521:orcl",
    "jdbc:mysql://db/shop?user=anna&password=%s",
    "Server=db;Database=shop;Uid=anna;Pwd=%s;",
    "db.example.org:5432:shop:anna:%s",
    "git clone https://anna:%s@example.org/app.git",
    # files and statements
    "machine example.org login anna password %s",
    "default login anna password %s",
    "CREATE USER anna IDENTIFIED BY '%s'",
    "ALTER ROLE anna WITH PASSWORD '%s'",
    "<user><name>anna</name><password>%s</password></user>",
    # headers
    "PRIVATE-TOKEN: %s",
    "X-Vault-Token: %s",
    "Ocp-Apim-Subscription-Key: %s",
    "Proxy-Authorization: Basic %s",
    "-H 'apikey: %s'",
]


@pytest.mark.parametrize("form", [*COMMANDS, *(form for form in OTHERS if not form.startswith("bindpw"))])
def test_a_secret_is_masked_where_its_program_or_its_name_puts_it(form: str) -> None:
    random = Random(form)  # the same secrets in every run
    for shape in ("{A17}", "{h32}", "{A12}", "x{A15}9"):
        secret = draw(shape, random)
        shown = mask_secrets(form % secret)
        assert secret not in shown
        assert "[masked" in shown


@pytest.mark.parametrize(
    "form", [form for form in COMMANDS if not form.startswith(("vault", "cargo", "npm", "curl -b"))]
)
def test_a_password_of_words_is_masked_in_a_command(form: str) -> None:
    for password in ("swordfish", "Correct-Horse-Battery", "hunter2"):
        assert password not in mask_secrets(form % password)


HONEST = [
    "mysql -u root -p shop",
    "mysql -u root --port 3307 shop",
    "mysqldump --quick -P 3307 shop",
    "mkdir -p build/release/output",
    "cp -pr documents-2025 backup-2025",
    "docker run -p 8080:80 -u 1000:1000 nginx",
    "docker compose -p shop up -d",
    "docker run --user 1000:1000 -it alpine sh",
    "docker login registry.example.org",
    "docker login -u anna --password-stdin registry.example.org",
    "podman run -p 127.0.0.1:5432:5432 postgres",
    "ssh -p 2222 anna@example.org",
    "scp -P 2222 a.txt anna@example.org:",
    "nc -zv -w 5 example.org 443",
    "redis-cli -h cache -p 6380 ping",
    "mongosh --port 27018 shop",
    "mongodump -u root -p --out /backup",
    "sqlplus /nolog",
    "ldapsearch -x -W -D cn=admin,dc=x -b dc=x",
    "smbclient -L //files -N",
    "smbclient //files/share -U anna -c 'ls documents'",
    "openssl enc -aes-256-cbc -pass env:KEY -in a -out b",
    "openssl req -x509 -newkey rsa:4096 -keyout key.pem -out cert.pem -days 365 -passout file:pw.txt",
    "keytool -list -keystore a.jks",
    "zip -r out.zip notes && unzip -p out.zip notes/a.txt",
    "7z x archive.7z -oout",
    "htpasswd -c users anna",
    "curl -u anna https://example.org",
    "curl -b cookies.txt -c cookies.txt https://example.org",
    "curl -sS -o out.json https://example.org/a?page=2",
    "http example.org/api id==3",
    "mysql -u root -p$MYSQL_PWD shop",
    'docker login -u anna -p "$REGISTRY_PASSWORD" registry.example.org',
    "redis-cli -a ${REDIS_PW} ping",
    "sshpass -p <password> ssh anna@example.org",
    'curl -u "$USER:$TOKEN" https://example.org',
    "echo done | sudo tee /etc/motd",
    "echo 'hello world' | docker run -i alpine cat",
    "tool --password-file /run/secrets/db --token-ttl 30m --key-id 7",
    "tool --private-key ~/.ssh/id_ed25519 --auth-method oidc",
    "git config user.name 'Anna Smith'",
    "npm config set registry https://registry.example.org/",
    "aws configure set region eu-west-1",
    "cargo login page is down; vault login works",
    "net user growth was strong this year",
    "security updates -were installed",
    "a 2-bedroom-apartment near the park",
    "PWD=/home/anna/project OLDPWD=/home/anna",
    "pwd: /srv/app/releases/2026-01-05",
    "tests: pass=31 fail=2, pass: yes, first pass: done",
    "The mountain pass: closed in winter. Boarding pass: at the gate.",
    "bypass=ring-road-north compass: south-west, author: Jane Austen",
    "auth: oauth2, auth_method=oidc, authenticated: true, authority: example.org",
    "max_tokens=4096 total_tokens: 512 tokens: 77 nextPageToken: CAUQAA",
    "page_token=eyjhYmMxMjM0NTY3ODkw-2026 cursor: 77",
    "password_policy: at-least-12, password_length=16, password_reset_url: https://example.org/reset",
    "secret_name: db-credentials-2026, token_type: bearer, token_count=512",
    "key_id: 7, key: value, foreign_key=orders.id, partition_key: session-7, public_key: ssh-rsa",
    "The login form password field is empty; login page password reset",
    "We discussed the password policy, the secret santa and the token economy.",
    "cookie_consent=granted cookies_enabled: true",
    "machine learning login flow",
    "--- PASS: TestExplainCmd_HasCheckpointFlag2 (0.00s)",
    'set the encrypted password "newEncryptedPwd" of the sample',
    "ask for the password in person",
    "host:8080:a:b is no line of a file",
    "version: 1.2.3, id: 7c9e6679-7425-40de-944b-e07fc1f90ae7, session_id=refund-00003",
    "https://example.org:8443/a/b?x=1#c and ssh://git@example.org/app.git",
    "mail anna@example.org or git@github.com:acme/app.git",
    "time 10:30:00, ratio 3:4, image nginx:1.27, chmod 755, chown 1000:1000 a",
    "patient: Anna, pattern: a*, path: /srv, keyboard: qwerty, passenger: 2, passport: none",
]


@pytest.mark.parametrize("text", HONEST)
def test_an_honest_text_of_the_same_shape_stays_whole(text: str) -> None:
    assert mask_secrets(text) == text


SECRET_NAMES = [
    "password",
    "passwd",
    "pass_word",
    "passWord",
    "PASSWORD",
    "dbPassword",
    "DB_PASSWORD",
    "db-password",
    "user.password",
    "newPassword",
    "password2",
    "password_confirmation",
    "passwordConfirm",
    "confirm_password",
    "password_hash",
    "passphrase",
    "pass_phrase",
    "pass",
    "pwd",
    "pw",
    "db_pass",
    "dbPass",
    "userpass",
    "storepass",
    "keyPass",
    "bindpw",
    "admin_pw",
    "secret",
    "client_secret",
    "clientSecret",
    "secretKey",
    "SECRET_KEY",
    "secret_value",
    "appSecret",
    "webhook_secret",
    "token",
    "access_token",
    "accessToken",
    "refresh-token",
    "id_token",
    "api_token",
    "apiKey",
    "api_key",
    "API-KEY",
    "apikey",
    "x-api-key",
    "api_key_2",
    "private_key",
    "privateKey",
    "private_key_pem",
    "pem",
    "ssh_key",
    "sshKey",
    "gpg_key",
    "encryption_key",
    "signingKey",
    "hmac_key",
    "masterKey",
    "access_key",
    "secret_access_key",
    "aws_secret_access_key",
    "credentials",
    "credential",
    "authorization",
    "Authorization",
    "auth",
    "basic_auth",
    "cookie",
    "set-cookie",
    "Cookie",
    "session_token",
    "psk",
    "wpa_psk",
    "otp",
    "requesttoken",
    "rememberToken",
    "mypassword",
    "totp_secret",
    "jwt",
    "bearer",
    "connection.password",
    "spring.datasource.password",
    "recovery_codes",
    "mnemonic",
]


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_value_under_the_name_of_a_secret_is_masked_in_any_style(name: str) -> None:
    secret = draw("{A12}7{h8}", Random(name))
    assert redact({"config": {name: secret, "user": "anna"}}) == {"config": {name: "[masked]", "user": "anna"}}
    assert secret not in mask_secrets(json.dumps({name: secret}))
    assert secret not in json.dumps(redact({name: [secret]}))


HONEST_VALUES: list[dict[str, Any]] = [
    {"pass": True, "passed": 31, "fail": False},
    {"pass": "yes", "pass_rate": 0.97, "passes": 4},
    {"pass": 31},
    {"password": None, "has_password": True, "password_required": False},
    {"password_policy": "at least 12 characters", "password_length": 16, "password_updated_at": "2026-01-05"},
    {"bypass": "ring road north", "compass": "south-west", "passenger": "Anna", "passport": "none"},
    {"boarding_pass": "at the gate", "mountain_pass": "Grimsel", "season_pass": "adult"},
    {"author": "Jane Austen", "authority": "example.org", "authenticated": True},
    {"auth": False, "auth_method": "oauth2", "auth_type": "basic"},
    {"auth": "oauth2"},
    {"auth": {"type": "basic", "user": "anna"}},
    {"tokens": 512, "max_tokens": 4096, "total_tokens": 77, "token_count": 3, "token_type": "bearer"},
    {"tokens": ["the", "cat", "sat"], "tokenizer": "cl100k_base"},
    {"next_page_token": "CAUQAA", "pageToken": "CAUQAB", "continuationToken": "abc7"},
    {"secret_name": "db-credentials", "secrets": 2, "is_secret": False},
    {"key": "orders/2026", "keys": ["a", "b"], "primary_key": "id", "foreign_key": "orders.id"},
    {"public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5", "ssh_public_key": "none", "key_id": "7"},
    {"account_key": "ACME-EU", "service_key": "billing", "app_key": "orders"},
    {"cookie_consent": "granted", "cookies_enabled": True},
    {"pwd": "/home/anna/project", "cwd": "/srv"},
    {"private_key_path": "/etc/ssl/key.pem", "ssh_key": "~/.ssh/id_ed25519", "pem": "certs/server.pem"},
    {"token_url": "https://example.org/token", "token_endpoint": "https://example.org/o/token"},
    {"keyboard": "qwerty", "monkey": "banana", "turkey": 2, "hockey": "ice"},
    {"session_id": "7c9e6679-7425-40de-944b-e07fc1f90ae7", "request_id": "9f86d081884c7d65"},
    {"pattern": "a*", "patient": "Anna", "path": "/srv/app"},
    {"pin": 4, "seed": 42, "signature": "Anna Smith"},
    {"username": "anna", "login": "anna", "user": "anna", "email": "anna@example.org"},
    {"secretary": "Anna", "passive": "yes", "compassion": "much"},
]


@pytest.mark.parametrize("value", HONEST_VALUES)
def test_values_under_honest_names_are_shown(value: dict[str, Any]) -> None:
    assert redact(value) == value
