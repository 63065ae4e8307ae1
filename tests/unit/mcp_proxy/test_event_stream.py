from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from stream_guard.mcp_proxy.http_relay import EventStream

LINES = st.lists(
    st.sampled_from([b"data: a", b"data:b", b"data", b"id: 7", b"event: message", b": note", b"", b"x: y"])
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(lines=LINES, ends=st.lists(ENDS, min_size=1), cuts=st.lists(st.integers(0, 200)), mark=st.booleans())
def test_events_are_the_same_however_the_stream_is_cut(
    lines: list[bytes], ends: list[bytes], cuts: list[int], mark: bool
) -> None:
    raw = (b"\xef\xbb\xbf" if mark else b"") + b"".join(
        line + ends[number % len(ends)] for number, line in enumerate(lines)
    )
    places = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    whole, cut = EventStream(), EventStream()
    found = [event for first, last in pairwise(places) for event in cut.feed(raw[first:last])]
    assert found == whole.feed(raw)


def test_data_of_several_lines_is_one_and_is_written_as_one_line() -> None:
    [event] = EventStream().feed(b"id: 1\ndata: {\ndata: }\n: said\nother: x\n\n")
    assert (event.data, event.written(b"{}")) == (b"{\n}", b"id: 1\ndata: {}\n\n")
    assert event.written(b"") == b"id: 1\n\n"
