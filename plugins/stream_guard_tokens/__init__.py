"""Sources of tokens for brokers that log in by OAUTHBEARER."""

import stream_guard as sg
from stream_guard_tokens.client_credentials import ClientCredentials
from stream_guard_tokens.command import MountedToken, TokenCommand
from stream_guard_tokens.msk_iam import MskIam


@sg.hookimpl
def stream_guard_token_sources() -> dict[str, type[sg.TokenSource]]:
    """Return the sources, by the name that ``kafka.oauth_source`` takes."""
    return {
        "client_credentials": ClientCredentials,
        "command": TokenCommand,
        "file": MountedToken,
        "msk_iam": MskIam,
    }
