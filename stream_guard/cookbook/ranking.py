"""Which entries come nearest to a wish: by shared words, rarer ones first, and by shared subjects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import log
from typing import Final, NamedTuple

from stream_guard.cookbook.words import stems, subjects

_SUBJECT: Final = 0.5  # what a shared subject counts beside a shared word
_ASIDE: Final = 0.5  # what a word counts that stands in the remarks and in no phrasing
_SHORT: Final = 3  # letters of a stem that is too short to be a misspelt one
_TYPO: Final = 0.8  # how near an unknown word must be to a known one to be taken for it


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that a wish may mean: a recipe or a kind."""

    name: str
    phrasings: tuple[str, ...]
    remarks: str
    share: float = 1.0  # what its score counts for


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with how well it fits, up to 2, and the words that say so."""

    name: str
    score: float
    matched: tuple[tuple[str, str], ...]  # a word of the wish, and the word or subject that it shares


class _Text(NamedTuple):
    """The stems of a text, and the subjects that they speak of."""

    stems: frozenset[str]
    subjects: frozenset[str]


class _Weights:
    """How much each word and each subject tells, by how few candidates have it."""

    def __init__(self, held: Sequence[_Text]) -> None:
        self._most = len(held) + 1
        self._stems = Counter(stem for text in held for stem in text.stems)
        self._subjects = Counter(subject for text in held for subject in text.subjects)

    def known(self) -> list[str]:
        return sorted(self._stems)

    def of_stem(self, stem: str) -> float:
        return log(1 + self._most / (1 + self._stems[stem]))

    def of_subject(self, subject: str) -> float:
        return log(1 + self._most / (1 + self._subjects[subject]))


class Shelf:
    """What a wish may mean, with the words of each counted once."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._entries = [_read(candidate) for candidate in candidates]
        self._weights = _Weights([_joined([entry.everywhere, entry.aside]) for entry in self._entries])

    def find(self, wish: str) -> list[Ranked]:
        """Return what shares something with the wish, the best first."""
        asked = _asked(wish, self._weights)
        ranked = (_fit(entry, asked, self._weights) for entry in self._entries)
        return sorted((fit for fit in ranked if fit.score > 0), key=lambda fit: (-fit.score, fit.name))


class _Read(NamedTuple):
    """A candidate with its words read."""

    candidate: Candidate
    phrases: list[_Text]
    everywhere: _Text  # all phrases
    aside: _Text  # its remarks


def _read(candidate: Candidate) -> _Read:
    phrases = [_text(phrase) for phrase in candidate.phrasings]
    return _Read(candidate, phrases, _joined(phrases), _text(candidate.remarks))


def _text(text: str) -> _Text:
    found = frozenset(stem for _, stem in stems(text))
    return _Text(found, frozenset(subject for stem in found for subject in subjects(stem)))


def _joined(texts: Sequence[_Text]) -> _Text:
    return _Text(
        frozenset(stem for text in texts for stem in text.stems),
        frozenset(subject for text in texts for subject in text.subjects),
    )


def _asked(wish: str, weights: _Weights) -> dict[str, str]:
    """Return the stems of the wish with their words; a misspelt one becomes the known one that it is near to."""
    asked: dict[str, str] = {}
    known = weights.known()
    for word, stem in stems(wish):
        meant = [stem]
        if stem not in known and not subjects(stem) and len(stem) > _SHORT:
            alike = [one for one in known if one[0] == stem[0] and abs(len(one) - len(stem)) < 2]
            near = get_close_matches(stem, alike, n=1, cutoff=_TYPO)
            meant = near or meant
        asked.setdefault(meant[0], word)
    return asked


def _fit(entry: _Read, asked: dict[str, str], weights: _Weights) -> Ranked:
    """Score a candidate: how much of the wish all of it speaks of, and how like the wish its likest phrasing is."""
    whole = sum(map(weights.of_stem, asked)) or 1.0
    covered, matched = 0.0, []
    for stem, word in asked.items():
        said, shared = _shared(stem, entry.everywhere, weights)
        noted, noted_word = _shared(stem, entry.aside, weights)
        covered += max(said, _ASIDE * noted)
        matched.append((word, shared or noted_word))
    likest = max((_likeness(asked, phrase, whole, weights) for phrase in entry.phrases), default=0.0)
    score = entry.candidate.share * (covered / whole + likest)
    return Ranked(entry.candidate.name, score, tuple((word, shared) for word, shared in matched if shared))


def _likeness(asked: Iterable[str], phrase: _Text, whole: float, weights: _Weights) -> float:
    shared = sum(_shared(stem, phrase, weights)[0] for stem in asked)
    return 2 * shared / (whole + sum(map(weights.of_stem, phrase.stems)))


def _shared(stem: str, held: _Text, weights: _Weights) -> tuple[float, str]:
    """Return what a stem of the wish is worth where these are held, and the word or the subject that it shares."""
    if stem in held.stems:
        return weights.of_stem(stem), stem
    common = [subject for subject in subjects(stem) if subject in held.subjects]
    if not common:
        return 0.0, ""
    best = max(common, key=weights.of_subject)
    return _SUBJECT * min(weights.of_subject(best), weights.of_stem(stem)), best
