"""Events of a caller with a token: the token says whose they are, whatever the body says."""

from __future__ import annotations

from typing import Final, TypeVar

from msgspec.structs import replace

from stream_guard.judge.model import Header
from stream_guard.judge.shares import BETWEEN, tenant_session
from stream_guard.judge.spec import Agents
from stream_guard.serve.access import Identity
from stream_guard.serve.bodies import RequestRefused

Stamped = TypeVar("Stamped", bound=Header)
TENANT: Final = "tenant"  # the label that names it


def stamp(event: Stamped, identity: Identity, agents: Agents) -> Stamped:
    """Return the event as the caller's own, or raise RequestRefused when it is somebody else's.

    It counts as who the token says, whatever name it has, and it has the labels of the token.
    """
    if not identity.name:
        return replace(event, counts_as="") if event.counts_as else event  # only a token says that
    if not event.agent:
        event = replace(event, agent=identity.name)
    counts_as = _counted_name(event, identity, agents)
    if not counts_as:
        raise RequestRefused(
            403, f"this is the token of {identity.name!r}; it brings nothing of the agent {event.agent[:100]!r}"
        )
    path = event.agent_path
    if not path and unversioned(event.agent) != identity.name:
        path = (identity.name,)  # a review knows by it who asked
    labels = _labels(event, identity)
    return _of_tenant(replace(event, agent_path=path, counts_as=counts_as, labels=labels), identity)


def _labels(event: Header, identity: Identity) -> dict[str, str]:
    for name, value in identity.labels.items():
        if event.labels.get(name, value) != value:
            raise RequestRefused(403, f"this token has the label {name}: {value!r}; it brings nothing with another")
    return {**event.labels, **identity.labels}


def _of_tenant(event: Stamped, identity: Identity) -> Stamped:
    if not identity.tenant:
        owner, named_after, _ = event.session_id.partition(BETWEEN)
        if named_after and (owner in identity.all_tenants or owner == event.labels.get(TENANT)):
            raise RequestRefused(403, "this session belongs to a tenant; show a token of that tenant")
        return event
    if event.labels.get(TENANT, identity.tenant) != identity.tenant:
        raise RequestRefused(403, f"this is a token of the tenant {identity.tenant!r}; it brings nothing of another")
    return replace(
        event,
        session_id=tenant_session(identity.tenant, event.session_id),
        labels={**event.labels, TENANT: identity.tenant},
    )


def _counted_name(event: Header, identity: Identity, agents: Agents) -> str:
    """Return under whom the event counts; nobody where its agent is neither the token's nor below it.

    That is an agent of the token, in any version, or one that the policy declares below it. A name that the policy
    does not know is the caller's word, and counts as the agent of the token that it says it is below.
    """
    declared = agents.named(event.agent)
    if declared is not None:  # the policy says what is above it, not the caller
        above = agents.lineage(declared)
        return declared if any(unversioned(name) in identity.agents for name in above) else ""
    names = (unversioned(name) for name in (event.agent, *reversed(event.agent_path)))
    return next((name for name in names if name in identity.agents), "")


def unversioned(agent: str) -> str:
    """Return the name of an agent without its version."""
    return agent.partition("@")[0]
