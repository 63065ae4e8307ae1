"""Explanations: what a session did, event by event, whose states it changed, and how near the others came.

``follow_session`` of ``timeline`` runs the real engine over the events of a session and returns plain data,
for the command line and for a page.
"""
