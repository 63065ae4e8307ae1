"""The settings of the judge: who is asked, for how long, and what that may cost."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import Field

from stream_guard.judge.durations import Duration
from stream_guard.settings.values import Section

MOST_PRICE: Final = 1e6  # budgets are counted in whole numbers of 64 bits


class JudgeSettings(Section):
    """The model that decides what no rule can: any endpoint with OpenAI's chat completions."""

    url: str = Field(default="", description="the endpoint, such as http://127.0.0.1:8000/v1; empty: nobody is asked")
    model: str = Field(default="", description="the model's name, as the endpoint calls it")
    api_key_file: Path | None = Field(default=None, description="a file that holds the key, where one is asked for")
    concurrency: int = Field(default=4, ge=1, le=64, description="questions that are open at the same time")
    max_characters: int = Field(default=60_000, gt=0, description="how much of a trace is shown")
    cache: Path | None = Field(default=None, description="a folder for answers; the same question is asked once")
    input_price: float = Field(
        default=0.0, ge=0, le=MOST_PRICE, description="dollars for a million tokens of the question"
    )
    output_price: float = Field(
        default=0.0, ge=0, le=MOST_PRICE, description="dollars for a million tokens of the answer"
    )
    # Of rules that ask a judge:
    record: str = Field(
        default="", description="where their questions, answers and budgets are kept; empty: in the history"
    )
    timeout: Duration = Field(default=30.0, gt=0, description="how long an answer may take")
    patience: Duration = Field(default=60.0, description="how long the end of the input waits for answers")
    max_tokens: int = Field(default=400, gt=0, description="how long an answer may be")
    calls_per_day: int = Field(default=1000, ge=0, description="questions of all rules together, in a day of UTC")
    dollars_per_day: float | None = Field(default=None, ge=0, description="what they may cost; unset: no bound")
    tenant_calls_per_day: int | None = Field(default=None, ge=0, description="questions of one tenant; unset: as all")
    tenant_dollars_per_day: float | None = Field(default=None, ge=0, description="what those may cost; unset: as all")
