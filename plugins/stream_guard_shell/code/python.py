"""Python code in a command: parsed, imports followed, calls with literals become effects."""

from __future__ import annotations

import ast
import warnings
from typing import Final

from stream_guard_shell.code.calls import CallReader
from stream_guard_shell.code.values import DATA, OTHER, Value, joined
from stream_guard_shell.expansion.fields import Field, literal
from stream_guard_shell.shell.call import ProgramCall

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


class PythonReader(CallReader):
    """Follows statements and expressions; it never runs them."""

    def nested(self, code: str) -> None:
        """Follow code inside code."""
        self.call.recorder.spend(len(code) + 100)
        read_python(self.call, literal(code))

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
