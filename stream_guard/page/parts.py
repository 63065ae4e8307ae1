"""What the page is made of: the history it shows, the policy in force, and who may look."""

from __future__ import annotations

import datetime as dt
import json
import time
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from stream_guard.guard.reviews import Reviews
from stream_guard.history import tallies
from stream_guard.history.alert_rows import session_key
from stream_guard.history.database import Database
from stream_guard.history.tallies import What
from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Json
from stream_guard.judge.spec import Policy
from stream_guard.page.live import LiveAlerts
from stream_guard.page.sign_in import NAME_COOKIE, Forms, who
from stream_guard.redaction import mask_secrets
from stream_guard.registry import Registry
from stream_guard.serve.access import Door, Identity
from stream_guard.settings import Settings
from stream_guard.worker.rollouts import ListedRollout

# Templates: everything they print is escaped, and all they are given is plain data.


# No script and no style in the page itself, nothing from elsewhere, and nobody's frame.
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # without any, browsers would not say where a form comes from
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_FOLDER: Final = str(files("stream_guard.page") / "templates")
STATIC: Final = Path(str(files("stream_guard.page") / "static"))


class Templates:
    """Renders templates with what every page has: who looks, where they are, and the mark of its forms."""

    def __init__(self, forms: Forms, badges: Callable[[Identity], dict[str, int]], *, named: bool) -> None:
        self._forms = forms
        self._badges = badges
        self._named = named  # tokens say who answers

    def page(self, request: Request, name: str, http_status: int = 200, **values: Any) -> HTMLResponse:
        """Return a whole page."""
        identity = who(request)
        common = {
            "path": request.url.path,
            "identity": identity,
            "badges": self._badges(identity),
            "asks_name": not identity.name,
            "own_name": request.cookies.get(NAME_COOKIE, ""),
            "signed_in": bool(identity.name) or self._named,
            "csrf": self._forms.mark(request),
            "may_approve": "reviewer" in identity.roles,
        }
        return HTMLResponse(self.fragment(name, **common, **values), http_status, headers=HEADERS)

    def bare(self, name: str, status: int = 200, **values: Any) -> HTMLResponse:
        """Return a page for somebody who is not known yet."""
        return HTMLResponse(self.fragment(name, **values), status, headers=HEADERS)

    def fragment(self, name: str, **values: Any) -> str:
        """Return a part of a page as text."""
        return _environment().get_template(name).render(**values).encode("utf-8", "replace").decode()


@cache
def _environment() -> Environment:
    """Return what templates are compiled in: once for all pages of a process."""
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,  # a page need not look at its files again
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "shown": shown,
        "shown_json": shown_json,
        "shown_plain": shown_plain,
        "as_dict": dict,
        "session_path": session_path,
        "moment": moment,
        "span": span,
        "number": number,
        "percent": percent,
        "dollars": dollars,
    }
    environment.globals |= {"address": address, "asset": asset}
    return environment


def address(path: str, **query: object) -> str:
    """Return an address with the parameters that are not empty."""
    given = {name: str(value) for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(given, errors='replace')}" if given else path


def asset(name: str) -> str:
    """Return the address of a script, style or picture. It changes with the file, so a browser asks for it once."""
    return f"/static/{name}?v={version_of(name)}"


@cache
def version_of(name: str) -> str:
    """Return what stands for the content of a file in its address."""
    return sha256((STATIC / name).read_bytes()).hexdigest()[:16]


def moment(time: float | None) -> Markup:
    """Return a time as an element: readable as it is, and relative where there are scripts."""
    if time is None:
        return Markup('<span class="quiet">no time</span>')
    try:
        when = dt.datetime.fromtimestamp(time, dt.UTC)
    except (ValueError, OverflowError, OSError):
        return Markup('<span class="quiet">no time that can be</span>')
    text = when.strftime("%Y-%m-%d %H:%M:%S")
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(when.isoformat(), text, text)


def span(seconds: float | None) -> str:
    """Return a length of time in one or two units."""
    if seconds is None:
        return "\u2013"
    left = int(abs(seconds))
    for unit, size, smaller in (("d", 86_400, 3600), ("h", 3600, 60), ("min", 60, 1)):
        if left >= size:
            rest = left % size // smaller
            names = {3600: "h", 60: "min", 1: "s"}
            return f"{left // size} {unit} {rest} {names[smaller]}" if rest else f"{left // size} {unit}"
    return f"{left} s" if seconds == int(seconds) or abs(seconds) >= 10 else f"{seconds:.1f} s"


