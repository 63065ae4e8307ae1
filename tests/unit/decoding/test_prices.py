"""The cost of a turn: what its record says, else what a table of prices gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stream_guard as sg
from stream_guard.decoding.wrapping import cost_of
from stream_guard.errors import SettingsError
from stream_guard.ports import Record
from stream_guard.running.assembly import Assembly
from stream_guard.settings import ModelPrice, Settings, load_settings

PRICES = {"decode": {"prices": {"gpt-x": {"input": 2.0, "output": 8.0, "cache_read": 0.5}}}}


def usage_of(record: dict[str, Any], form: str) -> dict[str, Any]:
    decoder = Assembly(Settings.model_validate(PRICES)).make_decoder(form)
    turn = next(event for event in decoder.decode(Record(json.dumps(record).encode())) if isinstance(event, sg.Turn))
    usage: dict[str, Any] = turn.response["usage"]
    return usage


def chat(model: str, **usage: Any) -> dict[str, Any]:
    answer = {"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
    asked = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    return {"session_id": "s", "request": asked, "response": {"choices": [answer], "usage": usage}}


def test_cached_tokens_have_their_price_and_thinking_has_that_of_the_answer() -> None:
    used = {"input_tokens": 1000, "cache_read_tokens": 400, "output_tokens": 10, "thinking_tokens": 90}
    price = ModelPrice(input=2.0, output=8.0, cache_read=0.5)
    assert cost_of(used, price) == pytest.approx((600 * 2.0 + 400 * 0.5 + 100 * 8.0) / 1e6)


def test_a_table_of_prices_gives_the_cost_that_a_record_leaves_out() -> None:
    details = {"cached_tokens": 400}
    used = usage_of(
        chat("gpt-x", prompt_tokens=1000, completion_tokens=100, prompt_tokens_details=details), "openai-chat"
    )
    assert used["cost_usd"] == pytest.approx((600 * 2.0 + 400 * 0.5 + 100 * 8.0) / 1e6)


def test_the_date_in_the_name_of_a_model_does_not_hide_its_price() -> None:
    assert "cost_usd" in usage_of(chat("gpt-x-2026-01-31", prompt_tokens=1), "openai-chat")
    assert "cost_usd" not in usage_of(chat("another", prompt_tokens=1), "openai-chat")


def test_a_decoder_with_prices_holds_events_back_only_if_it_does_without() -> None:
    forms = ("native", "openai-chat", "otlp-json", "auto")
    for form in forms:
        plain, priced = (
            Assembly(settings).make_decoder(form) for settings in (Settings(), Settings.model_validate(PRICES))
        )
        assert priced.waits == plain.waits, form


def test_the_cost_in_the_record_wins() -> None:
    assert usage_of(chat("gpt-x", prompt_tokens=1000, cost=7.5), "openai-chat")["cost_usd"] == 7.5


def test_a_wrong_price_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("decode: {prices: {gpt-x: {input: -1, output: 2}}}")
    with pytest.raises(SettingsError, match="prices"):
        load_settings(file)
