"""The verifier: a proposal becomes a rule only where the sentence shows all of it, and its own test holds.

A model may see that a word left over changes nothing. It is not believed about anything that can be looked up: the
quote, the tools, the polarity, the order, the numbers, the texts, that nothing in the sentence or above it narrows
what is forbidden, that no word which relates or counts is passed over, and that the rule fires in the trace that
breaks it and is silent in the one that keeps it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from stream_guard_compliance.proposed_frames import (
    FRAMES,
    MOST_EVENTS,
    MOST_QUOTE,
    Check,
    Proposal,
    ProposedFrame,
    RefusedProposalError,
)
from stream_guard_compliance.reading.catalogue import Catalogue, words_of
from stream_guard_compliance.reading.clauses import opened_scope, statements_of, without_brackets
from stream_guard_compliance.reading.composed.acts import (
    act_of,
    alike,
    is_described,
    narrowing_words,
    parts_of,
    root,
    verb_and_things,
)
from stream_guard_compliance.reading.composed.arguments import number_of
from stream_guard_compliance.reading.document import scope_of
from stream_guard_compliance.reading.sentences import (
    Frame,
    ReadSentence,
    asks_for_yes,
    frame_of,
    is_bounded,
    said_case,
    split_case,
    split_request,
    turned_request,
    words_of_deed,
)
from stream_guard_compliance.reading.symbols import COMMAND_NAMES, FILE_SORTS, FILLERS, FORM_NAMES, VERBS, is_command
from stream_guard_compliance.reading.tokenizing import tokenize
from stream_guard_compliance.reading.values import Circumstance, Kind, Reading, Token, word_set

# What a proposal says, held against its quote: order, yes, numbers, arguments, texts.

_LATER: Final = frozenset(("AFTER", "UNLESS", "WITHOUT", "PRECEDED", "BEFORE", "ONCE", "NEED"))
_TEXTS: Final = frozenset(("QUOTE", "CODE", "LITERAL", "FILE", "NAME"))
_EMPTY: Final = word_set("use any all the tool tools call calls user customer and with from never always only")


@dataclass(frozen=True, slots=True)
class Quoted:
    """A quote as the checks take it."""

    tokens: Sequence[Token]
    catalogue: Catalogue
    text: str
    bans: bool

    @property
    def symbols(self) -> list[str]:
        """The symbols of its words."""
        return [token.symbol for token in self.tokens]

    @property
    def words(self) -> set[str]:
        """Its words, small."""
        return {word for token in self.tokens for word in token.low.split()}


def _order(proposal: Proposal, quoted: Quoted) -> None:
    """Refuse an order of calls that the words between them do not show."""
    first, second = (_places(tools, quoted) for tools in (proposal.first, proposal.tools))
    if not _comes_first(first, second, quoted):
        raise RefusedProposalError("the quote does not put the calls in this order")


def _places(tools: Sequence[str], quoted: Quoted) -> list[int]:
    """Return where tools stand in a quote: by name, or by words that describe one of them."""
    named = [number for number, token in enumerate(quoted.tokens) if token.symbol == "TOOL" and token.text in tools]
    if named:
        return named
    said = [word for token in quoted.tokens for word in token.low.split()]
    meant = [tool for tool in tools if is_described(tool, said, quoted.catalogue)]
    verbs = {verb for tool in meant for verb in alike(verb_and_things(tool)[0])}
    return [
        number
        for number, token in enumerate(quoted.tokens)
        if token.symbol != "TOOL" and any(root(word) in verbs for word in token.low.split())
    ][:1]


def _comes_first(first: Sequence[int], second: Sequence[int], quoted: Quoted) -> bool:
    """Whether the words between two calls say which comes first; where they do not, nothing is proved."""
    symbols = quoted.symbols
    if not first or not second:
        # What waits stands above the quote: then the quote has to say that the other goes before.
        return bool(first) and bool(quoted.words & {"previously", "previous", "already", "first"}) and not quoted.bans
    if "BEFORE" in symbols and not quoted.bans:
        at = symbols.index("BEFORE")
        return first[-1] < at < second[0] or (at < second[0] and second[-1] < first[0])
    later = [number for number, symbol in enumerate(symbols) if symbol in _LATER]
    if later:
        behind = second[-1] < later[0] < first[0]
        before = later[0] < first[0] and first[-1] < second[0] and symbols[later[0]] in {"AFTER", "ONCE"}
        return behind or (before and not quoted.bans)
    then = bool({"THEN", "FIRST"} & set(symbols)) or "then" in quoted.words
    return then and first[-1] < second[0] and not quoted.bans


def _yes(_proposal: Proposal, quoted: Quoted) -> None:
    if not asks_for_yes(quoted.tokens, "must_not" if quoted.bans else "must") and not _waits_for_yes(quoted):
        raise RefusedProposalError("the quote asks for no yes of a person before it")


def _waits_for_yes(quoted: Quoted) -> bool:
    """Whether a call comes once a person has agreed ("Once the user approved it, use X"), or needs the yes."""
    symbols = [symbol for symbol in quoted.symbols if symbol]
    agrees = next((at for at, symbol in enumerate(symbols) if symbol in {"AGREE", "APPROVAL"}), -1)
    opens = symbols[:1] in (["ONCE"], ["AFTER"]) and "PERSON" in symbols[: agrees + 1]
    needs = "NEED" in symbols[: max(agrees, 0)] and symbols[agrees] == "APPROVAL"
    behind = bool({"AFTER", "ONCE", "UNLESS"} & set(symbols[: max(agrees, 0)])) and "PERSON" in symbols
    return agrees > 0 and not quoted.bans and (opens or needs or behind)


def _bound(_proposal: Proposal, quoted: Quoted) -> None:
    solid = [token for token in quoted.tokens if token.symbol]
    if not is_bounded(solid, "must_not" if quoted.bans else "must"):
        raise RefusedProposalError("the quote sets no upper bound")


def _number(proposal: Proposal, quoted: Quoted) -> None:
    """Refuse a number that the quote does not have, or has for the other side."""
    numbers = {1.0 if token.symbol == "MULTIPLE" else number_of(token) for token in quoted.tokens}
    for token in quoted.tokens:
        numbers |= (
            {float(part) for part in token.text.replace("\u2013", "-").split("-")} if token.symbol == "RANGE" else set()
        )
    fewer = "FEWER" in quoted.symbols or bool(quoted.words & {"under", "below"})
    least = proposal.least is not None
    given = [wanted for wanted in (proposal.most, proposal.least) if wanted is not None]
    if not given or not all(wanted in numbers or (fewer and wanted + 1 in numbers) for wanted in given):
        raise RefusedProposalError(f"the quote does not have the number {given[0] if given else None}")
    if least and proposal.most is None and not _bounds_below(quoted):
        raise RefusedProposalError("the quote has a bound on the other side")
    if not least and _bounds_below(quoted):
        raise RefusedProposalError("the quote has a bound on the other side")


def _bounds_below(quoted: Quoted) -> bool:
    below = "ATLEAST" in quoted.symbols or (quoted.bans and "FEWER" in quoted.symbols)
    return below and "RANGE" not in quoted.symbols


def _argument(proposal: Proposal, quoted: Quoted) -> None:
    """Refuse an argument that the quote has neither as a name nor in words."""
    marked = {token.text for token in quoted.tokens if token.symbol in {"CODE", "ARGNAME", "TOOL", "LITERAL"}}
    said = {root(word) for word in quoted.words}
    for name in proposal.argument.split(","):
        if name.strip() not in marked and not {root(word) for word in words_of(name)} <= said:
            raise RefusedProposalError("the quote does not name the argument")


def _said(proposal: Proposal, quoted: Quoted) -> None:
    """Refuse texts that do not stand in the quote in quotation marks, as code, or as names."""
    stands = {token.text for token in quoted.tokens if token.symbol in _TEXTS}
    if not set(proposal.texts) <= stands:
        raise RefusedProposalError("the texts do not stand in quotation marks in the quote")
    symbol = {"start": "OPEN", "end": "CLOSE"}.get(proposal.place)
    if symbol and not {symbol, "PREAMBLE", "END"} & set(quoted.symbols):
        raise RefusedProposalError("the quote does not say where in a response the text stands")


def _command(proposal: Proposal, quoted: Quoted) -> None:
    _said(proposal, quoted)
    if not all(is_command(text) for text in proposal.texts):
        raise RefusedProposalError("what must not stand in arguments is no command and no flag")


def _held(proposal: Proposal, quoted: Quoted) -> None:
    """Refuse texts that are no words of the quote, or say nothing by themselves."""
    marked = {token.text for token in quoted.tokens if token.symbol in _TEXTS}
    for text in proposal.texts:
        plain = text.lower() in quoted.words and text.lower() not in _EMPTY and text.lower() not in VERBS
        capitals = text.isupper() and any(token.text == text for token in quoted.tokens)
        if text not in marked and not plain and not capitals:
            raise RefusedProposalError("the texts do not stand in the quote")
    starts, ends = {"start", "starts", "begin", "begins", "prefixed"}, {"end", "ends", "finish", "sign"}
    wanted = {"start": starts, "end": ends}.get(proposal.place)
    if proposal.kind == "forbid_arg" and wanted and not quoted.words & {*wanted, "restricted", "only"}:
        raise RefusedProposalError("the quote does not say where the text stands")


def _form(proposal: Proposal, quoted: Quoted) -> None:
    """Refuse forms of text that the quote does not name."""
    named = {FORM_NAMES[token.low] for token in quoted.tokens if token.symbol == "FORM"}
    named |= {"digits"} if "SPELL" in quoted.symbols else set()
    plain = {"markdown"} if "PLAIN" in quoted.symbols else set()
    forbids = quoted.bans or "WITHOUT" in quoted.symbols or "NO" in quoted.symbols or "SPELL" in quoted.symbols
    if not set(proposal.texts) <= (named if forbids else set()) | plain:
        raise RefusedProposalError("the quote does not forbid such a form of text")


_DATA: Final = {"system_prompt": "PROMPT", "secrets": "SECRET", "pii": "PII"}


def _data(proposal: Proposal, quoted: Quoted) -> None:
    for text in proposal.texts:
        if _DATA.get(text.partition(":")[0]) not in quoted.symbols:
            raise RefusedProposalError("the quote does not name such data")


def _unit(proposal: Proposal, quoted: Quoted) -> None:
    units = {token.low[0] for token in quoted.tokens if token.symbol == "UNIT"}
    if proposal.unit not in {"words", "chars", "sentences", "lines", "paragraphs"} or proposal.unit[0] not in units:
        raise RefusedProposalError("the quote does not count in this unit")


def _path(proposal: Proposal, quoted: Quoted) -> None:
    """Refuse the wrong sort of paths: a ban names what is forbidden, a duty the other sort."""
    sorts = [symbol for symbol in quoted.symbols if symbol in {"ABSPATH", "RELPATH"}]
    banned = "absolute" if (sorts[0] == "ABSPATH") == (quoted.bans and len(set(sorts)) == 1) else "relative"
    if proposal.texts != (banned,):
        raise RefusedProposalError("the quote forbids the other sort of paths")


def _deed(proposal: Proposal, quoted: Quoted) -> None:
    """Refuse commands that the quote does not speak of in words."""
    said = {root(word) for word in quoted.words}
    for text in proposal.texts:
        phrases = [phrase for phrase, name in COMMAND_NAMES.items() if name == text]
        if not any({root(word) for word in phrase.split()} <= said for phrase in phrases):
            raise RefusedProposalError("the quote does not speak of such a command")


CHECKS: Final[dict[Check, Callable[[Proposal, Quoted], None]]] = {
    "order": _order,
    "yes": _yes,
    "bound": _bound,
    "number": _number,
    "argument": _argument,
    "command": _command,
    "said": _said,
    "held": _held,
    "form": _form,
    "data": _data,
    "unit": _unit,
    "path": _path,
    "deed": _deed,
}


# The verifier.

# Words that relate one thing to another or count: a frame accounts for each of them.
_RELATING: Final = frozenset(
    (
        *("UNLESS", "WITHOUT", "BEFORE", "AFTER", "PRECEDED", "TOGETHER", "OTHERTHAN", "MORETHAN", "ATMOST", "FEWER"),
        *(
            "ORFEWER",
            "ATLEAST",
            "AMOUNT",
            "EXCEED",
            "NUM",
            "RANGE",
            "TURN",
            "ATONCE",
            "WINDOW",
            "SAME",
            "AGAIN",
            "TIMES",
        ),
        *("MULTIPLE", "ALONE", "ONLY", "FIRST", "FIRSTACT", "THEN", "VIA", "PARALLEL", "EXACTLY"),
    )
)
_BINDS: Final = frozenset(
    ("ONLY", "FORBIDDEN", "ATMOST", "FEWER", "ORFEWER", "EXACTLY", "NEED", "BAN", "DUTY", "NO", "ALONE", "MORETHAN")
)
_ALLOWS: Final = frozenset(("may", "need_not", "advice"))


ToolGroup: TypeAlias = tuple[frozenset[str], frozenset[str]]
"""The words of a label, and the tools that stand under it."""


@dataclass(frozen=True, slots=True)
class _Statement:
    """The part of a sentence that a proposal quotes, without the case and the exception that it names."""

    tokens: Sequence[Token]
    case: Circumstance | None = None
    asked: tuple[str, ...] | None = None  # words by which a user asks for the deed


def groups_of(read: Sequence[ReadSentence]) -> list[ToolGroup]:
    """Return the groups of tools that a prompt lists under a label: "Page-changing: navigate, go_back"."""
    found: list[ToolGroup] = []
    for one in read:
        tools = frozenset(token.text for token in one.tokens if token.symbol == "TOOL" and not token.described)
        words = frozenset(re.findall(r"[a-z][a-z-]{2,40}", one.sentence.label.partition("(")[0].lower()))
        if len(tools) > 1 and words:
            found.append((words, tools))
    return found


def verify(proposal: Proposal, read: ReadSentence, catalogue: Catalogue, groups: Sequence[ToolGroup] = ()) -> Reading:
    """Return the reading that a proposal makes of a sentence; raises RefusedProposalError with what it cannot show."""
    sentence = read.sentence
    quote = " ".join(proposal.quote.split())
    if not quote or len(quote) > MOST_QUOTE or quote not in sentence.text:
        raise RefusedProposalError("the quote does not stand in the sentence")
    if sentence.is_code or sentence.is_example or sentence.is_heading or read.narrowed:
        raise RefusedProposalError("the sentence stands where no rules are, or goes on with what stands before it")
    frame = FRAMES.get((proposal.kind, proposal.shape))
    if frame is None:
        raise RefusedProposalError("it does not say which rule of its kind is meant")
    for name in frame.needs:
        if getattr(proposal, name) in ("", (), None):
            raise RefusedProposalError(f"its frame needs {name}")
    start = sentence.text.index(quote)
    quoted = [token for token in read.tokens if token.start >= start and token.end <= start + len(quote)]
    statement = _gated(proposal, _around(proposal, read, quoted))
    _check_condition(proposal, statement.tokens, read, catalogue)
    _check_polarity(frame, statement.tokens)
    _check_words(frame, proposal, statement, quoted, catalogue)
    _check_tools(proposal, read, quoted, catalogue, groups)
    _check_test(proposal)
    _check_files(proposal, quoted)
    for check in frame.checks:
        CHECKS[check](proposal, Quoted(quoted, catalogue, quote, _is_ban(statement.tokens)))
    return _reading(proposal, frame, statement)


def is_open(proposal: Proposal) -> bool:
    """Whether a proposal is about calls of tools that it does not name."""
    frame = FRAMES[proposal.kind, proposal.shape]
    return frame.is_open or not (proposal.tools or proposal.first)


def _around(proposal: Proposal, read: ReadSentence, quoted: Sequence[Token]) -> Sequence[Token]:
    """Return the statements that a quote stands in; what stands before them must not make a condition."""
    found: list[Token] = []
    for statement in statements_of(read.tokens):
        if any(token in quoted for token in statement):
            found += statement
        elif not found and opened_scope(statement) and not _is_after_call(statement, proposal):
            raise RefusedProposalError(f"it depends on a condition: {opened_scope(statement)[:200]}")
    if not found:
        raise RefusedProposalError("the quote has no words")
    reason = next((at for at, token in enumerate(found) if token.low in _REASONS and found[at - 1].text == ","), None)
    return found[:reason]


_REASONS: Final = frozenset(("since", "because", "as"))


def _is_after_call(statement: Sequence[Token], proposal: Proposal) -> bool:
    """Whether a clause only says that the call was made which comes first: "Once you have transferred them"."""
    said = {root(word) for token in statement for word in token.low.split()}
    opens = statement[0].symbol in {"ONCE", "AFTER"} and any(token.symbol == "YOU" for token in statement)
    return opens and any(verb_and_things(tool)[0] in said for tool in proposal.first)


def _gated(proposal: Proposal, tokens: Sequence[Token]) -> _Statement:
    """Return a statement without the case and the exception that a proposal names, and these two."""
    case: Circumstance | None = None
    body: Sequence[Token] = tokens
    if proposal.in_case:
        case, body = said_case(tokens, proposal.said) if proposal.said else split_case(tokens)
        if case is None:
            raise RefusedProposalError("no trace can tell the case that the sentence begins with")
    unasked = [token for token in body if token.low in _UNASKED]
    if unasked and not proposal.unless_asked:
        raise RefusedProposalError(f'it passes over "{unasked[0].text}": the user may ask for it')
    if not proposal.unless_asked:
        return _Statement(_without_purpose(proposal, body), case)
    head, named = split_request(turned_request(body))
    if named is None and unasked:
        head, named = [token for token in body if token not in unasked], ()
    if named is None:
        raise RefusedProposalError("the sentence does not say that the user may ask for it")
    words = _MORE if proposal.kind == "limit" else words_of_deed(head)
    return _Statement(head, case, (*named, *words))


_UNASKED: Final = frozenset(("proactively", "unprompted", "unsolicited", "spontaneously"))
_MORE: Final = ("another", "second", "more", "several", "multiple", "two", "three", "both")  # than a limit allows


def _without_purpose(proposal: Proposal, tokens: Sequence[Token]) -> Sequence[Token]:
    """Return "To give the final answer, call X" without what it is for."""
    if proposal.shape != "finish" or not tokens or tokens[0].low != "to":
        return tokens
    comma = next((number for number, token in enumerate(tokens) if token.text == ","), -1)
    return tokens[comma + 1 :]


def _check_condition(proposal: Proposal, tokens: Sequence[Token], read: ReadSentence, catalogue: Catalogue) -> None:
    """Refuse what depends on a condition; one that only names what the sentence is about anyway is none."""
    scope = scope_of(read.sentence)
    parts = parts_of(tokens)
    if parts is None:
        condition = frame_of(tokens).condition if any(token.symbol == "IF" for token in tokens) else ""
    else:
        condition = next((" ".join(token.text for token in one.tokens) for one in parts.of("if") if one.tokens), "")
    if any(is_described(tool, condition.lower().split(), catalogue) for tool in proposal.first):
        condition = ""  # that what comes first was called: "Whenever a card gets frozen"
    outside = [token for token in tokens if token.text not in condition.split()]
    about = {root(word) for token in outside for word in token.low.split()}
    about |= {root(word) for text in (*proposal.texts, *proposal.tools, *proposal.files) for word in words_of(text)}
    deeds = [phrase for phrase, name in COMMAND_NAMES.items() if name in proposal.texts]
    about |= {root(word) for phrase in deeds for word in phrase.split()}
    for found in (condition, scope):
        if found and not _names_activity(found, about):
            raise RefusedProposalError(f"it depends on a condition: {found[:200]}")


def _names_activity(condition: str, about: set[str]) -> bool:
    """Whether a condition says what the agent does, and the sentence is about that: "When terminating processes"."""
    words = [word.strip(".,:;()*").lower() for word in condition.split()]
    words = words[1:] if words[:1] and words[0] in {"when", "while", "whenever", "for"} else words
    things = {root(word) for word in words[1:] if word not in FILLERS}
    return bool(things) and words[0].endswith("ing") and len(words) <= _ACTIVITY and things <= about


_ACTIVITY: Final = 5  # words of what the agent does


def _is_ban(tokens: Sequence[Token]) -> bool:
    symbols = [token.symbol for token in tokens if token.symbol]
    return frame_of(tokens).modality == "must_not" or "FORBIDDEN" in symbols or symbols[:1] == ["NO"]


def _check_polarity(frame: ProposedFrame, tokens: Sequence[Token]) -> None:
    found: Frame = frame_of(tokens)
    symbols = {token.symbol for token in tokens}
    advises = bool(symbols & {"ADVICE", "FREE"}) or found.modality == "advice"
    if advises or (found.modality in {*_ALLOWS, "fact"} and not symbols & _BINDS):
        raise RefusedProposalError("the sentence allows, advises or states something, and asks for nothing")
    bans = _is_ban(tokens)
    if frame.polarity == "not" and not bans:
        raise RefusedProposalError("the sentence forbids nothing")
    if frame.polarity == "must" and bans:
        raise RefusedProposalError("the sentence forbids, and does not ask for a call, a text or a value")


def _check_words(
    frame: ProposedFrame, proposal: Proposal, statement: _Statement, quoted: Sequence[Token], catalogue: Catalogue
) -> None:
    """Refuse a frame that the words do not show, that passes over one which relates or counts, or a narrowing."""
    held = {token.symbol for token in quoted} | {word for token in quoted for word in token.low.split()}
    for group in frame.shown:
        if not held & set(group.split()):
            raise RefusedProposalError(f"the quote has no word that says so, such as {group.split()[0].lower()}")
    uses = set(frame.uses.split())
    plain = without_brackets(statement.tokens)
    for token, following in itertools.zip_longest(plain, plain[1:]):
        pronoun = token.low == "one" and following is not None and following.low in {"that", "which", "of", "who"}
        if token.symbol in _RELATING and token.symbol not in uses and not pronoun:
            raise RefusedProposalError(f'it passes over "{token.text[:80]}"')
    _check_segments(proposal, plain, catalogue)
    said = (*proposal.texts, *proposal.files, *proposal.tools, *proposal.first, proposal.argument)
    used = frozenset(root(word) for text in said for word in words_of(text))
    for segment in _segments(plain, proposal):
        words = narrowing_words(segment, used)
        if words:
            raise RefusedProposalError(f'it passes over what narrows the sentence: "{" ".join(words)[:100]}"')


def _check_segments(proposal: Proposal, tokens: Sequence[Token], catalogue: Catalogue) -> None:
    """Refuse what passes over a clause: each that relates has a tool or a text of the proposal in it, or a yes."""
    tools = (*proposal.tools, *proposal.first)
    for opener, segment in _related(tokens):
        words = [word for token in segment for word in token.low.split()]
        known = any(token.symbol in _YES or token.text in (*tools, *proposal.texts) for token in segment)
        if not known and not any(is_described(tool, words, catalogue) for tool in tools) and tools:
            raise RefusedProposalError(f'it passes over what stands behind "{opener}"')
    named = {token.text for token in tokens if token.symbol == "TOOL" and not token.described}
    plain = proposal.kind == "forbid_tool" and not named and not proposal.files
    left = act_of(tokens, catalogue).left if plain else ()
    if left:
        raise RefusedProposalError(f'it passes over "{" ".join(left)[:100]}"')


_YES: Final = frozenset(("APPROVAL", "AGREE", "ASK", "REPLY", "ANSWER", "TOOLCALL", "TOOLWORD", "QUOTE", "EACH"))
_OPENS: Final = frozenset(("UNLESS", "WITHOUT", "BEFORE", "AFTER"))


def _related(tokens: Sequence[Token]) -> Iterator[tuple[str, list[Token]]]:
    """Yield the clauses that a word of relation opens, up to the next comma or such word, with that word."""
    opener, held = "", list[Token]()
    for token in tokens:
        if token.symbol in _OPENS or (token.text in {",", ";"} and held):
            if opener:
                yield opener, held
            opener, held = (token.low if token.symbol in _OPENS else ""), []
        elif opener:
            held.append(token)
    if opener:
        yield opener, held


_CUTS: Final = frozenset(("BEFORE", "AFTER", "UNLESS", "WITHOUT", "PRECEDED", "THEN", "NEED", "IF", "CUT"))


def _segments(tokens: Sequence[Token], proposal: Proposal) -> list[list[Token]]:
    """Return the parts of a statement in which a narrowing counts: not beside what comes first, nor beside a yes."""
    found: list[list[Token]] = [[]]
    for token in tokens:
        if token.symbol in _CUTS:
            found.append([])
        else:
            found[-1].append(token)
    comes_first = set(proposal.first) - set(proposal.tools)
    return [
        part
        for part in found
        if not any(token.symbol in {"APPROVAL", "AGREE", "ASK"} or token.text in comes_first for token in part)
    ]


def _check_tools(
    proposal: Proposal,
    read: ReadSentence,
    quoted: Sequence[Token],
    catalogue: Catalogue,
    groups: Sequence[ToolGroup],
) -> None:
    """Refuse a tool that neither the quote nor what it stands under names or describes, and one that is passed over."""
    sentence = read.sentence
    asked = {catalogue.means(tool) for tool in (*proposal.tools, *proposal.first)}
    named = {token.text for token in quoted if token.symbol == "TOOL" and not token.described}
    above = tokenize(" ".join((sentence.label, *sentence.leads, sentence.heading, sentence.describes)), catalogue)
    known = named | {token.text for token in (*read.tokens, *above) if token.symbol == "TOOL" and not token.described}
    known |= {catalogue.means(sentence.describes)} if sentence.describes else set()
    spoken = (*read.tokens, *above)
    words = [word for token in spoken if token.symbol != "TOOL" for word in token.low.split()]
    words += [word for token in spoken if token.described for word in words_of(token.text)]
    known |= {tool for label, tools in groups if label <= set(words) for tool in tools}
    for tool in sorted(asked):
        if catalogue.closed and not catalogue.knows(tool):
            raise RefusedProposalError(f"{tool[:100]} is no tool of the agent")
        if tool not in known and not is_described(tool, words, catalogue):
            raise RefusedProposalError(f"the quote does not name {tool[:100]}")
    passed = sorted(name for name in named if asked and name not in asked and name != proposal.argument)
    if passed:
        raise RefusedProposalError(f"it passes over {passed[0][:100]}, which the quote names too")


def _check_files(proposal: Proposal, quoted: Sequence[Token]) -> None:
    """Refuse sorts of files that the quote does not speak of."""
    said = {root(word) for token in quoted for word in token.low.split()}
    spelt = " ".join(token.low for token in quoted).replace(" ", "")
    for sort in proposal.files:
        named = sort in FILE_SORTS and root(sort) in said
        if not named and not (sort.startswith("*.") and sort[1:].lower() in spelt):
            raise RefusedProposalError(f"the quote does not speak of {sort[:40]} files")


def _check_test(proposal: Proposal) -> None:
    """Refuse a proposal whose test is missing, proves nothing, or is too long to be run."""
    if max(len(proposal.breaks), len(proposal.keeps)) > MOST_EVENTS:
        raise RefusedProposalError(f"its test has more than {MOST_EVENTS} events")
    if not proposal.breaks or not any(event.get("type") in _ACTS for event in proposal.keeps):
        raise RefusedProposalError("it needs a trace that breaks it, and one in which the agent acts and keeps it")


_ACTS: Final = frozenset(("agent_message", "tool_call"))


def _reading(proposal: Proposal, frame: ProposedFrame, statement: _Statement) -> Reading:
    shape = proposal.shape if frame.shape is None else frame.shape
    plain = replace(frame.build(proposal), shape=shape, concrete=True, proposed=True)  # type: ignore[arg-type]
    plain = replace(plain, files=proposal.files)
    soon = any(token.symbol == "AFTER" and " " in token.low for token in statement.tokens)
    inner = replace(plain, soon=soon) if proposal.shape == "not_after" else plain
    if statement.case is None and statement.asked is None:
        return inner
    kind: Kind = "conditional" if statement.case is not None else "confirm_before"
    gated = Reading(kind, inner.items, inner=inner, case=statement.case, asked=statement.asked is not None)
    return replace(gated, words=statement.asked or (), concrete=True, proposed=True)
