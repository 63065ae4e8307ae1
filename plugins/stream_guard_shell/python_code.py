"""Python code in a command: parsed, imports followed, calls with literals become effects."""

from __future__ import annotations

import ast
import warnings
from typing import Final, NamedTuple

from stream_guard_shell.expansion import Field, Folder, literal, normal, unknown
from stream_guard_shell.secrets import is_secret_variable
from stream_guard_shell.shell import ProgramCall, host_of, word_list


class Value(NamedTuple):
    """A value: ``kind`` is text, path, name (of a module or what is in it), items, data, file or other.

    ``text`` is a literal, a path or a dotted name. ``source`` says where data came from: net, decoded or computed.
    """

    kind: str
    text: str | None = None
    source: str = ""
    host: str = ""
    carried: bool = False  # it holds what a file, a process or the environment said
    items: tuple[Value, ...] = ()
    hole: bool = False  # it hangs on something that was put into the code


DATA: Final = Value("data")
OTHER: Final = Value("other")

DATA_METHODS: Final = frozenset(
    word_list("""
    append capitalize casefold center clear close copy count decode encode endswith extend find flush format format_map
    get index insert isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isspace istitle isupper
    items join keys ljust lower lstrip partition pop popitem raise_for_status read readline readlines removeprefix
    removesuffix replace reverse rfind rindex rjust rpartition rsplit rstrip seek setdefault sort split splitlines
    startswith strip swapcase tell title translate update upper values write writelines zfill add discard json hex
    """)
)
"""Methods of strings, lists, dictionaries and open files."""

BUILTINS: Final = frozenset(
    word_list("""
    abs all any ascii bin bool bytearray bytes callable chr complex dict dir divmod enumerate exit filter float format
    frozenset hash hex id input int isinstance issubclass iter len list map max memoryview min next object oct ord pow
    print quit range repr reversed round set slice sorted str sum tuple type zip Exception ValueError RuntimeError
    SystemExit KeyError TypeError OSError StopIteration
    """)
)
"""Builtins that compute or print."""


def joined(values: list[Value]) -> Value:
    """Return texts one after the other; data where one is not known."""
    hole = any(value.hole for value in values)
    carried = any(value.carried for value in values)
    source = next((value for value in values if value.source), DATA)
    if all(value.kind in ("text", "path") and value.text is not None for value in values) and not hole:
        return Value("text", "".join([value.text or "" for value in values]), carried=carried)
    prefix = values[0].text if values and values[0].kind == "text" else None
    return Value("data", prefix, source.source, source.host, carried, hole=hole)


_DELETING: Final = {"os.remove": False, "os.unlink": False, "os.rmdir": False, "shutil.rmtree": True}
_MOVING: Final = frozenset(("os.rename", "os.replace", "shutil.move"))
_PROCESS: Final = frozenset(
    "subprocess." + name
    for name in ("run", "call", "check_call", "check_output", "Popen", "getoutput", "getstatusoutput")
)
_METHODS: Final = frozenset(("get", "post", "put", "patch", "delete", "head", "options", "request"))
_PATH: Final = ("pathlib.Path", "pathlib.PosixPath", "pathlib.PurePath")
_HARMLESS: Final = ("json.", "sys.", "string.")

_HOLE: Final = "__hole__"
_MOST_ITEMS: Final = 64


def read_python(call: ProgramCall, code: Field) -> None:
    """Record what code does; what it cannot tell is ``code``, or ``text`` where the code itself is not known."""
    recorder = call.recorder
    if not code.known:
        recorder.opaque("text")
    recorder.in_code += 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code.with_holes.replace("\0", _HOLE))
        reader = PythonReader(call)
        for statement in tree.body:
            reader.statement(statement)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        recorder.opaque("code")
    finally:
        recorder.in_code -= 1


