"""A judge over HTTP in this process: it keeps what it was asked, answers as it is told, and knows what it billed."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from types import TracebackType
from typing import Any, NamedTuple, Self

from stream_guard.settings import JudgeSettings

PROMPT_PRICE, ANSWER_PRICE = 3.0, 15.0  # dollars for a million tokens


class Asked(NamedTuple):
    """One request: the body as it came, and the object in the user's message."""

    body: dict[str, Any]
    question: dict[str, Any]
    headers: dict[str, str]

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The excerpt, line by line, as data."""
        return [json.loads(line) for line in self.question["excerpt"]]


class Replied(NamedTuple):
    """What goes back. ``promised`` is the length that the head tells, where it is not that of the body."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = {}
    promised: int | None = None


def verdict(asked: Asked, *, violated: object = True, **other: object) -> dict[str, object]:
    """Return the answer to a question in the form that was asked for."""
    answer = {"id": asked.question["id"], "violated": violated, "confidence": 0.9, "explanation": "by the excerpt"}
    return answer | other


def completion(content: object, prompt: int = 200, answer: int = 40) -> bytes:
    """Return a chat completion with a content, a text or an object."""
    text = content if isinstance(content, str) else json.dumps(content)
    usage = {"prompt_tokens": prompt, "completion_tokens": answer}
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}], "usage": usage}).encode()


def broken(asked: Asked) -> Replied:
    """Say that the rule is broken."""
    return Replied(completion(verdict(asked)))


def kept(asked: Asked) -> Replied:
    """Say that the rule is kept."""
    return Replied(completion(verdict(asked, violated=False)))


class JudgeEnd:
    """Listens on a free port of loopback; ``reply`` makes the reply to each question."""

    def __init__(self, reply: Callable[[Asked], Replied] = broken) -> None:
        self.reply = reply
        self.asked: list[Asked] = []
        self.billed = 0.0  # dollars
        self._lock = Lock()
        end = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                asked = Asked(body, json.loads(body["messages"][1]["content"]), dict(self.headers))
                with end._lock:
                    end.asked.append(asked)
                replied = end.reply(asked)
                end._bill(replied)
                try:
                    self._send(replied)
                except OSError:  # the one who asked was killed
                    return

            def _send(self, replied: Replied) -> None:
                self.send_response(replied.status)
                for name, value in replied.headers.items():
                    self.send_header(name, value)
                promised = len(replied.body) if replied.promised is None else replied.promised
                self.send_header("content-length", str(promised))
                self.end_headers()
                self.wfile.write(replied.body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def settings(self, **other: Any) -> JudgeSettings:
        """Return settings that name this judge."""
        prices = {"input_price": PROMPT_PRICE, "output_price": ANSWER_PRICE}
        plain = {"url": self.url, "model": "judge-1", "concurrency": 1, "timeout": 20.0}
        return JudgeSettings(**{**plain, **prices, **other})

    def _bill(self, replied: Replied) -> None:
        try:
            usage = json.loads(replied.body)["usage"]
            cost = usage["prompt_tokens"] * PROMPT_PRICE + usage["completion_tokens"] * ANSWER_PRICE
        except (ValueError, KeyError, TypeError):
            return
        with self._lock:
            self.billed += cost / 1e6

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
