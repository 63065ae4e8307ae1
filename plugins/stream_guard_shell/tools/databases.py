"""Databases: clients that are given SQL, statements that destroy, and tools that drop or empty a database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from stream_guard_shell.expansion import NOTHING, Field, literal, unknown
from stream_guard_shell.shell import Handler, ProgramCall, parse_options, word_list
from stream_guard_shell.tools.programs import LOOKING_VERBS, looks

_TOKEN: Final = re.compile(
    r"--[^\n]*|\#[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|\$(\w{0,60})\$.*?\$\1\$|\"(?:[^\"]|\"\")*\"|`[^`]*`|[\w.\0$]+|\S",
    re.DOTALL,
)
_PLAIN_TOKEN: Final = re.compile(r"--[^\n]*|\#[^\n]*|[\w.\0$]+|\S")
_OPENERS: Final = frozenset(("'", '"', "`", "/", "$", "$$"))
_LEFT_OUT: Final = frozenset(("if", "exists", "cascade", "restrict", "concurrently", "only", "purge"))
_ENDS: Final = frozenset(("with", "force"))


def _tokens(text: str) -> Iterator[re.Match[str]]:
    """Yield the tokens of a text. Behind what is opened and never closed there are no strings any more.

    Databases differ on what closes one, and to look for the end again at every quote would not be linear.
    """
    pattern, at = _TOKEN, 0
    while found := pattern.search(text, at):
        yield found
        at = found.end()
        if found.group() in _OPENERS and (found.group() != "/" or text[at : at + 1] == "*"):
            pattern = _PLAIN_TOKEN


def destroying(sql: Field) -> list[str]:
    """Return the statements that destroy, in lower case and without what does not matter; holes stay in them."""
    found = []
    for statement in _statements(sql.with_holes):
        words = [word.lower() for word in statement]
        what = _what(words)
        if what:
            found.append(what)
    return found


def _statements(text: str) -> list[list[str]]:
    statements: list[list[str]] = [[]]
    for token in _tokens(text):
        word = token.group()
        if word == ";" or word.startswith("\\g"):
            statements.append([])
        elif not word.startswith(("--", "#", "/*", "'")) and not (word.startswith("$") and word.endswith("$")):
            statements[-1].append(word.strip('"`'))
    return statements


def _what(words: list[str]) -> str:
    first = words[0] if words else ""
    if first == "drop" and len(words) > 1:
        return _joined(words)
    if first == "truncate":
        return _joined([word for number, word in enumerate(words) if number != 1 or word != "table"])
    if first == "alter" and words[1:2] == ["table"] and "drop" in words:
        at = words.index("drop")
        if words[at + 1 : at + 2] == ["column"]:
            return _joined(words[:at]) + " " + _joined(words[at : at + 2] + _name_after(words, at + 2))
    if first == "delete" and words[1:2] == ["from"] and "where" not in words:
        names = [word for word in words[2:] if word not in _LEFT_OUT]
        return " ".join(["delete", "from", *names[:1]])
    return ""


def _name_after(words: list[str], at: int) -> list[str]:
    return [word for word in words[at:] if word not in _LEFT_OUT][:1]


def _joined(words: list[str]) -> str:
    kept: list[str] = []
    for number, word in enumerate(words):
        if number > 2 and word in _ENDS:
            break
        if word not in _LEFT_OUT:
            kept.append(word)
    return re.sub(r" ([,.()])", r"\1", " ".join(kept)).replace("( ", "(").strip()


_VALUED: Final = {
    "psql": "c f d h p U o v F P R T L command file dbname host port username output set variable field-separator "
    "log-file",
    "mysql": "e h P u D S execute host port user database socket default-character-set protocol defaults-file ssl-mode "
    "defaults-extra-file",
    "sqlite3": "cmd init separator newline nullvalue",
}
# Lines of a client that are no SQL: what it gives to a shell, and the file that its output goes to.
_ESCAPES: Final = re.compile(r"^[ \t]*(?:\\!|\.shell\b|\.system\b)[ \t]*([^\n]*)", re.MULTILINE)
_SYSTEM: Final = re.compile(r"(?:\A|;)\s*system[ \t]+([^\n;]*)")  # of mysql alone: elsewhere it may be a name
_OUTPUT: Final = re.compile(r"^[ \t]*(?:\\o|\.output|\.once|\.backup)[ \t]+([^\s|]+)[ \t]*$", re.MULTILINE)
_BY_SERVER: Final = re.compile(r"\bcopy\b[^;]{0,400}\b(?:to|from)\s+program\b", re.IGNORECASE)
_MONGO: Final = re.compile(r"db(?:\.\w+|\.getCollection\([^)]*\)|\.getSiblingDB\([^)]*\))*\.(?:dropDatabase|drop)\(\)")
_MONGO_READS: Final = re.compile(r"[\s\w.$(){}\[\]'\",:;-]*")
_MONGO_CHANGES: Final = re.compile(r"\.(?:insert|update|delete|remove|replace|rename|create|bulk|eval|load|run)\w*\(")
_REDIS_LOOKING: Final = LOOKING_VERBS | frozenset(("keys", "ping", "scan", "ttl", "exists", "dbsize", "type", "mget"))
_RESETS: Final = {
    "prisma": (("migrate", "reset"),),
    "supabase": (("db", "reset"),),
    "alembic": (("downgrade", "base"),),
}


def client(call: ProgramCall) -> Field:
    """Read the SQL that a client is given: by option, by operand, or on its input."""
    kind = "mysql" if call.name in ("mysql", "mariadb") else call.name
    options = parse_options(
        call.args, _VALUED[kind].split(), single=("cmd", "init", "separator", "newline", "nullvalue")
    )
    if options.has("l", "list") and kind == "psql":
        return unknown()
    texts = options.values(*("c", "command") if kind == "psql" else ("e", "execute") if kind == "mysql" else ("cmd",))
    if kind == "sqlite3":
        texts = [*texts, *options.operands[1:]]
    files = options.values("f", "file") if kind == "psql" else options.values("init")
    for text in texts:
        _sql(call, text)
    if files:
        _unknown_sql(call)
    elif not texts and call.stdin is not None and call.stdin.pieces:
        _from_input(call, call.stdin)
    return unknown()


def _from_input(call: ProgramCall, text: Field) -> None:
    if text.wholly_unknown or text.origins("file", "net", "output"):
        _unknown_sql(call)
    else:
        _sql(call, text)


def _unknown_sql(call: ProgramCall) -> None:
    call.emit("run", program=call.name)
    call.recorder.opaque("input")


def _sql(call: ProgramCall, text: Field) -> None:
    if text.wholly_unknown:
        call.emit("run", program=call.name)
        call.recorder.opaque("text")
        return
    if re.match(r"\s*(?:\\ir?\s|\.read\s|source\s|\\\.\s)", text.head):
        _unknown_sql(call)
        return
    _beside_sql(call, text.with_holes)
    for what in destroying(text):
        _destroy(call, what)
    if not text.known:
        call.recorder.unknown(text)


def _beside_sql(call: ProgramCall, text: str) -> None:
    """Read what a client does besides: commands for a shell, files; and programs that the server starts."""
    of_mysql = _SYSTEM.finditer(text) if call.name in ("mysql", "mariadb") else ()
    for found in (*_ESCAPES.finditer(text), *of_mysql):
        command = literal(found.group(1)) if "\0" not in found.group(1) else unknown("text")
        call.recorder.run_text(call.shell.subshell(process=True), command, "sh")
    for found in _OUTPUT.finditer(text):
        call.recorder.write(call.shell, literal(found.group(1)) if "\0" not in found.group(1) else unknown())
    if _BY_SERVER.search(text):
        call.recorder.execute(call.shell, "computed", "sh")


def _destroy(call: ProgramCall, what: str) -> None:
    call.emit("destroy", area="database", tool=call.name, what=None if "\0" in what else what)


def drop_database(call: ProgramCall) -> Field:
    """Drop a database: dropdb, mysqladmin drop."""
    valued = word_list("h p u P S U W host port user username maintenance-db socket")
    if call.name == "mysqladmin":
        valued = tuple(one for one in valued if one != "p")
    operands = parse_options(call.args, valued).operands
    if call.name == "mysqladmin":
        verb = operands[0].literal if operands else None
        if verb != "drop":
            if verb not in (None, "status", "ping", "version", "processlist", "variables", "extended-status"):
                call.run(verb)
            return NOTHING
        operands = operands[1:]
    for operand in operands[:1]:
        name = call.recorder.word(operand)
        call.emit("destroy", area="database", tool=call.name, what=f"drop database {name}" if name else None)
    return NOTHING


def redis(call: ProgramCall) -> Field:
    """Tell a flush from other commands."""
    options = parse_options(call.args, word_list("h p a n u s t r i x user pass"), stop=True)
    verb = (options.rest[0].literal or "").lower() if options.rest else ""
    words = [verb] if options.rest else [word.lower() for word in (call.stdin or NOTHING).text.split()[:1]]
    if words[:1] in (["flushall"], ["flushdb"]):
        _destroy(call, words[0])
    elif call.stdin is not None and not options.rest and not call.stdin.known:
        _unknown_sql(call)
    elif verb and verb not in _REDIS_LOOKING:
        call.run(verb)
    return unknown()


def mongo(call: ProgramCall) -> Field:
    """Read what a client of MongoDB is given to evaluate."""
    options = parse_options(
        call.args, word_list("eval u p h host port username password authenticationDatabase f file")
    )
    for text in options.values("eval"):
        for found in _MONGO.finditer(text.text):
            _destroy(call, found.group())
        rest = _MONGO.sub("", text.text)
        if not text.known or _MONGO_CHANGES.search(rest) or not _MONGO_READS.fullmatch(rest):
            call.recorder.opaque("code")
    if options.values("f", "file") or any((one.literal or "").endswith(".js") for one in options.operands):
        _unknown_sql(call)
    return unknown()


def migrations(call: ProgramCall) -> Field:
    """Tell a reset of a database from other work: prisma, supabase, alembic."""
    options = parse_options(call.args, word_list("c x n schema raiseerr project-ref db-url"))
    words = tuple(one.literal or "" for one in options.operands)
    for reset in _RESETS[call.name]:
        if words[: len(reset)] == reset:
            _destroy(call, " ".join(reset))
            return unknown()
    if call.name == "prisma" and words[:2] == ("db", "push") and options.has("force-reset", "accept-data-loss"):
        _destroy(call, "db push")
    elif not looks(options) and words[:1] not in (("history",), ("current",), ("heads",)):
        call.run(words[0] if words else None)
    return unknown()


def tasks(call: ProgramCall) -> Field:
    """Tell tasks that drop a database from others: rails, rake."""
    options = parse_options(call.args, word_list("e f I r C j environment rakefile"))
    words = [one.literal or "" for one in options.operands]
    found = [word for word in words if word in ("db:drop", "db:reset", "db:drop:all")]
    for word in found:
        _destroy(call, word)
    if not found and words and "=" not in words[0]:
        call.run(words[0])
    elif not words:
        call.run()
    return unknown()


def destroyed_by_script(call: ProgramCall, script: Field, args: list[Field]) -> None:
    """Record what a framework's own script destroys: artisan, manage.py."""
    name = script.tail.rpartition("/")[2]
    words = [arg.literal for arg in args if not arg.head.startswith("-")]
    if (name == "artisan" and words[:1] in (["migrate:fresh"], ["db:wipe"])) or (
        name == "manage.py" and words[:1] == ["flush"]
    ):
        call.emit("destroy", area="database", tool=name, what=words[0])


TOOLS: Final[dict[str, Handler]] = {
    **dict.fromkeys(("psql", "mysql", "mariadb", "sqlite3"), client),
    **dict.fromkeys(("dropdb", "mysqladmin"), drop_database),
    **dict.fromkeys(("mongosh", "mongo"), mongo),
    **dict.fromkeys(_RESETS, migrations),
    **dict.fromkeys(("rails", "rake"), tasks),
    "redis-cli": redis,
}