class PythonReader:
    """Follows statements and expressions, and records what calls do; it never runs them."""

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
            self.call.recorder.spend(len(code.text) + 100)
            read_python(self.call, literal(code.text))
            return DATA
        if code.kind == "data" and code.text is not None and not code.source and not code.hole:
            return DATA
        self.call.recorder.execute(self.call.shell, code.source or "computed", self.call.name, host=code.host)
        return OTHER

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

    def statement(self, node: ast.AST) -> None:
        """Follow one statement."""
        self.call.recorder.spend(4)
        if isinstance(node, ast.Import | ast.ImportFrom):
            self._import(node)
        elif isinstance(node, ast.Assign):
            value = self.value(node.value)
            for target in node.targets:
                self._bind(target, value)
        elif isinstance(node, ast.For):
            self._for(node)
        elif isinstance(node, ast.With):
            for item in node.items:
                value = self.value(item.context_expr)
                if item.optional_vars is not None:
                    self._bind(item.optional_vars, value)
            self._all(node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.local.add(node.name)
            self._all(node.body)
        else:
            self._children(node)

    def _children(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
            else:
                self.statement(child)

    def _all(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.Import):
                full = alias.name if alias.asname else alias.name.partition(".")[0]
                self.names[alias.asname or full] = Value("name", full)
            else:
                self.names[alias.asname or alias.name] = Value("name", f"{node.module or ''}.{alias.name}")

    def _bind(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            for number, one in enumerate(target.elts):
                self._bind(one, value.items[number] if number < len(value.items) else DATA)
        elif isinstance(target, ast.Subscript) and self._base(target.value).text == "os.environ":
            self.value(target.slice)
        else:
            self._children(target)

    def _for(self, node: ast.For) -> None:
        value = self.value(node.iter)
        items = value.items[:_MOST_ITEMS] if value.kind == "items" else (value._replace(kind="data", text=None),)
        if len(value.items) > _MOST_ITEMS:
            self.unclear()
        for item in items:
            self._bind(node.target, item)
            self._all(node.body)
        self._all(node.orelse)

    def value(self, node: ast.expr) -> Value:  # noqa: PLR0911  # one for each sort of expression
        """Return what is known of an expression, and record what its calls do."""
        self.call.recorder.spend(2)
        if isinstance(node, ast.Constant):
            return _constant(node)
        if isinstance(node, ast.Name | ast.Attribute):
            found = self._base(node)
            if found.kind == "name" and found.text == "os.environ":
                self.call.emit("secret", env="*")
                return Value("data", carried=True)
            return found
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.JoinedStr):
            parts = [one.value if isinstance(one, ast.FormattedValue) else one for one in node.values]
            return joined([self.value(part) for part in parts])
        if isinstance(node, ast.BinOp):
            return self._operation(node)
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            items = tuple(self.value(item) for item in node.elts)
            return Value("items", items=items, carried=any(item.carried for item in items))
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.Lambda):
            self.value(node.body)
            return Value("name", "lambda")
        return self._inert(node)

    def _base(self, node: ast.expr) -> Value:
        """Return what a name or an attribute stands for; the environment is not read by naming it."""
        if isinstance(node, ast.Name):
            return self._name(node.id)
        return self._attribute(node) if isinstance(node, ast.Attribute) else self.value(node)

    def _inert(self, node: ast.expr) -> Value:
        """Follow what is inside an expression that only computes."""
        carried = False
        source = DATA
        for child in ast.walk(node) if isinstance(node, ast.Dict) else ast.iter_child_nodes(node):
            if isinstance(child, ast.expr) and not isinstance(node, ast.Dict):
                found = self.value(child)
                carried = carried or found.carried
                source = found if found.source else source
            elif isinstance(child, ast.comprehension):
                self._bind(child.target, self.value(child.iter)._replace(kind="data", text=None))
                for condition in child.ifs:
                    self.value(condition)
        if isinstance(node, ast.Dict):
            values = [self.value(one) for one in (*node.keys, *node.values) if one is not None]
            carried = any(value.carried for value in values)
        return Value("data", None, source.source, source.host, carried)

    def _name(self, name: str) -> Value:
        if name == _HOLE:
            return DATA._replace(hole=True)
        known = self.names.get(name)
        if known is not None:
            return known
        return Value("name", name)

    def _operation(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.Add):
            return joined([left, right])
        if isinstance(node.op, ast.Div) and left.kind == "path":
            return self.join(left, [right])
        return joined([left._replace(kind="data"), right])._replace(text=None)

    def _attribute(self, node: ast.Attribute) -> Value:
        base = self._base(node.value)
        if base.kind == "name" and base.text is not None:
            return Value("name", f"{base.text}.{node.attr}")
        if base.kind in ("data", "text", "items", "file"):
            return Value("data", None, base.source, base.host, base.carried, hole=base.hole)
        return OTHER

    def _subscript(self, node: ast.Subscript) -> Value:
        index = self.value(node.slice)
        base = self._base(node.value)
        if base.kind == "name" and base.text == "os.environ":
            self.variable(index)
            return Value("data", carried=True)
        if base.kind == "items" and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
            at = node.slice.value
            return base.items[at] if -len(base.items) <= at < len(base.items) else DATA
        return Value("data", None, base.source, base.host, base.carried)

    def _call(self, node: ast.Call) -> Value:
        function = self._base(node.func) if not isinstance(node.func, ast.Attribute) else None
        base: Value | None = None
        name = ""
        if function is None and isinstance(node.func, ast.Attribute):
            base = self._base(node.func.value)
            name = node.func.attr
            if base.kind == "name" and base.text is not None:
                function, base = Value("name", f"{base.text}.{name}"), None
        args = [self.value(arg.value if isinstance(arg, ast.Starred) else arg) for arg in node.args]
        options = {one.arg or "**": self.value(one.value) for one in node.keywords}
        if base is not None:
            return self.method(base, name, args, options)
        return self.function(function.text or "" if function is not None else "", args, options)


def _constant(node: ast.Constant) -> Value:
    value = node.value
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str):
        return Value("data", str(value))
    if _HOLE in value:
        return Value("data", None, hole=True)
    return Value("text", value)
