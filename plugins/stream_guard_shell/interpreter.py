"""Walks a command as a shell would run it, without running anything: words, redirections, commands, texts."""

from __future__ import annotations

import re
import unicodedata
from itertools import islice
from typing import Final, NamedTuple

from stream_guard_shell.expansion import (
    NOTHING,
    Field,
    Origin,
    Piece,
    TooManyWordsError,
    expand_braces,
    flat,
    glob_at,
    joined_words,
    literal,
    net_origins,
    resolve,
    unknown,
)
from stream_guard_shell.secrets import is_secret_variable
from stream_guard_shell.shell import Handler, OverLimitError, ProgramCall, Recorder, Shell, Variable, word_list
from stream_guard_shell.syntax.nodes import (
    AndOr,
    Arithmetic,
    Assignment,
    Branches,
    Case,
    Command,
    Compound,
    ForLoop,
    Function,
    Hole,
    Literal,
    Parameter,
    PipedCommands,
    Program,
    Redirection,
    Redirections,
    Sequence,
    SimpleCommand,
    Substitution,
    Test,
    Word,
)
from stream_guard_shell.syntax.scanner import MOST_LEVELS, RefusedTextError, Script
from stream_guard_shell.tools import (
    builtins,
    databases,
    editing,
    files,
    finding,
    git,
    infra,
    install,
    languages,
    network,
    programs,
    reading,
    system,
    wrappers,
)

_FAMILIES: Final = (
    reading, editing, programs, files, finding, git, network, install, infra, databases, system, wrappers,
    builtins, languages,
)  # fmt: skip
TABLE: Final[dict[str, Handler]] = {name: handler for family in _FAMILIES for name, handler in family.TOOLS.items()}
_LONGEST: Final = 256

MOST_WORDS: Final = 20_000
"""Words that the braces of one word may make."""

_SPECIAL: Final = frozenset("@*#?-$!0123456789")
_TILDE: Final = re.compile(r"~([^/:]*)")
_LIKE_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=(?=~)")
_SET_BY_SUM: Final = re.compile(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\])?\s*(?:(?:<<|>>|[-+*/%&|^])?=(?!=)|\+\+|--)")


class _Gathered:
    """Fields in the making: pieces of the one that is open, and those that are done."""

    def __init__(self, separators: str) -> None:
        self.fields: list[Field] = []
        self.separators = separators
        self._open: list[Piece] = []
        self._begun = False

    def add(self, piece: Piece) -> None:
        self._open.append(piece)
        self._begun = True

    def keep(self) -> None:
        """Note a quote: the field is there, even if it stays empty."""
        self._begun = True

    def end(self) -> None:
        if self._begun:
            self.fields.append(Field(self._open))
        self._open, self._begun = [], False

    def split(self, piece: Piece) -> None:
        """Add the value of something unquoted, which is split and may be a glob."""
        if not piece.known or piece.active:
            self.add(piece)
            return
        if not self.separators:
            self.add(_globbed(piece))
            return
        start = 0
        text = piece.text
        for found in re.finditer(f"[{re.escape(self.separators)}]+", text):
            if found.start() > start:
                self.add(_globbed(piece._replace(text=text[start : found.start()])))
            elif not found.group().isspace() and start == 0:
                self.keep()
            self.end()
            start = found.end()
        if start < len(text):
            self.add(_globbed(piece._replace(text=text[start:])))


def _globbed(piece: Piece) -> Piece:
    return piece._replace(active=glob_at(piece.text) >= 0)


_CONNECTION: Final = re.compile(r"/dev/(?:tcp|udp)/([^/]*)")
_WRITING: Final = frozenset((">", ">>", ">|", "&>", "&>>", ">&", "<>"))


class Redirected(NamedTuple):
    """What redirections change: the input, and the files that the output goes to."""

    stdin: Field | None
    outputs: tuple[tuple[Field, bool], ...]  # files, and whether they are appended to
    captured: bool  # whether the output still goes where it went
    descriptors: dict[int, Field]


_MOVING = frozenset(("cd", "pushd"))
_KEEPING = frozenset(("cd", "pushd", "popd", "read", "export", "eval", "source", ".", "set", "mapfile", "readarray"))

