"""Asking a judge what no rule can decide: one question for each rule, a few at a time, in a bounded time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from stream_guard import Answer, Event, JudgeSettings, Question, Registry, redact_text
from stream_guard_compliance.results import BehavioralRule

_FIELDS: Final = ("text", "tool", "args", "status", "output", "response", "agent")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What came of one question: an answer, or the reason why there is none."""

    answer: Answer | None
    why: str = ""


async def ask_judge(
    rules: Sequence[BehavioralRule], trace: str, registry: Registry, settings: JudgeSettings, seconds: float
) -> list[Judgement]:
    """Return a judgement for each rule; after ``seconds`` in all, what is not answered is not evaluated."""
    hook = registry.manager.hook.stream_guard_judge
    if not rules or not hook.get_hookimpls():
        return [Judgement(None, "no judge is installed")] * len(rules)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    pool = ThreadPoolExecutor(settings.concurrency, thread_name_prefix="judge")

    async def ask(rule: BehavioralRule) -> Judgement:
        return await _ask(pool, hook, rule, trace, settings, deadline)

    try:
        return list(await asyncio.gather(*map(ask, rules)))
    finally:
        # A judge that does not come back must not hold the caller: its thread ends when it does.
        pool.shutdown(wait=False, cancel_futures=True)


async def _ask(
    pool: ThreadPoolExecutor, hook: Any, rule: BehavioralRule, trace: str, settings: JudgeSettings, deadline: float
) -> Judgement:
    loop = asyncio.get_running_loop()

    def call() -> Answer | None:
        left = deadline - loop.time()  # time in the queue counts
        question = Question(rule=rule.description, text=trace, settings=settings, timeout=max(left, 0.0))
        answer: Answer | None = hook(question=question) if left > 0 else None
        return answer

    try:
        answer = await asyncio.wait_for(loop.run_in_executor(pool, call), deadline - loop.time())
    except TimeoutError:
        return Judgement(None, "the judge did not answer in time")
    except Exception as error:  # noqa: BLE001  # a stranger's plugin may raise anything; the result must say so
        return Judgement(None, f"the judge failed: {redact_text(repr(error))}")
    if answer is None:
        late = loop.time() >= deadline
        return Judgement(None, "the judge did not answer in time" if late else "no judge is set up")
    if answer.violated is None:
        return Judgement(answer, answer.explanation or "the judge could not tell")
    return Judgement(answer)


def transcript(events: Sequence[Event], limit: int) -> tuple[str, bool]:
    """Return the trace as JSON lines for a judge, and whether it had to be cut."""
    lines = []
    for number, event in enumerate(events):
        data = msgspec.to_builtins(event)
        shown = {key: data[key] for key in _FIELDS if data.get(key) not in (None, "", {})}
        lines.append(json.dumps({"n": number, "event": data["kind"], **shown}, ensure_ascii=True))
    text = "\n".join(lines)
    return text[:limit], len(text) > limit
