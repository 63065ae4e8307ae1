"""Arguments that a tool has to be given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stream_guard_compliance.reading.catalogue import Catalogue
from stream_guard_compliance.reading.composed.acts import act_of
from stream_guard_compliance.reading.composed.arguments import arguments_in, tools_in
from stream_guard_compliance.reading.composed.segments import Parts
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.values import Reading
from stream_guard_compliance.reading.word_lists import word_set


def read_missing(parts: Parts, catalogue: Catalogue) -> Reading | None:
    """Return arguments without which a tool must not be called: "never call X without a `reason`"."""
    if parts.polarity == "must" and not parts.others:
        return _always_given(parts.main.tokens, catalogue)
    if parts.polarity != "not" or len(parts.others) != 1 or parts.others[0].word not in {"without", "unless"}:
        return None
    given = parts.others[0].tokens
    tools = tools_in([token for token in parts.main.tokens if token.symbol])
    plain = all(token.symbol in {"CODE", "ARGNAME", "SEP", "LITWORD", "EACH", ""} for token in given)
    if not tools or not plain or not arguments_in(given):
        return None
    frame = "composed: whether an argument is given"
    return Reading("forbid_arg", arguments_in(given), first=tools, shape="given", frame=frame)


def _always_given(tokens: Sequence[Token], catalogue: Catalogue) -> Reading | None:
    """Arguments that are always given: "always give a chart a `title`"."""
    args = arguments_in(tokens)
    always = any(token.low in {"always", "every", "each"} for token in tokens)
    gives = any(token.low in _GIVES for token in tokens)
    told = any(token.symbol in {"QUOTE", "NUM", "RANGE"} or token.low in {"true", "false"} for token in tokens)
    act = act_of([token for token in tokens if token.low not in _GIVES and token.symbol != "CODE"], catalogue)
    if len(args) != 1 or not always or not gives or told or not act.tools or act.left:
        return None
    frame = "composed: whether an argument is given"
    return Reading("forbid_arg", args, first=act.tools, shape="given", guess=act.described, frame=frame)


_GIVES: Final = word_set("give provide include specify fill pass supply")


def read_needed(statement: Sequence[Token]) -> Reading | None:
    """Return arguments that a tool has to be given: "`check_in` is required for search_hotels"."""
    args = arguments_in(statement)
    tools = tuple(dict.fromkeys(token.text for token in statement if token.symbol == "TOOL" and not token.described))
    needs = any(token.symbol == "NEED" or token.low in {"mandatory", "required"} for token in statement)
    allowed = {
        "CODE",
        "ARGNAME",
        "TOOL",
        "SEP",
        "NEED",
        "BE",
        "EACH",
        "DUTY",
        "LITWORD",
        "CALL",
        "CALLN",
        "TOOLWORD",
        "",
    }
    known = all(token.symbol in allowed or token.low == "mandatory" for token in statement)
    if not args or not tools or not needs or not known:
        return None
    return Reading("forbid_arg", args, first=tools, shape="given", frame="composed: whether an argument is given")
