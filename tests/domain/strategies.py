"""Values that several tests of the domain draw."""

from __future__ import annotations

from hypothesis import strategies as st

__all__ = ["dims", "names", "shapes"]

names = st.text(alphabet="abA", min_size=1, max_size=3)
"""Names of tensors: few letters, so that names often contain each other."""

dims = st.integers(0, 5)

shapes = st.lists(dims, max_size=4).map(tuple)
