"""The view of reports: what diff, contract and compliance wrote into a folder, each shown as it is and shut in."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stream_guard.page.parts import PageTools
from stream_guard.page.rendering import HEADERS
from stream_guard.page.sign_in import who
from stream_guard.serve.bodies import RequestRefused

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_TYPES: Final = {".html": "text/html", ".md": "text/plain", ".json": "text/plain", ".txt": "text/plain"}
_LARGEST: Final = 20 * 2**20
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
        _require_all_tenants(request)
        return self._tools.templates.page(
            request, "reports.html", reports=self._files(), folder="" if self._folder is None else str(self._folder)
        )

    def report(self, request: Request) -> Response:
        """Show one report, in a frame."""
        _require_all_tenants(request)
        file = self._find(request.path_params["name"])
        page = self._tools.templates.page(request, "report.html", file_name=file.name, product=_product(file.name))
        page.headers["Content-Security-Policy"] = f"{HEADERS['Content-Security-Policy']}; frame-src 'self'"
        return page

    def content(self, request: Request) -> Response:
        """Return what the report says."""
        _require_all_tenants(request)
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
        if known.size > _LARGEST:
            raise RequestRefused(413, "This report is too large to be shown here; open the file.")
        return self._folder / known.name


def _product(name: str) -> str:
    return next((word for word in ("diff", "contract", "compliance", "check") if word in name.lower()), "report")


def _require_all_tenants(request: Request) -> None:
    if who(request).tenant:
        raise RequestRefused(403, "This is about all tenants; it takes a token that belongs to none.")
