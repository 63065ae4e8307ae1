"""From a system prompt to readings: every sentence, in order, with nothing dropped."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from stream_guard_compliance.reading.catalogue import Catalogue, ToolDeclaration, declarations, declared_in, stem
from stream_guard_compliance.reading.clauses import (
    CONDITIONS,
    PREPOSITIONS,
    Who,
    bare,
    leading_and_main,
    opened_scope,
    opens_leading,
    statements_of,
    whom_it_means,
    without_brackets,
    without_purposes,
)
from stream_guard_compliance.reading.composed.reader import activated, compose, read_about, topic_of
from stream_guard_compliance.reading.document import (
    Sentence,
    completes,
    is_turned,
    join_lists,
    modes_of,
    scope_of,
    split,
    without_mode,
)
from stream_guard_compliance.reading.grammar import parse
from stream_guard_compliance.reading.tokenizing import tokenize
from stream_guard_compliance.reading.values import (
    Antecedent,
    Circumstance,
    Kind,
    Modality,
    Reading,
    Token,
    antecedent_of,
    word_set,
)

# What a statement asks for beside an action: an order of actions, a person's yes, an upper bound.

_AGAIN: Final = word_set("repeat re-do redo retry re-run rerun reattempt re-attempt duplicate resubmit re-submit")
_CALLS: Final = word_set("command commands query queries request requests action actions attempt parameters arguments")
_COUNTED: Final = frozenset(("TIMES", "UNIT", "TURN", "SESSION", "ATONCE", "TOOLCALL", "ONCE", "WINDOW"))
_WAITS: Final = frozenset(
    ("wait for", "await", "request", "obtain", "get", "seek", "require", "requires", "need", "needs")
)


def orders_actions(tokens: Sequence[Token]) -> bool:
    """Whether something has to come before something else."""
    symbols = {token.symbol for token in tokens}
    if {"BEFORE", "PRECEDED"} & symbols or any(token.low == "without first" for token in tokens):
        return True
    then = "THEN" in symbols or any(token.low == "then" for token in tokens)
    return "FIRST" in symbols and (then or "WITHOUT" in symbols)


def asks_for_yes(tokens: Sequence[Token], modality: Modality) -> bool:
    """Whether a yes has to come first; "do not ask for permission" is the opposite."""
    symbols = [token.symbol for token in tokens]
    agrees = [
        number for number, symbol in enumerate(symbols) if symbol in {"APPROVAL", "AGREE"} or _asks(tokens[number])
    ]
    if not agrees:
        return modality != "must_not" and _asks_before(symbols)
    before = set(symbols[: agrees[0]])
    if modality == "must_not":
        return bool({"WITHOUT", "UNLESS", "BEFORE"} & before)
    if "WITHOUT" in before:
        return False
    waits = any(token.low in _WAITS for token in tokens)
    return "BEFORE" in symbols or "FIRST" in symbols or (waits and "APPROVAL" in symbols)


def _asks(token: Token) -> bool:
    return token.low in {"confirm with", "check with", "double-check with"}


def _asks_before(symbols: Sequence[str]) -> bool:
    """Whether a person is asked before something: "Ask the user before deleting"."""
    early = symbols[: symbols.index("BEFORE")] if "BEFORE" in symbols else []
    return any(symbol == "ASK" and "PERSON" in early[number : number + 3] for number, symbol in enumerate(early))


def is_bounded(tokens: Sequence[Token], modality: Modality) -> bool:
    """Whether there is an upper bound: on calls, times, lengths, or on anything per turn or session."""
    symbols = [token.symbol for token in tokens]
    held = set(symbols)
    if "ATLEAST" in held:
        return False
    if _has_most(tokens, symbols) and (held & _COUNTED or "TOOLWORD" in held):
        return True
    if modality == "must_not":
        return _forbids_more(tokens, held)
    one = any((token.symbol == "NUM" and token.low in {"1", "one"}) or token.low == "single" for token in tokens)
    if "ONLY" in held and ("NUM" in held or one) and held & _COUNTED:
        return True
    return one and bool({"ATONCE", "TURN"} & held) and modality == "must"


def _has_most(tokens: Sequence[Token], symbols: Sequence[str]) -> bool:
    """Whether "at most" stands with a number, or with the placeholder of one."""
    numbered = {"NUM", "TIMES", "ONCE"} & set(symbols) or any(token.text.startswith("{") for token in tokens)
    at_most = any(
        symbol in {"ATMOST", "FEWER"} and {"NUM", "TIMES", "ONCE", "W"} & set(symbols[number + 1 : number + 3])
        for number, symbol in enumerate(symbols)
    )
    limits = any(token.low in {"limit", "cap", "restrict"} for token in tokens[:4])
    return bool(numbered) and (at_most or limits or "ORFEWER" in symbols)


def _forbids_more(tokens: Sequence[Token], held: set[str]) -> bool:
    """Whether a ban is on doing something too often: "more than once", "multiple calls", "again"."""
    if "MORETHAN" in held and ("NUM" in held or held & _COUNTED):
        return True
    calls = "CALL" in held and "TOOL" in held
    if "MULTIPLE" in held and (calls or held & {"TIMES", "TOOLCALL", "CALLN"}):
        return True
    if "CALL" in held and any(token.low in {"twice", "again"} for token in tokens):
        return True
    again = any(token.low in _AGAIN for token in tokens[:5])
    return again and (bool(held & {"TOOLCALL", "TOOLWORD"}) or any(token.low in _CALLS for token in tokens))


# A statement's frame: who is meant, how strongly, under which condition, in which order, how often.
#
# The frame says what a statement is when the grammar of concrete rules does not take it: left to judgement, bound to a
# condition, a permission, advice, or no rule at all.

_MENTAL: Final = word_set(
    "sure unsure certain uncertain doubt know unclear ambiguous confused confident appropriate possible needed "
    "relevant helpful useful comfortable reasonable unable"
)


@dataclass(frozen=True, slots=True)
class Frame:
    """What a statement says, part by part."""

    who: Who
    modality: Modality
    tools: tuple[str, ...]
    condition: str = ""  # as it is written, or the line above that sets it
    inherited: bool = False  # the condition stands above the sentence
    mental: bool = False  # the condition is about what the agent knows or thinks
    order: bool = False  # something has to come before something else
    waits: bool = False  # something is forbidden for a time: "not ... before"
    approval: bool = False  # a person's yes has to come first
    bounded: bool = False  # an upper bound on how much or how often
    discloses: bool = False
    formatted: bool = False  # asks for JSON
    narrowed: bool = False  # words behind a tool, or behind "cannot", narrow what it is about


def frame_of(tokens: Sequence[Token], scope: str = "") -> Frame:
    """Return the frame of a statement; ``scope`` is a condition that stands above it."""
    plain = without_brackets(tokens)
    leading, main = leading_and_main(plain)
    solid = [token for token in main if token.symbol]
    symbols = [token.symbol for token in solid]
    who, modality = whom_it_means(main, leads=bool(leading)) if main else ("nobody", "fact")
    condition, mental = _condition(plain, leading, who)
    tools = tuple(dict.fromkeys(token.text for token in tokens if token.symbol == "TOOL" and not token.described))
    first = any(token.symbol in {"FIRST", "WITHOUT"} for token in plain)
    return Frame(
        who,
        modality,
        tools,
        condition or scope,
        inherited=bool(scope and not condition),
        mental=mental and not tools,
        order=orders_actions(plain),
        waits=modality == "must_not" and not first,
        approval=asks_for_yes(plain, modality),
        bounded=is_bounded(solid, modality),
        discloses="DISCLOSE" in symbols[:6] and modality == "must_not",
        formatted="JSON" in symbols and bool({"REPLY", "SAY"} & set(symbols)) and modality == "must",
        narrowed=(bool(tools) and "W" in symbols and modality in {"must", "must_not"}) or _is_qualified(solid, main),
    )


def classify(frame: Frame) -> Reading:
    """Return the reading of a statement that no production fits."""
    if frame.modality in {"may", "need_not"}:
        return Reading("permission", why="a permission", modality=frame.modality)
    if frame.who == "nobody":
        return Reading("none", why="states a fact", modality="fact")
    if frame.who == "person":
        return Reading("unparsed", why=_OTHERS, modality=frame.modality)
    kind, why = next((kind, why) for holds, kind, why in _sorts(frame) if holds)
    details = (frame.condition,) if frame.condition else ()
    items = frame.tools if kind in {"conditional", "order"} else ()
    return Reading(kind, items, why, modality=frame.modality, details=details)


_OTHERS: Final = "says what must be, but not what the agent has to do about it"
_LEFT_OVER: Final = "it says more than any rule checks"


def _sorts(frame: Frame) -> tuple[tuple[bool, Kind, str], ...]:
    """Return the sorts of rules that are left open, in the order in which they are asked for, and why they are."""
    advice = frame.modality == "advice"
    return (
        (advice and frame.inherited and not frame.bounded, "ambiguous", "advice"),
        (bool(frame.condition) and not frame.mental, "conditional", "it depends on a condition that no event shows"),
        (bool(frame.condition), "ambiguous", "it depends on what the agent knows"),
        (frame.approval, "confirm_before", "it describes an action, and no known tool is called like it"),
        (frame.bounded, "limit", "no rule counts what it counts"),
        (frame.order and frame.waits, "conditional", "it forbids something for a time that no event shows"),
        (frame.order, "order", "it puts actions in order that are described and not named"),
        (frame.discloses, "forbid_output", _LEFT_OVER),
        (frame.formatted, "require_output", _LEFT_OVER),
        (advice, "ambiguous", "advice"),
        (frame.narrowed, "conditional", "it narrows what it is about by words that no event shows"),
        (True, "ambiguous", "it leaves to judgement what counts"),
    )


def _condition(plain: Sequence[Token], leading: Sequence[Token], who: Who) -> tuple[str, bool]:
    """Return the condition of a statement as it is written, and whether it is about the agent's own mind."""
    lead = [token for token in leading if token.symbol or token.low in PREPOSITIONS]
    if lead and lead[0].symbol not in {"BEFORE", "EVEN", "BECAUSE", "WITHOUT"} and who != "nobody":
        return _words(leading), _is_mental(leading)
    for number, token in enumerate(plain):
        opens = token.symbol == "ONCE" and _opens_clause(plain[number + 1 : number + 2])
        if opens or token.symbol in {*CONDITIONS, "AFTER"}:
            return _words(plain[number:]), _is_mental(plain[number:])
    return "", False