_WITH_SUBCOMMANDS: Final = frozenset(
    word_list(
        "git docker podman kubectl helm npm pnpm yarn pip pip3 uv cargo go gh aws gcloud az terraform tofu pulumi"
    )
)


class Interpreter(Recorder):
    """Reads a command in the state of a shell, from ``read_all`` on; each walk returns what goes to the output."""

    def __init__(self, budget: int) -> None:
        super().__init__(budget)
        self._lines = 0

    def read_all(self, text: str, shell: Shell) -> None:
        """Read the whole of a command."""
        try:
            self._run_lines(shell, text, None)
            for inner, body in self.traps:
                self.run_text(inner, body, "trap")
        except (OverLimitError, RecursionError):
            self.reasons.add("limit")

    def fields(self, shell: Shell, words: tuple[Word, ...]) -> list[Field]:
        """Return the fields that words become."""
        found: list[Field] = []
        for word in words:
            try:
                expanded = expand_braces(word, MOST_WORDS)
            except TooManyWordsError:
                raise OverLimitError from None
            self.spend(len(expanded))
            for one in expanded:
                found.extend(self._chosen(shell, one))
        return found

    def _chosen(self, shell: Shell, word: Word) -> list[Field]:
        """Return the fields of a word, for each value that branches gave to the first variable in it."""
        for part in word:
            variable = shell.variable(part.name) if isinstance(part, Parameter) else None
            if variable is None or not variable.choices or not isinstance(part, Parameter):
                continue
            inner = shell.subshell()
            found: list[Field] = []
            for choice in variable.choices:
                inner.assign(part.name, choice)
                found.extend(self._chosen(inner, word))
            return found
        return self._split(shell, word)

    def _split(self, shell: Shell, word: Word) -> list[Field]:
        gathered = _Gathered(self._separators(shell))
        for number, part in enumerate(word):
            if isinstance(part, Literal):
                self._add_literal(shell, word, number, part, gathered)
            else:
                self._add_value(shell, part, gathered, quoted=part.quoted)
        gathered.end()
        return gathered.fields

    def _add_literal(self, shell: Shell, word: Word, number: int, part: Literal, gathered: _Gathered) -> None:
        self.spend(1 + len(part.text) // 64)
        if part.quoted:
            if part.text:
                gathered.add(Piece(part.text))
            gathered.keep()
            return
        text = part.text
        if number == 0:
            found = _LIKE_ASSIGNMENT.match(text)
            if found:
                gathered.add(Piece(found.group()))
                text = text[found.end() :]
            if text.startswith("~"):
                home, text = self._tilde(shell, text, alone=len(word) == 1)
                for piece in home.pieces:
                    gathered.add(piece)
        if text:
            gathered.add(_globbed(Piece(text)))

    def _tilde(self, shell: Shell, text: str, *, alone: bool) -> tuple[Field, str]:
        """Return what a tilde in front stands for, and the text behind it."""
        found = _TILDE.match(text)
        name = found.group(1) if found else ""
        rest = text[1 + len(name) :]
        if not rest.startswith(("/", ":")) and not alone:
            return NOTHING, text
        if shell.away:
            return NOTHING, text
        if name == "":
            home = shell.variable("HOME")
            return (home.value if home and home.value else shell.home), rest
        if name == "+":
            return self._folder_value(shell), rest
        return unknown(), rest

    def value(self, shell: Shell, word: Word) -> Field:
        """Return one field without splitting or globs: the value of an assignment, a pattern, a here-document."""
        pieces: list[Piece] = []
        for number, part in enumerate(word):
            if isinstance(part, Literal):
                self.spend(1 + len(part.text) // 64)
                text = part.text
                if number == 0 and not part.quoted and text.startswith("~"):
                    home, text = self._tilde(shell, text, alone=len(word) == 1)
                    pieces.extend(home.pieces)
                pieces.append(Piece(text))
            else:
                gathered = _Gathered("")
                self._add_value(shell, part, gathered, quoted=True)
                gathered.end()
                for place, field in enumerate(gathered.fields):
                    pieces.extend([Piece(" ")] if place else [])
                    pieces.extend(field.pieces)
        return Field(pieces)

    def _add_value(
        self, shell: Shell, part: Hole | Parameter | Substitution | Arithmetic, gathered: _Gathered, *, quoted: bool
    ) -> None:
        if isinstance(part, Hole):
            values = [unknown("text")]
        elif isinstance(part, Arithmetic):
            self.sum(shell, part.word)
            values = [unknown()]
        elif isinstance(part, Substitution):
            values = [self._substituted(shell, part)]
        else:
            values = self.parameter(shell, part)
        if quoted and not (isinstance(part, Parameter) and not values):
            gathered.keep()
        for number, value in enumerate(values):
            if number:
                gathered.end()
                gathered.keep()
            for piece in value.pieces:
                self.spend(1 + len(piece.text) // 64)
                if quoted:
                    gathered.add(piece)
                else:
                    gathered.split(piece)

    def sum(self, shell: Shell, word: Word) -> None:
        """Read a sum: what is substituted runs, what it sets is not known."""
        field = self.value(shell, word)
        for found in _SET_BY_SUM.finditer(field.text):
            shell.assign(found.group(1), Variable())

    def _substituted(self, shell: Shell, part: Substitution) -> Field:
        output = self.substitute(shell, part.body, unknown() if part.direction == ">" else None)
        if part.direction:
            return unknown("process", fields=(output,) if part.direction == "<" else ())
        plain = output.known and not output.origins("decoded", "net", "file")
        if plain and output.pieces:
            pieces = [piece._replace(carried=True) for piece in output.pieces]
            while pieces and not pieces[-1].text.rstrip("\n"):
                pieces.pop()
            if pieces:
                pieces[-1] = pieces[-1]._replace(text=pieces[-1].text.rstrip("\n"))
            return Field(pieces)
        origin = Origin("output", fields=(output,))
        return Field((Piece(known=False, origin=origin, carried=True),))

    def parameter(self, shell: Shell, part: Parameter) -> list[Field]:
        """Return the values of a parameter: one, or one for each item where it asks for all."""
        many = part.name in "@*" if part.name in _SPECIAL else _asks_for_all(part)
        self._note_secret(shell, part.name)
        values = self._values(shell, part)
        if part.operator in (":-", "-", ":=", "="):
            return self._or_default(shell, part, values)
        if part.operator in (":+", "+"):
            empty = values is not None and not _has_text(values)
            word = self.value(shell, part.word or ())
            return [literal("")] if empty else [word] if values is not None else [_maybe(word)]
        if part.word and part.operator not in (":?", "?"):
            self.value(shell, part.word)  # what is substituted in it runs
        if part.changed or (part.operator and part.operator not in (":?", "?")):
            return [unknown()]
        if values is None:
            return [self._unknown_variable(part.name)]
        if many and part.quoted:
            return values if part.name == "@" or part.subscript is not None else [joined_words(values)]
        return values if many else values[:1] or [literal("")]

    def _or_default(self, shell: Shell, part: Parameter, values: list[Field] | None) -> list[Field]:
        if values is not None and (_has_text(values) or (values and part.operator in ("-", "="))):
            return values
        word = self.value(shell, part.word or ())
        if values is None:
            return [self._unknown_variable(part.name)]
        if part.operator in (":=", "="):
            shell.assign(part.name, Variable(word))
        return [word]

    def _values(self, shell: Shell, part: Parameter) -> list[Field] | None:  # noqa: PLR0911  # one for each sort
        """Return the values that a parameter has; None where they are not known."""
        if part.name in ("@", "*"):
            return None if shell.positional is None else list(shell.positional)
        if part.name.isdigit():
            return _positional(shell, int(part.name[:6]))
        if part.name == "!":
            return [Field((Piece("$!", origin=Origin("job")),))]
        if part.name in _SPECIAL:
            return None
        if part.subscript is not None:
            return self._item(shell, part)
        if part.name == "PWD" and not shell.is_assigned("PWD"):
            return None if shell.folder.text is None or shell.away else [self._folder_value(shell)]
        if part.name == "OLDPWD" and not shell.is_assigned("OLDPWD"):
            known = shell.previous is not None and shell.previous.text is not None
            return [Field((Piece(shell.previous.text or "", active=shell.previous.glob),))] if known else None  # type: ignore[union-attr]
        return self._variable(shell, part.name)

    def _variable(self, shell: Shell, name: str) -> list[Field] | None:
        found = shell.variable(name)
        if found is None:
            if name == "HOME" and not shell.away:
                return [shell.home]
            return [literal(" \t\n")] if name == "IFS" else None
        if found.items is not None:
            return [found.items[0]] if found.items else [literal("")]
        return None if found.value is None else [found.value]

    def _item(self, shell: Shell, part: Parameter) -> list[Field] | None:
        index = self.value(shell, part.subscript or ()).literal
        found = shell.variable(part.name)
        if found is None or found.items is None:
            return None if found is None or found.value is None else [found.value]
        if index in ("@", "*"):
            return list(found.items)
        if index is None or not index.lstrip("-").isdigit() or len(index) > 6:
            return None
        at = int(index)
        return [found.items[at]] if -len(found.items) <= at < len(found.items) else [literal("")]

    def _folder_value(self, shell: Shell) -> Field:
        text = shell.folder.text
        return unknown() if text is None else Field((Piece(text, active=shell.folder.glob),))

    def _note_secret(self, shell: Shell, name: str) -> None:
        if not self.in_test and is_secret_variable(name) and not shell.is_assigned(name):
            self.emit(shell, "secret", env=name)

    def _unknown_variable(self, name: str) -> Field:
        return unknown(carried=is_secret_variable(name))

    def _separators(self, shell: Shell) -> str:
        found = shell.variable("IFS")
        if found is None or found.value is None or not found.value.known:
            return " \t\n"
        return found.value.text

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

    def walk(self, shell: Shell, node: Command, stdin: Field | None = None) -> Field:
        """Walk one command."""
        self.spend(4)
        if isinstance(node, SimpleCommand):
            return self._simple(shell, node, stdin)
        if isinstance(node, Sequence):
            return self._sequence(shell, node, stdin)
        if isinstance(node, PipedCommands):
            return self._pipeline(shell, node, stdin)
        if isinstance(node, AndOr):
            return self._and_or(shell, node, stdin)
        if isinstance(node, Function):
            shell.functions_here[node.name] = node.body
            return NOTHING
        redirected = self.redirect(shell, node.redirections, stdin)
        output = self._compound(shell, node, redirected.stdin)
        return self._written(shell, redirected, output)

    def _compound(self, shell: Shell, node: Compound | Branches | ForLoop | Case | Test, stdin: Field | None) -> Field:
        if isinstance(node, Compound):
            if node.background:
                self.emit(shell, "background", via="&")
            return self._sequence(shell.subshell() if node.subshell else shell, node.body, stdin)
        if isinstance(node, Branches):
            return self._branches(shell, node, stdin)
        if isinstance(node, ForLoop):
            return self._for(shell, node, stdin)
        if isinstance(node, Case):
            return self._case(shell, node, stdin)
        self._test(shell, node)
        return NOTHING

    def _written(self, shell: Shell, redirected: Redirected, output: Field) -> Field:
        """Record the files that an output goes to; return what is left of it."""
        nets = net_origins(output)
        for target, append in redirected.outputs:
            fetched = nets[0] if nets else None
            self.write(shell, target, append=append, fetched=fetched, made=not append)
        return output if redirected.captured else NOTHING

    def _sequence(self, shell: Shell, node: Sequence, stdin: Field | None) -> Field:
        pieces: list[Piece] = []
        for number, command in enumerate(node.commands):
            if number in node.background:
                self.emit(shell, "background", via="&")
                pieces.extend(self.walk(shell.subshell(), command, stdin).pieces)
            else:
                pieces.extend(self.walk(shell, command, stdin).pieces)
        return Field(pieces)

    def _pipeline(self, shell: Shell, node: PipedCommands, stdin: Field | None) -> Field:
        """Walk commands that run at the same time: what the last one fetches, the first one may run."""
        effects, fetched, reasons = len(self.effects), len(self.fetched), set(self.reasons)
        output = self._piped(shell, node, stdin)
        came = set(islice(reversed(self.fetched), len(self.fetched) - fetched))
        added = islice(reversed(self.effects), len(self.effects) - effects) if came else ()
        if any(one.kind == "run" and one.get("program") in came for one in added):
            while len(self.effects) > effects:
                self.effects.popitem()
            self.reasons = reasons
            output = self._piped(shell, node, stdin)
        return output

    def _piped(self, shell: Shell, node: PipedCommands, stdin: Field | None) -> Field:
        output = stdin
        for command in node.commands:
            output = self.walk(shell.subshell(), command, output)
        return output or NOTHING

    def _and_or(self, shell: Shell, node: AndOr, stdin: Field | None) -> Field:
        output = self.walk(shell, node.commands[0], stdin)
        pieces = list(output.pieces)
        for number, operator in enumerate(node.operators):
            before = node.commands[number]
            # A cd is taken to succeed, so what stands behind `||` counts and moves nobody.
            state = shell.subshell() if operator == "||" and _first_word(before) in _MOVING else shell
            pieces.extend(self.walk(state, node.commands[number + 1], stdin).pieces)
        return Field(pieces)

    def _branches(self, shell: Shell, node: Branches, stdin: Field | None) -> Field:
        pieces: list[Piece] = []
        for condition in node.conditions:
            pieces.extend(self._sequence(shell, condition, stdin).pieces)
        if node.loop:
            pieces.extend(self._sequence(shell, node.bodies[0], stdin).pieces)
            return Field(pieces)
        complete = len(node.bodies) > len(node.conditions)
        pieces.extend(self._alternatives(shell, node.bodies, stdin, complete=complete))
        return Field(pieces)

    def _alternatives(
        self, shell: Shell, bodies: tuple[Sequence, ...], stdin: Field | None, *, complete: bool
    ) -> list[Piece]:
        pieces: list[Piece] = []
        branches = []
        for body in bodies:
            branch = shell.subshell()
            pieces.extend(self._sequence(branch, body, stdin).pieces)
            branches.append(branch)
        shell.merge(branches, complete=complete)
        return pieces

    def _for(self, shell: Shell, node: ForLoop, stdin: Field | None) -> Field:
        values: list[Field] | None
        if node.numbers:
            self.sum(shell, node.numbers)
            values = None
        elif node.words is None:
            values = None if shell.positional is None else list(shell.positional)
        else:
            values = self.fields(shell, node.words)
        pieces: list[Piece] = []
        for value in [unknown()] if values is None else values:
            if node.name:
                shell.assign(node.name, Variable(value if values is not None else None))
            pieces.extend(self._sequence(shell, node.body, stdin).pieces)
        return Field(pieces)

    def _case(self, shell: Shell, node: Case, stdin: Field | None) -> Field:
        for word in (node.subject, *node.patterns):
            self.value(shell, word)
        return Field(self._alternatives(shell, node.bodies, stdin, complete=False))

    def _test(self, shell: Shell, node: Test) -> None:
        if node.arithmetic:
            self.sum(shell, node.words[0])
            return
        self.in_test += 1
        for word in node.words:
            self.value(shell, word)
        self.in_test -= 1

    def substitute(self, shell: Shell, body: Program, stdin: Field | None = None) -> Field:
        """Run a substitution in a shell of its own."""
        inner = shell.subshell()
        pieces: list[Piece] = []
        test, self.in_test = self.in_test, 0
        for line in body.lines:
            pieces.extend(self._sequence(inner, line, stdin).pieces)
        self.in_test = test
        if body.refusal:
            self.opaque(body.refusal)
        return Field(pieces)

    def _simple(self, shell: Shell, node: SimpleCommand, stdin: Field | None) -> Field:
        alias = shell.alias(_first_word(node)) if node.words else None
        if alias is not None:
            self._alias(shell, node, alias.text, stdin)
        name = _first_word(node)
        test = name in ("test", "[")
        self.in_test += test
        words = self.fields(shell, node.words)
        self.in_test -= test
        redirected = self.redirect(shell, node.redirections, stdin)
        for array in node.arrays:
            self._assign(shell, array, exported=name == "export")
        if not words:
            for assignment in node.assignments:
                self._assign(shell, assignment)
            return self._written(shell, redirected, NOTHING)
        if name == "exec" and len(words) == 1:
            shell.descriptors = redirected.descriptors
        inner = shell
        if node.assignments and name not in _KEEPING:
            inner = shell.subshell()
            for assignment in node.assignments:
                self._assign(inner, assignment, exported=True)
        return self._written(shell, redirected, self._called(inner, words, redirected.stdin))

    def _called(self, shell: Shell, words: list[Field], stdin: Field | None) -> Field:
        name = words[0].literal
        function = shell.function(name) if name else None
        if function is None or name is None:
            return self.run_words(shell, words, stdin)
        if name in shell.active or shell.level + 4 > MOST_LEVELS:
            self.opaque("limit")
            return unknown()
        outer = shell.positional, shell.active, shell.level
        shell.positional, shell.active = tuple(words[1:]), (*shell.active, name)
        shell.level += 4
        output = self.walk(shell, function, stdin)
        shell.positional, shell.active, shell.level = outer
        return output

    def _assign(self, shell: Shell, assignment: Assignment, *, exported: bool = False) -> None:
        if assignment.items is not None:
            items = self.fields(shell, assignment.items)
            before = shell.variable(assignment.name)
            if assignment.append and before is not None and before.items is not None:
                items = [*before.items, *items]
            shell.assign(assignment.name, Variable(None, tuple(items), exported))
            return
        value = self.value(shell, assignment.value)
        before = shell.variable(assignment.name)
        if assignment.subscript is not None:
            self.value(shell, assignment.subscript)
            shell.assign(assignment.name, Variable())
        elif assignment.append:
            known = before.value if before is not None else None
            self.spend(len(known.text) // 16 if known else 1)
            shell.assign(assignment.name, Variable(known + value if known else unknown() + value, None, exported))
        else:
            shell.assign(assignment.name, Variable(value, None, exported))

    def _run_lines(self, shell: Shell, text: str, stdin: Field | None) -> Field:
        self.spend(1 + len(text) // 8)
        script = Script(text, shell.level)
        outputs = []
        try:
            while True:
                globs = shell.variable("extglob") is not None
                line = script.next_line(extended_globs=globs)
                if line is None:
                    break
                self._lines += 1
                shell.line = self._lines
                outputs.append(self.walk(shell, line, stdin))
        except RefusedTextError as error:
            self.opaque(error.why)
        return Field([piece for one in outputs for piece in one.pieces])

    def run_text(self, shell: Shell, text: Field, interpreter: str, stdin: Field | None = None) -> Field:
        """Read text as this shell would run it; what is wholly unknown is an exec."""
        plain = flat(text)
        if plain.wholly_unknown:
            self.execute_unknown(shell, plain, interpreter)
            return unknown()
        if plain.known and plain.origins("decoded"):
            self.emit(shell, "exec", source="decoded", interpreter=interpreter)
        if not plain.known:
            self.opaque("text")
            for host in dict.fromkeys(net_origins(plain)):
                self.execute(shell, "net", interpreter, host=host)
        if shell.level + 3 > MOST_LEVELS:
            self.opaque("limit")
            return unknown()
        shell.level += 3
        output = self._run_lines(shell, plain.with_holes, stdin)
        shell.level -= 3
        return output

    def knows(self, name: str) -> bool:
        """Whether a program of this name is in the tables."""
        return find_tool(name)[0] is not None

    def run_words(self, shell: Shell, words: list[Field], stdin: Field | None = None) -> Field:
        """Read a program and its arguments by the tables."""
        name = words[0].literal
        if name is None:
            self.opaque("command")
            return unknown()
        handler, tool, exact = find_tool(name)
        if not exact:
            self.opaque("lookalike")
        program = resolve(words[0], shell.folder, tilde=shell.away).text if "/" in name else ""
        if program and (handler is None or (not is_in_bin(name) and not is_runner(tool))):
            self.run_file(shell, words[0])
        elif handler is None and not _only_asks(words):
            self.run(shell, tool)
        if handler is None or _only_asks(words):
            return self._through(unknown(), stdin)
        output = handler(ProgramCall(tool, words[1:], shell, self, program, stdin))
        return self._through(output, stdin)

    def _through(self, output: Field, stdin: Field | None) -> Field:
        """Return an output; what came from the network, or was decoded, stays so behind a filter."""
        if stdin is None or not output.origins("other") or output.origins("net"):
            return output
        source = flat(stdin)
        hosts = net_origins(source)
        if hosts:
            return unknown("net", host=hosts[0])
        return unknown("decoded") if source.origins("decoded") else output

    def _alias(self, shell: Shell, node: SimpleCommand, text: Field, stdin: Field | None) -> None:
        plain = flat(text)
        if not plain.known:
            self.opaque("text")
        if shell.level + 3 > MOST_LEVELS:
            self.opaque("limit")
            return
        script = Script(plain.with_holes, shell.level + 3)
        try:
            line = script.next_line(extended_globs=False)
        except RefusedTextError as error:
            self.opaque(error.why)
            return
        if line is not None:
            name = node.words[0][0]
            inner = shell.subshell()
            inner.level, inner.active = shell.level + 3, (*shell.active, getattr(name, "text", ""))
            self.walk(inner, _with_words(line, node), stdin)


def _asks_for_all(part: Parameter) -> bool:
    return part.subscript is not None and [one.text for one in part.subscript if isinstance(one, Literal)] in (
        ["@"],
        ["*"],
    )


def _has_text(values: list[Field]) -> bool:
    return any(value.text or not value.known for value in values)


def _maybe(word: Field) -> Field:
    """Return a word that is there or not."""
    return Field([*(piece._replace(known=False) for piece in word.pieces)] or [Piece(known=False)])


def _positional(shell: Shell, number: int) -> list[Field] | None:
    if number == 0:
        return None if shell.name is None else [shell.name]
    if shell.positional is None:
        return None
    return [shell.positional[number - 1]] if number <= len(shell.positional) else [literal("")]


def _first_word(node: Command) -> str:
    """Return the name of a simple command, where it is written out."""
    if not isinstance(node, SimpleCommand) or not node.words:
        return ""
    texts = [part.text for part in node.words[0] if isinstance(part, Literal)]
    return "".join(texts) if len(texts) == len(node.words[0]) else ""


def _with_words(command: Command, rest: SimpleCommand) -> Command:
    """Return a command with the words behind an alias at its end."""
    if isinstance(command, SimpleCommand):
        return command._replace(
            words=command.words + rest.words[1:], redirections=command.redirections + rest.redirections
        )
    if isinstance(command, Sequence | AndOr | PipedCommands):
        commands = (*command.commands[:-1], _with_words(command.commands[-1], rest))
        return command._replace(commands=commands)
    return command


def _only_asks(words: list[Field]) -> bool:
    """Whether a program is only asked what it is, or one of its subcommands how it is used."""
    if len(words) == 3 and words[0].literal in _WITH_SUBCOMMANDS and words[1].literal not in ("run", "exec"):
        return words[2].literal == "--help"
    return len(words) == 2 and words[1].literal in ("--version", "--help")


def find_tool(name: str) -> tuple[Handler | None, str, bool]:
    """Return what reads a program, its name, and whether that is written as it is known.

    A path names its tool by the last part. A name that equals a known one only after NFKC and without zero-width
    signs is judged as that one.
    """
    last = name.rpartition("/")[2][:_LONGEST]
    handler = _by_name(last)
    if handler is not None:
        return handler, last, True
    if last.isascii():
        return None, name, True
    plain = "".join([char for char in unicodedata.normalize("NFKC", last) if unicodedata.category(char) != "Cf"])
    handler = _by_name(plain)
    return (handler, plain, False) if handler is not None else (None, name, True)


def is_in_bin(path: str) -> bool:
    """Whether a path is in a folder of programs, so that it names the tool of its last part and nothing else."""
    return path.rpartition("/")[0].rpartition("/")[2] in ("bin", "sbin", ".bin")


def is_runner(tool: str) -> bool:
    """Whether a tool only runs tasks of a project."""
    return tool in programs.TOOLS


def _by_name(name: str) -> Handler | None:
    if name.startswith("mkfs."):
        return system.disk
    if languages.is_python(name):
        return languages.python
    return TABLE.get(name)
