"""An endpoint that speaks OpenAI's chat completions: one question, one reply, and what it cost."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from stream_guard.judge.model import Json
from stream_guard.settings import JudgeSettings

MAX_ANSWER: Final = 1_000_000  # bytes of a reply that are read; an endpoint must not fill the memory


class ChatReply(NamedTuple):
    """What an endpoint replied."""

    status: int  # of HTTP
    body: bytes
    retry_after: float | None = None  # seconds after which it wants to be asked again, where it says so


async def ask_chat(body: dict[str, Json], settings: JudgeSettings) -> ChatReply:
    """Return the reply of the endpoint; ValueError when that is too long.

    It has no time limit of its own: the caller sets one for all of it, connecting, waiting and every byte of the reply.
    A redirection is not followed: the question and the key are for this endpoint alone.
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
        return ChatReply(response.status_code, bytes(received), _seconds(response.headers.get("retry-after")))


def chat_cost(usage: Any, settings: JudgeSettings) -> tuple[int, float]:
    """Return the tokens that a reply tells of, and what they cost in US dollars; an odd number counts as none."""
    numbers = usage if isinstance(usage, dict) else {}
    asked, answered = (_count(numbers.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    return asked + answered, (asked * settings.input_price + answered * settings.output_price) / 1e6


def is_counted(usage: Any) -> bool:
    """Whether a reply says how many tokens the question and the answer took."""
    numbers = usage if isinstance(usage, dict) else {}
    return all(_count(numbers.get(name)) > 0 for name in ("prompt_tokens", "completion_tokens"))


def _seconds(header: str | None) -> float | None:
    """Return the seconds of a header ``Retry-After``; None without one, and where it names a date."""
    text = (header or "").strip()
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**40 else 0
