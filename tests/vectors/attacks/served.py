"""The server as agents and attackers meet it: a process, HTTP, and sockets that behave badly."""

from __future__ import annotations

import json
import select
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from stream_guard.serve.tokens import TokenEntry, make_token, write_tokens
from tests import plain_http
from tests.vectors.attacks.catalogue import Catalogue
from tests.vectors.attacks.expectations import Outcome
from tests.vectors.attacks.history import forge, is_sound, show_in_terminal
from tests.vectors.attacks.processes import Process, read_alerts, rule_ids, write_inputs
from tests.vectors.attacks.steps import expand, fill, plain_event, text_of
from tests.vectors.case import CannotRunError, WrongAnswerError

_JSON: Final = {"Content-Type": "application/json"}
_CLOCK: Final = Path(__file__).with_name("shifted_clock.py")
_OPERATOR: Final = "operator of the vectors"  # whose token this runner itself shows


class Served:
    """``stream-guard serve`` with a history; its alerts go to a file."""

    def __init__(self, case: dict[str, Any], folder: Path) -> None:
        self._folder = folder
        self._sections = dict(case.get("settings", {}))
        self._run = self._sections.pop("run", {})
        self._token = (self._sections.get("api") or {}).get("token", "")
        self._history = folder / "history.db"
        self._alerts = folder / "alerts.jsonl"
        self._clock = folder / "clock"
        stands_at = self._run.get("clock")
        ahead = 0.0 if stands_at is None else float(stands_at) - time.time()
        self._clock.write_text(str(ahead), encoding="utf-8")
        self._shifts = bool(ahead) or any("later" in step for step in expand(case["steps"]))
        self._tokens = _write_tokens(folder / "tokens.jsonl", case["tokens"]) if "tokens" in case else {}
        if self._tokens:
            self._sections["api"] = {**self._sections.get("api", {}), "tokens_file": str(folder / "tokens.jsonl")}
        self._latest = ""
        self._named: dict[str, str] = {}
        self._outcome = Outcome()
        self._sockets: list[socket.socket] = []
        self._floods: list[threading.Thread] = []
        self._process: Process | None = None
        self._policy = case["policy"]
        self._catalogue = Catalogue(case)
        self._open()

    def take(self, action: str, step: dict[str, Any]) -> dict[str, Any]:
        """Carry out a step."""
        if action not in _STEPS:
            raise CannotRunError(f"the step {action} has no place over HTTP")
        self._asks(step.get("token", _OPERATOR))
        told: dict[str, Any] = getattr(self, f"_{action}")(step)
        return told

    def _asks(self, name: str) -> None:
        """Show the token of this name from now on, where there are tokens."""
        if self._tokens:
            self._token = self._tokens[name]

    def finish(self) -> Outcome:
        """Read the metrics, stop the server and return what the case came to."""
        self._stop(signal.SIGTERM)
        self._outcome.alerts = read_alerts(self._alerts)
        return self._outcome

    def close(self) -> None:
        """Close every connection, and end the server if it still runs."""
        for opened in self._sockets:
            opened.close()
        self._sockets.clear()
        if self._process is not None:
            self._process.stop(signal.SIGKILL)
        for flood in self._floods:
            flood.join(30)

    def _open(self) -> None:
        self._outcome.rules |= rule_ids(self._policy)
        policy, settings = write_inputs(self._folder, self._policy, self._sections)
        words = ["serve", "--policy", str(policy), "--port", "0", "--history", str(self._history)]
        words += ["--alerts", f"jsonl:{self._alerts}", "--settings", str(settings)]
        if self._run.get("checkpoint"):
            words += ["--checkpoint", str(self._folder / "checkpoint.db")]
        if self._shifts:
            launcher = (str(_CLOCK), str(self._clock))
            self._process = Process(self._folder, *words, launcher=launcher)
        else:
            self._process = Process(self._folder, *words)
        self._url = self._process.wait_for("listening at ")
        parts = urlsplit(self._url)
        self._address = (parts.hostname or "", parts.port or 0)

    def _stop(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        for flood in self._floods:
            flood.join(60)
        if number is signal.SIGTERM and self._process.exit is None:
            self._asks(_OPERATOR)
            self._outcome.alarms.read(self._ask("GET", "/metrics").text)
            for opened in self._sockets:  # those that are only held: a server waits for them to end
                opened.close()
        before = self._history_mb()
        self._process.stop(number)
        self._outcome.history_mb = max(before, self._history_mb())
        self._outcome.exit = self._process.exit
        self._process = None

    def _history_mb(self) -> float:
        """Return what the history takes on disk, with its journal."""
        return sum(file.stat().st_size for file in self._folder.glob(f"{self._history.name}*")) / (1 << 20)

    def _ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        headers = self._shown()
        # Written here and not by the client: half a surrogate pair is JSON when it is escaped.
        content = None if body is None else json.dumps(body).encode()
        headers |= _JSON if content is not None else {}
        return plain_http.request(method, self._url + path, content=content, headers=headers, timeout=60)

    def _shown(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def _answer_of(self, status: int, text: str) -> dict[str, Any]:
        """Return what an answer to a check says; a request that is refused has no decision."""
        told: dict[str, Any] = {"status": status}
        if status != 200:
            return {**told, "action": "refused", "reason": text[:300]}
        said = json.loads(text)
        return told | {name: said[name] for name in ("action", "checked", "judged", "reason") if name in said}

    def _check(self, step: dict[str, Any]) -> dict[str, Any]:
        response = self._ask("POST", "/v1/check", self._catalogue.complete(plain_event(step["check"])))
        if response.status_code == 200 and (review := response.json().get("review")):
            self._latest = review["id"]
            if step.get("as"):
                self._named[step["as"]] = review["id"]
        return self._answer_of(response.status_code, response.text)

    def _event(self, step: dict[str, Any]) -> dict[str, Any]:
        return self._tell([step["event"]])

    def _events(self, step: dict[str, Any]) -> dict[str, Any]:
        return self._tell(step["events"])

    def _tell(self, events: list[dict[str, Any]]) -> dict[str, Any]:
        told_as = [self._catalogue.complete(plain_event(event)) for event in events]
        response = self._ask("POST", "/v1/events", {"events": told_as})
        told: dict[str, Any] = {"status": response.status_code}
        if response.status_code == 200:
            said = response.json()
            told |= {"taken": said["accepted"], "found": [alert["rule_id"] for alert in said["alerts"]]}
        return told

    def _line(self, step: dict[str, Any]) -> dict[str, Any]:
        event = text_of(step["line"]).encode(step.get("encoding", "utf-8"))
        return self._raw("POST", "/v1/events", {**_JSON, **self._shown()}, b'{"events":[' + event + b"]}")

    def _approve(self, step: dict[str, Any]) -> dict[str, Any]:
        return self._decide(step["approve"], "approve")

    def _reject(self, step: dict[str, Any]) -> dict[str, Any]:
        return self._decide(step["reject"], "reject")

    def _decide(self, said: dict[str, Any], word: str) -> dict[str, Any]:
        review = self._meant(said)
        body = {"by": said.get("by", "")}
        if "digest" in said:
            body["arguments_digest"] = said["digest"]
        response = self._ask("POST", f"/v1/reviews/{review or 'none'}/{word}", body)
        return {"accepted": response.status_code == 200, "status": response.status_code}

    def _meant(self, said: Any) -> str:
        return self._named.get(said["of"], "") if isinstance(said, dict) and "of" in said else self._latest

    def _existing(self, said: Any) -> str:
        review = self._meant(said)
        if not review:
            raise WrongAnswerError("nobody was asked: there is no review to speak of")
        return review

    def _review(self, step: dict[str, Any]) -> dict[str, Any]:
        said = step["review"]
        review = self._existing(said)
        if isinstance(said, dict) and said.get("through") == "terminal":
            return {"text": show_in_terminal(self._history, review)}
        response = self._ask("GET", f"/v1/reviews/{review}")
        return {"text": json.dumps(response.json(), ensure_ascii=False), "status": response.status_code}

    def _restart(self, step: dict[str, Any]) -> dict[str, Any]:
        self._stop(signal.SIGKILL if step["restart"] == "kill" else signal.SIGTERM)
        self._policy = step.get("policy", self._policy)
        self._open()
        self._outcome.alerts = read_alerts(self._alerts)
        return {"findings": self._outcome.findings()}

    def _later(self, step: dict[str, Any]) -> dict[str, Any]:
        ahead = float(self._clock.read_text(encoding="utf-8"))
        changed = self._clock.with_suffix(".new")
        changed.write_text(str(ahead + float(step["later"])), encoding="utf-8")
        changed.replace(self._clock)
        return {}

    def _forge(self, step: dict[str, Any]) -> dict[str, Any]:
        answer = {key: value for key, value in step["forge"].items() if key != "of"}
        forge(self._history, self._existing(step["forge"]), answer)
        return {}

    def _audit(self, _step: dict[str, Any]) -> dict[str, Any]:
        return {"ok": is_sound(self._history)}

    def _post(self, step: dict[str, Any]) -> dict[str, Any]:
        said = step["post"]
        body = said.get("body", "")
        text = text_of(body) if isinstance(body, str | list) else json.dumps(body)
        headers = {**_JSON, **{name: text_of(value) for name, value in said.get("headers", {}).items()}}
        content = text.encode(said.get("encoding", "utf-8"))
        return self._raw(said.get("method", "POST"), said.get("path", "/v1/check"), headers, content)

    def _raw(self, method: str, path: str, headers: dict[str, str], body: bytes) -> dict[str, Any]:
        sent = {name.encode(): value.encode("utf-8", "surrogatepass") for name, value in headers.items()}
        response = plain_http.request(method, self._url + path, headers=list(sent.items()), content=body, timeout=60)
        return self._answer_of(response.status_code, response.text)

    def _slow(self, step: dict[str, Any]) -> dict[str, Any]:
        said = step["slow"]
        body = json.dumps(plain_event(said["check"])).encode()
        head = f"POST /v1/check HTTP/1.1\r\nHost: {self._address[0]}\r\nContent-Type: application/json\r\n"
        head += f"Authorization: Bearer {self._token}\r\n" if self._token else ""
        request = f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
        pieces = max(1, int(said.get("pieces", 2)))
        size = -(-len(request) // pieces)
        with socket.create_connection(self._address, 10) as opened:
            opened.settimeout(60)
            try:
                for at in range(0, len(request), size):
                    opened.sendall(request[at : at + size])
                    time.sleep(float(said.get("pause", 0)))
                answer = b"".join(iter(lambda: opened.recv(65536), b""))
            except OSError as error:
                return {"action": "refused", "reason": str(error)}
        top, _, rest = answer.partition(b"\r\n\r\n")
        if not top:
            return {"action": "refused", "reason": "the connection was closed"}
        return self._answer_of(int(top.split()[1]), rest.decode())

    def _hold(self, step: dict[str, Any]) -> dict[str, Any]:
        said = step["hold"]
        number = int(said["connections"] if isinstance(said, dict) else said)
        self._connect(number)
        return {"open": len(self._still_open())}

    def _connect(self, number: int) -> None:
        for _ in range(number):
            self._sockets.append(socket.create_connection(self._address, 10))

    def _half_open(self, step: dict[str, Any]) -> dict[str, Any]:
        said = step["half_open"]
        self._connect(int(said["connections"]))
        for opened in self._sockets:
            opened.sendall(text_of(said["send"]).encode())
        most = int(step.get("expect", {}).get("open_at_most", 0))
        end = time.monotonic() + float(said.get("wait", 0))
        while len(self._still_open()) > most and time.monotonic() < end:
            time.sleep(0.25)
        return {"open": len(self._still_open())}

    def _still_open(self) -> list[socket.socket]:
        """Return the connections that the server has not closed."""
        return [opened for opened in self._sockets if not _is_closed(opened)]

    def _flood(self, step: dict[str, Any]) -> dict[str, Any]:
        said = step["flood"]
        each = int(said["each"])
        for batch in range(int(said["batches"])):
            events = [plain_event(fill(said["event"], batch * each + number)) for number in range(each)]
            flood = threading.Thread(target=self._pour, args=({"events": events},), daemon=True)
            flood.start()
            self._floods.append(flood)
        time.sleep(0.2)  # beside what follows: the first of it is there
        return {}

    def _pour(self, body: dict[str, Any]) -> None:
        try:
            self._ask("POST", "/v1/events", body)
        except httpx.HTTPError:
            return  # a server that turns a flood away is no failure of the flood


def _write_tokens(file: Path, owners: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Make a token for each owner, and one for an operator; return them by name."""
    tokens, entries = dict[str, str](), list[TokenEntry]()
    for name, said in {**owners, _OPERATOR: {"role": "operator"}}.items():
        tokens[name], digest = make_token()
        entry = {"role": "agent", **said, "agents": tuple(said.get("agents", ()))}
        entries.append(TokenEntry(name=name, sha256=digest, **entry))
    write_tokens(file, entries)
    return tokens


def _is_closed(opened: socket.socket) -> bool:
    readable, _, _ = select.select([opened], [], [], 0)
    if not readable:
        return False
    try:
        return not opened.recv(65536, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


_ASKED: Final = (
    "check",
    "event",
    "events",
    "line",
    "approve",
    "reject",
    "review",
    "restart",
    "later",
    "forge",
    "audit",
)
_STEPS: Final = frozenset((*_ASKED, "post", "slow", "hold", "half_open", "flood"))
