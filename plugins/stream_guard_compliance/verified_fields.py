"""What a proposal says, held against its quote: order, yes, numbers, arguments, texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from stream_guard_compliance.proposals import Proposal, RefusedProposalError
from stream_guard_compliance.proposed_frames import Check
from stream_guard_compliance.reading.catalogue import Catalogue, words_of
from stream_guard_compliance.reading.claims import asks_for_yes, is_bounded
from stream_guard_compliance.reading.commands import NAMES as COMMAND_NAMES
from stream_guard_compliance.reading.commands import is_command
from stream_guard_compliance.reading.composed.actions import alike, is_described, root, verb_and_things
from stream_guard_compliance.reading.composed.bounds import number_of
from stream_guard_compliance.reading.text_forms import NAMES as FORM_NAMES
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.verbs import VERBS
from stream_guard_compliance.reading.word_lists import word_set

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
