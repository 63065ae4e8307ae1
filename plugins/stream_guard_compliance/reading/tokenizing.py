"""A sentence as tokens, each with its symbol: tools, code, quotes and numbers found, fillers marked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stream_guard_compliance.reading.catalogue import Catalogue, looks_like_name
from stream_guard_compliance.reading.symbols import CONTRACTIONS, COUNTED, FILLERS, LEXICON, LONGEST, SHELL, VERBS
from stream_guard_compliance.reading.values import Antecedent, Token, word_set

# Tools that a sentence describes and does not name: "the search tool", "cancel an appointment", "a handoff".
#
# A description counts only where its words are those of the name, no more and no fewer.

_LONGEST: Final = 4  # words of a description
_DESCRIBING: Final = frozenset(
    (
        *(
            "W",
            "NAME",
            "SAY",
            "DISCLOSE",
            "ASK",
            "AGREE",
            "RUN",
            "OPEN",
            "CLOSE",
            "KEEP",
            "SKIP",
            "SOURCE",
            "DEED",
            "ANSWER",
        ),
        *("PII", "REPLY", "PHRASE", "STOP", "FAILED", "TOOLWORD", "QUESTION", "CALL"),
    )
)
_SKIPPED: Final = frozenset(("", "EACH", "PERSON"))
_CALLED: Final = frozenset(("CALL", "RUN", "CALLN"))
_TO: Final = word_set("to using use via with or consult the")
_HANDOFFS: Final = word_set("handoff handoffs hand-off hand-offs handover handovers hand-over hand-overs")
_THEM: Final = word_set("it them this these")


def describe_tools(tokens: Sequence[Token], catalogue: Catalogue) -> list[Token]:
    """Return the tokens with tools in the place of what describes them."""
    if not catalogue.names:
        return list(tokens)
    found: list[Token] = []
    last: frozenset[str] = frozenset()  # the words of the last description: "creating it" goes on with them
    number = 0
    while number < len(tokens):
        length, names, last = _at(tokens, number, catalogue, last)
        if not names:
            found.append(tokens[number])
            number += 1
            continue
        called = _called(tokens[number : number + length], names, found)
        number += length
        following = next((token for token in tokens[number:] if token.symbol), None)
        named = following is not None and following.symbol == "TOOL" and [following.text] == names
        found += called[:-1] if named else called  # "look at the calendar with check_calendar" names it as well
    return found


def _at(
    tokens: Sequence[Token], number: int, catalogue: Catalogue, last: frozenset[str]
) -> tuple[int, list[str], frozenset[str]]:
    """Return how many tokens from here describe tools, the tools, and the words to go on with."""
    token = tokens[number]
    if token.low in _HANDOFFS:
        return 1, catalogue.handoffs, last
    if token.symbol not in _DESCRIBING or not token.text.isalpha():
        return 0, [], last
    words, ends = _words_from(tokens, number)
    labelled = _labelled(tokens, number, words, ends, catalogue)
    if labelled:
        return (*labelled, last)
    for count in range(len(words), 1, -1):
        names = catalogue.described(words[:count])
        if names:
            return ends[count - 1] - number, names, catalogue.stems(words[:count])
    following = tokens[number + 1] if number + 1 < len(tokens) else None
    if last and following is not None and following.low in _THEM and token.low.endswith("ing"):
        names = catalogue.renamed(token.low, last)
        return 2, names, last
    return 0, [], last


def _words_from(tokens: Sequence[Token], number: int) -> tuple[list[str], list[int]]:
    """Return the words from here that may belong together, and where each ends."""
    words: list[str] = []
    ends: list[int] = []
    for place in range(number, min(len(tokens), number + 2 * _LONGEST)):
        token = tokens[place]
        if token.symbol in _SKIPPED and words:
            continue
        if token.symbol not in _DESCRIBING or len(words) == _LONGEST or " " in token.text:
            break
        words.append(token.low.removesuffix("'s"))
        ends.append(place + 1)
    return words, ends


def _labelled(
    tokens: Sequence[Token], number: int, words: Sequence[str], ends: Sequence[int], catalogue: Catalogue
) -> tuple[int, list[str]] | None:
    """Return the tools of "the NAME tool", "the NAME agent" or "the NAME tool's VERB command", where they are known."""
    before = [token.low for token in tokens[max(0, number - 2) : number]]
    for count in range(len(words), 1, -1):
        label = words[count - 1]
        inner = [word for word in words[: count - 1] if word not in {"tool", "tools"}]
        if not inner:
            continue
        if label in {"tool", "function", "command", "tools", "functions"}:
            names = catalogue.labelled(inner, many=label.endswith("s"))
        elif label in {"agent", "agents"} and set(before) & _TO:
            names = [name for name in catalogue.handoffs if catalogue.stems(inner) <= catalogue.stems([name])]
        else:
            continue
        if names:
            return ends[count - 1] - number, names
    return None


def _called(tokens: Sequence[Token], names: Sequence[str], before: Sequence[Token]) -> list[Token]:
    """Return a call of the tools; the word for calling is left out where it stands before them."""
    first, start, end = tokens[0], tokens[0].start, tokens[-1].end
    solid = [token for token in before if token.symbol]
    is_verb = first.low in VERBS or first.low.endswith("ing")
    found: list[Token] = []
    if is_verb and not (solid and solid[-1].symbol in _CALLED):
        found.append(Token("CALL", "call", start, start))
    for number, name in enumerate(names):
        if number:
            found.append(Token("SEP", ",", start, start))
        found.append(replace(first, symbol="TOOL", text=name, start=start, end=end, described=True))
    return found


# From a sentence to its tokens.

_TOKEN: Final = re.compile(
    r"""`(?P<code>[^`\n]{1,300})`"""
    r"""|\u201c(?P<q1>[^\u201d\n]{1,300})\u201d|"(?P<q2>[^"\n]{1,300})"|(?<!\w)'(?P<q3>[^'\n]{2,200})'(?!\w)|\u2018(?P<q4>[^\u2019\n]{2,200})\u2019"""
    r"""|(?P<slot>\{{1,2}[^{}\n]{0,100}\}{1,2}|<[^<>\n]{1,80}>)"""
    r"""|(?P<var>\$\{?[A-Z_][A-Z0-9_]{1,40}\}?|~(?=[\s/,;.)]|$))|(?P<range>\d{1,4}\s?[-\u2013]\s?\d{1,4})(?![\w-])"""
    r"""|(?P<file>(?<![\w.])\.[a-z][\w.-]{1,40})"""
    r"""|(?P<money>[$\u20ac\u00a3]\s?\d[\d,]{0,12}(?:\.\d{1,4})?)|(?P<num>\d{1,9}(?:,\d{3}){0,3})(?![\w.-]*[A-Za-z_])(?!-\d)"""
    r"""|(?P<flag>--?[A-Za-z][\w=-]{0,40})"""
    r"""|(?P<word>@?[A-Za-z](?:[\w\u00c0-\u024f]|['\u2019](?=[a-z])|[.-](?=\w)){0,120}(?:['\u2019](?=\s))?)"""
    r"""|(?P<dash>\s[-\u2013]{1,2}\s|\u2014)|(?P<mark>[,;:()/])|(?P<stop>[.!?]{1,6})|(?P<other>[^\s])"""
)


_FILE: Final = re.compile(r"[\w-]{1,60}\.(?:json|ya?ml|toml|env|txt|md|lock|cfg|ini|pem|key|csv|html|xml|py|ts|js)")


def tokenize(text: str, catalogue: Catalogue, before: Antecedent = Antecedent()) -> list[Token]:  # noqa: B008  # frozen
    """Return the tokens of a sentence; ``before`` is what a pronoun may stand for."""
    raw = _raw(text, catalogue)
    tokens: list[Token] = []
    position = 0
    while position < len(raw):
        token, length = _phrase(raw, position)
        tokens.append(token)
        position += length
    return describe_tools(_named(_resolved(_turned(_counted(tokens)), before), catalogue, before), catalogue)


def _counted(tokens: list[Token]) -> list[Token]:
    """Take "only once" apart where it counts: "only once per session"; before a clause it is a condition."""
    found: list[Token] = []
    for number, token in enumerate(tokens):
        following = tokens[number + 1] if number + 1 < len(tokens) else None
        counts = following is None or following.symbol in {"SESSION", "TURN", "WINDOW", "SEP", "CUT", "CLOSED"}
        if token.low == "only once" and (
            counts or (following is not None and following.low in {"per", "in", "during"})
        ):
            found += [replace(token, symbol="ONLY", text="only"), replace(token, symbol="ONCE", text="once")]
        else:
            found.append(token)
    return found


def _turned(tokens: list[Token]) -> list[Token]:
    """Read "Should the user ask, ..." at the beginning as "If the user asks, ..."."""
    solid = [token for token in tokens if token.symbol][:2]
    asks = [token.symbol for token in solid] in (["DUTY", "PERSON"], ["DUTY", "YOU"]) and solid[0].low == "should"
    if not asks or tokens[0] is not solid[0] or not any(token.text == "," for token in tokens):
        return tokens
    return [replace(tokens[0], symbol="IF", text="if"), *tokens[1:]]


_MARKS: Final = {";": "CUT", ":": "CUT", "(": "OPENED", ")": "CLOSED", ",": "SEP", "/": "SEP"}
_SORTS: Final = {
    "num": "NUM",
    "money": "NUM",
    "range": "RANGE",
    "flag": "LITERAL",
    "var": "LITERAL",
    "file": "FILE",
    "slot": "W",
    "dash": "CUT",
}


def _raw(text: str, catalogue: Catalogue) -> list[Token]:
    """Return tokens without phrases: contractions taken apart, code and quotes held against the catalogue."""
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        sort, start, end = match.lastgroup or "", match.start(), match.end()
        inner = match.group(sort)
        if sort == "word":
            tokens += _word(inner, start, end, catalogue)
        elif sort == "code" or sort[0] == "q":
            symbol = _marked(inner, catalogue, "CODE" if sort == "code" else "QUOTE")
            yes = inner.lower().strip(".!") in _YES and not _is_listed(text, start, end)
            symbol = "APPROVAL" if yes and symbol == "QUOTE" else symbol
            name = catalogue.means(inner.removesuffix("()")) if symbol == "TOOL" else inner
            tokens.append(Token(symbol, name, start, end))
        elif sort != "stop":
            content = "W" if inner.isalnum() else ""
            tokens.append(Token(_SORTS.get(sort) or _MARKS.get(inner, content), inner.strip(), start, end))
    return tokens


_YES: Final = frozenset(("yes", "ok", "okay", "go ahead"))


def _is_listed(text: str, start: int, end: int) -> bool:
    """Whether a text stands in a list of texts: then it is one of them, whatever it says."""
    before, behind = text[:start].rstrip(), text[end:].lstrip()
    return before.endswith(('",', "\u201d,", '" or', '" and')) or behind.startswith(
        (', "', ", \u201c", 'or "', 'and "')
    )


def _marked(inner: str, catalogue: Catalogue, otherwise: str) -> str:
    """Return the symbol of code or of a quote: a tool, where it is the name of one and nothing else."""
    name = inner.removesuffix("()")
    if not re.fullmatch(r"[A-Za-z][\w.:/-]{0,120}", name):
        return otherwise
    known = catalogue.knows(name) if otherwise == "CODE" or catalogue.closed else catalogue.is_tool(name)
    known = known and (otherwise == "CODE" or not name.islower() or not name.isalpha())  # "answer" is a word, too
    return "TOOL" if known or (otherwise == "CODE" and catalogue.is_tool(name)) else otherwise


def _word(inner: str, start: int, end: int, catalogue: Catalogue) -> list[Token]:
    low = inner.lower().replace("\u2019", "'")
    parts = CONTRACTIONS.get(low)
    if parts:
        return [Token("W", part, start, end) for part in parts]
    name = inner.removesuffix("'s")
    if catalogue.is_tool(name) and (looks_like_name(name) or "." in name or "-" in name):
        return [Token("TOOL", catalogue.means(name), start, end)]
    if catalogue.closed and looks_like_name(inner) and "_" in inner and inner.islower():
        return [Token("ARGNAME", inner, start, end)]
    if _FILE.fullmatch(inner):
        return [Token("FILE", inner, start, end)]
    if inner.lower() in SHELL and inner.islower():
        return [Token("LITERAL", inner, start, end)]
    return [Token("W", inner, start, end)]


def _phrase(raw: Sequence[Token], position: int) -> tuple[Token, int]:
    """Return the longest phrase of the lexicon that begins here, or the token as it is, and how many it takes."""
    first = raw[position]
    words: list[str] = []
    found, length = "", 0
    for token in raw[position : position + LONGEST]:
        if token.symbol not in ("W", "SEP", "LITERAL") or (token.symbol == "SEP" and token.text == ","):
            break
        words.append(token.low)
        symbol = LEXICON.get(tuple(words))
        if symbol and (token.symbol != "LITERAL" or len(words) > 1):
            found, length = symbol, len(words)
    if found:
        last = raw[position + length - 1]
        return Token(found, " ".join(words[:length]), first.start, last.end), length
    owner = LEXICON.get((first.low.removesuffix("'s"),), "") if first.low.endswith("'s") else ""
    if first.symbol == "W" and owner in {"PERSON", "SUPERIOR"}:
        return replace(first, symbol=owner), 1
    if first.symbol == "W" and first.low in COUNTED:
        return replace(first, symbol="NUM"), 1
    if first.symbol == "W" and first.low in FILLERS:
        return replace(first, symbol=""), 1
    return first, 1


def _resolved(tokens: list[Token], before: Antecedent) -> list[Token]:
    """Put a tool in the place of a pronoun, where there is exactly one to mean: in this sentence, or in the last."""
    named: list[str] = []
    found: list[Token] = []
    for number, token in enumerate(tokens):
        if _is_owner(tokens, number) and len(named) == 1:
            found.append(replace(token, symbol="TOOL", text=named[0], inherited=True))
            continue
        if token.symbol in {"PRONOUN", "THISTOOL"}:
            known = named or before.tools
            if len(known) == 1 and not (token.symbol == "PRONOUN" and _is_object(tokens, number)):
                doubtful = not _goes_on_with(tokens, number) if named else not before.is_topic
                guessed = token.symbol == "PRONOUN" and doubtful and not _is_behind(tokens, number)
                found.append(replace(token, symbol="TOOL", text=known[0], inherited=True, guessed=guessed))
            else:
                found.append(replace(token, symbol="W"))
            continue
        if token.symbol == "TOOL" and token.text not in named:
            named.append(token.text)
        found.append(token)
    return found


def _is_owner(tokens: Sequence[Token], number: int) -> bool:
    """Whether a word says whose an argument is: "its `path`"."""
    following = tokens[number + 1].symbol if number + 1 < len(tokens) else ""
    return tokens[number].low == "its" and following in {"CODE", "ARGNAME"}


def _is_behind(tokens: Sequence[Token], number: int) -> bool:
    """Whether a pronoun is what something comes after: "no tool may be used after it" is about a call."""
    return number > 0 and tokens[number - 1].symbol == "AFTER"


def _goes_on_with(tokens: Sequence[Token], number: int) -> bool:
    """Whether a pronoun means the tool that begins its sentence: "X is slow; it needs", "X is theirs; never use it"."""
    if tokens[0].symbol != "TOOL" or not any(token.symbol == "CUT" for token in tokens[:number]):
        return False
    following = tokens[number + 1].symbol if number + 1 < len(tokens) else ""
    begins = tokens[number - 1].symbol == "CUT" and following in {"NEED", "DUTY", "BAN", "BE", "MAY"}
    return begins or (tokens[number - 1].symbol == "CALL" and number + 1 == len(tokens))


def _is_object(tokens: Sequence[Token], number: int) -> bool:
    """Whether a pronoun is what something is done to, and no tool that is called: "lock it", "change it"."""
    previous = tokens[number - 1] if number else None
    following = tokens[number + 1].low if number + 1 < len(tokens) else ""
    done = previous is not None and previous.symbol in {"W", "AGREE"} and previous.low in VERBS
    return done or following in {"with", "using", "via"}


def _named(tokens: list[Token], catalogue: Catalogue, before: Antecedent) -> list[Token]:
    """Find tools by how they are used, and names of others by their capitals.

    A tool called "search" is meant where it is called, or where "tool" stands behind it.
    """
    found = list(tokens)
    solid = [number for number, token in enumerate(tokens) if token.symbol]
    for place, number in enumerate(solid):
        token = tokens[number]
        before_it = found[solid[place - 1]].symbol if place else ""
        if before_it in {"CALL", "RUN"} and token.symbol in _WORDS and token.text in catalogue.names:
            found[number] = replace(token, symbol="TOOL")
            continue
        beside = tokens[solid[place + 1]].symbol if place + 1 < len(solid) else ""
        if token.symbol == "QUOTE" and _is_named(token, before_it, beside, catalogue):
            found[number] = replace(token, symbol="TOOL", text=catalogue.means(token.text))
        if token.symbol not in {"W", "CODE"} or not re.fullmatch(r"[A-Za-z][\w.-]{0,120}", token.text):
            continue
        previous = found[solid[place - 1]] if place else None
        following = tokens[solid[place + 1]] if place + 1 < len(solid) else None
        called = previous is not None and (
            previous.symbol in {"CALL", "RUN", "CALLN", "TOOLWORD"}
            or (previous.symbol == "SEP" and place > 1 and found[solid[place - 2]].symbol == "TOOL")
        )
        labelled = (
            following is not None
            and following.symbol == "TOOLWORD"
            and following.low in {"tool", "function", "tools", "command"}
        )
        # What the sentence before was about is meant again: "The extract tool is slow. Do not repeat an extract query."
        labelled = labelled or (catalogue.closed and token.text.islower() and token.text in before.tools)
        is_open = not catalogue.closed
        listed = called and _goes_on(tokens, solid, place)
        if is_open and called and (looks_like_name(token.text) or listed or _is_called_code(token, previous)):
            found[number] = replace(token, symbol="TOOL")
        elif token.symbol == "CODE":
            continue
        elif catalogue.knows(token.text) and (called or labelled or _is_subject(number, following)):
            found[number] = replace(token, symbol="TOOL", text=catalogue.means(token.text))
        elif labelled and called and is_open and token.text.islower() and token.low not in _NOT_NAMES:
            found[number] = replace(token, symbol="TOOL")
        elif (
            token.text[0].isupper()
            and not token.text.isupper()
            and place
            and (previous is not None and previous.symbol != "CUT")
        ):
            found[number] = replace(token, symbol="NAME")
    return found


def _is_named(token: Token, before: str, behind: str, catalogue: Catalogue) -> bool:
    """Whether a word in quotation marks is a tool that is called, or called a tool."""
    return catalogue.knows(token.text) and (before in {"CALL", "RUN", "TOOLWORD"} or behind == "TOOLWORD")


_WORDS: Final = frozenset(("CLOSE", "STOP", "ANSWER", "REPLY", "SAY", "ASK", "OPEN", "DISCLOSE", "KEEP", "SKIP", "SET"))


def _is_subject(number: int, following: Token | None) -> bool:
    """Whether a word begins a sentence about itself: "bash must not be called"; "the answer must ..." is no tool."""
    return number == 0 and following is not None and following.symbol in {"BE", "BAN", "DUTY", "MAY", "NEED"}


def _goes_on(tokens: Sequence[Token], solid: Sequence[int], place: int) -> bool:
    """Whether a name stands behind a word and an "and", as in "the tools search and fetch_page"."""
    following = [tokens[number] for number in solid[place + 1 : place + 3]]
    return [token.symbol for token in following] == ["SEP", "TOOL"] and tokens[solid[place - 1]].low == "tools"


def _is_called_code(token: Token, previous: Token | None) -> bool:
    """Whether code is called: what is run or used may also be a command."""
    return token.symbol == "CODE" and previous is not None and previous.low.startswith(("call", "invok"))


_NOT_NAMES: Final = word_set(
    "any this that each every one same other right appropriate available following no single only which another "
    "external all these those correct wrong such many more new own different relevant necessary and or at two three "
    "few several make making both use using call calling provided built-in given"
)
