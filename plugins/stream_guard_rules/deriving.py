"""Leave to derive from a kind: a compiled class has to give it, so that strangers' kinds may build on ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:  # to the interpreter it means nothing, and only whoever compiles has that package

    def mypyc_attr(**_attributes: Any) -> Any:
        """Return the class as it is."""
        return lambda cls: cls


__all__ = ["mypyc_attr"]
