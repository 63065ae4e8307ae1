"""A statement cut at the words that relate one action to another: before, after, unless, without, requires."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from stream_guard_compliance.reading.clauses import is_imperative, leading_and_main, opens_leading
from stream_guard_compliance.reading.symbols import is_command
from stream_guard_compliance.reading.values import Token, word_set

Relation: TypeAlias = Literal[
    "main", "before", "after", "unless", "preceded", "followed", "together", "if", "done", "with"
]
Polarity: TypeAlias = Literal["must", "not", "only", "may", "fact"]

_RELATIONS: Final[dict[str, Relation]] = {
    "BEFORE": "before",
    "AFTER": "after",
    "UNLESS": "unless",
    "WITHOUT": "unless",
    "NEED": "unless",
    "PRECEDED": "preceded",
    "TOGETHER": "together",
    "IF": "if",
}
_OPENS: Final = word_set("important critical note remember warning please also additionally mandatory crucial")
_CONJUNCTION: Final = word_set("the a an you all your it they this that both")


@dataclass(frozen=True, slots=True)
class Segment:
    """Words that say one action, and how they stand to the main one."""

    relation: Relation
    tokens: tuple[Token, ...]
    word: str = ""  # by which it is opened


@dataclass(frozen=True, slots=True)
class Parts:
    """A statement in parts."""

    polarity: Polarity
    main: Segment
    others: tuple[Segment, ...]

    def of(self, *relations: Relation) -> tuple[Segment, ...]:
        """Return the parts that stand in one of these relations."""
        return tuple(one for one in self.others if one.relation in relations)


def parts_of(statement: Sequence[Token]) -> Parts | None:
    """Return a statement in parts; None where it allows, advises or says nothing that binds."""
    bans = any(token.symbol in {"BAN", "FORBIDDEN"} for token in statement)
    tokens = list(unbracketed(until_reason(statement), bans=bans))
    tokens = _allowed(tokens)
    while tokens and (tokens[0].symbol == "SEP" or tokens[0].low in _OPENS):
        tokens.pop(0)
    if not tokens or any(token.symbol in {"ADVICE", "FREE"} for token in tokens):
        return None
    leading, main = leading_and_main(tokens) if opens_leading(tokens) else ([], tokens)
    before = [one for one in _cut(leading, "if") if one.tokens] if leading else []
    inside = list(_cut(main, "main"))
    if not inside or inside[0].relation != "main" or not inside[0].tokens:
        return None
    others = [told for one in (*before, *inside[1:]) if (told := _told(one)) is not None]
    return Parts(polarity_of(inside[0].tokens), inside[0], tuple(others))


_DONE: Final = word_set("done complete completed finished finish completing finishing completes ready place")
_WORK: Final = word_set(
    "task tasks work request job everything all steps the a an your you are is have has been it user's and with when "
    "once after if as soon entire whole user query question problem issue issues current in"
)
_SPEAKING: Final = word_set("speaking talking responding replying communicating answering respond reply answer writing")
_AROUND: Final = word_set("to with the a an you are user users customer customers in your them messages message any")
_PAST: Final = word_set("called used invoked ran run succeeded returned returns completes succeeds finishes")


def _told(segment: Segment) -> Segment | None:
    """Return a condition as what it says about calls; None where it always holds: "when speaking to the user"."""
    if segment.relation not in {"if", "after"}:
        return segment
    words = {word for token in segment.tokens if token.symbol not in {"TOOL", "SEP"} for word in token.low.split()}
    tools = [token for token in segment.tokens if token.symbol == "TOOL"]
    if words & _DONE and words <= _DONE | _WORK and not tools:
        return replace(segment, relation="done")
    if segment.relation == "if" and words & _SPEAKING and words <= _SPEAKING | _AROUND and not tools:
        return None
    called = all(token.symbol in _CALLED or token.low in _AUXILIARY for token in segment.tokens)
    if segment.relation == "if" and tools and called:
        past = bool(words & _PAST)
        return replace(segment, relation="after" if past else "with")
    return segment


_CALLED: Final = frozenset(
    ("CALL", "RUN", "CALLN", "YOU", "TOOL", "SEP", "TOOLWORD", "SUCCEEDED", "BE", "EACH", "IF", "")
)
_AUXILIARY: Final = word_set("have has had 've was been is successfully ever already the a an tool")


def until_reason(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens before a reason; what holds even then holds without that, too."""
    at = next((at for at, token in enumerate(tokens) if at and token.symbol in {"BECAUSE", "EVEN"}), len(tokens))
    return tokens[:at]