def _opens_clause(following: Sequence[Token]) -> bool:
    """Whether "once" is a conjunction, as in "once the user agrees"."""
    return any(
        token.symbol in {"YOU", "PERSON", "TOOL"} or token.low in {"the", "a", "all", "your"} for token in following
    )


def _is_mental(tokens: Sequence[Token]) -> bool:
    """Whether a condition is about what the agent knows or thinks: "if you are not sure", "when needed"."""
    if any(token.symbol == "YOU" for token in tokens):
        return any(token.low in _MENTAL for token in tokens[:8])
    return len(tokens) < 4 and any(token.low in _MENTAL for token in tokens[1:4])


def _words(tokens: Sequence[Token]) -> str:
    return " ".join(token.text for token in tokens).rstrip(" ,")


def _is_qualified(solid: Sequence[Token], main: Sequence[Token]) -> bool:
    """Whether a ban on what the agent cannot do is narrowed: "You cannot change orders in transit"."""
    cannot = any(token.symbol == "BAN" and token.low in {"cannot", "can not", "may not"} for token in solid[:3])
    return cannot and any(token.low in {"in", "for", "on", "of", "within", "with"} for token in main[3:])


# What a sentence takes back: a deed that is forbidden unless the user asks for it.
#
# The trace can tell whether the user named the deed, so such a sentence is no open condition.

