"""The reader of composed statements: what their parts say together of orders, of counts and of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from stream_guard_compliance.reading.catalogue import Catalogue, words_of
from stream_guard_compliance.reading.clauses import is_imperative, opens_leading
from stream_guard_compliance.reading.composed.acts import (
    Act,
    Parts,
    Segment,
    act_of,
    is_narrowed_behind,
    parts_of,
    until_reason,
)
from stream_guard_compliance.reading.composed.arguments import (
    MONEY,
    Bound,
    bound_of,
    number_of,
    read_argument,
    read_missing,
    read_needed,
    read_origin,
    read_paths,
)
from stream_guard_compliance.reading.symbols import BOTH, FORM_NAMES, LEXICON, VERBS
from stream_guard_compliance.reading.values import TEXT_WITH_CALLS, Reading, Token, word_set

# Orders of actions: one before another, a yes before one, one that must follow, one that is forbidden or the last.

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
    return replace(_ordered(first, second, "one before another"), either=first.either or first.described)


def _ordered(first: Act, then: Act, how: str) -> Reading:
    """Return that two actions stand in an order."""
    items, guess = (*first.tools, *then.tools), first.described or then.described
    return Reading("order", items, first=first.tools, second=then.tools, guess=guess, frame=f"composed: {how}")


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
        soon = other.word.startswith(("right", "immediate", "direct"))
        return replace(_ordered(beside, main, "not after"), shape="not_after", soon=soon)
    if other.relation == "after" and main.any_tool and beside.tools and not beside.left:
        return Reading("order", beside.tools, first=beside.tools, shape="nothing_after", frame="composed: not after")
    return None


def _must(main: Act, beside: Act, other: Segment, parts: Parts) -> Reading | None:  # noqa: PLR0911  # one for each relation
    """A duty before or after another action."""
    if other.relation == "before":
        if main.yes and _changes_anything(other.tokens):
            return Reading("confirm_before", (), shape="acts", guess=True, frame="composed: a yes first")
        plural = any(token.symbol == "TOOLCALL" or token.low == "tools" for token in other.tokens)
        explains = any(token.low in _EXPLAINS for token in parts.main.tokens)
        if explains and (beside.any_tool or (plural and not beside.tools)):
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


def _waits(tokens: Sequence[Token]) -> bool:
    """Whether the result of a call is waited for."""
    words = {word for token in tokens for word in token.low.split()}
    return bool(words & {"wait", "await"}) and bool(words & {"result", "results", "response", "output", "outcome"})


def _follows(first: Act, then: Act) -> Reading | None:
    """After one call another has to come before the session ends."""
    if not first.tools or not then.tools or first.left or then.narrowed or set(first.tools) & set(then.tools):
        return None
    either = then.either or then.described
    return replace(_ordered(first, then, "one after another"), follows=True, either=either)


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


# How often: calls in a session, in a response, since the user spoke, and the length of answers.

_UNITS: Final = {"w": "words", "c": "chars", "s": "sentences", "p": "paragraphs", "l": "lines"}
_EXCHANGES: Final = word_set("question request query task prompt")  # "per question": since the user spoke
_FRAMES: Final = word_set(
    "limit limited maximum max most yourself total number more than fewer less short concise brief text output keep "
    "stay per long length reply answer response responses answers messages message contain include have make send "
    "allowed you your single between from enter issue emit execute "
)
_SPEAKING: Final = word_set("text responses answers say speak")
_REPLIES: Final = word_set("reply response message answer")  # "per reply"
_COUNT_SYMBOLS: Final = frozenset(
    (
        "NUM",
        "TIMES",
        "ONCE",
        "PARALLEL",
        "MULTIPLE",
        "ATMOST",
        "MORETHAN",
        "FEWER",
        "ORFEWER",
        "TURN",
        "SESSION",
        "ATONCE",
        "EXACTLY",
        "UNIT",
    )
)


def read_count(parts: Parts, catalogue: Catalogue) -> Reading | None:  # noqa: PLR0911  # one for each sort
    """Return how often something may be done, or how long an answer may be."""
    tokens = parts.main.tokens
    if parts.others or (parts.polarity == "fact" and not _is_bare_bound(tokens) and not _each_answer(tokens)):
        return None  # "at most" bounds a permission too
    bound = _bound(tokens, parts) or _one_by_one(tokens, parts)
    symbols = {token.symbol for token in tokens}
    if bound is None or bound.most is None or (bound.least is not None and "UNIT" not in symbols):
        return None
    if any(token.symbol == "NUM" and not token.low[:1].isalnum() for token in tokens):
        return None  # money is no number of calls
    if "UNIT" in symbols:
        return _length(tokens, bound, catalogue)
    if "WINDOW" in symbols:
        return None
    if "QUESTION" in symbols and (symbols & {"ASK", "TURN"}):
        asked = Reading("limit", (f"questions<={_most(bound)}",), frame="composed: questions")
        return asked if "SESSION" not in symbols else None
    return _calls(tokens, bound, catalogue)


def _bound(tokens: Sequence[Token], parts: Parts) -> Bound | None:
    """Return the bound; "only one", "exactly one" and "one at a time" are bounds too."""
    found = bound_of(tokens, parts.polarity)
    if found is not None:
        return found
    solid = [token for token in tokens if token.symbol]
    numbers = [number for token in solid if (number := number_of(token)) is not None]
    per_turn = any(token.symbol in {"TURN", "ATONCE", "SESSION"} for token in solid) or _each_answer(solid)
    single = [token.low for token in solid[-2:]] == ["single", "time"]
    per_turn, says_only = per_turn or single, single or any(token.symbol in {"ONLY", "EXACTLY"} for token in solid)
    twice = any(token.low in {"twice", "thrice"} for token in solid)
    if len(numbers) != 1 or not (per_turn or (twice and parts.polarity == "not")):
        return None
    if parts.polarity == "not":  # "never two in one turn", "never twice"
        return Bound(most=numbers[0] - 1) if numbers[0] > 1 else None
    bound = parts.polarity in {"must", "only", "may"} or _is_bare_bound(tokens)
    return Bound(most=numbers[0]) if bound and (says_only or numbers == [1.0]) else None


def _one_by_one(tokens: Sequence[Token], parts: Parts) -> Bound | None:
    """Return that one is the most where several at once are forbidden: "no parallel calls"."""
    symbols = {token.symbol for token in tokens}
    several = "PARALLEL" in symbols or ("MULTIPLE" in symbols and bool(symbols & {"TURN", "ATONCE"}))
    return Bound(most=1.0) if parts.polarity == "not" and several and "SAME" not in symbols else None


def _is_bare_bound(tokens: Sequence[Token]) -> bool:
    """Whether a bound stands without a verb: "At most two sentences per reply", "One tool per message"."""
    solid = [token.symbol for token in tokens if token.symbol]
    if solid == ["ATMOST", "NUM", "UNIT"]:
        return True  # "Under 25 words."
    one = any(token.low in {"one", "1"} for token in tokens[:1]) and bool({"TURN", "ATONCE"} & set(solid))
    begins = solid[:1] in (["NUM"], ["ATMOST"], ["ONLY"]) and ("ATMOST" in solid or one)
    return begins and bool({"TURN", "SESSION", "ATONCE"} & set(solid)) and not {"BE", "MAY", "SAME"} & set(solid)


def _each_answer(tokens: Sequence[Token]) -> bool:
    """Whether every answer is meant: "each response has exactly one tool call"."""
    first = [token for token in tokens if token.symbol][:2]
    return bool(first) and first[-1 if first[0].symbol == "EACH" else 0].symbol == "ANSWER"


def _most(bound: Bound) -> int:
    return int(bound.most or 0) - bound.strict


def _length(tokens: Sequence[Token], bound: Bound, catalogue: Catalogue) -> Reading | None:
    unit = next(token.low for token in tokens if token.symbol == "UNIT")[0]
    act = act_of([token for token in tokens if token.symbol not in _COUNT_SYMBOLS], catalogue)
    if unit not in _UNITS or (act.tools and not act.described) or set(act.left) - _FRAMES:
        return None
    about = any(
        token.symbol in {"ANSWER", "REPLY"} or token.low in _SPEAKING or token.low.split()[-1] in _REPLIES
        for token in tokens
        if token.text
    )
    written = unit in {"s", "p"} and any(token.low == "write" for token in tokens)
    alone = [token.symbol for token in tokens if token.symbol] == ["ATMOST", "NUM", "UNIT"]
    if not about and not written and not alone:
        return None
    return Reading("limit", (f"{_UNITS[unit]}<={_most(bound)}",), frame="composed: the length of an answer")


def _hands_off(tokens: Sequence[Token]) -> bool:
    return any(token.symbol == "CALL" and token.low.startswith("hand") for token in tokens)


def _calls(tokens: Sequence[Token], bound: Bound, catalogue: Catalogue) -> Reading | None:
    rest = [token for token in tokens if token.symbol not in _COUNT_SYMBOLS]
    act = act_of(rest, catalogue)
    if not act.tools and any(token.symbol == "AGENTWORD" for token in tokens) and _hands_off(tokens):
        act = Act(tuple(catalogue.handoffs), described=True)
    most = _most(bound)
    turn = next((token for token in tokens if token.symbol in {"TURN", "ATONCE", "PARALLEL"}), None)
    if turn is None and _each_answer(tokens):
        turn = tokens[0]
    exchange = turn is not None and turn.low.split()[-1] in _EXCHANGES
    if not act.tools:
        called = any(token.symbol in {"TOOLCALL", "TOOLWORD"} or token.low == "actions" for token in tokens)
        same = any(token.symbol == "SAME" for token in tokens)
        if called and same and turn is None and catalogue.closed and not set(act.left) - _FRAMES - {"same"}:
            items = tuple(f"{tool}<={most}" for tool in catalogue.names)
            return Reading("limit", items, frame="composed: calls in a session") if most > 0 else None
        if called and turn is not None and not exchange and not set(act.left) - _FRAMES and not same and most > 0:
            return Reading("limit", (f"parallel<={most}",), frame="composed: calls at a time")
        return None
    if set(act.left) - _FRAMES or most < 1:
        return None
    items = tuple(f"{tool}<={most}" for tool in act.tools)
    if turn is None or exchange:
        shape = "per_exchange" if exchange else ""
        return Reading("limit", items, shape=shape, guess=act.described, frame="composed: calls in a session")  # type: ignore[arg-type]
    return Reading("limit", items, shape="per_turn", guess=act.described, frame="composed: calls in a turn")


# A statement in the passive, read as the order that it is: "Card numbers must not be shown" as "do not show them".

_MODAL: Final = frozenset(("DUTY", "MAY", "BAN", "BE"))
_FORMS: Final = (
    "sent:send made:make written:write shown:show given:give taken:take found:find paid:pay bought:buy sold:sell "
    "told:tell run:run built:build kept:keep left:leave held:hold spoken:speak chosen:choose drawn:draw read:read "
    "put:put set:set cut:cut said:say begun:begin done:do hidden:hide thrown:throw sought:seek brought:bring "
    "overwritten:overwrite withheld:withhold undone:undo shut:shut"
)
_IRREGULAR: Final = {form: verb for form, _, verb in (pair.partition(":") for pair in _FORMS.split())}
_NOT_SUBJECTS: Final = frozenset(("YOU", "PERSON", "IF", "UNLESS", "ONCE", "AFTER", "BEFORE", "BAN", "DUTY", "ONLY"))
_STATES: Final = word_set("allowed permitted required supposed expected needed limited restricted prohibited based")


def activated(statement: Sequence[Token]) -> list[Token] | None:
    """Return a passive ban as an order about its subject; None where it is no passive, or forbids nothing."""
    solid = [number for number, token in enumerate(statement) if token.symbol]
    modals = [number for number in solid if statement[number].symbol in _MODAL]
    if not modals or modals[0] == solid[0] or statement[solid[0]].symbol in _NOT_SUBJECTS:
        return None
    start, end = modals[0], modals[0]
    while end < len(statement) and (statement[end].symbol in _MODAL or not statement[end].symbol):
        end += 1
    said = [token for token in statement[start:end] if token.symbol]
    symbols = {token.symbol for token in said}
    verb = base_of(statement[end]) if end < len(statement) else None
    if verb is None or not {"BE", "BAN"} <= symbols:
        return None  # what must be done may be somebody else's to do
    ban = next(token for token in said if token.symbol == "BAN")
    return [ban, verb, *statement[:start], *statement[end + 1 :]]


def base_of(token: Token) -> Token | None:
    """Return a participle as the verb that orders have; None where it is none."""
    low = token.low
    if low in _STATES or " " in low:
        return token if token.symbol in {"SAY", "DISCLOSE"} else None
    tries = (_IRREGULAR.get(low, ""), low.removesuffix("ed"), low.removesuffix("d"), low.removesuffix("ied") + "y")
    doubled = low.removesuffix("ed")[:-1]
    plain = low.endswith("ed") or low in _IRREGULAR
    verb = next((one for one in (*tries, doubled) if one in VERBS), "") if plain else ""
    if not verb:
        return None
    return replace(token, symbol=LEXICON.get((verb,), "W"), text=verb)


# What is said: texts that answers must not have or must have, and texts before or after a call.

_SPEAKS: Final = frozenset(("SAY", "REPLY", "DISCLOSE"))
_VERBS: Final = word_set(
    "say says saying send tell reply respond answer inform output write state display announce mention use include "
    "refer call quote repeat start starting begin beginning open end finish sign close disclose reveal"
)
_STARTS: Final = word_set("start starts starting begin begins beginning open opening")
_SAID_LAST: Final = word_set("end ends ending finish finishing close closing sign conclude")
_WRITING: Final = word_set("write edit create file files patch replace insert document code notebook")
_WORDS: Final = word_set("word words phrase phrases term terms expression expressions sentence like")


def read_said(parts: Parts, catalogue: Catalogue) -> Reading | None:
    """Return what a statement says about texts."""
    tokens = parts.main.tokens
    if _is_apart(parts):
        return Reading("forbid_output", (TEXT_WITH_CALLS,), frame="composed: no text with a call")
    if parts.others:
        beside = len(parts.others) == 1 and not parts.of("if")
        return _said_beside(parts, catalogue) if beside else None
    if parts.polarity == "only" and _asks_by_tool(tokens):
        return Reading("forbid_output", ("question_end",), shape="form", frame="composed: forms of text")
    if parts.polarity == "not":
        return _forbidden(tokens, catalogue)
    if any(token.symbol == "SKIP" for token in [one for one in tokens if one.symbol][:2]):
        return _forms(tokens, catalogue)  # "leave out tables"
    return _required(tokens, catalogue) if parts.polarity in {"must", "only"} else None


def _asks_by_tool(tokens: Sequence[Token]) -> bool:
    """Whether questions are for a tool alone: "only ask the user questions with ask_user"."""
    asking = [token for token in tokens if token.symbol == "TOOL" and set(words_of(token.text)) & {"ask", "question"}]
    return len(asking) == 1 and any(token.symbol == "QUESTION" for token in tokens)


def _is_apart(parts: Parts) -> bool:
    """Whether what a response says and what it calls exclude each other: "if you call a tool, do not respond"."""
    tokens = parts.main.tokens
    if len(parts.others) == 1 and parts.polarity == "not" and parts.others[0].relation == "if":
        both = (*parts.others[0].tokens, *tokens)
        return _speaks_and_calls(both) and all(token.symbol in _ANSWER_OR_CALL for token in both)
    words = {token.low for token in tokens}
    at_once = any(token.symbol in {"TURN", "ATONCE"} for token in tokens) or bool(words & {"both", "either", "while"})
    apart = parts.polarity == "not" or bool(words & {"both", "either"})
    return not parts.others and apart and at_once and _speaks_and_calls(tokens)


def _speaks_and_calls(tokens: Sequence[Token]) -> bool:
    """Whether an answer and a call are meant."""
    symbols = {token.symbol for token in tokens}
    words = {word for token in tokens for word in token.low.split()}
    speaks = "REPLY" in symbols or bool(words & _TALKS)
    return speaks and (bool(symbols & {"TOOLCALL", "TOOLWORD"}) or "act" in words) and "TOOL" not in symbols


_TALKS: Final = word_set("speak speaks speaking talk talks talking text prose tell say")
_ANSWER_OR_CALL: Final = frozenset(
    (
        *("", "YOU", "KEEP", "CALL", "TOOLCALL", "TOOLWORD", "REPLY", "SAY", "PERSON", "SEP", "EACH", "ATONCE", "TURN"),
        *("BAN", "DUTY", "NO", "MAY"),
    )
)
_IN_JSON: Final = word_set(
    "return single object valid other text exactly one only following format structure raw strict string as in just "
    "plain output key keys field fields"
)


def _required(tokens: Sequence[Token], catalogue: Catalogue) -> Reading | None:
    """An answer that is JSON, or has a tag around it."""
    symbols = {token.symbol for token in tokens}
    speaks = bool(symbols & {"REPLY", "ANSWER"}) or any(token.low in {"output", "return"} for token in tokens[:3])
    act = act_of([token for token in tokens if token.symbol not in {"REPLY", "ANSWER", "QUOTE"}], catalogue)
    early = any(
        token.symbol in {"REPLY", "ANSWER", "SAY"} or token.low == "return"
        for token in [one for one in tokens if one.symbol][:3]
    )
    if (
        not speaks
        or not early
        or "TOOL" in symbols
        or act.narrowed
        or any(token.low in {"or", "final"} for token in tokens)
    ):
        return None
    if "JSON" in symbols and not {word for word in act.left if not word.isdigit()} - _IN_JSON:
        return Reading("require_output", ("json",), frame="composed: an answer in JSON")
    tags = tuple(token.text for token in tokens if token.text[:1] == "<" and token.text[-1:] == ">")
    wraps = any(token.low in {"wrap", "enclose", "put", "place", "enclosed", "wrapped"} for token in tokens)
    if len(tags) == 1 and wraps and symbols & {"ANSWER"}:
        return Reading("require_output", tags, frame="composed: an answer in tags")
    return None


def _said_beside(parts: Parts, catalogue: Catalogue) -> Reading | None:
    """A text before a call, or behind it; an answer that has to wait for a call."""
    other = parts.others[0]
    main, beside = act_of(parts.main.tokens, catalogue), act_of(other.tokens, catalogue)
    speaks = any(token.symbol in _SPEAKS or token.low in _VERBS for token in parts.main.tokens)
    if parts.polarity == "must" and main.quotes and speaks and not main.tools and beside.tools and not beside.left:
        if other.relation == "before":
            return Reading(
                "require_output", main.quotes, second=beside.tools, shape="say_first", frame="composed: said before"
            )
        if other.relation == "after":
            return Reading(
                "require_output", main.quotes, first=beside.tools, shape="say_after", frame="composed: said after"
            )
    if parts.polarity == "must" and other.relation == "followed" and main.quotes and speaks and not main.tools:
        if beside.tools and not beside.left and not beside.quotes:  # "say "One moment." and then call X"
            return Reading(
                "require_output", main.quotes, second=beside.tools, shape="say_first", frame="composed: said before"
            )
        return None
    if parts.polarity == "must" and other.relation == "followed" and main.tools and beside.quotes and not main.left:
        return Reading(
            "require_output", beside.quotes, first=main.tools, shape="say_after", frame="composed: said after"
        )
    return _answer_waits(parts, main, beside)


def _answer_waits(parts: Parts, main: Act, beside: Act) -> Reading | None:
    """No answer before a call: "call X before answering", "do not answer before X was called"."""
    other = parts.others[0]
    if other.relation != "before" and not (parts.polarity == "not" and other.relation == "unless"):
        return None
    answer, call, said = (main, beside, parts.main) if parts.polarity == "not" else (beside, main, other)
    answers = any(
        token.symbol == "REPLY" or token.low in {"answering", "responding", "replying"} for token in said.tokens
    )
    named = answer.tools and not answer.described
    if not answers or named or not call.tools or call.described or set(answer.left) - _ANSWERING:
        return None
    return Reading(
        "order", call.tools, first=call.tools, either=True, shape="answer_after", frame="composed: no answer before"
    )


_ANSWERING: Final = word_set(
    "answer answering respond responding reply replying question questions directly chat final"
)


def _forbidden(tokens: Sequence[Token], catalogue: Catalogue) -> Reading | None:
    words = {word for token in tokens for word in token.low.split()}
    quotes = tuple(token.text for token in tokens if token.symbol == "QUOTE")
    if quotes and ({token.symbol for token in tokens if token.symbol} <= _BARE or _are_words(tokens)):
        return Reading("forbid_output", quotes, frame="composed: texts not said")
    named = any(token.symbol == "TOOL" and not token.described for token in tokens)
    if not words & _VERBS and not any(token.symbol in _SPEAKS for token in tokens):
        return _forms(tokens, catalogue)
    if quotes and not named:
        return _texts_not_said(tokens, quotes, words, catalogue)
    found = None if named else _names_not_said(tokens, words, catalogue)
    return found or _forms(tokens, catalogue)


def _texts_not_said(
    tokens: Sequence[Token], quotes: tuple[str, ...], words: set[str], catalogue: Catalogue
) -> Reading | None:
    act = act_of([token for token in tokens if token.symbol != "QUOTE"], catalogue)
    place = "start" if words & _STARTS else "end" if words & _SAID_LAST else ""
    writes = any(set(words_of(name)) & _WRITING for name in catalogue.names)
    doubtful = {"include", "use", "using", "call", "refer", *({"write", "add", "output"} if writes else ())}
    written = words & doubtful and not words & _WORDS
    if written or act.narrowed or len(act.left) > _MOST_BEFORE or is_narrowed_behind(tokens, frozenset(("QUOTE",))):
        return None
    return Reading("forbid_output", quotes, place=place, left=act.left, frame="composed: texts not said")  # type: ignore[arg-type]


def _names_not_said(tokens: Sequence[Token], words: set[str], catalogue: Catalogue) -> Reading | None:
    """Names that answers must not have: those of the tools, or those that capitals show."""
    if words & {"tool", "tools"} and "names" in words:
        names = tuple(name for name in catalogue.names if "_" in name or "." in name)
    else:
        discloses = any(token.symbol == "DISCLOSE" for token in tokens)
        names = tuple(token.text for token in tokens if token.symbol == "NAME") if discloses else ()
    return Reading("forbid_output", names, frame="composed: names not said") if names else None


_BARE: Final = frozenset(("NO", "QUOTE", "SEP"))


def _are_words(tokens: Sequence[Token]) -> bool:
    """Whether words are called forbidden: "The words "a" and "b" are taboo"."""
    solid = [token for token in tokens if token.symbol not in {"", "SEP", "QUOTE", "BE"}]
    return [token.symbol for token in solid[-1:]] == ["FORBIDDEN"] and all(one.low in _WORDS for one in solid[:-1])


_MOST_BEFORE: Final = 6  # words that describe the texts


def _forms(tokens: Sequence[Token], catalogue: Catalogue) -> Reading | None:
    """Forms of text that answers must not have; others of the list are left to judgement."""
    named = tuple(dict.fromkeys(token.text for token in tokens if token.symbol == "TOOL" and not token.described))
    if len(named) == 1 and any(token.low in {"passed", "given", "handed"} for token in tokens):
        last = max((at for at, token in enumerate(tokens) if token.symbol == "FORM"), default=-1)
        inner = _forms([token for token in tokens[: last + 1] if token.symbol != "TOOL"], catalogue)
        return replace(inner, first=named, left=()) if inner is not None else None
    found = [token for at, token in enumerate(tokens) if token.symbol == "FORM" and not _is_modified(tokens, at)]
    forms = tuple(dict.fromkeys(FORM_NAMES[token.low] for token in found))
    person = any(token.symbol == "PERSON" for token in tokens)
    if (
        not forms
        or (forms == ("code",) and not person)
        or any(token.symbol in {"TOOL", "CODE", "COMMAND"} for token in tokens)
    ):
        return None
    spoken = [token for token in tokens if token.symbol == "W"]
    if _is_done_to(tokens):
        return None
    act = act_of(spoken, catalogue)
    first = () if len(spoken) > 1 else act.tools
    behind = act_of([token for token in tokens if token.symbol != "FORM"], catalogue).narrowed and not first
    if behind or len(spoken) > _MOST_LEFT:
        return None
    left = () if first else tuple(token.low for token in spoken)
    return Reading("forbid_output", forms, first=first, shape="form", left=left, frame="composed: forms of text")


def _is_done_to(tokens: Sequence[Token]) -> bool:
    """Whether something is done to things that are there, which are not put into a text: "Links are never opened"."""
    form = next((at for at, token in enumerate(tokens) if token.symbol == "FORM"), len(tokens))
    for at, token in enumerate(tokens):
        verb = base_of(token)
        low = token.low if verb is None else verb.low
        if low in _PUTS:
            continue
        if token.symbol == "W" and (low in VERBS or (at > form and low.endswith("ed"))):
            return True
        if low == "open" and not any(later.low == "with" for later in tokens[at:form]):
            return True
    return False


def _is_modified(tokens: Sequence[Token], at: int) -> bool:
    """Whether the word before a form says which of it are meant: "licence headers", "nested bullets"."""
    before = next((token for token in reversed(tokens[:at]) if token.symbol not in {"", "EACH"}), None)
    return before is not None and before.symbol == "W" and before.low not in VERBS | _ANY_OF_IT


_ANY_OF_IT: Final = word_set("other such external clickable fancy putting writing sending markdown")
_PUTS: Final = word_set(
    "use put write send insert produce generate return respond reply answer contain render format type paste embed "
    "append attach give offer begin end start finish make create output emit print post speak talk read say include "
    "display show add share mention present list provide employ apply introduce"
)
_MOST_LEFT: Final = 5  # words of a list of forms that no pattern sees


# The parts of a statement, and the senses that they make together.

_SENSES: Final[tuple[Callable[[Parts, Catalogue], Reading | None], ...]] = (
    read_origin,
    read_missing,
    read_order,
    read_said,
    read_count,
    read_paths,
    read_argument,
    read_place,
    read_which,
)


def compose(statement: Sequence[Token], catalogue: Catalogue) -> list[Reading]:
    """Return what the parts of a statement say together: nothing, one thing, or several that all hold."""
    statement = until_reason(statement)
    if any(token.guessed for token in statement):
        return []
    whole = list(_senses(statement, catalogue)) or list(_for_purpose(statement, catalogue))
    if whole or not statement or opens_leading(statement):
        return whole
    if any(token.symbol in {"IF", "UNLESS"} for token in statement):
        return []  # it may belong to all of them
    # Of two orders that an "and" joins each holds by itself.
    found = [reading for piece in _orders(statement) for reading in _senses(piece, catalogue)]
    return [reading for reading in found if reading.kind != "require_output"]  # what is said may depend on the rest


def _for_purpose(statement: Sequence[Token], catalogue: Catalogue) -> Iterator[Reading]:
    """Yield what holds whatever it is for, as it is about a call: "To transfer, first call X, then say ..."."""
    comma = next((number for number, token in enumerate(statement) if token.text == ","), 0)
    purpose = [token for token in statement[1:comma] if token.symbol]
    does = bool(comma) and statement[0].low == "to" and statement[1].low in VERBS
    # "For a hand-over, ...": of a call that is what it is for.
    same = bool(comma) and statement[0].low == "for" and bool(purpose) and all(one.symbol == "TOOL" for one in purpose)
    if not does and not same:
        return
    for one in _senses(statement[comma + 1 :], catalogue):
        held = one.shape == "say_first" and same and set(one.second) <= {token.text for token in purpose}
        if held or (does and (one.shape in _ABOUT_CALL or (one.kind == "order" and one.second))):
            yield one


_ABOUT_CALL: Final = frozenset(("say_after", "say_first"))


def _senses(statement: Sequence[Token], catalogue: Catalogue) -> Iterator[Reading]:
    needed = read_needed(statement)
    parts = parts_of(statement)
    if needed is not None:
        yield needed
    if needed is not None or parts is None:
        return
    # What waits for two things waits for each.
    several = len(parts.others) > 1 and all(one.relation in {"unless", "after"} for one in parts.others)
    pieces = [replace(parts, others=(other,)) for other in parts.others] if several else [parts]
    found = [_sense(one, catalogue) for one in pieces]
    if all(reading is not None for reading in found):
        yield from (reading for reading in found if reading is not None)


def _sense(parts: Parts, catalogue: Catalogue) -> Reading | None:
    return next((reading for sense in _SENSES if (reading := sense(parts, catalogue)) is not None), None)


def _orders(statement: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the orders that "and" or a comma joins, where there are several."""
    cuts = [number for number in range(1, len(statement) - 1) if _begins_order(statement, number)]
    if not cuts:
        return
    for start, end in zip([0, *(cut + 1 for cut in cuts)], [*cuts, len(statement)], strict=True):
        yield statement[start:end]


