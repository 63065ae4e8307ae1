"""Requests to servers of the tests, over plain HTTP.

A client that may speak TLS first reads the certificates of all the world, which takes longer than the whole request.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import httpx

client: Final = partial(httpx.Client, trust_env=False, verify=False)
async_client: Final = partial(httpx.AsyncClient, trust_env=False, verify=False)
request: Final = partial(httpx.request, trust_env=False, verify=False)
get: Final = partial(httpx.get, trust_env=False, verify=False)
post: Final = partial(httpx.post, trust_env=False, verify=False)