_ASKS: Final = word_set(
    "ask asks asked asking request requests requested instruct instructs instructed tell tells told direct directs "
    "directed want wants specify specifies specified instruction instructions prompted approve approves approved "
    "confirm confirms confirmed permits"
)
# Words that say nothing more than that somebody asks.
_AROUND: Final = word_set(
    "the a an user users customer customers user's they he she you your their explicitly "
    "specifically expressly directly "
    "clearly explicit specific express direct to for it do so otherwise them this that is has "
    "have been are was were by "
    "being in such one first ever"
)
# Words of a deed that stand in other requests too.
_OBJECTS: Final = word_set(
    "branch branches remote changes code repository repositories any new start make create your file files"
)
_SHORT: Final = 3  # letters of a word that says too little by itself
_OPENS: Final = frozenset(("unless", "without"))


def split_request(tokens: Sequence[Token]) -> tuple[list[Token], tuple[str, ...] | None]:
    """Return a statement without its "unless the user asks", and what else is asked for; None where it has none."""
    for number, token in enumerate(tokens):
        if number > 1 and token.symbol in {"UNLESS", "WITHOUT"} and token.low in _OPENS:
            named = _asked_for(tokens[number + 1 :], tokens[:number])
            if named is not None:
                return list(tokens[:number]), named
    return list(tokens), None