def _allowed(tokens: list[Token]) -> list[Token]:
    """Return "you need permission to do it" as "only do it with permission"."""
    symbols = [token.symbol for token in tokens if token.symbol]
    if symbols[:2] != ["YOU", "NEED"] or "APPROVAL" not in symbols:
        return tokens
    if "BEFORE" in symbols[symbols.index("APPROVAL") :]:  # "you need their consent before X is called"
        return [Token("DUTY", "must", 0, 0), Token("ASK", "get", 0, 0), *tokens[tokens.index(_need(tokens)) + 1 :]]
    to = next((at for at, token in enumerate(tokens) if token.low == "to" and tokens[at - 1].symbol != "NEED"), 0)
    yes = [token for token in tokens[:to] if token.symbol not in {"YOU", "NEED"}]
    if not to or not any(token.symbol == "APPROVAL" for token in yes):
        return tokens
    return [Token("ONLY", "only", 0, 0), *tokens[to + 1 :], Token("UNLESS", "unless", 0, 0), *yes]


def _need(tokens: Sequence[Token]) -> Token:
    return next(token for token in tokens if token.symbol == "NEED")


def unbracketed(tokens: Sequence[Token], *, bans: bool = False) -> Iterator[Token]:
    """Yield the tokens; what brackets hold is spoken with the rest where it names tools or arguments, else left out."""
    inside: list[Token] | None = None
    for token in tokens:
        if token.symbol == "OPENED":
            inside = []
        elif token.symbol == "CLOSED" and inside is not None:
            yield from _spoken(inside, token, bans=bans)
            inside = None
        elif inside is not None:
            inside.append(token)
        elif token.symbol != "CLOSED":
            yield token
    if inside:
        yield replace(inside[0], symbol="W")


def _spoken(inside: Sequence[Token], end: Token, *, bans: bool) -> Sequence[Token]:
    """Return what is said of brackets; of what is forbidden the examples are forbidden, too."""
    commands = _commands(inside) if bans else []
    if commands:
        return commands
    symbols = {token.symbol for token in inside if token.symbol}
    if "TOOL" in symbols:
        listed = sum(token.symbol == "TOOL" for token in inside) > 1
        named = [token for token in inside if token.symbol in {"TOOL", "SEP", "CALL", "CODE"}]
        return [Token("", LISTED, end.start, end.start), *named] if listed else named
    if bans and symbols <= {"NAME", "SEP"} and "NAME" in symbols:
        return list(inside)
    if symbols <= {"CODE", "LITERAL", "SEP", "LITWORD", "ARGNAME"} and symbols:
        return list(inside)
    solid = [token for token in inside if token.symbol]
    capitals = [token for token in solid if token.text.isupper() and len(token.text) > 2]  # INSERT, DROP
    if len(capitals) > 1 and len(capitals) >= len(solid) // 2 - 1:
        return [replace(token, symbol="CODE") for token in capitals]
    harmless = symbols <= {"APPROVAL"} or (bool(solid) and solid[0].symbol == "SUCHAS")
    return [] if harmless else [replace(end, symbol="W", text="(...)")]


LISTED = "(listed)"  # brackets list the actions that the words before them mean


