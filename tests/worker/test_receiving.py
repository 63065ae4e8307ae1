"""A response comes in pieces, and is returned whole, whatever the pieces are."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.worker.kafka.receiving import FrameReader


def make_reader() -> FrameReader:
    reader: asyncio.StreamReader = asyncio.StreamReader()
    FrameReader.take_over(reader)
    assert isinstance(reader, FrameReader)
    return reader


@given(sizes=st.lists(st.integers(0, 40), max_size=8), cuts=st.lists(st.integers(1, 30), min_size=1, max_size=8))
def test_the_bytes_are_those_that_came_however_they_were_cut(sizes: list[int], cuts: list[int]) -> None:
    data = bytes(number % 251 for number in range(sum(sizes)))

    async def read() -> list[bytes]:
        reader = make_reader()

        async def feed() -> None:
            at = number = 0
            while at < len(data):
                step = cuts[number % len(cuts)]
                reader.feed_data(data[at : at + step])
                at, number = at + step, number + 1
                await asyncio.sleep(0)

        feeding = asyncio.ensure_future(feed())
        found = [await reader.readexactly(size) for size in sizes]
        await feeding
        return found

    found = asyncio.run(read())
    assert [len(one) for one in found] == sizes
    assert b"".join(found) == data


def test_a_connection_that_is_closed_in_a_response_raises_with_what_came() -> None:
    async def read() -> None:
        reader = make_reader()
        reader.feed_data(b"abc")
        reader.feed_eof()
        assert not reader.at_eof()
        with pytest.raises(asyncio.IncompleteReadError) as raised:
            await reader.readexactly(4)
        assert raised.value.partial == b"abc"
        assert reader.at_eof()

    asyncio.run(read())


def test_an_error_of_the_connection_reaches_the_reader_that_waits_and_the_one_that_comes_later() -> None:
    async def read() -> None:
        reader = make_reader()
        waiting = asyncio.ensure_future(reader.readexactly(4))
        await asyncio.sleep(0)
        reader.set_exception(ConnectionResetError())
        with pytest.raises(ConnectionResetError):
            await waiting
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)

    asyncio.run(read())
