"""The view of the policy: its text, what is wrong with an edit, and what the edit would have changed.

Nothing is written. An edit goes live when the file is replaced, by whoever may write it.
"""

from __future__ import annotations

import re
import stat
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stream_guard.analysis.backtest import Backtest, compare_policies
from stream_guard.errors import PolicyError
from stream_guard.history import kept_events
from stream_guard.history.database import Database
from stream_guard.judge.model import Event
from stream_guard.judge.spec import Policy
from stream_guard.page.parts import HEADERS, PageTools
from stream_guard.page.sign_in import first_of, require_all_tenants
from stream_guard.policy.convert import to_yaml
from stream_guard.policy.load import load_policy
from stream_guard.serve.bodies import RequestRefused

_HOURS: Final = (1, 6, 24, 168)
_SESSIONS: Final = 300  # that a backtest replays, the latest ones
_EVENTS: Final = 30_000  # of them all: a gate in the same process must not wait for long
_LARGEST: Final = 2**20
_SHOWN: Final = 50  # alerts of each side


class PolicyViews:
    """The policy in force, and edits of it."""

    def __init__(self, tools: PageTools) -> None:
        self._tools = tools
        self._parts = tools.parts

    def routes(self) -> list[Route]:
        """Return the addresses."""
        return [Route("/policy", self.show), Route("/policy", self.edit, methods=["POST"])]

    def show(self, request: Request) -> Response:
        """Show the policy in force."""
        require_all_tenants(request)
        return self._page(request, self._text(), warnings=self._parts.policy().warnings)

    async def edit(self, request: Request) -> Response:
        """Check an edit, and replay what was kept by both policies."""
        require_all_tenants(request)
        fields = await self._tools.forms.read(request)
        text, hours = first_of(fields, "text").replace("\r\n", "\n"), first_of(fields, "hours")
        if len(text) > _LARGEST:
            raise RequestRefused(413, "this policy is too long")
        span = int(hours) if hours in map(str, _HOURS) else 24
        return await run_in_threadpool(self._judge, request, text, span)

    def _judge(self, request: Request, text: str, hours: int) -> Response:
        try:
            new = self._load(text)
        except PolicyError as error:
            return self._page(request, text, problems=error.problems, hours=hours, edited=True)
        began = time.monotonic()
        events, sessions, cut = recent_events(self._parts.database, hours)
        found = compare_policies(events, new, self._parts.policy(), sent_only=True) if events else None
        return self._page(
            request,
            text,
            warnings=new.warnings,
            hours=hours,
            edited=True,
            new=new,
            sessions=sessions,
            cut=cut,
            took=time.monotonic() - began,
            result=None if found is None else _summary(found),
        )

    def _page(self, request: Request, text: str, **values: Any) -> Response:
        common: dict[str, Any] = {"problems": (), "warnings": (), "hours": 24, "edited": False, "new": None}
        common |= {"sessions": 0, "cut": False, "took": 0.0, "result": None}
        policy: Policy = self._parts.policy()
        return self._tools.templates.page(
            request,
            "policy.html",
            **(common | values),
            text=text,
            policy=policy,
            choices=_HOURS,
            shown_most=_SHOWN,
            rollouts=self._parts.rollouts()[:_SHOWN],
        )

    def _text(self) -> str:
        file = self._parts.policy_file
        if file is not None:
            try:
                text = file.read_text(encoding="utf-8")
                if self._load(text).version == self._parts.policy().version:
                    return text
            except (OSError, UnicodeDecodeError, PolicyError):
                pass  # replaced, broken or gone since it was loaded: what is in force is shown
        return to_yaml(self._parts.policy())

    def _load(self, text: str) -> Policy:
        """Return the policy that the file would be with this text."""
        file = self._parts.policy_file
        return load_policy(
            text.encode("utf-8", "replace"),
            self._parts.registry,
            file=file.name if file is not None else "edit.yaml",
            folder=file.parent if file is not None else None,
        )


