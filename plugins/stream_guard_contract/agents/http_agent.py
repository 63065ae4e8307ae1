"""An HTTP agent: prompts are sent to its endpoint, and a POST resets it."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from urllib.parse import urlsplit

import msgspec

from stream_guard_contract.agents.agent import RESET_SECONDS, AgentAnswer, AgentError, ResetError, overdue_answer
from stream_guard_contract.agents.http_messages import (
    AgentAnswerError,
    check_endpoint,
    expand,
    find_answer,
    render,
    reset_address,
)
from stream_guard_contract.document import AgentSection
from stream_guard_contract.proxies import MAX_BODY, HttpThread, open_client


class HttpAgent:
    """An agent behind an HTTP endpoint; a request is never retried, because the agent would act twice."""

    def __init__(self, section: AgentSection, http_thread: HttpThread) -> None:
        self._section = section
        self._endpoint = check_endpoint(expand(section.endpoint, "agent.endpoint"), "agent.endpoint")
        self._headers = {name: expand(value, f"agent.headers.{name}") for name, value in section.headers.items()}
        reset = section.reset_endpoint
        self._reset = reset_address(self._endpoint, expand(reset, "agent.reset_endpoint")) if reset else ""
        self._http_thread = http_thread
        self._client = open_client([self._endpoint, *([self._reset] if self._reset else [])])
        self.can_reset = bool(self._reset)

    def check(self) -> None:
        """Open a connection and close it without a request."""
        try:
            self._http_thread.call(asyncio.wait_for(_connect(self._endpoint), RESET_SECONDS))
        except OSError as error:  # a TimeoutError is one
            why = error.strerror or "no answer"
            raise AgentError(f"no agent listens at {self._endpoint}: {why}; start it first") from None

    def ask(self, prompt: str, delay: float = 0.0) -> AgentAnswer:
        """Send the prompt and read the whole answer within ``agent.timeout``, and what faults may cost."""
        seconds = self._section.timeout / 1000 + delay
        began = time.perf_counter()
        text, error = "", ""
        try:
            text = self._http_thread.call(asyncio.wait_for(self._post(prompt), seconds))
        except TimeoutError:
            return overdue_answer(seconds)
        except AgentAnswerError as failure:
            error = str(failure)
        except Exception as failure:  # noqa: BLE001  # a hostile answer may raise anything in its parser
            error = f"the agent cannot be reached: {type(failure).__name__}: {failure}"
        return AgentAnswer(text, (time.perf_counter() - began) * 1000, error)

    def reset(self) -> None:
        """POST to the reset endpoint; every status but 2xx is an error."""
        try:
            status = self._http_thread.call(asyncio.wait_for(self._post_reset(), RESET_SECONDS))
        except TimeoutError:
            raise ResetError(f"the reset at {self._reset} did not answer in {RESET_SECONDS:g} s") from None
        except Exception as failure:  # noqa: BLE001  # after any error the agent's state is unknown
            raise ResetError(f"the reset at {self._reset} failed: {type(failure).__name__}: {failure}") from None
        if not 200 <= status < 300:
            raise ResetError(f"the reset at {self._reset} answered with HTTP status {status}; cells would share state")

    def close(self) -> None:
        """Close the connections."""
        self._http_thread.call(self._client.aclose())

    async def _post(self, prompt: str) -> str:
        section = self._section
        body = render(section.request_template, prompt, structured=section.parse_structured_input)
        sent: dict[str, Any] = {"params": dict(section.query_params)}
        if section.method in {"GET", "DELETE"}:
            sent["params"] |= body if isinstance(body, dict) else {"q": body}
        elif isinstance(body, str):
            sent["content"] = body.encode("utf-8", "replace")
        else:
            sent["json"] = body
        async with self._client.stream(section.method, self._endpoint, headers=self._headers, **sent) as response:
            received = bytearray()
            async for chunk in response.aiter_bytes():
                received += chunk
                if len(received) > MAX_BODY:
                    raise AgentAnswerError(f"the agent's answer is longer than {MAX_BODY} bytes")
        text = received.decode("utf-8", "replace")
        if not 200 <= response.status_code < 300:
            raise AgentAnswerError(f"HTTP {response.status_code}: {text[:500]}")
        is_json = "json" in response.headers.get("content-type", "").lower()
        return find_answer(_parse(text) if is_json else text, section.response_path if is_json else None)

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
