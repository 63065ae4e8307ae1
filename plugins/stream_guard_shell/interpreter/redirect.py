"""Redirections: files that are read or written, here-documents, connections through /dev/tcp."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from stream_guard_shell.expansion.fields import Field, unknown
from stream_guard_shell.interpreter.expand import Expander
from stream_guard_shell.shell.state import Shell
from stream_guard_shell.syntax.nodes import Redirection, Redirections

_CONNECTION: Final = re.compile(r"/dev/(?:tcp|udp)/([^/]*)")
_WRITING: Final = frozenset((">", ">>", ">|", "&>", "&>>", ">&", "<>"))


class Redirected(NamedTuple):
    """What redirections change: the input, and the files that the output goes to."""

    stdin: Field | None
    outputs: tuple[tuple[Field, bool], ...]  # files, and whether they are appended to
    captured: bool  # whether the output still goes where it went
    descriptors: dict[int, Field]


class Redirector(Expander):
    """Follows redirections."""

    def redirect(self, shell: Shell, redirections: Redirections, stdin: Field | None) -> Redirected:
        """Return what redirections change, and record what they read and connect to."""
        outputs: list[tuple[Field, bool]] = []
        descriptors = dict(shell.descriptors)
        if stdin is not None:
            descriptors[0] = stdin
        captured = True
        for one in redirections:
            if one.document is not None:
                descriptors[max(one.descriptor, 0)] = self.value(shell, one.document.body)
            elif one.operator == "<<<":
                descriptors[max(one.descriptor, 0)] = self.value(shell, one.target)
            elif one.operator in _WRITING:
                captured = self._output(shell, one, outputs, descriptors) and captured
            else:
                self._input(shell, one, descriptors)
        return Redirected(descriptors.get(0), tuple(outputs), captured, descriptors)

    def _target(self, shell: Shell, one: Redirection) -> Field:
        fields = self.fields(shell, (one.target,))
        return fields[0] if len(fields) == 1 else unknown()

    def _output(
        self, shell: Shell, one: Redirection, outputs: list[tuple[Field, bool]], descriptors: dict[int, Field]
    ) -> bool:
        """Follow one output; whether what is captured stays so."""
        target = self._target(shell, one)
        stays = one.descriptor not in (-1, 1) or one.operator == "<>"
        text = target.literal
        if one.operator == ">&" and text is not None and text.rstrip("-").isdigit():
            source = descriptors.get(int(text.rstrip("-")[:6]))
            if source is not None:
                descriptors[1 if one.descriptor < 0 else one.descriptor] = source
            return True
        if one.operator == ">&" and text == "-":
            return True
        connection = self._connect(shell, target, writes=True)
        if connection is not None:
            for number in self._numbers(one):
                descriptors[number] = connection
            return stays
        if not self.device(shell, target, ">"):
            outputs.append((target, ">>" in one.operator))
        if one.operator == "<>":
            descriptors[max(one.descriptor, 0)] = unknown("file", fields=(target,))
        return stays

    def _numbers(self, one: Redirection) -> tuple[int, ...]:
        if one.operator in ("&>", "&>>") or (one.operator == ">&" and one.descriptor < 0):
            return (1, 2)
        return (one.descriptor if one.descriptor >= 0 else 0 if one.operator == "<>" else 1,)

    def _input(self, shell: Shell, one: Redirection, descriptors: dict[int, Field]) -> None:
        target = self._target(shell, one)
        number = max(one.descriptor, 0)
        text = target.literal
        if one.operator == "<&":
            if text is not None and text.rstrip("-").isdigit():
                source = descriptors.get(int(text.rstrip("-")[:6]))
                if source is not None:
                    descriptors[number] = source
                else:
                    descriptors.pop(number, None)
            return
        connection = self._connect(shell, target, writes=False)
        if connection is not None:
            descriptors[number] = connection
        elif target.origins("process"):
            inner = target.origins("process")[0].fields
            descriptors[number] = inner[0] if inner else unknown()
        else:
            self.read(shell, target)
            descriptors[number] = unknown("file", fields=(self.file(shell, target),))

    def _connect(self, shell: Shell, target: Field, *, writes: bool) -> Field | None:
        """Follow a connection through /dev/tcp; return what comes from it, None where it is none."""
        found = _CONNECTION.match(target.head)
        if not found:
            return None
        known = found.end() < len(target.head) or target.known
        host = found.group(1).lower() if known else ""
        if not host:
            self.unknown(target)
        direction = "up" if writes or target.carried else "down"
        self.emit(shell, "net", host=host, direction=direction, tool="bash")
        return unknown("net", host=host)
