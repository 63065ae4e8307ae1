"""Events of a caller with a token: the token says whose they are, whatever the body says."""

from __future__ import annotations

from typing import Final, TypeVar

from msgspec.structs import replace

from stream_guard.model import Header
from stream_guard.policy.agents import Agents
from stream_guard.serve.access import Identity
from stream_guard.serve.bodies import RequestRefused
from stream_guard.sessions.shares import BETWEEN, tenant_session

Stamped = TypeVar("Stamped", bound=Header)
TENANT: Final = "tenant"  # the label that names it


def stamp(event: Stamped, identity: Identity, agents: Agents) -> Stamped:
    """Return the event as the caller's own, or raise RequestRefused when it is somebody else's."""
    if not identity.name:
        return event
    if not event.agent:
        event = replace(event, agent=identity.name)
    elif not _speaks_for(event, identity, agents):
        raise RequestRefused(
            403, f"this is the token of {identity.name!r}; it brings nothing of the agent {event.agent[:100]!r}"
        )
    elif not event.agent_path and unversioned(event.agent) != identity.name:
        event = replace(event, agent_path=(identity.name,))  # a review knows by it who asked
    if not identity.tenant:
        if event.session_id.partition(BETWEEN)[0] in identity.all_tenants and BETWEEN in event.session_id:
            raise RequestRefused(403, "this session belongs to a tenant; show a token of that tenant")
        return event
    if event.labels.get(TENANT, identity.tenant) != identity.tenant:
        raise RequestRefused(403, f"this is a token of the tenant {identity.tenant!r}; it brings nothing of another")
    return replace(
        event,
        session_id=tenant_session(identity.tenant, event.session_id),
        labels={**event.labels, TENANT: identity.tenant},
    )


def _speaks_for(event: Header, identity: Identity, agents: Agents) -> bool:
    """Whether the event's agent is one of the token's, in any version, or one below it."""
    declared = agents.named(event.agent)
    # Of an agent that the policy knows, the policy says what is above it, not the caller.
    above = event.agent_path if declared is None else agents.lineage(declared)
    return any(unversioned(name) in identity.agents for name in (event.agent, *above))


def unversioned(agent: str) -> str:
    """Return the name of an agent without its version."""
    return agent.partition("@")[0]
