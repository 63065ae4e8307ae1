"""A query that the server does not know is refused: answering the rest of it would mislead."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from stream_guard.serve.app import _query
from stream_guard.serve.bodies import RequestRefused

STATES = frozenset(("open", "solved"))


def asked(query: str) -> tuple[str | None, int]:
    return _query(Request({"type": "http", "query_string": query.encode(), "headers": []}), STATES)


def test_known_parameters_are_read() -> None:
    assert asked("status=open&limit=5") == ("open", 5)
    assert asked("") == (None, 100)


@pytest.mark.parametrize(("query", "named"), [("stat=open", "status"), ("limits=5", "limit"), ("x=1", "it takes")])
def test_an_unknown_parameter_is_refused_with_those_there_are(query: str, named: str) -> None:
    with pytest.raises(RequestRefused, match=named):
        asked(f"limit=5&{query}")
