"""An agent behind an HTTP endpoint, asked within its time and reset by a POST."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from urllib.parse import urlsplit

import msgspec

from stream_guard_contract.agent import RESET_SECONDS, AgentError, Answer, ResetError
from stream_guard_contract.background import Background
from stream_guard_contract.forms import Agent as AgentForm
from stream_guard_contract.requests import AnswerError, check_endpoint, expand, find_answer, render, reset_address
from stream_guard_contract.upstream import MAX_BODY, open_client


class HttpAgent:
    """An agent behind an endpoint; asked once and never again, because a second try would do everything twice."""

    def __init__(self, form: AgentForm, background: Background) -> None:
        self._form = form
        self._endpoint = check_endpoint(expand(form.endpoint, "agent.endpoint"), "agent.endpoint")
        self._headers = {name: expand(value, f"agent.headers.{name}") for name, value in form.headers.items()}
        reset = form.reset_endpoint
        self._reset = reset_address(self._endpoint, expand(reset, "agent.reset_endpoint")) if reset else ""
        self._background = background
        self._client = open_client([self._endpoint, *([self._reset] if self._reset else [])])
        self.can_reset = bool(self._reset)

    def check(self) -> None:
        """Connect once, and say nothing."""
        try:
            self._background.call(asyncio.wait_for(_connect(self._endpoint), RESET_SECONDS))
        except OSError as error:  # a TimeoutError is one
            why = error.strerror or "no answer"
            raise AgentError(f"no agent listens at {self._endpoint}: {why}; start it first") from None

    def ask(self, prompt: str) -> Answer:
        """Send the prompt and read the answer, all within the agent's time-out."""
        began = time.perf_counter()
        text, error = "", ""
        try:
            text = self._background.call(asyncio.wait_for(self._post(prompt), self._form.timeout / 1000))
        except TimeoutError:
            error = f"the agent did not answer in {self._form.timeout} ms"
        except AnswerError as failure:
            error = str(failure)
        except Exception as failure:  # noqa: BLE001  # a hostile answer may break its parser in ways nobody listed
            error = f"the agent cannot be reached: {type(failure).__name__}: {failure}"
        return Answer(text, (time.perf_counter() - began) * 1000, error)

    def reset(self) -> None:
        """POST to the reset endpoint; anything but 2xx is an error."""
        try:
            status = self._background.call(asyncio.wait_for(self._post_reset(), RESET_SECONDS))
        except TimeoutError:
            raise ResetError(f"the reset at {self._reset} did not answer in {RESET_SECONDS:g} s") from None
        except Exception as failure:  # noqa: BLE001  # whatever it was, the state is unknown
            raise ResetError(f"the reset at {self._reset} failed: {type(failure).__name__}: {failure}") from None
        if not 200 <= status < 300:
            raise ResetError(f"the reset at {self._reset} answered with HTTP status {status}; cells would share state")

    def close(self) -> None:
        """Close the connections."""
        self._background.call(self._client.aclose())

    async def _post(self, prompt: str) -> str:
        form = self._form
        body = render(form.request_template, prompt, structured=form.parse_structured_input)
        sent: dict[str, Any] = {"params": dict(form.query_params)}
        if form.method in {"GET", "DELETE"}:
            sent["params"] |= body if isinstance(body, dict) else {"q": body}
        elif isinstance(body, str):
            sent["content"] = body.encode("utf-8", "replace")
        else:
            sent["json"] = body
        async with self._client.stream(form.method, self._endpoint, headers=self._headers, **sent) as response:
            received = bytearray()
            async for chunk in response.aiter_bytes():
                received += chunk
                if len(received) > MAX_BODY:
                    raise AnswerError(f"the agent's answer is longer than {MAX_BODY} bytes")
        text = received.decode("utf-8", "replace")
        if not 200 <= response.status_code < 300:
            raise AnswerError(f"HTTP {response.status_code}: {text[:500]}")
        is_json = "json" in response.headers.get("content-type", "").lower()
        return find_answer(_parse(text) if is_json else text, form.response_path if is_json else None)

    async def _post_reset(self) -> int:
        response = await self._client.post(self._reset, headers=self._headers)
        return response.status_code


async def _connect(endpoint: str) -> None:
    parts = urlsplit(endpoint)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    _, writer = await asyncio.open_connection(parts.hostname, port)
    writer.close()
    await writer.wait_closed()


def _parse(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text
