"""Usage in one spelling: every provider's names, and the same sum whichever of them counts inside or beside."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_guard_formats.native.decoder import NativeDecoder
from stream_guard_formats.usage import read_usage

import stream_guard as sg
from stream_guard.ports import Record

COUNTS = st.integers(min_value=0, max_value=10**6)

# Each writes 100 input tokens, 40 of them from a cache, and 50 output tokens, 30 of them thinking.
SPELLINGS: dict[str, dict[str, Any]] = {
    "OpenAI chat": {
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "total_tokens": 150,
        "prompt_tokens_details": {"cached_tokens": 40, "audio_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 30, "accepted_prediction_tokens": 2},
    },
    "OpenAI responses": {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 40},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 30},
        "total_tokens": 150,
    },
    "LangChain": {
        "input_tokens": 100,
        "output_tokens": 50,
        "total_tokens": 150,
        "input_token_details": {"cache_read": 40},
        "output_token_details": {"reasoning": 30},
    },
    "Langfuse": {"input": 60, "input_cache_read": 40, "output": 20, "output_reasoning": 30, "total": 150},
    "Langfuse, not split": {
        "input": 100,
        "input_cached_tokens": 40,
        "output": 50,
        "output_reasoning": 30,
        "total": 150,
    },
    "Gemini": {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 40,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 30,
        "totalTokenCount": 150,
    },
    "AI SDK": {"inputTokens": 100, "outputTokens": 50, "reasoningTokens": 30, "cachedInputTokens": 40},
    "OpenTelemetry": {
        "input_tokens": 100,
        "output_tokens": 50,
        "reasoning.output_tokens": 30,
        "cache_read.input_tokens": 40,
        "text.input_tokens": 90,
    },
    "OpenInference": {
        "prompt": 100,
        "completion": 50,
        "total": 150,
        "prompt_details.cache_read": 40,
        "completion_details.reasoning": 30,
    },
    "Codex": {
        "input_tokens": 100,
        "cached_input_tokens": 40,
        "output_tokens": 50,
        "reasoning_output_tokens": 30,
        "total_tokens": 150,
    },
    "numbers as texts": {
        "prompt_tokens": "100",
        "completion_tokens": "50",
        "reasoning_tokens": "30",
        "cached_tokens": 40.0,
    },
    "ours": {"input_tokens": 100, "output_tokens": 20, "thinking_tokens": 30, "cache_read_tokens": 40},
}
SAME = {"input_tokens": 100, "output_tokens": 20, "thinking_tokens": 30, "cache_read_tokens": 40}


@pytest.mark.parametrize("name", SPELLINGS)
def test_every_spelling_says_the_same(name: str) -> None:
    cache_beside = False if name == "OpenTelemetry" else None
    assert read_usage(SPELLINGS[name], cache_beside=cache_beside) == SAME


def test_cached_tokens_that_are_counted_beside_the_input_are_input_too() -> None:
    anthropic = {
        "input_tokens": 500,
        "cache_creation_input_tokens": 7,
        "cache_read_input_tokens": 300,
        "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4},
        "output_tokens": 40,
        "server_tool_use": {"web_search_requests": 2},
    }
    bedrock = {"inputTokens": 500, "outputTokens": 40, "cacheReadInputTokens": 300, "cacheWriteInputTokens": 7}
    same = {"input_tokens": 807, "output_tokens": 40, "cache_read_tokens": 300, "cache_write_tokens": 7}
    assert read_usage(anthropic) == read_usage(bedrock) == same
    only_shares = {
        "input_tokens": 1,
        "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4},
    }
    assert read_usage(only_shares) == {"input_tokens": 8, "cache_write_tokens": 7}


def test_cost_is_taken_where_the_record_has_it() -> None:
    assert read_usage({"prompt_tokens": 1, "cost": 0.25}) == {"input_tokens": 1, "cost_usd": 0.25}
    assert read_usage({"input_tokens": 1}, cost="0.5") == {"input_tokens": 1, "cost_usd": 0.5}
    assert read_usage({"input": 1, "input_cost": 0.5, "total_cost": 2}) == {"input_tokens": 1, "cost_usd": 2.0}


@pytest.mark.parametrize(
    "nothing", [None, {}, [], 7, "12", {"unheard_of": 3}, {"prompt_tokens": "many"}, {"input": -1}]
)
def test_what_says_nothing_known_is_no_usage_and_not_zero(nothing: object) -> None:
    assert read_usage(nothing) is None


def test_only_a_total_is_input() -> None:
    assert read_usage({"total_tokens": 12}) == {"input_tokens": 12}


@given(plain=COUNTS, read=COUNTS, written=COUNTS, said=COUNTS, thought=COUNTS)
def test_sum_is_the_total_of_the_record_whatever_is_counted_inside(
    plain: int, read: int, written: int, said: int, thought: int
) -> None:
    total = plain + read + written + said + thought
    beside = {
        "input": plain,
        "input_cache_read": read,
        "input_cache_creation": written,
        "output": said,
        "output_reasoning": thought,
        "total": total,
    }
    inside = {
        "prompt_tokens": plain + read + written,
        "completion_tokens": said + thought,
        "total_tokens": total,
        "prompt_tokens_details": {"cached_tokens": read, "cache_creation_tokens": written},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }
    for written_down in (beside, inside):
        usage = read_usage(written_down)
        assert usage is not None
        assert usage["input_tokens"] + usage["output_tokens"] + usage["thinking_tokens"] == total


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=20), inner, max_size=5),
        max_leaves=10,
    )
)
def test_whatever_stands_there_the_answer_is_ours_or_nothing(found: object) -> None:
    usage = read_usage(found)
    assert usage is None or all(value >= 0 for value in usage.values())


def test_native_events_with_a_foreign_spelling_are_spelled_anew() -> None:
    def decode(usage: object) -> dict[str, Any]:
        event = {"kind": "turn", "session_id": "s", "event_id": "e", "response": {"content": "x", "usage": usage}}
        (turn,) = NativeDecoder().decode(Record(json.dumps(event).encode()))
        assert isinstance(turn, sg.Turn)
        return turn.response

    assert decode({"prompt_tokens": 5, "completion_tokens": 2})["usage"] == {"input_tokens": 5, "output_tokens": 2}
    assert decode({"input_tokens": 5})["usage"] == {"input_tokens": 5}
    assert "usage" not in decode({"unheard_of": 5})
