"""What the tests of `adapters/web/test_report_page.py` and others share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from polygraphy.domain.accuracy.output_rows import Comparison, OutputRow, WorstIteration
from polygraphy.domain.compare.result import ComparedTensor
from polygraphy.domain.environment import Environment, Section
from polygraphy.domain.limits import Tolerance
from polygraphy.domain.model.description import Model
from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.profiling.table import (
    NODES,
    OUTSIDE,
    Cell,
    ProfileTable,
    Side,
    TimeRow,
)
from polygraphy.domain.report.document import Document, as_json_value
from polygraphy.domain.rounding import Rounding
from polygraphy.domain.sweep.outcome import Row as SweepRow
from polygraphy.domain.sweep.outcome import SweepOutcome, groups_of


def rows(count: int, failing_from: int) -> list[OutputRow]:
    """Return rows of outputs, of which those from an index on fail."""
    noise = Rounding("float32", rtol=2e-6, atol=1e-6, origin="known")
    return [
        OutputRow(
            name=f"t{index}",
            matched=int(index < failing_from),
            total=1,
            tensors=(ComparedTensor(f"t{index}", "float32", (1, 4)), None),
            metrics={"max_absdiff": 1e-7 * 2.0**index, "max_reldiff": 1e-6},
            limit=Tolerance(atol=1e-5, rtol=1e-5),
            worst=WorstIteration(0, 2.0**index / 100),
            noise=noise,
            node=Node(f"n{index}", "Relu"),
        )
        for index in range(count)
    ]


def document(outputs: list[OutputRow], **settings: Any) -> Document:
    """Return a document of a comparison with some outputs."""
    comparison = Comparison("simple", ("a", "b"), False, 0, 1, False, outputs)
    return Document(
        command="polygraphy run m.onnx --onnxrt --onnx",
        started="2026-01-01T00:00:00+00:00",
        seconds=1.0,
        verdict="failed",
        exit_code=1,
        summary="It failed.",
        environment=Environment((Section("Versions", (("Python", "3"),)),)),
        comparisons=[comparison],
        **settings,
    )


def chain(count: int) -> Model:
    """Return the description of a model with a chain of Relu nodes."""
    nodes = tuple(
        Node(f"n{index}", "Relu", inputs=(f"t{index - 1}",), outputs=(f"t{index}",))
        for index in range(count)
    )
    return Model("m.onnx", Graph(nodes=nodes, node_count=count))


def profile_result(sides: int, errors: Sequence[float | None], name: str = "n") -> dict[str, Any]:
    """Return the document of profiles with nodes of different times.

    Node number 0 takes 1 us in the first profile and 4 in the last one, number 1 takes 2 and 3,
    and so on. The last row is outside of nodes.
    """
    count = len(errors)
    found = [
        TimeRow(
            NODES if at < count - 1 else OUTSIDE,
            f"{name}{at}",
            [Cell(at + 1.0, names=[f"e{at}"]), Cell(float(count - at), executed=["Cast"])][:sides],
            error=error,
            tensor="" if error is None else f"t{at}",
        )
        for at, error in enumerate(errors)
    ]
    parts = [Side(f"runner{at}", "", None, 9.0, 0.0, 0.0, 3, count, 0, 0) for at in range(sides)]
    table = ProfileTable("m.onnx", count, {"x": [1, 2]}, parts, found, "It is so.")
    return {"kind": "profile", **as_json_value(table), "sort": "time", "shown": 15}


def sweep_document(cells: int) -> Document:
    """Return the document of a sweep whose models have 20 cells each, one of which fails."""
    found = [
        SweepRow(
            name=f"model_{at // 20}.onnx runner{at % 20}",
            model=f"model_{at // 20}.onnx",
            label=f"runner{at % 20}",
            key=f"{at:032x}",
            state="failed" if at % 20 == 19 else "passed",
            summary="<b>1 of 1 outputs differ</b>",
            difference=1e-7,
            inference=1e-3,
            seconds=1.0 + at,
            memory=100 << 20,
            command=f"polygraphy run model_{at // 20}.onnx --onnxrt --load-inputs {at:032x}.json",
            report=f"cells/00/{at:032x}.report.json",
        )
        for at in range(cells)
    ]
    outcome = SweepOutcome(found, groups_of(found, {}), folder="plan.sweep")
    results = [{"kind": "sweep", **as_json_value(outcome)}]
    return evolve(document([]), comparisons=[], summary=outcome.summary, results=results)