def turned_request(tokens: Sequence[Token]) -> list[Token]:
    """Return "only use X if the user asks" as "never use X unless the user asks"; anything else as it is."""
    at = next((number for number, token in enumerate(tokens) if token.symbol == "IF" and token.low in _IF), None)
    only = next((number for number, token in enumerate(tokens[:2]) if token.symbol == "ONLY"), None)
    if at is None or only is None or at < only:
        return list(tokens)
    head = [*tokens[:only], replace(tokens[only], symbol="BAN", text="never"), *tokens[only + 1 : at]]
    return [*head, replace(tokens[at], symbol="UNLESS", text="unless"), *tokens[at + 1 :]]


_IF: Final = frozenset(("if", "when"))


def _asked_for(tail: Sequence[Token], head: Sequence[Token]) -> tuple[str, ...] | None:
    """Return what somebody asks for beside the deed itself, a word or two; None where nobody asks."""
    words = [word for token in tail for word in token.low.split() if token.symbol not in {"SEP", "CUT"}]
    stems = {stem(word) for token in head for word in token.low.split()}
    if not any(word in _ASKS for word in words):
        return None
    named = [word for word in words if word not in _ASKS and word not in _AROUND and stem(word) not in stems]
    if len(named) > _MOST_NAMED or any(
        token.symbol not in {"W", "ASK", "AGREE", "SEP", "", "PERSON", "EXPLICIT", "BE", "YOU", "COMMAND", "DEED"}
        and token.low not in _AROUND
        and not token.inherited
        for token in tail
    ):
        return None
    wordy = any(stem(word) in {"detail", "explan", "length", "longer"} for word in named)
    return (*named, *(_WORDY if wordy else ()))


_MOST_NAMED: Final = 2
_WORDY: Final = ("explain", "elaborate", "describe", "summary", "thorough", "walk")  # by which users ask for detail


def words_of_deed(head: Sequence[Token]) -> tuple[str, ...]:
    """Return the words by which a user would name what is forbidden: content, texts and commands of the statement."""
    found: list[str] = []
    for token in head:
        if token.symbol in {"LITERAL", "CODE", "QUOTE", "FILE"}:
            found += [token.text, *(word for word in re.split(r"[^A-Za-z]+", token.text) if len(word) > _SHORT)]
        elif token.symbol in {"W", "COMMAND", "FORM", "NAME", "DEED", "SAY"}:
            found += [word for word in token.low.split() if word.isalpha() and word not in _AROUND | _OBJECTS]
        elif token.symbol == "TOOL":
            found += [word for word in token.text.replace("_", " ").split() if word.isalpha()]
    return tuple(dict.fromkeys(word for word in found if len(word) > 2))


# Cases that a trace can tell: what the user said, a link in it, and a tool that was called before.

_SAYS: Final = word_set(
    "says say said mentions mention writes wrote write types typed type asks uses use includes contains message "
    "request text the a an any of "
    "user customer their in or word words phrase phrases"
)
_GIVES: Final = word_set(
    "provides provide provided gives given shares sends includes contains has a an the you user customer message their "
    "issue request in is if with github web"
)
_LINKS: Final = word_set("link links url urls")
_CALLED: Final = frozenset(("CALL", "RUN", "CALLN", "YOU", "TOOL", "SEP", "TOOLWORD", "SUCCEEDED", "BE", "EACH"))
_AUXILIARY: Final = word_set("have has had 've was been is successfully ever already the a an")


def split_case(statement: Sequence[Token]) -> tuple[Circumstance | None, list[Token]]:
    """Return the case that a statement begins with, and the rest; None where the trace cannot tell it."""
    comma = next((number for number, token in enumerate(statement) if token.text == ","), 0)
    if not comma or not statement or statement[0].symbol not in {"IF", "AFTER", "ONCE"}:
        return None, list(statement)
    return _case(statement[:comma]), list(statement[comma + 1 :])


def said_case(statement: Sequence[Token], said: Sequence[str]) -> tuple[Circumstance | None, list[Token]]:
    """Return the case that the user says a text which stands in the clause before the comma, and the rest."""
    comma = next((number for number, token in enumerate(statement) if token.text == ","), 0)
    clause = statement[:comma]
    texts = " ".join(token.low for token in clause)
    if not clause or clause[0].symbol != "IF" or not any(token.symbol == "PERSON" for token in clause):
        return None, list(statement)
    spoken = {word for text in said for word in text.lower().split()}
    left = {word for token in clause[1:] if token.symbol not in {"SEP", "PERSON"} for word in token.low.split()}
    speaks = bool(left & _SAYING)
    plain = all(f" {text.lower()} " in f" {texts} " for text in said) and left - spoken <= _SAYS | _SAYING
    return (Circumstance("said", tuple(said)) if plain and speaks else None), list(statement[comma + 1 :])


