"""Which nodes became slower."""

from __future__ import annotations

from typing import Any

from polygraphy.domain.profiling.regression import (
    find_slower_nodes,
    shortest_row_times,
    slower_text,
    times_in,
)


def row(label: str, time: float, *nodes: str, spread: float = 0.1) -> dict[str, Any]:
    return {"label": label, "nodes": nodes, "microseconds": time, "spread": spread}


def test_slower_nodes_are_found_in_the_smallest_groups_of_both() -> None:
    before = [row("conv ... relu (3)", 30, "conv", "bn", "relu"), row("fc", 50, "fc"),
              row("noise", 10, "noise", spread=9), row("gone", 99, "gone")]  # fmt: skip
    after = [row("conv", 40, "conv"), row("bn, relu", 20, "bn", "relu"), row("fc", 60, "fc"),
             row("noise", 20, "noise"), row("new", 500, "new"), row("(inserted)", 25)]  # fmt: skip
    found = find_slower_nodes(before, after)
    assert [(each.label, each.before, each.after) for each in found] == [
        ("conv and bn, relu", 30, 60),
        ("(inserted)", 0, 25),
    ]
    assert slower_text(found * 2) == (
        "conv and bn, relu (30 us -> 60 us), (inserted) (0 us -> 25 us),"
        " conv and bn, relu (30 us -> 60 us) and 1 more"
    )
    quick = [row("conv", 9, "conv"), row("(inserted)", 26)]
    shortest = shortest_row_times([after, quick])
    assert [each["microseconds"] for each in shortest] == [9, 20, 60, 20, 500, 25]


def test_rows_with_a_notable_time_are_kept() -> None:
    def cells(time: float | None) -> list[dict[str, Any]]:
        return [{"microseconds": time, "spread": 1.0}]

    rows = [
        {"kind": "nodes", "label": "a, b", "nodes": ["a", "b"], "cells": cells(5.0)},
        {"kind": "nodes", "label": "tiny", "nodes": ["tiny"], "cells": cells(0.001)},
        {"kind": "nodes", "label": "executed", "nodes": [], "cells": cells(7.0)},
        {"kind": "nodes", "label": "other", "nodes": ["c"], "cells": cells(None)},
        {"kind": "inserted", "label": "(inserted)", "nodes": [], "cells": cells(6.0)},
        {"kind": "outside", "label": "(outside nodes)", "nodes": [], "cells": cells(9.0)},
    ]
    found = times_in([{"kind": "data"}, {"kind": "profile", "rows": rows, "shapes": {"x": [1]}}])
    assert [(each["nodes"], each["microseconds"], each["shapes"]) for each in found] == [
        (["executed"], 7.0, ""),
        ([], 6.0, ""),
        (["a", "b"], 5.0, ""),
    ]
