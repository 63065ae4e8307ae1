"""How much the judge remembers."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from stream_guard.judge.durations import Duration


class Limits(BaseModel):
    """Limits on what is remembered; a metric counts each time one is reached."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_live: int = Field(default=1_000_000, gt=0, description="sessions open at once; the longest idle is closed")
    max_states: int = Field(default=1000, gt=0, description="states one session may hold, keyed ones included")
    max_open_calls: int = Field(default=256, gt=0, description="unanswered tool calls remembered per session")
    max_session_bytes: int = Field(
        default=4 * 2**20, gt=0, description="bytes one stored session may have; its oldest unanswered calls go first"
    )
    max_buffered_bytes: int = Field(
        default=2**20,
        gt=0,
        description="bytes of events that one session holds back for their order; beyond, the earliest are judged",
    )
    duplicate_window: int = Field(default=1000, gt=0, description="event ids remembered per session")
    in_memory: int = Field(default=50_000, gt=0, description="sessions kept unpacked; the others are bytes")
    max_future_skew: Duration = Field(
        default=300.0, description="how far ahead of the receiver's clock an event may be stamped and still move clocks"
    )
    tenant_label: str = Field(
        default="", description="the label that names the tenant; two tenants' sessions of one id are then two sessions"
    )
    end_from: tuple[str, ...] = Field(
        default=(),
        description="agents whose `session_end` resets limits, `*` for all; after another's the session may go on",
    )