_SAYING: Final = word_set(
    "says say said mentions mention writes types asks requests threatens reports for about to with"
)


def _case(clause: Sequence[Token]) -> Circumstance | None:
    first, rest = clause[0], clause[1:]
    quotes = tuple(token.text for token in rest if token.symbol == "QUOTE")
    words = [word for token in rest if token.symbol not in {"QUOTE", "SEP", "PERSON"} for word in token.low.split()]
    if first.symbol == "IF" and quotes and any(token.symbol == "PERSON" for token in rest) and set(words) <= _SAYS:
        return Circumstance("said", quotes)
    if first.symbol == "IF" and set(words) & _LINKS and set(words) <= _GIVES | _LINKS:
        return Circumstance("link")
    tools = tuple(token.text for token in rest if token.symbol == "TOOL" and not token.described)
    plain = all(token.symbol in _CALLED or token.low in _AUXILIARY for token in rest)
    done = first.symbol in {"AFTER", "ONCE"} or any(token.symbol in {"SUCCEEDED", "CALL"} for token in rest)
    return Circumstance("called", tools) if tools and plain and done else None


# A statement as a concrete reading: as it stands, without its purpose, unless somebody asks, or in a case.

# What these ask for holds whatever it is for; a ban holds for its purpose only.
_WHATEVER_FOR: Final = frozenset(("order", "confirm_before", "limit", "require_output"))
_FORBIDS: Final = frozenset(("forbid_tool", "forbid_arg", "forbid_output"))


def read_concrete(statement: Sequence[Token], catalogue: Catalogue) -> list[Reading]:
    """Return what a statement says, where a rule can check all of it, or enough to be broken by nothing else."""
    found = _as_it_stands(statement, catalogue)
    ordered = activated(statement) if not found else None
    return _as_it_stands(ordered, catalogue) if ordered is not None else found


def _as_it_stands(statement: Sequence[Token], catalogue: Catalogue) -> list[Reading]:
    found = _plain(statement) or _unless_asked(statement, catalogue) or _in_case(statement, catalogue)
    return [found] if found is not None else compose(statement, catalogue)


def _plain(statement: Sequence[Token]) -> Reading | None:
    reading = _parsed(statement)
    if reading is not None:
        return reading
    reading = parse(without_purposes(statement))
    if reading is None or reading.kind not in _WHATEVER_FOR:
        return None
    # "Use A to do something before B" says with what; "you must use A before B" says that.
    uses = any(token.symbol == "CALL" and token.low.startswith("us") for token in statement)
    must = any(token.symbol in {"DUTY", "BAN", "ONLY"} for token in statement)
    return reading if must or not uses else None


def _parsed(statement: Sequence[Token]) -> Reading | None:
    return parse(bare(statement)) or parse(bare(statement, lists=True))


def _unless_asked(statement: Sequence[Token], catalogue: Catalogue) -> Reading | None:
    head, named = split_request(turned_request(statement))
    inner = _parsed(head) or _composed(head, catalogue) if named is not None else None
    if inner is None or named is None or inner.kind not in {*_FORBIDS, "limit"}:
        return None
    words = (*named, *words_of_deed(head)) if inner.kind in _FORBIDS else named
    kind: Kind = "confirm_before" if inner.kind in _FORBIDS else "conditional"
    return Reading(kind, inner.items, inner=inner, asked=True, words=words, frame=inner.frame)


def _in_case(statement: Sequence[Token], catalogue: Catalogue) -> Reading | None:
    case, rest = split_case(statement)
    if case is None:
        return None
    rest = [token for token in rest if token.low not in _AT_ONCE]
    inner = _plain(rest) or _plain([Token("DUTY", "must", 0, 0), *rest])  # in a case, "call X" is meant as a must
    inner = inner or _composed(rest, catalogue)
    if inner is None:
        return None
    if inner.kind not in _FORBIDS and (inner.kind != "require_tool" or case.sort == "called"):
        return None
    return Reading("conditional", inner.items, inner=inner, case=case, frame=inner.frame)


_AT_ONCE: Final = frozenset(
    ("immediately", "instead", "straightaway", "promptly", "at once", "right", "away", "directly")
)


def _composed(statement: Sequence[Token], catalogue: Catalogue) -> Reading | None:
    found = compose(statement, catalogue)
    return found[0] if len(found) == 1 else None


# Every sentence of a prompt, in order.

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
