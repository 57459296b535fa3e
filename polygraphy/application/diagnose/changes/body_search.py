"""Which node in a body of a node differs: the one with which it computes what is expected."""

from __future__ import annotations

from collections.abc import Iterator

from polygraphy.application.diagnose.changes.change_search import ChangeSearch
from polygraphy.domain.diagnosis.solving.bodies import body_variants
from polygraphy.domain.diagnosis.variants import Variant


def find_body_changes(search: ChangeSearch, position: int) -> Iterator[Variant]:
    """Yield the variants of a node by a common mistake in its bodies with which it computes the
    expected values."""
    return search.select_matching(body_variants(search.graph.nodes[position]))
