"""What rights are raised for: packages of the system's registry, or more."""

from __future__ import annotations

import pytest
from stream_guard_shell.effects import ShellEffect
from stream_guard_shell.reading import read_command
from stream_guard_shell.sessions import with_purpose


def privileges(command: str) -> list[ShellEffect]:
    reading = read_command(command, "/home/u/project", "/home/u")
    return [effect for effect in with_purpose(reading.effects, reading.raised_for) if effect.kind == "privilege"]


@pytest.mark.parametrize(
    "command",
    [
        "sudo apt-get install -y jq",
        "sudo apt-get update && sudo apt-get install -y --no-install-recommends libssl-dev=3.0 g++",
        "sudo DEBIAN_FRONTEND=noninteractive apt install tree",
        "bash -c 'doas apk add curl'",
        "sudo -E dnf -y upgrade",
    ],
)
def test_packages_of_the_registry_are_told_from_all_else(command: str) -> None:
    assert [effect.get("packages") for effect in privileges(command)] == [True]


@pytest.mark.parametrize(
    "command",
    [
        "sudo apt-get install ./own.deb",
        "sudo apt-get install own.deb",
        "sudo dnf install https://example.org/a.rpm",
        "sudo apk add -X https://example.org/registry tool",
        "sudo apt-get install -o Dpkg::Pre-Install-Pkgs::=/bin/sh jq",
        "sudo apt-get remove jq",
        "sudo apt-get install $NAME",
        "sudo apt-get install jq && sudo rm -rf /opt/app",
        "sudo sh -c 'apt-get install jq'",
        "sudo -i",
        "su -c 'apt-get install jq'",
        "chmod u+s /usr/bin/apt-get",
    ],
)
def test_everything_else_is_more(command: str) -> None:
    assert [effect.get("packages") for effect in privileges(command)] == [None]
