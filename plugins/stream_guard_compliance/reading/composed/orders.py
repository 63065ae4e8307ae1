"""Orders of actions: one before another, a yes before one, one that must follow, one that is forbidden or the last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stream_guard_compliance.reading.catalogue import Catalogue
from stream_guard_compliance.reading.composed.acts import Act, act_of
from stream_guard_compliance.reading.composed.bounds import MONEY, bound_of
from stream_guard_compliance.reading.composed.segments import Parts, Segment
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.values import Reading
from stream_guard_compliance.reading.word_lists import word_set

_ENDS: Final = word_set(
    "end ends ending ended finish finishes conclude concludes concluded close closes closed final last"
)
_BEGINS: Final = word_set("begin begins start starts beginning first")


def read_order(parts: Parts, catalogue: Catalogue) -> Reading | None:  # noqa: PLR0911  # one for each sort
    """Return what a statement says about two actions, or about an action and a yes."""
    if not parts.others:
        return _approved(parts, catalogue)
    other = parts.others[0]
    if len(parts.others) != 1 or (other.relation == "if" and parts.polarity != "only"):
        return None
    if other.relation == "done":
        return _finish(parts, catalogue)
    if other.relation == "with":
        return _when_calling(parts, catalogue)
    main, beside = act_of(parts.main.tokens, catalogue), act_of(other.tokens, catalogue)
    if beside.described and any(token.low in {"answering", "responding", "replying"} for token in other.tokens):
        return None  # a text, whatever tools are called
    if (main.quotes and not main.yes) or (beside.quotes and not beside.yes):
        return None  # what is said is no call, whatever its verb
    return _of_two(parts, other, main, beside)


def _of_two(parts: Parts, other: Segment, main: Act, beside: Act) -> Reading | None:
    """Return what is said of two actions."""
    if other.relation == "if":  # "only call X when the user has agreed"
        return _gate(main, beside) if beside.yes else None
    if other.relation == "unless" or (parts.polarity == "only" and other.relation == "after"):
        # "Use X until Y" and "do X without asking" make nothing wait.
        waits = parts.polarity == "not" or other.relation == "after" or other.word in _ONLY_AFTER
        waits = waits or (parts.polarity == "only" and other.word in {"that", "which"})
        return _gate(main, beside) if waits else None
    if parts.polarity == "not":
        return _never(main, beside, other)
    if parts.polarity == "must":
        return _must(main, beside, other, parts)
    return None


def _finish(parts: Parts, catalogue: Catalogue) -> Reading | None:
    """When the work is done, a call has to come."""
    main = act_of(parts.main.tokens, catalogue)
    if parts.polarity != "must" or not main.tools or main.described:
        return None
    return Reading("require_tool", main.tools, either=main.either, shape="finish", frame="composed: the last call")


def _when_calling(parts: Parts, catalogue: Catalogue) -> Reading | None:
    """When one tool is called, another comes first, a person is asked first, or no other stands beside it."""
    main, beside = act_of(parts.main.tokens, catalogue), act_of(parts.others[0].tokens, catalogue)
    first = any(token.symbol == "FIRST" for token in parts.main.tokens)
    if parts.polarity == "must" and first:
        return _confirm(beside, main) if main.yes and not beside.left else _before(main, beside)
    if parts.polarity == "must" and any(token.low in {"also", "afterwards"} for token in parts.main.tokens):
        return _follows(beside, main)  # "whenever you call X, also call Y"
    if parts.polarity == "not" and main.any_tool and not main.left and beside.tools:
        return Reading("limit", beside.tools, shape="alone", frame="composed: alone")
    return None


def _approved(parts: Parts, catalogue: Catalogue) -> Reading | None:
    """What a person has to agree to: "any transfer above 500 EUR must be approved by the client"."""
    tokens = parts.main.tokens
    at = next((number for number, token in enumerate(tokens) if token.symbol == "AGREE"), len(tokens))
    behind = tokens[at + 1 : at + 5]
    agreed = behind[:1] != () and behind[0].low == "by" and any(one.symbol in {"PERSON", "SUPERIOR"} for one in behind)
    if parts.polarity != "must" or not agreed:
        return None
    bound = bound_of(tokens, "not")
    spoken = [token for token in tokens if token.symbol not in _AMOUNTS and token.low not in MONEY]
    main = act_of(spoken, catalogue)
    return replace(_confirm(main, main), over=bound.most if bound else None) if main.tools and not main.left else None


_AMOUNTS: Final = frozenset(("NUM", "AMOUNT", "MORETHAN", "AGREE", "PERSON", "SUPERIOR"))


_ONLY_AFTER: Final = frozenset(
    ("only after", "only once", "only upon", "only with", "not until", "require", "requires", "need", "needs")
)
_ABOUT_YES: Final = word_set(
    "plan plans draft design changes change details summary list proposal configuration time terms amount it action "
    "proceed"
)


def _gate(restricted: Act, needed: Act) -> Reading | None:
    """One action has to wait: for a call, or for a yes; or every call has to wait for one."""
    if restricted.any_tool and not restricted.left and needed.tools and not needed.narrowed and not needed.yes:
        return _first(needed)
    if not restricted.tools or restricted.left or (needed.narrowed and set(needed.left) - _ABOUT_YES):
        return None
    if needed.yes and not (needed.tools and not needed.described):
        return _confirm(restricted, needed)
    return _before(needed, restricted)


def _confirm(restricted: Act, needed: Act) -> Reading:
    guess = restricted.described
    return Reading("confirm_before", restricted.tools, by=needed.by, guess=guess, frame="composed: a yes first")


def _before(first: Act, second: Act) -> Reading | None:
    """Return that one call comes before another; what comes first may be described in more words."""
    if not first.tools or not second.tools or second.left or set(first.tools) & set(second.tools):
        return None
    if first.narrowed and not first.about_one:
        return None
    either = first.either or first.described
    return Reading(
        "order",
        (*first.tools, *second.tools),
        first=first.tools,
        second=second.tools,
        either=either,
        guess=first.described or second.described,
        frame="composed: one before another",
    )


def _never(main: Act, beside: Act, other: Segment) -> Reading | None:
    """A ban that another action lifts, or brings."""
    if other.relation == "before":
        return _gate(main, beside)
    if other.relation == "together":
        alone = bool(main.tools) and not main.left and not beside.tools and beside.any_tool
        return (
            Reading("limit", main.tools, shape="alone", guess=main.described, frame="composed: alone")
            if alone
            else None
        )
    if other.relation == "after" and main.tools and beside.tools and not main.left and not beside.left:
        if set(main.tools) & set(beside.tools):
            return None
        items = (*beside.tools, *main.tools)
        guess = main.described or beside.described
        return Reading(
            "order",
            items,
            first=beside.tools,
            second=main.tools,
            shape="not_after",
            soon=other.word.startswith(("right", "immediate", "direct")),
            guess=guess,
            frame="composed: not after",
        )
    if other.relation == "after" and main.any_tool and beside.tools and not beside.left:
        return Reading("order", beside.tools, first=beside.tools, shape="nothing_after", frame="composed: not after")
    return None


def _must(main: Act, beside: Act, other: Segment, parts: Parts) -> Reading | None:  # noqa: PLR0911  # one for each relation
    """A duty before or after another action."""
    if other.relation == "before":
        if main.yes and _changes_anything(other.tokens):
            return Reading("confirm_before", (), shape="acts", guess=True, frame="composed: a yes first")
        plural = any(token.symbol == "TOOLCALL" or token.low == "tools" for token in other.tokens)
        if (beside.any_tool or (plural and not beside.tools)) and _explains(parts.main.tokens):
            return Reading("require_output", ("text",), shape="say_before", frame="composed: said with a call")
        goes_on = any(token.symbol == "PROCEED" or token.low in _GOES_ON for token in other.tokens)
        if (beside.any_tool or goes_on) and _waits(parts.main.tokens):
            return Reading("limit", ("parallel<=1",), frame="composed: calls at a time")
        closes = any(token.symbol == "CLOSE" for token in parts.main.tokens)  # what was opened before
        if beside.any_tool and main.tools and not main.narrowed and not closes:
            return _first(main)
        if main.yes and beside.tools and not beside.left and not (main.tools and not main.described):
            return _confirm(beside, main)
        return _before(main, beside)
    if other.relation in {"after", "followed"}:
        first, then = (beside, main) if other.relation == "after" else (main, beside)
        return _follows(first, then)
    if other.relation == "preceded":
        return _before(beside, main)
    return None


def _changes_anything(tokens: Sequence[Token]) -> bool:
    """Whether whatever changes something is meant: "any action that updates the database"."""
    words = {word for token in tokens for word in token.low.split()}
    acts = any(token.symbol == "PROCEED" for token in tokens) or bool(words & _DEEDS)
    root_words = {word.removesuffix("s").removesuffix("e").removesuffix("ing") for word in words}
    return acts and bool(root_words & _CHANGES) and not any(token.symbol == "TOOL" for token in tokens)


_DEEDS: Final = word_set("action actions operation operations step steps request requests")
_CHANGES: Final = frozenset(("updat", "chang", "modify", "modifi", "alter", "writ", "affect"))
_GOES_ON: Final = word_set("proceeding continuing next")
_EXPLAINS: Final = word_set(
    "explain explaining explanation tell telling state stating describe describing announce inform say saying "
    "summarize preamble"
)


def _explains(tokens: Sequence[Token]) -> bool:
    return any(token.low in _EXPLAINS for token in tokens)


def _waits(tokens: Sequence[Token]) -> bool:
    """Whether the result of a call is waited for."""
    words = {word for token in tokens for word in token.low.split()}
    return bool(words & {"wait", "await"}) and bool(words & {"result", "results", "response", "output", "outcome"})


def _follows(first: Act, then: Act) -> Reading | None:
    """After one call another has to come before the session ends."""
    if not first.tools or not then.tools or first.left or then.narrowed or set(first.tools) & set(then.tools):
        return None
    return Reading(
        "order",
        (*first.tools, *then.tools),
        first=first.tools,
        second=then.tools,
        follows=True,
        either=then.either or then.described,
        guess=first.described or then.described,
        frame="composed: one after another",
    )


def read_place(parts: Parts, catalogue: Catalogue) -> Reading | None:  # noqa: PLR0911  # one for each place
    """Return that a call is the first or the last of a session."""
    every = parts.polarity == "fact" and any(token.symbol == "EACH" for token in parts.main.tokens[:1])
    if parts.others or (parts.polarity != "must" and not every):
        return None
    main = act_of(parts.main.tokens, catalogue)
    if not main.tools or main.described or len(main.tools) > 3 or main.narrowed or main.quotes:
        return None  # what a text ends with is said, not called
    if _is_alone(parts.main.tokens):
        return Reading("limit", main.tools, shape="alone", frame="composed: alone") if _is_one(main) else None
    left = {word for word in main.left if word not in _ENDS | _BEGINS | _PLACES}
    if left:
        return None
    if _is_place(parts.main.tokens, _ENDS) and not _closes_a_thing(parts.main.tokens):
        return Reading("require_tool", main.tools, either=main.either, shape="finish", frame="composed: the last call")
    if _is_place(parts.main.tokens, _BEGINS):
        return _first(main)
    return None


def _closes_a_thing(tokens: Sequence[Token]) -> bool:
    """Whether something else than a session is closed with a call: "the ticket must be closed with X"."""
    done = any(token.low in {"closed", "ended", "concluded"} for token in tokens)
    return done and not any(word in _SESSIONS for token in tokens for word in token.low.split())


_SESSIONS: Final = word_set("call conversation session chat interaction shift lesson visit task run turn")


def _first(act: Act) -> Reading:
    """One of these calls is the first of a session."""
    return Reading(
        "order",
        act.tools,
        first=act.tools,
        either=True,
        shape="first_action",
        guess=act.described,
        frame="composed: first",
    )


def _is_place(tokens: Sequence[Token], words: frozenset[str]) -> bool:
    """Whether a word says where in a session a call stands: as a verb, or before "step", "action", "call"."""
    for at, token in enumerate(tokens):
        if token.symbol in {"FIRST", "FIRSTACT", "END"} and set(token.low.split()) & words:
            return True
        following = tokens[at + 1].low if at + 1 < len(tokens) else ""
        if token.low in words and (token.symbol in {"OPEN", "CLOSE"} or following in _STEPS):
            return True
    return False


_STEPS: Final = word_set("step action call thing tool move message")
_PLACES: Final = word_set("very turn turns work job answer answers exactly with by every shift lesson run visit ticket")


def read_which(parts: Parts, catalogue: Catalogue) -> Reading | None:
    """Return which tools must not be called: some, or all but some."""
    if parts.others or parts.polarity not in {"only", "not"}:
        return None
    return _only(parts, catalogue) if parts.polarity == "only" else _ban(parts, catalogue)


def _only(parts: Parts, catalogue: Catalogue) -> Reading | None:
    main = act_of(parts.main.tokens, catalogue)
    about = any(token.symbol == "TOOLWORD" for token in parts.main.tokens)
    few = len(main.tools) > 1 and not main.narrowed  # a list says which tools an adjective before it means
    only = next((at for at, token in enumerate(parts.main.tokens) if token.symbol == "ONLY"), 0)
    if any(token.symbol == "TOOL" for token in parts.main.tokens[:only]):
        return None  # "X may only be used for ..." says when, and not which
    if not main.tools or main.described or (main.left and not few) or not about or _counts(parts.main.tokens):
        return None
    return Reading("allow_only", main.tools, frame=_WHICH)


_WHICH: Final = "composed: which tools"


def _ban(parts: Parts, catalogue: Catalogue) -> Reading | None:
    main = act_of(parts.main.tokens, catalogue)
    symbols = [token.symbol for token in parts.main.tokens if token.symbol]
    if "BAN" in symbols and {"DUTY", "TOOL"} <= set(symbols[: symbols.index("BAN")]):
        return None  # "it must be done with X, never with Y"
    if any(token.symbol == "OTHERTHAN" or token.low in {"than", "except", "besides"} for token in parts.main.tokens):
        about = any(token.symbol == "TOOLWORD" for token in parts.main.tokens)
        named = bool(main.tools) and not main.described and not set(main.left) - _BESIDES and about
        return Reading("allow_only", main.tools, frame=_WHICH) if named else None
    if _is_alone(parts.main.tokens):
        return Reading("limit", main.tools, shape="alone", frame="composed: alone") if _is_one(main) else None
    together = [token for token in parts.main.tokens if token.symbol in {"TURN", "ATONCE"}]
    left = set(main.left) - {token.low for token in together}
    if len(main.tools) == 2 and not main.described and not left and _is_together(parts.main.tokens):
        return Reading("limit", main.tools, shape="apart", frame="composed: not together")
    if not main.tools or main.left or _counts(parts.main.tokens):
        return None
    return Reading("forbid_tool", main.tools, guess=main.described, frame=_WHICH)


_BESIDES: Final = frozenset(("other than", "besides", "apart from", "except for the", "any other than", "but", "than"))


def _is_together(tokens: Sequence[Token]) -> bool:
    joined = any(token.low in {"and", "with"} for token in tokens)
    return joined and any(token.symbol in {"TURN", "ATONCE"} for token in tokens)


def _is_alone(tokens: Sequence[Token]) -> bool:
    return any(token.symbol == "ALONE" for token in tokens)


def _is_one(act: Act) -> bool:
    return bool(act.tools) and not act.described and not act.left


_COUNTING: Final = frozenset(
    ("MORETHAN", "ATMOST", "FEWER", "MULTIPLE", "TIMES", "ONCE", "ATONCE", "TURN", "SESSION", "SAME", "AGAIN", "ALONE")
)


def _counts(tokens: Sequence[Token]) -> bool:
    return any(token.symbol in _COUNTING or token.symbol in _MORE for token in tokens)


_MORE: Final = frozenset(("ASK", "QUOTE", "VIA", "NUM", "SKIP", "FIRST", "RETRY"))
