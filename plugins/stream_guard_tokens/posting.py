"""One POST by HTTPS: no redirect is followed, and the answer has a limit in time and size."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

_LONGEST: Final = 1 << 20


class Posted(NamedTuple):
    """The answer to a POST."""

    status: int
    body: bytes


def post(url: str, body: bytes, headers: Mapping[str, str], authority: Path | None, timeout: float) -> Posted:
    """Return the answer, whatever its status; OSError says why there is none, TimeoutError that it took too long."""
    import ssl  # noqa: PLC0415  # every process imports the pack, few need this
    from http.client import HTTPException  # noqa: PLC0415  # as above
    from urllib.error import HTTPError, URLError  # noqa: PLC0415  # as above
    from urllib.request import HTTPSHandler, Request  # noqa: PLC0415  # as above

    end = time.monotonic() + timeout
    context = ssl.create_default_context(cafile=authority)
    request = Request(url, body, dict(headers))  # noqa: S310  # the source takes https, and http on this machine
    try:
        with _opener(HTTPSHandler(context=context)).open(request, timeout=timeout) as answer:
            return Posted(answer.status, _read(answer, end))
    except HTTPError as error:
        with error:
            return Posted(error.code, _read(error, end))
    except URLError as error:
        reason = error.reason
        raise (reason if isinstance(reason, OSError) else OSError(str(reason))) from None
    except HTTPException as error:
        raise OSError(f"what answers does not speak HTTP ({type(error).__name__})") from None


def is_untrusted(error: OSError) -> bool:
    """Whether the certificate is not one that is trusted: another try does not help."""
    from ssl import SSLCertVerificationError  # noqa: PLC0415  # as above

    return isinstance(error, SSLCertVerificationError)


def _opener(handler: Any) -> Any:
    from urllib.request import HTTPRedirectHandler, build_opener  # noqa: PLC0415  # as above

    class NoRedirects(HTTPRedirectHandler):
        """Makes a redirect an answer like others."""

        def redirect_request(self, *_: Any) -> None:
            return None

    return build_opener(handler, NoRedirects)


def _read(answer: Any, end: float) -> bytes:
    """Return the body; a sender that dribbles is given up at the end of the time."""
    read = bytearray()
    while len(read) < _LONGEST and (chunk := answer.read1(_LONGEST - len(read))):
        read += chunk
        if time.monotonic() > end:
            raise TimeoutError
    return bytes(read)
