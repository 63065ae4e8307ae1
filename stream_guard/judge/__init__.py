"""The judge: events in, findings out. It knows no settings, files, threads, sockets or clocks (docs/adr/0038)."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stream_guard.judge.judge import Judge, Judged

__all__ = ["Judge", "Judged"]


def __getattr__(name: str) -> Any:
    # Settings and the command line need a word of this room, and not all of it.
    if name not in __all__:
        raise AttributeError(name)
    from stream_guard.judge import judge  # noqa: PLC0415

    return getattr(judge, name)
