"""From a system prompt to readings: every sentence, in order, with nothing dropped."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from stream_guard_compliance.reading.catalogue import Catalogue, ToolDeclaration, declarations, declared_in
from stream_guard_compliance.reading.clauses import opens_leading
from stream_guard_compliance.reading.composed.topics import read_about, topic_of
from stream_guard_compliance.reading.concrete import read_concrete
from stream_guard_compliance.reading.context import completes, is_turned, join_lists, modes_of, scope_of, without_mode
from stream_guard_compliance.reading.document import Sentence, split
from stream_guard_compliance.reading.frames import classify, frame_of
from stream_guard_compliance.reading.statements import opened_scope, statements_of
from stream_guard_compliance.reading.tokenizing import tokenize
from stream_guard_compliance.reading.tokens import Antecedent, Token, antecedent_of
from stream_guard_compliance.reading.values import Reading
from stream_guard_compliance.reading.word_lists import word_set

NO_RULE: Final = frozenset(("none", "permission"))
LONGEST: Final = 600  # words and marks of a sentence that is read
_EXCEPTIONS: Final = word_set("however except exception exceptions unless but otherwise")
_GOES_ON: Final = word_set("then next afterwards finally lastly instead so thus therefore hence thereafter")
_ALWAYS: Final = frozenset(("never", "always", "under no circumstances", "at no time", "must never"))
_NOT_WORDS: Final = frozenset(("QUOTE", "CODE", "SEP", "CUT", "OPENED", "CLOSED"))
_HALF: Final = "another part of the sentence makes it depend on a condition"
_GOES_ON_WHY: Final = "what stands before or above it may narrow it"
_NEXT: Final = "the sentence behind it makes an exception"


@dataclass(frozen=True, slots=True)
class ReadSentence:
    """A sentence and what one statement of it was read as."""

    sentence: Sentence
    reading: Reading
    tokens: Sequence[Token] = ()
    narrowed: bool = False  # what stands before or above it may narrow it


def catalogue_of(prompt: str, tools: Iterable[ToolDeclaration] = (), seen: Iterable[str] = ()) -> Catalogue:
    """Return the tools: declared to the agent or in the prompt, which closes the list, and those seen in a trace."""
    described = declarations(tools)
    declared = [*described, *declared_in(prompt)]
    return Catalogue([*declared, *seen], closed=bool(declared), described=described)


def read_prompt(prompt: str, tools: Iterable[ToolDeclaration] = (), seen: Iterable[str] = ()) -> list[ReadSentence]:
    """Return every sentence of a prompt with its readings; pure: the same prompt and tools, the same readings."""
    # Half of a surrogate pair is no text; one character for one, so that offsets hold.
    prompt = prompt.encode("utf-8", "replace").decode()
    catalogue = catalogue_of(prompt, tools, seen)
    read: list[ReadSentence] = []
    before = Antecedent()
    modes = modes_of(prompt)
    depends = -1  # the block in which a sentence began with a condition: what follows there may hang on it
    for sentence in join_lists(split(prompt)):
        tokens = without_mode(_only_then(tokenize(sentence.text, catalogue, before), before), modes)
        if tokens and tokens[0].low in _EXCEPTIONS and not _stands_alone(sentence, tokens):
            _bind_last(read, sentence)
        narrowed = (depends == sentence.block and not _holds_always(sentence, tokens)) or bool(
            tokens and tokens[0].low in _GOES_ON
        )
        narrowed = narrowed or is_turned(sentence, modes)
        read += [
            ReadSentence(sentence, reading, tokens, narrowed)
            for reading in read_sentence(sentence, tokens, catalogue, narrowed=narrowed)
        ]
        if tokens and opens_leading(tokens) and tokens[0].symbol in {"IF", "UNLESS", "ONCE"}:
            depends = sentence.block
        own = antecedent_of(tokens)
        if own.tools or not sentence.is_item:
            before = own
        elif catalogue.knows(sentence.describes):
            before = Antecedent((catalogue.means(sentence.describes),), is_topic=True)
    return read


def _only_then(tokens: list[Token], before: Antecedent) -> list[Token]:
    """Return "Only then may you do it" as an order: what the sentence before was about comes first."""
    if [token.low for token in tokens[:2]] != ["only", "then"] or len(before.tools) != 1:
        return tokens
    rest = [token for token in tokens[2:] if token.symbol not in {"MAY", "YOU"}]
    called = Token("TOOL", before.tools[0], 0, 0)
    return [Token("DUTY", "must", 0, 0), Token("CALL", "call", 0, 0), called, Token("BEFORE", "before", 0, 0), *rest]


def read_sentence(
    sentence: Sentence, tokens: Sequence[Token], catalogue: Catalogue, *, narrowed: bool = False
) -> list[Reading]:
    """Return what a sentence says: each concrete statement by itself, and one reading for all the rest.

    ``narrowed`` says that it goes on with something before it, so that it is not concrete by itself.
    """
    nothing = _no_rule(sentence, tokens)
    if nothing is not None:
        return [nothing]
    if len(tokens) > LONGEST:
        return [Reading("unparsed", why=f"a sentence of more than {LONGEST} words and marks is not read")]
    concrete, rest, conditions = _read_statements(sentence, tokens, catalogue, narrowed=narrowed)
    introduces = sentence.text.endswith(":") and not any(reading.items == ("json",) for reading in concrete)
    if concrete and (conditions or introduces):
        # What one half of a sentence asks for, the other half may take back.
        details = tuple(conditions[:1]) or (sentence.text,)
        rest = [replace(concrete[0], kind="conditional", concrete=False, details=details, why=_HALF)]
        concrete = []
    binding = next((reading for reading in rest if reading.kind not in NO_RULE), None)
    if binding is not None:
        return [*concrete, binding]
    allowing = next((reading for reading in rest if reading.kind == "permission"), None)
    if not concrete and allowing is None and completes(sentence):
        return [Reading("conditional", why="it completes the line that opens its list", details=(sentence.leads[-1],))]
    return concrete or [allowing or rest[0]]


def _read_statements(
    sentence: Sentence, tokens: Sequence[Token], catalogue: Catalogue, *, narrowed: bool
) -> tuple[list[Reading], list[Reading], list[str]]:
    """Return the concrete statements of a sentence, the others, and the conditions of those."""
    scope = scope_of(sentence)
    concrete: list[Reading] = []
    rest: list[Reading] = []
    conditions: list[str] = []
    topic = topic_of(sentence.describes, sentence.label, catalogue)
    before: list[Token] = []  # the tools of the statement before
    for statement in statements_of(tokens):
        frame = frame_of(statement, scope)
        topic = statement if all(token.symbol in {"TOOL", "SEP", ""} for token in statement) else topic
        topic = before if len(before) == 1 and _lists_texts(statement) else topic
        readings = [] if scope else read_concrete(statement, catalogue) or read_about(statement, topic, catalogue)
        if readings and narrowed:
            rest.append(replace(readings[0], kind="conditional", why=_GOES_ON_WHY, modality=frame.modality))
        elif readings:
            concrete += [replace(reading, concrete=True, modality=frame.modality) for reading in readings]
        else:
            rest.append(classify(frame))
            conditions += [frame.condition] if frame.condition else []
        scope = scope or opened_scope(statement)
        before = [token for token in statement if token.symbol == "TOOL" and not token.described]
    return concrete, rest, conditions


def _lists_texts(statement: Sequence[Token]) -> bool:
    """Whether a statement only lists what must not stand in the call that the one before is about: "no `tee`"."""
    return {token.symbol for token in statement if token.symbol} <= {"NO", "CODE", "SEP", "LITERAL"}


def _no_rule(sentence: Sentence, tokens: Sequence[Token]) -> Reading | None:
    """Return why a sentence is no rule, or None."""
    symbols = [token.symbol for token in tokens if token.symbol]
    reasons = (
        ("a heading", sentence.is_heading),
        ("opens a list", sentence.opens or _is_caption(sentence, symbols)),
        ("code or declared tools", sentence.is_code),
        ("an example", sentence.is_example or symbols[:1] == ["SUCHAS"]),
        ("no words outside quotes", set(symbols) <= _NOT_WORDS),
        ("names tools", _is_tool_list(sentence, symbols)),
    )
    return next((Reading("none", why=why, modality="fact") for why, holds in reasons if holds), None)


def _is_caption(sentence: Sentence, symbols: Sequence[str]) -> bool:
    """Whether a few words only name the list behind them: "Understand the problem:"."""
    return sentence.text.endswith(":") and len(symbols) <= 5 and not {"BAN", "DUTY", "ONLY", "TOOL"} & set(symbols)


def _is_tool_list(sentence: Sentence, symbols: Sequence[str]) -> bool:
    """Whether it only lists names: "Tools: search, calculator"."""
    words = sentence.label.lower().split()
    return "tools" in words and len(words) <= 3 and set(symbols) <= {"TOOL", "W", "SEP", "CODE", "NAME"}


def _holds_always(sentence: Sentence, tokens: Sequence[Token]) -> bool:
    """Whether a sentence behind a condition is none of its: it says always or every, and refers to nothing."""
    refers = any(token.symbol in {"PRONOUN", "THISTOOL"} or token.inherited or token.low in _REFERS for token in tokens)
    every = any(word in _EVERY for token in tokens for word in token.low.split())
    # What must not come behind a call holds whenever that was made.
    behind = any(one.symbol == "AFTER" and two.symbol == "TOOL" for one, two in itertools.pairwise(tokens))
    bans = any(token.symbol in {"BAN", "NO", "NOTHING"} for token in tokens[:2])
    if not tokens:
        return False
    always = tokens[0].low in _ALWAYS and not sentence.is_item
    anew = tokens[0].symbol == "IF"  # a condition of its own
    return always or anew or (every and not refers) or (behind and bans)


_REFERS: Final = word_set("this that these those them they so such there instead then")
_EVERY: Final = word_set("every always all each")


def _stands_alone(sentence: Sentence, tokens: Sequence[Token]) -> bool:
    """Whether an item that begins with an exception has an order of its own: "Unless asked, always ..."."""
    return sentence.is_item and tokens[0].low == "unless" and any(token.text == "," for token in tokens)


def _bind_last(read: list[ReadSentence], sentence: Sentence) -> None:
    """Make the rule before an exception depend on it: "Never call X. However, ..."."""
    if not read:
        return
    last = read[-1].reading
    bound = replace(last, kind="conditional", concrete=False, details=(sentence.text,), why=_NEXT)
    read[-1] = replace(read[-1], reading=bound if last.concrete else last, narrowed=True)
