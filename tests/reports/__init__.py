"""Reports over data that is not part of the project."""

from __future__ import annotations