def _commands(inside: Sequence[Token]) -> list[Token]:
    """Return the commands or the code that brackets list, each as one; nothing where they list anything else."""
    pieces: list[list[Token]] = [[]]
    for token in inside:
        if token.symbol == "SEP":
            pieces.append([])
        elif token.symbol != "SUCHAS" and token.low not in {"etc", "the", "a"}:
            pieces[-1].append(token)
    pieces = [piece for piece in pieces if piece]
    texts = [" ".join(token.text for token in piece) for piece in pieces]
    code = all(len(piece) == 1 and piece[0].symbol == "CODE" for piece in pieces)
    if not texts or not (code or all(" " in text and is_command(text) for text in texts)):
        return []
    return [replace(piece[0], symbol="CODE", text=text) for piece, text in zip(pieces, texts, strict=True)]


def _cut(tokens: Sequence[Token], first: Relation) -> Iterator[Segment]:
    relation, held, word = first, list[Token](), ""
    for number, token in enumerate(tokens):
        opened = _opened(tokens, number)
        if opened is None:
            held.append(token)
            continue
        if held or relation == "main":
            yield Segment(relation, tuple(_trimmed(held)), word)
        relation, held, word = opened, [], token.low
    yield Segment(relation, tuple(_trimmed(held)), word)


def _opened(tokens: Sequence[Token], number: int) -> Relation | None:
    """Return the relation that begins with a word, or None."""
    token = tokens[number]
    following = tokens[number + 1] if number + 1 < len(tokens) else None
    if token.symbol == "NEED":  # "X requires Y"; "is required" says the same of what goes before
        named = any(one.symbol in {"TOOL", "W", "CALL"} for one in tokens[:number])
        return "unless" if named and following is not None and token.low != "required" else None
    if token.symbol == "ONCE":
        clause = following is not None and (
            following.symbol in {"YOU", "PERSON", "TOOL"} or following.low in _CONJUNCTION
        )
        return "after" if clause else None
    then = token.low == "then" and number > 1 and tokens[number - 1].symbol == "SEP"  # "call X, then say Y"
    if token.symbol == "THEN" or then:
        return "followed"
    if token.low in {"each time", "every time"} and following is not None and following.symbol in {"YOU", "TOOL"}:
        return "after"
    waits = token.low == "only with" or (token.low in {"that", "which"} and _tells_what_is_done(tokens, number))
    return "unless" if waits else _RELATIONS.get(token.symbol)


def _tells_what_is_done(tokens: Sequence[Token], number: int) -> bool:
    """Whether a clause says what has to be done first: "never X what you have not Y", "only X what you have Y"."""
    lows = [token.low for token in tokens[number + 1 : number + 4]]
    by_you = lows[:1] == ["you"]
    lows = lows[1:] if by_you else lows
    if lows[:1] not in (["have"], ["has"], ["had"], ["was"], ["were"]):
        return False
    only = any(token.symbol == "ONLY" for token in tokens[:number])
    return lows[1:2] in (["not"], ["never"]) or (by_you and only)


def _trimmed(tokens: Sequence[Token]) -> Sequence[Token]:
    start, end = 0, len(tokens)
    while start < end and tokens[start].symbol == "SEP":
        start += 1
    while end > start and tokens[end - 1].symbol in {"SEP", "CUT"}:
        end -= 1
    return tokens[start:end]


def polarity_of(tokens: Sequence[Token]) -> Polarity:
    """Return how strongly a clause binds."""
    symbols = [token.symbol for token in tokens if token.symbol]
    solid = [token for token in tokens if token.symbol]
    if {"BAN", "FORBIDDEN", "NOTHING"} & set(symbols) or symbols[:1] == ["NO"]:
        return "not"
    if "ONLY" in symbols and (
        {"MAY", "DUTY", "BE", "FORBIDDEN"} & set(symbols) or symbols[0] == "ONLY" or is_imperative(solid)
    ):
        return "only"
    needed = any(token.low in {"required", "mandatory", "needed"} for token in solid) and "BE" in symbols
    if "DUTY" in symbols or needed:
        return "must"
    if "MAY" in symbols:
        return "may"
    return "must" if solid and is_imperative(solid) else "fact"
