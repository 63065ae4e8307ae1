"""Formulas of temporal logic, made up for searches."""

from __future__ import annotations

from hypothesis import strategies as st
from stream_guard_rules.shared.ltl import Atom, Binary, Formula, Unary

FORMULAS: st.SearchStrategy[Formula] = st.recursive(
    st.sampled_from(["a", "b", "c", "true", "false", "unknown"]).map(Atom),
    lambda inner: st.one_of(
        st.builds(Unary, st.sampled_from(["!", "G", "F", "X"]), inner),
        st.builds(Binary, st.sampled_from(["U", "W", "&", "|", "->"]), inner, inner),
    ),
    max_leaves=6,
)
