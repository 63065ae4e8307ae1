"""An endpoint that speaks OpenAI's chat completions: one question, one reply, and what it cost."""

from __future__ import annotations

from typing import Any, Final

from stream_guard.model import Json
from stream_guard.settings import JudgeSettings

MAX_ANSWER: Final = 1_000_000  # bytes of a reply that are read; an endpoint must not fill the memory


async def ask_chat(body: dict[str, Json], settings: JudgeSettings) -> tuple[int, bytes]:
    """Return the HTTP status and the body of the reply; ValueError when that is too long.

    It has no time limit of its own: the caller sets one for all of it, connecting, waiting and every byte of the reply.
    """
    import httpx  # noqa: PLC0415  # an extra, and slow to load

    headers = {}
    if settings.api_key_file is not None:
        headers["Authorization"] = f"Bearer {settings.api_key_file.read_text(encoding='utf-8').strip()}"
    url = f"{settings.url.rstrip('/')}/chat/completions"
    client = httpx.AsyncClient(timeout=None, headers=headers, trust_env=False)  # noqa: S113  # see above
    async with client, client.stream("POST", url, json=body) as response:
        received = bytearray()
        async for chunk in response.aiter_bytes():
            received += chunk
            if len(received) > MAX_ANSWER:
                raise ValueError(f"the reply is longer than {MAX_ANSWER} bytes")
        return response.status_code, bytes(received)


def chat_cost(usage: Any, settings: JudgeSettings) -> tuple[int, float]:
    """Return the tokens that a reply tells of, and what they cost in US dollars; an odd number counts as none."""
    numbers = usage if isinstance(usage, dict) else {}
    asked, answered = (_count(numbers.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    return asked + answered, (asked * settings.input_price + answered * settings.output_price) / 1e6


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**40 else 0