def number(value: float) -> str:
    """Return a number as people read it."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def percent(part: float | None) -> str:
    """Return a share from 0 to 1; a dash where there is none."""
    if part is None:
        return "\u2013"
    return f"{part:.0%}" if part == 0 or part >= 0.1 else f"{part:.1%}"


def dollars(amount: float | None) -> str:
    """Return an amount, to the hundredth of a cent where it is small; a dash where there is none."""
    if amount is None:
        return "\u2013"
    return f"${amount:,.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"


# Text that agents wrote, as a person may safely read it: escaped, and with signs that nobody sees made visible.


_KEPT: Final = frozenset("\n\t")
# Format signs (bidirectional, zero-width, tags), controls, halves of pairs, private signs, and separators of lines.
_HIDDEN: Final = frozenset(("Cf", "Cc", "Cs", "Co", "Cn", "Zl", "Zp"))
# Blank to the eye, although Unicode calls them letters or spaces.
_BLANK: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u180b\u180c\u180d\ufe0f\ufe0e")
_LINE: Final = 72  # signs that are still read on one line
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-:@=+,")


def shown(value: object) -> Markup:
    """Return any text so that it is only text: nothing in it is markup, invisible or a secret, such as in an id."""
    text = mask_secrets(str(value))
    if text.isascii() and text.isprintable():
        return escape(text)
    # No sign that is hidden means anything in markup, so they may be put in after the rest was escaped.
    return Markup(str(escape(text)).translate({ord(sign): str(_sign(sign)) for sign in _hidden_in(text)}))  # noqa: S704  # it is escaped


def shown_plain(value: object) -> str:
    """Return the same where there can be no elements: in a title, or in the value of a field that is not sent."""
    text = mask_secrets(str(value))
    return text.translate({ord(sign): f"[U+{ord(sign):04X}]" for sign in _hidden_in(text)})


def shown_json(value: Json) -> Markup:
    """Return a value as JSON, on one line where it is short, with every sign of it visible."""
    line = json.dumps(value, ensure_ascii=False, default=str)
    return shown(line if len(line) <= _LINE else json.dumps(value, indent=2, ensure_ascii=False, default=str))


def session_path(session_id: str) -> str:
    """Return the address of a session. An id that has a secret, or that might be read as a path, goes by its key."""
    if session_id and set(session_id) <= _PLAIN and len(session_id) <= 200 and mask_secrets(session_id) == session_id:
        return f"/sessions/{quote(session_id, safe='')}"
    return f"/sessions/~{session_key(session_id)}"


def _hidden_in(text: str) -> set[str]:
    return {sign for sign in set(text) - _KEPT if unicodedata.category(sign) in _HIDDEN or sign in _BLANK}


def _sign(sign: str) -> Markup:
    point = f"U+{ord(sign):04X}"
    name = unicodedata.name(sign, "a sign without a name").lower()
    return Markup('<span class="hidden-sign" title="{}">{}</span>').format(name, point)


# Series for charts, remembered for a moment: many look at the same days.


_SHARE: Final = 20_000  # of its span, a series may be this part old: four seconds for a day
_REMEMBERED: Final = 64


class SeriesReader:
    """Reads series of tallies; the same one is not read again at once."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        self._known: dict[tuple[What, int, int, str], tuple[float, dict[str, list[int]]]] = {}
        self._lock = Lock()

    def read(self, what: What, seconds: int, bars: int, tenant: str = "") -> dict[str, list[int]]:
        """Return the series of the last seconds, by name; do not change it."""
        key, now = (what, seconds, bars, tenant), self._clock()
        with self._lock:
            read_at, known = self._known.get(key, (0.0, {}))
            if now - read_at > seconds / _SHARE:
                known = tallies.series(self._database, what, since=now - seconds, until=now, bars=bars, tenant=tenant)
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[key] = (now, known)
        return known


@dataclass(frozen=True, slots=True)
class PageParts:
    """Given by whoever mounts the page."""

    database: Database  # a connection of its own: whoever looks holds nobody up
    reviews: Reviews
    policy: Callable[[], Policy]
    door: Door
    settings: Settings
    registry: Registry
    counts: Counts | None = None  # of the process that judges; None where another one does
    policy_file: Path | None = None
    rollouts: Callable[[], Sequence[ListedRollout]] = tuple  # of a group of workers whose policies come from a topic


@dataclass(frozen=True, slots=True)
class PageTools:
    """What the views share."""

    parts: PageParts
    forms: Forms
    templates: Templates
    live: LiveAlerts = field(repr=False)
    series: SeriesReader = field(repr=False)


class Views:
    """Some of the page's addresses, and what answers there."""

    def __init__(self, tools: PageTools) -> None:
        self._tools = tools
        self._database = tools.parts.database
