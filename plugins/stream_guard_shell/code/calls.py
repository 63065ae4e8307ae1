"""Calls in Python code: which functions do what, with the arguments that are literals."""

from __future__ import annotations

from typing import Final

from stream_guard_shell.code.values import BUILTINS, DATA, DATA_METHODS, OTHER, Value
from stream_guard_shell.expansion.fields import Field, literal, unknown
from stream_guard_shell.expansion.places import Folder, normal
from stream_guard_shell.secrets import is_secret_variable
from stream_guard_shell.shell.call import ProgramCall
from stream_guard_shell.shell.hosts import host_of

_DELETING: Final = {"os.remove": False, "os.unlink": False, "os.rmdir": False, "shutil.rmtree": True}
_MOVING: Final = frozenset(("os.rename", "os.replace", "shutil.move"))
_PROCESS: Final = frozenset(
    "subprocess." + name
    for name in ("run", "call", "check_call", "check_output", "Popen", "getoutput", "getstatusoutput")
)
_METHODS: Final = frozenset(("get", "post", "put", "patch", "delete", "head", "options", "request"))
_PATH: Final = ("pathlib.Path", "pathlib.PosixPath", "pathlib.PurePath")
_HARMLESS: Final = ("json.", "sys.", "string.")


class CallReader:
    """Records what calls do."""

    def __init__(self, call: ProgramCall) -> None:
        self.call = call
        self.names: dict[str, Value] = {}
        self.local: set[str] = set()

    def unclear(self) -> None:
        """Record that something cannot be told."""
        self.call.recorder.opaque("code")

    def field(self, value: Value) -> Field:
        """Return a value as a field of an effect; unclear where it is no literal."""
        if value.kind in ("text", "path") and value.text is not None:
            return literal(value.text)
        if value.hole:
            return unknown("text")
        self.unclear()
        return unknown("text")

    def variable(self, name: Value) -> None:
        """Record that a variable is read."""
        if name.kind != "text" or name.text is None:
            self.unclear()
        elif is_secret_variable(name.text) and not self.call.shell.is_assigned(name.text):
            self.call.emit("secret", env=name.text)

    def join(self, base: Value, parts: list[Value]) -> Value:
        """Return a path with names behind it."""
        text = base.text
        for part in parts:
            if part.kind not in ("text", "path") or part.text is None or text is None:
                return Value("path", None, hole=part.hole)
            text = part.text if part.text.startswith("/") else f"{text.rstrip('/')}/{part.text}"
        return Value(base.kind, text)

    def function(self, name: str, args: list[Value], options: dict[str, Value]) -> Value:
        """Record what a call of a function by its dotted name does."""
        recorder, shell = self.call.recorder, self.call.shell
        first = args[0] if args else OTHER
        if name in _DELETING and args:
            recorder.delete(shell, self.field(first), recursive=_DELETING[name])
        elif name in _MOVING and len(args) > 1:
            recorder.move(shell, self.field(first), self.field(args[1]))
        elif name in ("os.system", "os.popen") and args:
            return self._shell(first)
        elif name in _PROCESS and args:
            return self._process(name, first, options)
        elif name in ("open", "io.open", "builtins.open") and args:
            return self._open(first, args[1] if len(args) > 1 else options.get("mode"))
        elif name in ("os.getenv", "os.environ.get") and args:
            self.variable(first)
            return Value("data", carried=True)
        else:
            return self._computed(name, args, options)
        return DATA

    def _computed(self, name: str, args: list[Value], options: dict[str, Value]) -> Value:
        first = args[0] if args else OTHER
        if name in _PATH:
            return self.join(Value("path", first.text if first.kind in ("text", "path") else None), args[1:])
        if name in ("os.path.join", "posixpath.join") and args:
            return self.join(first, args[1:]) if first.kind == "text" else DATA
        if name in ("os.environ.items", "os.environ.keys", "os.environ.values", "os.environ.copy"):
            self.call.emit("secret", env="*")
            return Value("data", carried=True)
        if name == "os.path.expanduser" and args:
            return self._home(first)
        if name == "pathlib.Path.home":
            return Value("path", self.call.shell.home.literal)
        return self._executed(name, args, options)

    def _executed(self, name: str, args: list[Value], options: dict[str, Value]) -> Value:
        first = args[0] if args else OTHER
        if name in {"__import__", "importlib.import_module"} and first.kind == "text":
            return Value("name", first.text)
        if name in ("exec", "eval", "compile"):
            return self._execute(first)
        if name.startswith("base64.") or name in (
            "zlib.decompress",
            "codecs.decode",
            "bytes.fromhex",
            "binascii.unhexlify",
        ):
            return self._decoded(first)
        if name.partition(".")[0] == "requests" and name.partition(".")[2] in _METHODS:
            return self._request(name.partition(".")[2], args, options)
        if name in ("urllib.request.urlopen", "urllib.request.urlretrieve") and args:
            return self._open_url(name, args, options)
        return self._plain(name, args)

    def _plain(self, name: str, args: list[Value]) -> Value:
        """Follow a call that only computes, or cannot be told."""
        known = name in BUILTINS or name.startswith(_HARMLESS) or name in self.local or name == "lambda"
        if not known:
            self.unclear()
            return OTHER
        source = next((arg for arg in args if arg.source or arg.carried), DATA)
        if name == "str" and args and args[0].kind in ("text", "path"):
            return Value("text", args[0].text)
        if name in self.local:
            return OTHER
        return Value("data", None, source.source, source.host, any(arg.carried for arg in args))

    def _home(self, value: Value) -> Value:
        home = self.call.shell.home.literal
        if value.text is None or not value.text.startswith("~") or home is None:
            return value
        name, slash, rest = value.text.partition("/")
        return value._replace(text=home + slash + rest) if name == "~" else Value(value.kind, None)

    def _shell(self, text: Value) -> Value:
        field = literal(text.text) if text.kind == "text" and text.text is not None else None
        if field is None:
            self._unknown_text(text, "sh")
        else:
            self.call.recorder.run_text(self.call.shell.subshell(process=True), field, "sh")
        return Value("data", carried=True)

    def _unknown_text(self, text: Value, interpreter: str) -> None:
        source = text.source or "computed"
        self.call.recorder.execute(self.call.shell, source, interpreter, host=text.host)

    def _process(self, name: str, command: Value, options: dict[str, Value]) -> Value:
        by_shell = name.endswith("output") and "get" in name
        flag = options.get("shell")
        by_shell = by_shell or (flag is not None and flag.text == "True")
        if by_shell and command.kind != "items":
            return self._shell(command)
        words = command.items if command.kind == "items" else (command,)
        fields = [self.field(word) for word in words]
        shell = self.call.shell.subshell(process=True)
        folder = options.get("cwd")
        if folder is not None:
            known = folder.kind in ("text", "path") and folder.text is not None
            text = folder.text or ""
            base = shell.folder.text or ""
            shell.folder = Folder(normal(text if text.startswith("/") else f"{base}/{text}") if known else None)
        if fields and fields[0].known:
            self.call.recorder.run_words(shell, fields)
        return Value("data", carried=True)

    def _open(self, file: Value, mode: Value | None) -> Value:
        recorder, shell = self.call.recorder, self.call.shell
        text = "r" if mode is None else mode.text if mode.kind == "text" else None
        if text is None:
            self.unclear()
            return Value("file")
        if file.kind == "data" and file.text is not None and file.text.isdigit():
            return Value("file", carried=True)
        if any(letter in text for letter in "wax+"):
            recorder.write(shell, self.field(file), append="a" in text)
        if "r" in text and "+" not in text:
            recorder.read(shell, self.field(file))
        return Value("file", carried=True)

    def _execute(self, code: Value) -> Value:
        if code.kind == "text" and code.text is not None:
            self.nested(code.text)
            return DATA
        if code.kind == "data" and code.text is not None and not code.source and not code.hole:
            return DATA
        self.call.recorder.execute(self.call.shell, code.source or "computed", self.call.name, host=code.host)
        return OTHER

    def nested(self, code: str) -> None:
        """Follow code inside code."""
        raise NotImplementedError

    def _decoded(self, value: Value) -> Value:
        source = value.source if value.source == "net" else "decoded"
        return Value("data", None, source, value.host, value.carried)

    def _request(self, method: str, args: list[Value], options: dict[str, Value]) -> Value:
        if method == "request":
            method = (args[0].text or "?").lower() if args else "?"
            args = args[1:]
        address = args[0] if args else options.get("url", OTHER)
        bodies = {"data", "json", "files"} & options.keys()
        sends = method not in ("get", "head") or bool(bodies) or (len(args) > 1 and method != "get")
        return self._connect(address, [*args, *options.values()], sends=sends)

    def _open_url(self, name: str, args: list[Value], options: dict[str, Value]) -> Value:
        retrieves = name.endswith("urlretrieve")
        sends = "data" in options or (len(args) > 1 and not retrieves)
        found = self._connect(args[0], [*args, *options.values()], sends=sends)
        if retrieves and len(args) > 1:
            self.call.recorder.write(self.call.shell, self.field(args[1]), fetched=found.host)
        return found

    def _connect(self, address: Value, values: list[Value], *, sends: bool) -> Value:
        text = address.text if address.kind in ("text", "data") else None
        host = None
        if text is not None and "://" in text:
            rest = text.partition("://")[2]
            known = address.kind == "text" or any(sign in rest for sign in "/?#")
            host = host_of(rest) if known else None
        if host is None and not address.hole:
            self.unclear()
        up = sends or any(value.carried for value in values)
        self.call.emit("net", host=host, direction="up" if up else "down", tool="python")
        return Value("data", None, "net", host or "")

    def method(self, base: Value, name: str, args: list[Value], options: dict[str, Value]) -> Value:
        """Record what a call of a method does."""
        if base.kind == "path":
            return self._path_method(base, name, args, options)
        if base.kind == "text" and name == "join" and args and args[0].kind == "items":
            return DATA._replace(carried=args[0].carried)
        if base.kind in ("text", "data", "items", "file") and name in DATA_METHODS:
            source = base if base.source else next((arg for arg in args if arg.source), base)
            carried = base.carried or any(arg.carried for arg in args)
            return Value("data", None, source.source, source.host, carried, hole=base.hole)
        self.unclear()
        return OTHER

    def _path_method(self, base: Value, name: str, args: list[Value], options: dict[str, Value]) -> Value:
        recorder, shell = self.call.recorder, self.call.shell
        if name in ("unlink", "rmdir"):
            recorder.delete(shell, self.field(base))
        elif name in ("read_text", "read_bytes"):
            recorder.read(shell, self.field(base))
            return Value("data", carried=True)
        elif name in ("write_text", "write_bytes"):
            recorder.write(shell, self.field(base))
        elif name in ("rename", "replace") and args:
            recorder.move(shell, self.field(base), self.field(args[0]))
        elif name == "open":
            return self._open(base, args[0] if args else options.get("mode"))
        elif name == "expanduser":
            return self._home(base)
        elif name == "joinpath":
            return self.join(base, args)
        else:
            self.unclear()
            return OTHER
        return DATA
