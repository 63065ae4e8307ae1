"""Consent: calls that lack the exchange before them are told from the others, by words of any language."""

from __future__ import annotations

import random

import pytest
from stream_guard_diff.measures.steps import Agreed, Exchange, weigh_consent

# In Esperanto, which no list of words here knows.
ASKS = ["Mi mendu tion", "Mi repagu la sumon", "Tio estas bona", "Mi aliigu la loĝlokon"]
AGREES = ["Jes bonvolu", "Jes certe", "Jes volonte", "Jes, faru tion"]
TELLS = ["Mi bezonas vian numeron", "Kiu mendo estas", "Nun kostas pli", "La pakaĵo venas"]
WANTS = ["Mia numero estas 12", "Temas pri lampo", "Kiom kostas", "Mi volas resendi"]


def agreed(drawn: random.Random) -> Agreed:
    """A call after a question and a yes; before them, something else was talked about."""
    return Agreed(Exchange(f"{drawn.choice(ASKS)}?", drawn.choice(AGREES)), unasked(drawn).exchange)


def unasked(drawn: random.Random) -> Agreed:
    """A call after talk about something else."""
    return Agreed(Exchange(drawn.choice(TELLS), drawn.choice(WANTS)), None)


def sessions(seed: int, good: int, faulty: int) -> list[list[Agreed]]:
    drawn = random.Random(seed)
    return [[agreed(drawn)] for _ in range(good)] + [[unasked(drawn)] for _ in range(faulty)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_call_without_its_exchange_weighs_more_than_every_other_in_any_language(seed: int) -> None:
    found = weigh_consent(sessions(seed, good=40, faulty=6))
    assert min(found[40:]) > max(found[:40])


def test_a_session_without_such_calls_weighs_nothing() -> None:
    found = weigh_consent([*sessions(1, good=40, faulty=4), []])
    assert found[-1] == 0.0


def test_the_order_of_the_sessions_does_not_matter() -> None:
    made = sessions(1, good=30, faulty=5)
    assert weigh_consent(made[::-1])[::-1] == pytest.approx(weigh_consent(made), abs=1e-9)


def test_a_session_is_judged_by_the_others_alone() -> None:
    """A word that only one session says would else teach that its calls are agreed on."""
    drawn = random.Random(1)
    plain = [unasked(drawn).exchange for _ in range(20)]
    marked = [exchange._replace(message=f"{exchange.message} xyzzy") for exchange in plain]
    others = sessions(2, good=40, faulty=0)
    found = [weigh_consent([*others, [Agreed(exchange, None) for exchange in own]])[-1] for own in (plain, marked)]
    assert found[1] == pytest.approx(found[0], abs=1e-6)


def test_from_few_calls_nothing_is_learned() -> None:
    assert weigh_consent(sessions(1, good=7, faulty=3)) == [0.0] * 10
    assert weigh_consent([]) == []
    assert any(weigh_consent(sessions(1, good=8, faulty=3)))


def test_so_many_calls_that_learning_would_take_long_are_left_alone() -> None:
    many = sessions(1, good=40, faulty=4) * 125
    assert weigh_consent(many) == [0.0] * len(many)


def test_empty_and_wordless_exchanges_are_no_error() -> None:
    silent = [[Agreed(Exchange("", ""), Exchange("", ""))] for _ in range(20)]
    assert weigh_consent(silent) == pytest.approx([0.0] * 20)
