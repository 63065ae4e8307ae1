"""Sentences made from the grammar itself: each production has words that it reads, and its rules always load."""

from __future__ import annotations

import json
import random
import re
import re._parser as sre  # type: ignore[import-not-found]  # the parser of patterns has no stubs
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings
from stream_guard_compliance import extract
from stream_guard_compliance.reading.grammar import _PRODUCTIONS, _pattern
from stream_guard_compliance.reading.symbols import LETTER, LEXICON

from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry

REGISTRY = build_registry()
TOOLS = ["drop_table", "delete_file", "send_mail", "issue_refund", "login"]
SYMBOL = {letter: symbol for symbol, letter in LETTER.items()}
PHRASES: dict[str, list[str]] = {}
for words, symbol in LEXICON.items():
    PHRASES.setdefault(symbol, []).append(" ".join(words))
OTHERS = {
    "TOOL": TOOLS,
    "CODE": ["`git push --force`", "`rm -rf /`", "`timeout`", "`out/plans/`"],
    "FILE": [".env", "secrets.json"],
    "RANGE": ["1-3", "2-5"],
    "ARGNAME": ["max_tokens", "retry_count"],
    "QUOTE": ['"guaranteed"', '"as an AI"'],
    "NUM": ["3", "12", "five"],
    "NAME": ["Acme", "Globex"],
    "LITERAL": ["sudo", "reboot"],
    "W": ["refunds", "login", "mails", "politely", "numbers", "file", "explain", "immediately", "command", "silently"],
}
TRIES = settings().max_examples  # more before a change lands, and many in the night
MOST = 4 * TRIES  # where no sentence was read so far: many are nonsense
TEXTS = [(builder.__name__, text) for builder, texts in _PRODUCTIONS for text in texts]


def walk(tree: Iterable[Any], source: random.Random) -> str:
    """Return one of the symbol strings that a pattern fits."""
    found = ""
    for operation, value in tree:
        name = str(operation)
        if name == "LITERAL":
            found += chr(value)
        elif name == "SUBPATTERN":
            found += walk(value[-1], source)
        elif name == "BRANCH":
            found += walk(source.choice(value[1]), source)
        elif name == "MAX_REPEAT":
            least, most, inner = value
            found += "".join(walk(inner, source) for _ in range(source.randint(least, min(int(most), least + 1))))
        elif name == "IN":
            found += chr(source.choice(value)[1])
        else:
            raise AssertionError(f"the grammar has a {name}, which this test cannot make words of")
    return found


def sentence(text: str, source: random.Random) -> str:
    symbols = [SYMBOL[letter] for letter in walk(sre.parse(_pattern(text)), source)]
    words = [source.choice(OTHERS.get(symbol) or PHRASES[symbol]) for symbol in symbols]
    text = re.sub(r" ,", ",", " ".join(words))
    return f"{text[:1].upper()}{text[1:]}."


@pytest.mark.hypothesis  # it searches as far as those do
@pytest.mark.long
@pytest.mark.parametrize(("meaning", "text"), TEXTS, ids=[f"{name}-{number}" for number, (name, _) in enumerate(TEXTS)])
def test_production_reads_words_and_what_it_reads_always_loads(meaning: str, text: str) -> None:
    source = random.Random(text)
    concrete = 0
    for number in range(MOST):
        if number >= TRIES and concrete:
            break
        found = extract(sentence(text, source), TOOLS)
        concrete += any(rule.read.reading.concrete for rule in found.rules)
        if found.policy()["rules"]:
            load_policy(json.dumps(found.policy()), REGISTRY, file="extracted.yaml")
    assert concrete, f"no sentence of {MOST} is read by {meaning}: {text}"
