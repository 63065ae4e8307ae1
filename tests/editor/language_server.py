"""A client for a language server: just enough of the protocol to open a text and ask about it."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

TIMEOUT = 60.0


class LanguageServer:
    """A server process that speaks the Language Server Protocol over its standard streams."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._diagnostics: dict[str, list[dict[str, Any]]] = {}
        self._next_id = 0
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Self:
        capabilities: dict[str, Any] = {
            "textDocument": {
                "hover": {"contentFormat": ["markdown"]},
                "completion": {"completionItem": {"documentationFormat": ["markdown"]}},
            }
        }
        self.request("initialize", {"processId": None, "rootUri": None, "capabilities": capabilities})
        self.notify("initialized", {})
        settings = {"validate": True, "hover": True, "completion": True, "schemaStore": {"enable": False}}
        self.notify("workspace/didChangeConfiguration", {"settings": {"yaml": settings}})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def open(self, path: Path) -> list[dict[str, Any]]:
        """Open the file as an editor does; return the diagnostics once the server has made up its mind."""
        uri = path.as_uri()
        text = path.read_text(encoding="utf-8")
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})
        while uri not in self._diagnostics:
            self._handle(self._receive())
        return self._diagnostics[uri]

    def hover(self, path: Path, line: int, column: int) -> str:
        """Return what is shown for the place (from 1), or nothing."""
        found = self.request("textDocument/hover", _position(path, line, column))
        return "" if found is None else str(found["contents"]["value"])

    def complete(self, path: Path, line: int, column: int) -> dict[str, str]:
        """Return the words that are offered at the place (from 1), with their documentation."""
        found = self.request("textDocument/completion", _position(path, line, column))
        items = found["items"] if isinstance(found, dict) else found or []
        return {item["label"]: _documentation(item) for item in items}

    def request(self, method: str, params: dict[str, Any]) -> Any:
        """Ask, and return the answer."""
        self._next_id += 1
        wanted = self._next_id
        self._send({"jsonrpc": "2.0", "id": wanted, "method": method, "params": params})
        while True:
            message = self._receive()
            if message.get("id") == wanted and "method" not in message:
                assert "error" not in message, message["error"]
                return message.get("result")
            self._handle(message)

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Tell, without an answer."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def _handle(self, message: dict[str, Any]) -> None:
        if message.get("method") == "textDocument/publishDiagnostics":
            self._diagnostics[message["params"]["uri"]] = message["params"]["diagnostics"]
        elif "id" in message and "method" in message:
            # The server asks for configuration and registrations; it has been told all there is.
            items = message.get("params", {}).get("items")
            answer = [None] * len(items) if isinstance(items, list) else None
            self._send({"jsonrpc": "2.0", "id": message["id"], "result": answer})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        body = json.dumps(message).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        message = self._messages.get(timeout=TIMEOUT)
        assert message is not None, "the language server has ended"
        return message

    def _read(self) -> None:
        assert self._process.stdout is not None
        stream: IO[bytes] = self._process.stdout
        while (header := stream.readline()) != b"":
            length = 0
            while header not in (b"\r\n", b""):
                name, _, value = header.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
                header = stream.readline()
            self._messages.put(json.loads(stream.read(length)))
        self._messages.put(None)


def _position(path: Path, line: int, column: int) -> dict[str, Any]:
    return {"textDocument": {"uri": path.as_uri()}, "position": {"line": line - 1, "character": column - 1}}


def _documentation(item: dict[str, Any]) -> str:
    found = item.get("documentation", "")
    return str(found["value"]) if isinstance(found, dict) else str(found)