def _begins_order(statement: Sequence[Token], number: int) -> bool:
    token, following = statement[number], statement[number + 1]
    if token.symbol != "SEP" or token.low not in {"and", ","}:
        return False
    verb = following.low in VERBS and following.low not in BOTH and following.symbol != "BAN"
    return following.low == "will" or verb


# Statements about a tool that stands before them: in a label, in the first cell of a row, before a colon.

_PREDICATES: Final = frozenset(("DUTY", "BAN", "MAY", "NEED", "BE", "ONLY", "FORBIDDEN", "ATMOST"))


_RESTRICTS: Final = frozenset(("UNLESS", "ONLY", "ONCE", "ATMOST", "NUM", "AFTER", "IF", "TIMES"))
_MAY_BE_CALLED: Final = (
    Token("MAY", "may", 0, 0), Token("BE", "be", 0, 0), Token("CALL", "called", 0, 0),
)  # fmt: skip


def topic_of(describes: str, label: str, catalogue: Catalogue) -> Sequence[Token]:
    """Return the tool that a label or a cell names, or nothing."""
    for name in (describes, label.strip("`* ")):
        if name and catalogue.knows(name):
            return [Token("TOOL", catalogue.means(name), 0, 0)]
    return []


def read_about(statement: Sequence[Token], topic: Sequence[Token], catalogue: Catalogue) -> list[Reading]:
    """Return what a statement says of its topic: as its subject, or as what is called when it holds."""
    solid = [token for token in statement if token.symbol]
    tools = [token for token in topic if token.symbol == "TOOL"]
    if not solid or len(tools) != 1 or statement is topic:
        return []
    if solid[0].symbol in _RESTRICTS:  # "only after Y", "once per session": of calling it
        found = compose([*tools, *_MAY_BE_CALLED, *statement], catalogue)
        if found:
            return found
    needed = read_needed([*tools, *statement])
    if needed is not None or any(token.symbol == "TOOL" for token in solid):
        return [needed] if needed is not None else []
    if solid[0].symbol in _PREDICATES:
        found = compose([*topic, *statement], catalogue)
        if found:
            return found
    if is_imperative(solid) or solid[0].symbol in {"ATMOST", "CODE", "ARGNAME"}:
        calling = [Token("IF", "when", 0, 0), Token("CALL", "calling", 0, 0), *tools, Token("SEP", ",", 0, 0)]
        found = compose([*calling, *statement], catalogue)
        return found or [
            replace(one, first=(tools[0].text,)) for one in compose(statement, catalogue) if one.kind == "forbid_arg"
        ]
    return []
