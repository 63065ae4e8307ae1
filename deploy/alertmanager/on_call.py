"""Stands in for whoever is on call: prints what Alertmanager sends, one line for each alert.

`docker compose logs -f on-call` shows who would have been woken. With a real pager in alertmanager.yml nobody needs it.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

MOST: Final = 1 << 20  # bytes of one message


class OnCall(BaseHTTPRequestHandler):
    """Takes the messages of a webhook receiver."""

    def do_POST(self) -> None:
        """Print the alerts of a message."""
        try:
            length = max(0, min(MOST, int(self.headers.get("content-length", ""))))
            alerts = json.loads(self.rfile.read(length))["alerts"]
            lines = [line(one["status"], one["labels"], one["annotations"]) for one in alerts]
        except (ValueError, KeyError, TypeError):
            self.send_error(400)
            return
        print(*lines, sep="\n", flush=True)  # noqa: T201  # what it is for
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Leave out the line for each request."""


def line(status: str, labels: dict[str, str], annotations: dict[str, str]) -> str:
    """Return an alert on one line; text of agents moves no cursor."""
    where = labels.get("session") or labels.get("instance") or "-"
    text = f"{status} {labels.get('severity', '-')} {labels['alertname']} {where}: {annotations.get('summary', '')}"
    return text.encode("unicode_escape").decode()


if __name__ == "__main__":
    host, port = sys.argv[1].split(":")
    server = ThreadingHTTPServer((host, int(port)), OnCall)
    print(f"listening at http://{host}:{server.server_address[1]}", flush=True)  # noqa: T201  # as above
    server.serve_forever()
