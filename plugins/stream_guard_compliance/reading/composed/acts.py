"""A statement in parts: cut at the words that relate one action to another, and what each part does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from stream_guard_compliance.reading.catalogue import Catalogue, same_letters, stem, words_of
from stream_guard_compliance.reading.clauses import is_imperative, leading_and_main, opens_leading
from stream_guard_compliance.reading.symbols import VERBS, is_command
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
        need = next(at for at, token in enumerate(tokens) if token.symbol == "NEED")
        return [Token("DUTY", "must", 0, 0), Token("ASK", "get", 0, 0), *tokens[need + 1 :]]
    to = next((at for at, token in enumerate(tokens) if token.low == "to" and tokens[at - 1].symbol != "NEED"), 0)
    yes = [token for token in tokens[:to] if token.symbol not in {"YOU", "NEED"}]
    if not to or not any(token.symbol == "APPROVAL" for token in yes):
        return tokens
    return [Token("ONLY", "only", 0, 0), *tokens[to + 1 :], Token("UNLESS", "unless", 0, 0), *yes]


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


# Actions in words: the known tools that do what a verb and its object say.
#
# A tool is meant where all words of its name are said, in whatever form and order, or where its verb is said with one
# of its things. A verb alone means every tool that begins with it.

_GROUPS: Final = (
    (
        "get fetch retrieve look lookup view show access see read check list find search query display inspect consult "
        "examine locate obtain"
    ),
    "create make add write generate produce draft",
    "update modify edit change alter adjust amend replace set",
    "delete remove erase purge drop wipe",
    "send issue give provide deliver submit hand grant award offer distribute",
    "run execute",
    "verify authenticate validate identify",
    "cancel void",
    "book reserve",
)
_EMPTY: Final = word_set("tool function api a an the to of by at in for and or with from")
_HANDS_OFF: Final = word_set("transfer handoff hand delegate escalate route")


def root(word: str) -> str:
    """Return what the forms of a word share: navigate, navigating, navigation."""
    plain = word.replace("-", "")
    found = same_letters(stem(_IRREGULAR.get(plain) or _verb_in(plain)))
    ends = found.endswith("ific") or (found.endswith("at") and len(found) > _SHORT)  # verification, navigate
    return found[:-2] if ends else found


def _verb_in(noun: str) -> str:
    """Return the verb that a noun of doing has in it: rejection, deletion, approval."""
    plain = noun.removesuffix("s")
    for ending, least in (("ion", _SHORT), ("al", _SHORT), ("ment", 3)):
        base = plain.removesuffix(ending)
        if base != plain and len(base) >= least and base != "state":  # a statement of an account
            return next((verb for verb in (base, f"{base}e") if verb in VERBS), noun)
    return noun


_SHORT: Final = 5
_FORMS: Final = (
    "sent:send made:make written:write wrote:write shown:show given:give taken:take found:find paid:pay bought:buy "
    "sold:sell told:tell ran:run built:build kept:keep left:leave held:hold spoken:speak chosen:choose drawn:draw "
    "frozen:freeze"
)
_IRREGULAR: Final = {form: verb for form, _, verb in (pair.partition(":") for pair in _FORMS.split())}


_SAME: Final = {root(word): number for number, line in enumerate(_GROUPS) for word in line.split()}


def alike(verb: str) -> set[str]:
    """Return the roots of the verbs that do the same as one, itself too."""
    return {verb} | {one for one, group in _SAME.items() if group == _SAME.get(verb)}


@dataclass(frozen=True, slots=True)
class ActionWords:
    """The tools that words mean, and the stems of the words that say so."""

    tools: tuple[str, ...] = ()
    used: frozenset[str] = frozenset()


def named_words(names: Sequence[str]) -> ActionWords:
    """Return tools that are named, with the words that say what they do."""
    roots = {root(word) for name in names for word in words_of(name)}
    groups = {_SAME[one] for one in roots if one in _SAME}
    return ActionWords(tuple(names), frozenset(roots | {one for one, group in _SAME.items() if group in groups}))


def resolve(words: Sequence[str], catalogue: Catalogue) -> ActionWords:
    """Return the known tools that words describe."""
    said = {root(word): word for word in words}
    found: dict[str, frozenset[str]] = {}
    for name in catalogue.names:
        verb, things = verb_and_things(name)
        used = _used(verb, things, said) if things else frozenset()
        if used:
            found[name] = used
    if not found:
        each = [_by_verb({one: word}, catalogue) for one, word in said.items()]
        if len(each) > 1 and all(one.tools for one in each):  # "approve or deny it"
            return ActionWords(tuple(tool for one in each for tool in one.tools), frozenset(said))
        return _by_verb(said, catalogue)
    # Of two tools, the one that more words mean is meant: search_direct_flight, where both search flights.
    best = {name: used for name, used in found.items() if not any(used < other for other in found.values())}
    return ActionWords(tuple(best), frozenset().union(*best.values()))


def verb_of(name: str) -> str:
    """Return the word of a name that says what is done, or its first word."""
    words = [word for word in words_of(name) if word not in _EMPTY]
    return next((word for word in words if word in VERBS), words[0] if words else "")


def verb_and_things(name: str) -> tuple[str, list[str]]:
    """Return the verb of a name and the rest: what stands before the verb is the name of a server or a group."""
    verb = verb_of(name)
    return root(verb), [root(word) for word in words_of(name) if word not in _EMPTY and word != verb]


def _used(verb: str, things: Sequence[str], said: dict[str, str]) -> frozenset[str]:
    """Return the stems by which a name is said: its verb, itself or another of its group, and one of its things."""
    same = {one for one in said if one == verb or (verb in _SAME and _SAME.get(one) == _SAME[verb])}
    spoken = {thing for thing in things if thing in said}
    if not same or not spoken or (verb in _HANDS_OFF and len(spoken) < len(things)):
        return frozenset()
    return frozenset(same | spoken)


def is_described(tool: str, words: Sequence[str], catalogue: Catalogue) -> bool:
    """Whether words describe a tool: its verb with one of its things, its things where no other tool has them."""
    said = {root(word.removesuffix("'s").strip("-")) for word in words}
    verb, things = verb_and_things(tool)
    group, dot, _ = tool.lower().partition(".")
    if dot and group in words and "tool" in words:
        return True  # "the Browser tool", of Browser.goto
    if not things:
        return bool(alike(verb) & said)
    same = [name for name in catalogue.names if verb_and_things(name)[0] == verb]
    grouped = words_of(tool)[-1] == verb_of(tool)  # what stands before the verb is the name of a group
    if verb in said and same == [tool] and (grouped or verb not in _SAME):
        return True
    if _used(verb, things, dict.fromkeys(said, "")):
        return True
    others = [name for name in catalogue.names if name != tool and set(things) <= set(verb_and_things(name)[1])]
    return set(things) <= said and not others


def _by_verb(said: dict[str, str], catalogue: Catalogue) -> ActionWords:
    """Return the tools that a verb alone means, where nothing else is said."""
    if len(said) != 1:
        return ActionWords()
    (only,) = said
    handoffs = set(catalogue.handoffs) if only in _HANDS_OFF else set()
    names = [name for name in catalogue.names if verb_and_things(name)[0] == only and name not in handoffs]
    tools = tuple(names or _by_thing(only, catalogue) or (handoffs if len(handoffs) == 1 else ()))
    return ActionWords(tools, frozenset(said)) if tools else ActionWords()


def _by_thing(thing: str, catalogue: Catalogue) -> list[str]:
    """Return the one tool that does something to a thing: refunds, where only issue_refund does more than look."""
    found = [
        name
        for name in catalogue.names
        if thing in verb_and_things(name)[1] and _SAME.get(verb_and_things(name)[0]) != 0 and verb_of(name) in VERBS
    ]
    return found if len(found) == 1 else []


# What a part of a statement does.

# Symbols of words that may be a part of what an action is called.
_SPOKEN: Final = frozenset(
    (
        *("W", "NAME", "SAY", "DISCLOSE", "ASK", "AGREE", "RUN", "OPEN", "CLOSE", "KEEP", "SKIP", "SOURCE", "DEED"),
        *("ANSWER", "PII", "REPLY", "PHRASE", "STOP", "FAILED", "QUESTION", "SET", "CITE", "PATH", "FORM", "COMMAND"),
        *("EDITS", "DELETES", "PROCEED", "SECRET", "ATTEMPT", "LITWORD", "APPROVAL", "SOURCE", "PERSON", "RETRY"),
    )
)
# Words that say nothing about which calls are meant.
_GENERIC: Final = word_set(
    "tool tools function functions call calls calling called use using used action actions command commands "
    "operation operations it them this that these those one ones anything something thing things anyone someone any "
    "all each every file files always successfully already ever also then user users customer customers user's "
    "customer's caller client patient person human message messages is was been being made taken take takes make "
    "makes do does done allowed permitted available run runs running executed execute executing step steps task "
    "tasks itself following their him her conversation session attempt request requests data information details "
    "once carefully time only result results up out deployment environment other others another further will "
    "receive goes go happens occurs nothing else "
)
_SMALL: Final = word_set("for to with of a an the and or in on by from as at")
_NARROWS: Final = word_set("for in on during within at under above over below outside inside against toward towards")


@dataclass(frozen=True, slots=True)
class Act:
    """One action, as far as it is understood."""

    tools: tuple[str, ...] = ()
    described: bool = False  # found by words, not by name
    yes: bool = False  # a person is asked, or agrees
    quotes: tuple[str, ...] = ()
    any_tool: bool = False
    left: tuple[str, ...] = ()  # words that nothing accounts for
    narrowed: bool = False  # some of them behind a preposition
    about_one: bool = False  # and these say of what: "for a device", "of the order"
    either: bool = False
    by: str = ""  # whose yes it is, where that is not the user's


def act_of(tokens: Sequence[Token], catalogue: Catalogue) -> Act:
    """Return the action that words describe."""
    named = tuple(dict.fromkeys(token.text for token in tokens if token.symbol == "TOOL" and not token.described))
    words = [word for token in tokens for word in _words(token) if word not in _BEGINNING or _is_known(word, catalogue)]
    found = named_words(named) if named else resolve([word for word in words if word not in _GENERIC], catalogue)
    yes = _is_yes(tokens)
    left = [(word, behind) for word, behind in _left(tokens, found.used, yes=yes) if word not in _BEGINNING]
    left = [] if any(token.text == "(listed)" for token in tokens) else left
    left = [(word, behind) for word, behind in left if not named or word not in _by_means(tokens)]
    return Act(
        found.tools,
        described=not named,
        yes=yes,
        quotes=tuple(token.text for token in tokens if token.symbol == "QUOTE"),
        any_tool=not found.tools and _is_any(tokens),
        left=tuple(word for word, _ in left),
        narrowed=any(behind for _, behind in left),
        about_one=_is_about_one(tokens),
        either=any(token.low in {"or", "either"} for token in tokens),
        by=next((token.low.removesuffix("'s") for token in tokens if token.symbol == "SUPERIOR"), ""),
    )


def _by_means(tokens: Sequence[Token]) -> frozenset[str]:
    """Return the verb of what is done to "it" with a tool that is named: "touch it with X" is a call of X."""
    for at, token in enumerate(tokens[:-2]):
        behind = [one.low for one in tokens[at + 1 : at + 4]]
        done = len(behind) > 1 and behind[0] in {"it", "them", "one"} and behind[1] in {"with", "using", "via", "by"}
        if done and token.low.removesuffix("ing") in VERBS:
            return frozenset((token.low,))
    return frozenset()


# Words before an action that only say that it is done, unless a tool is called so.
_BEGINNING: Final = word_set(
    "start starting begin beginning proceed proceeding try trying attempt attempting perform performing performed "
    "initiate initiating continue continuing allowed required mandatory needed process"
)


def _is_about_one(tokens: Sequence[Token]) -> bool:
    """Whether what narrows an action is one thing with an article: what it is done to, and no sort of cases."""
    at = next((number for number, token in enumerate(tokens) if token.low in _NARROWS), -1)
    rest = [token.low for token in tokens[at:]] if at >= 0 else []
    return len(rest) == 3 and rest[0] == "for" and rest[1] in {"a", "an", "the", "each", "every", "that", "this"}


def _is_known(word: str, catalogue: Catalogue) -> bool:
    return any(word in words_of(name) for name in catalogue.names)


def _words(token: Token) -> list[str]:
    if token.symbol == "TOOL" and token.described:
        return words_of(token.text)
    if token.symbol in _SPOKEN:
        return [word.removesuffix("'s").strip("-") for word in token.low.split() if word not in _SMALL]
    return []


_AGREES: Final = frozenset(("APPROVAL", "AGREE"))
_ASKING: Final = word_set("ask asks asking check confirm confirming request requesting seek seeking wait")


def _is_yes(tokens: Sequence[Token]) -> bool:
    """Whether a person is asked or agrees."""
    symbols = {token.symbol for token in tokens}
    if symbols & {"APPROVAL"} or (symbols & {"AGREE"} and symbols & {"PERSON", "SUPERIOR"}):
        return True
    asks = any(token.symbol == "ASK" and token.low.split()[0] in _ASKING for token in tokens)
    with_person = any(token.symbol == "ASK" and token.low.endswith(" with") for token in tokens)
    return with_person or (asks and bool(symbols & {"PERSON", "SUPERIOR", "FIRST"}))


def _left(tokens: Sequence[Token], used: frozenset[str], *, yes: bool) -> list[tuple[str, bool]]:
    """Return the words that nothing accounts for, and whether each stands behind a preposition that narrows."""
    found: list[tuple[str, bool]] = []
    behind = False
    for token in tokens:
        if token.low in _NARROWS:
            behind = True
        if token.symbol in {"SEP", "CUT"}:
            behind = False
        if token.symbol in _NOT_ACTS:
            found.append((token.low, behind))
        if behind and token.symbol == "PERSON" and not yes:
            found.append((token.low, behind))  # "for new customers"
        if yes and token.symbol in {*_AGREES, "ASK", "PERSON"}:
            continue
        found += [
            (word, behind or word == "(...)")
            for word in _words(token)
            if word not in _GENERIC and root(word) not in used and len(word) > 1
        ]
    return found


# What says more of an action than which it is.
_NOT_ACTS: Final = frozenset(
    (
        *(
            "NUM",
            "RANGE",
            "CODE",
            "LITERAL",
            "FILE",
            "AMOUNT",
            "MORETHAN",
            "TURN",
            "SESSION",
            "TIMES",
            "ATMOST",
            "FEWER",
        ),
        *(
            "MULTIPLE",
            "ALONE",
            "TOGETHER",
            "SAME",
            "AGAIN",
            "ATONCE",
            "WINDOW",
            "EXACTLY",
            "ATLEAST",
            "UNIT",
            "OTHERTHAN",
        ),
    )
)


def _is_any(tokens: Sequence[Token]) -> bool:
    """Whether any tool is meant: "any other tool", "a tool"."""
    words = {word for token in tokens for word in token.low.split()}
    symbols = {token.symbol for token in tokens}
    if "NOTHING" in symbols and "CALL" in symbols:
        return True  # "call nothing else"
    if {"anything", "else"} <= words:
        return True
    return bool(words & {"tool", "tools", "one", "action", "actions"}) and bool(
        words & {"other", "others", "another", "any", "every", "each", "next", "further", "no"}
    )


def is_narrowed_behind(tokens: Sequence[Token], symbols: frozenset[str]) -> bool:
    """Whether words behind the texts of a ban narrow it: "in production"; what stands before them describes them."""
    at = max((number for number, token in enumerate(tokens) if token.symbol in symbols), default=0)
    rest = tokens[at + 1 :]
    act = [(word, behind) for word, behind in _left(rest, frozenset(), yes=False) if word not in _ANYWHERE]
    return any(behind or word == "(...)" or _is_manner(word) for word, behind in act)


def narrowing_words(tokens: Sequence[Token], used: frozenset[str]) -> list[str]:
    """Return the words behind a preposition that say for what or where, and that nothing accounts for."""
    plain = [token for token in tokens if token.symbol not in _NOT_ACTS]
    left = _left(plain, used, yes=False)
    return [word for word, behind in left if behind and word not in _ANYWHERE | {"list"} and word not in used]


def _is_manner(word: str) -> bool:
    """Whether a word behind a text is an adverb, which says how and not what."""
    return word.endswith("ly") or word in {"again", "alone", "care"}


_ANYWHERE: Final = word_set(
    "command commands argument arguments response responses reply replies answer answers message messages output text "
    "chat conversation code subject title body names name"
)
