"""Read a policy file, YAML or JSON, into plain data with the place of every value."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from stream_guard.errors import Place, PolicyError, Problem
from stream_guard.policy.codes import Code
from stream_guard.policy.json_text import parse_json
from stream_guard.policy.nodes import Builder, ParseStopped, PolicyDocument
from stream_guard.policy.yaml_text import parse_yaml

MAX_BYTES: Final = 4 * 2**20


def read_document(source: Path | str | bytes, file: str = "") -> PolicyDocument:
    """Return the file (a Path) or the text (anything else) as a document.

    Its ``problems`` are those after which reading could continue. Where it could not, PolicyError is raised
    with all problems found.
    """
    if isinstance(source, Path):
        file = file or str(source)
        text = _decode(_read(source, file), file)
    else:
        text = _decode(source if isinstance(source, bytes) else source.encode("utf-8", "surrogatepass"), file)
    if file.lower().endswith(".json"):
        return _parse(text, file, is_json=True)
    if text.lstrip(" \t\r\n")[:1] not in ("{", "["):
        return _parse(text, file, is_json=False)
    try:
        return _parse(text, file, is_json=True)
    except PolicyError as error:
        if error.problems[-1].code != Code.SYNTAX:
            raise
        return _parse_flow_style(text, file, error)


def _parse_flow_style(text: str, file: str, not_json: PolicyError) -> PolicyDocument:
    """Parse YAML that starts with a bracket, as JSON does; for a file that is neither, raise JSON's error."""
    try:
        return _parse(text, file, is_json=False)
    except PolicyError as error:
        if file.lower().endswith((".yaml", ".yml")) or error.problems[-1].code != Code.SYNTAX:
            raise
        raise not_json from None


def _parse(text: str, file: str, *, is_json: bool) -> PolicyDocument:
    builder = Builder(file)
    try:
        (parse_json if is_json else parse_yaml)(text, builder)
        return builder.finish()
    except ParseStopped as stop:
        raise PolicyError([*builder.problems, stop.problem]) from None


def _read(path: Path, file: str) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise _unreadable(file, "this is not a file; name a policy file, or the files of a folder one by one")
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _unreadable(file, "no such file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _unreadable(file, f"cannot be read: {reason}") from None


def _decode(content: bytes, file: str) -> str:
    if len(content) > MAX_BYTES:
        raise _unreadable(file, f"larger than {MAX_BYTES // 2**20} MiB; split the policy into several files")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        message = f"not UTF-8: byte 0x{content[error.start]:02x}; save the file as UTF-8"
        raise PolicyError([Problem(Place(file, line, column), message, Code.UNREADABLE)]) from None


def _unreadable(file: str, message: str) -> PolicyError:
    return PolicyError([Problem(Place(file), message, Code.UNREADABLE)])