def recent_events(database: Database, hours: int) -> tuple[list[Event], int, bool]:
    """Return the kept events of the last hours, of how many sessions they are, and whether some were left out."""
    since = time.time() - hours * 3600
    events: list[Event] = []
    listed = [session for _, session in kept_events.sessions(database, limit=_SESSIONS) if session.noted >= since]
    taken = 0
    for session in listed:
        if len(events) + session.events > _EVENTS:
            return events, taken, True
        events += kept_events.replay_session(database, session.id)
        taken += 1
    return events, taken, len(listed) == _SESSIONS


def _summary(found: Backtest) -> dict[str, Any]:
    by_rule: dict[str, Counter[str]] = {}
    for side, alerts in (("added", found.added), ("removed", found.removed)):
        for alert in alerts:
            by_rule.setdefault(alert.rule_id, Counter())[side] += 1
    return {
        "added": found.added[:_SHOWN],
        "removed": found.removed[:_SHOWN],
        "kept": found.kept,
        "shadow": found.shadow,
        "counts": {"added": len(found.added), "removed": len(found.removed)},
        "by_rule": sorted(by_rule.items()),
    }


# The view of reports: what diff, contract and compliance wrote into a folder, each shown as it is and shut in.


_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_TYPES: Final = {".html": "text/html", ".md": "text/plain", ".json": "text/plain", ".txt": "text/plain"}
_LARGEST_REPORT: Final = 20 * 2**20
_LISTED: Final = 500
# A report is a page of its own: it may style itself, and nothing else. Scripts, forms and requests are off.
_SHUT_IN: Final = {
    **HEADERS,
    "Content-Security-Policy": (
        "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'self'"
    ),
    "X-Frame-Options": "SAMEORIGIN",
}


class ReportFile(msgspec.Struct, frozen=True):
    """A report in the folder."""

    name: str
    product: str
    size: int
    changed: float


class ReportViews:
    """Reports from a folder, for those who may see the whole server."""

    def __init__(self, tools: PageTools) -> None:
        self._tools = tools
        self._folder = tools.parts.settings.page.reports

    def routes(self) -> list[Route]:
        """Return the addresses."""
        return [
            Route("/reports", self.listing),
            Route("/reports/{name}", self.report),
            Route("/reports/{name}/content", self.content),
        ]

    def listing(self, request: Request) -> Response:
        """Show which reports there are, the latest first."""
        require_all_tenants(request)
        return self._tools.templates.page(
            request, "reports.html", reports=self._files(), folder="" if self._folder is None else str(self._folder)
        )

    def report(self, request: Request) -> Response:
        """Show one report, in a frame."""
        require_all_tenants(request)
        file = self._find(request.path_params["name"])
        page = self._tools.templates.page(request, "report.html", file_name=file.name, product=_product(file.name))
        page.headers["Content-Security-Policy"] = f"{HEADERS['Content-Security-Policy']}; frame-src 'self'"
        return page

    def content(self, request: Request) -> Response:
        """Return what the report says."""
        require_all_tenants(request)
        file = self._find(request.path_params["name"])
        return Response(file.read_bytes(), headers=_SHUT_IN, media_type=_TYPES[file.suffix])

    def _files(self) -> list[ReportFile]:
        if self._folder is None or not self._folder.is_dir():
            return []
        found = []
        for file in self._folder.iterdir():
            status = file.lstat()
            if _NAME.fullmatch(file.name) and file.suffix in _TYPES and stat.S_ISREG(status.st_mode):
                found.append(ReportFile(file.name, _product(file.name), status.st_size, status.st_mtime))
        return sorted(found, key=lambda report: -report.changed)[:_LISTED]

    def _find(self, name: str) -> Path:
        known = next((report for report in self._files() if report.name == name), None)
        if known is None or self._folder is None:
            raise RequestRefused(404, "There is no report of that name.")
        if known.size > _LARGEST_REPORT:
            raise RequestRefused(413, "This report is too large to be shown here; open the file.")
        return self._folder / known.name


def _product(name: str) -> str:
    return next((word for word in ("diff", "contract", "compliance", "check") if word in name.lower()), "report")
