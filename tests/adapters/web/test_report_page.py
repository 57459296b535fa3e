"""Pages of verdict documents, as text."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
from itertools import product
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from polygraphy.adapters.report.session import detail_of
from polygraphy.adapters.web.charts import MEASURES, depth_chart, difference_chart
from polygraphy.adapters.web.report_page import region_of, report_page
from polygraphy.domain.accuracy.output_rows import WorstIteration
from polygraphy.domain.arithmetic import Element
from polygraphy.domain.compare import SimpleCompareFunc
from polygraphy.domain.model.description import Model
from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.report.document import as_json_value
from polygraphy.domain.results.results import IterationResult
from polygraphy.domain.sweep.outcome import Group, SweepOutcome
from polygraphy.domain.sweep.outcome import Row as SweepRow
from polygraphy.domain.tensors.naming import shorten_text
from tests.support.examples import spread
from tests.support.helpers.report_rows import chain, document, profile_result, rows, sweep_document

MARKUP = "</script><img src=x onerror=alert(1)>\N{SNOWMAN}\ud800"


def test_names_are_text_wherever_they_stand() -> None:
    outputs = [
        evolve(row, name=f"{MARKUP}{row.name}", node=Node(MARKUP, MARKUP)) for row in rows(5, 2)
    ]
    node = Node(MARKUP, MARKUP, inputs=(MARKUP,), outputs=(outputs[2].name,))
    page = report_page(
        document(outputs, notes=[MARKUP], results=[{"kind": "x", "text": MARKUP}]),
        Model(MARKUP, Graph(nodes=(node,), node_count=1)),
    )
    page.encode("utf-8")
    assert "<img" not in page
    assert page.count("</script>") == 2  # The document's and the script's own.


def test_a_large_document_is_compressed() -> None:
    outputs = rows(600, 500)
    page = report_page(document(outputs), chain(600))
    packed = re.search(r'data-encoding="gzip">([^<]*)<', page)
    assert packed
    text = gzip.decompress(base64.b64decode(packed[1])).decode()
    assert len(text) > 10 * len(packed[1])
    assert len(json.loads(text)["comparisons"][0]["outputs"]) == 600


def test_what_a_residual_network_takes_with_the_names_of_an_exporter() -> None:
    random = np.random.default_rng(0)
    found, expected = (random.standard_normal((1, 64, 28, 28), np.float32) for _ in range(2))
    answer = SimpleCompareFunc()(IterationResult({"y": found}), IterationResult({"y": expected}))
    detail = detail_of(answer["y"])
    outputs = [
        evolve(
            row,
            name=f"/backbone/layer{index}/batchnorm/BatchNormalization_output_0",
            node=Node(f"/backbone/layer{index}/batchnorm/BatchNormalization", "Relu"),
            detail=None if row.passed or index > 114 else detail,
            worst=WorstIteration(0, 2.0, element=Element((0,) * 4, 1.0, 2.0, 1.0, 0.5)),
        )
        for index, row in enumerate(rows(178, 100))
    ]
    page = report_page(document(outputs), chain(178))
    assert page.count("<details") == 15
    assert len(page) < 300_000


def test_names_are_broken_at_their_parts() -> None:
    outputs = [evolve(row, name=f"/a/b_c/{row.name}") for row in rows(3, 1)]
    page = report_page(document(outputs), None)
    assert "<td>\u2717 /<wbr>a/<wbr>b_<wbr>c/<wbr>t2</td>" in page


def test_of_very_many_tensors_the_worst_are_drawn() -> None:
    outputs = [
        evolve(row, metrics={"max_absdiff": 1.0 + index % 7}, matched=index not in (2000, 2001))
        for index, row in enumerate(rows(10, 10) * 320)
    ]
    outputs[3_100] = evolve(outputs[3_100], metrics={"max_absdiff": float("nan")})
    chart = depth_chart(outputs, MEASURES[0], lambda index: f"r{index}")
    assert chart is not None and chart.count("<circle") <= 480
    assert 'href="#r2000"' in chart and 'href="#r3100"' in chart
    page = report_page(document(outputs), None)
    assert len(page) < 3_000_000 and page.count("<tr id=") == 3000


def test_points_differ_in_shape_as_well_as_in_color() -> None:
    chart = depth_chart(rows(10, 7), MEASURES[0], lambda index: f"r{index}")
    assert chart is not None
    assert (chart.count('class="pass"'), chart.count('class="fail"')) == (7, 3)
    assert "first to fail: t7" in chart and 'href="#r7"' in chart
    assert 'class="limit"' in chart and 'class="band"' in chart
    assert depth_chart(rows(2, 1), MEASURES[0], str) is None


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf"), 1e-300, 1e300])
def test_any_error_has_a_place(value: float) -> None:
    outputs = rows(4, 2)
    outputs[3] = evolve(outputs[3], metrics={"max_absdiff": value}, worst=WorstIteration(0, value))
    chart = depth_chart(outputs, MEASURES[0], str)
    assert chart is not None and "nan" not in re.sub("<title>.*?</title>", "", chart)
    assert report_page(document(outputs), chain(4))


def test_the_graph_is_drawn_around_what_is_to_blame() -> None:
    found = {row.name: row for row in rows(100, 60)}
    region = region_of(chain(100), found, ["n60"], lambda name: f"row-{name}")
    assert region is not None
    assert region.count("<rect") == 36
    assert ">n60<" in region and ">n10<" not in region
    assert region.count(" center") == 1 and 'href="#row-t60"' in region
    assert region_of(chain(3), found, ["elsewhere"], lambda name: None) is None


@pytest.mark.parametrize(
    ("shape", "dtype"),
    spread(
        product(
            [(), (1,), (3,), (2, 3), (2, 8, 8, 8), (0, 2)],
            [np.float32, np.float16, np.int8, np.bool_],
        ),
        8,
    ),
)
def test_elements_of_any_shape_are_looked_at(shape: tuple[int, ...], dtype: Any) -> None:
    found, expected = np.ones(shape, dtype), np.zeros(shape, dtype)
    answer = SimpleCompareFunc()(IterationResult({"y": found}), IterationResult({"y": expected}))[
        "y"
    ]
    detail = detail_of(answer)
    if not found.size:
        assert detail is None
        return
    assert detail is not None
    assert sum(detail["found"]) == found.size and sum(detail["expected"]) == found.size
    element = answer.mismatches.worst
    worst = WorstIteration(0, float("inf"), element=element)
    row = evolve(rows(1, 0)[0], detail=detail, worst=worst)
    page = report_page(document([row]), None)
    assert ('class="worst"' in page) is bool(shape)


def test_what_is_not_finite_is_counted() -> None:
    found = np.array([np.nan, np.inf, 1, 2], np.float32)
    answer = SimpleCompareFunc()(
        IterationResult({"y": found}), IterationResult({"y": np.ones(4, np.float32)})
    )["y"]
    detail = detail_of(answer)
    assert detail is not None
    assert (detail["difference"]["not_finite"], detail["difference"]["equal"]) == (2, 1)
    assert detail["range"] == [1.0, 2.0]


def test_long_names_keep_both_ends() -> None:
    assert shorten_text("a" * 50 + "b" * 50, 11) == "aaaaa\N{HORIZONTAL ELLIPSIS}bbbbb"
    assert shorten_text("short", 11) == "short"


def test_culprits_are_shown_with_what_was_tried() -> None:
    culprit = {
        "nodes": ["n3"],
        "tensor": "t3",
        "party": "onnxrt",
        "cause": "rewrite",
        "rewrite": "DivMulFusion",
        "evidence": ["Without it, all outputs match."],
        "remedy": {"command": "polygraphy run m.onnx --onnxrt --something", "proven": True},
    }
    attempts = [{"title": "3/5 layer by layer", "result": "4 equal", "seconds": 0.5}]
    found = evolve(
        document([], results=[{"kind": "attempts", "attempts": attempts}], culprits=[culprit]),
        comparisons=[],
    )
    page = report_page(found, chain(9))
    for text in ("DivMulFusion", "Without it, all outputs match.", "Verified fix: all outputs match.",
                 "--something</code>", "3/5 layer by layer"):  # fmt: skip
        assert text in page, text
    assert page.count(' center"') == 1  # The graph is drawn around it.


def test_errors_by_depth_are_drawn_and_color_the_graph_around_the_culprit() -> None:
    def curve(what: str, wrong: int | None) -> dict[str, Any]:
        tensors = [
            {
                "name": f"t{index}",
                "absolute": "inf" if index == wrong else 1e-7,
                "relative": "inf" if index == wrong else 1e-7,
                "excess": "inf" if index == wrong else 0.1,
                "wrong": index == wrong,
            }
            for index in range(40)
        ]
        return {"party": "onnxrt", "what": what, "tensors": tensors}

    curves = [curve("cumulative", None), curve("isolated", None), curve("rewritten", 20)]
    culprit = {"nodes": ["n20"], "cause": "rewrite", "origin": "net.py:42 (blocks.0)"}
    results = [{"kind": "errors", "curves": curves}]
    found = evolve(document([], results=results, culprits=[culprit]), comparisons=[])
    page = report_page(found, chain(40))
    assert [page.count(f'class="curve {each["what"]}"') for each in curves] == [1, 1, 1]
    assert '<title>t20: inf (rewritten)</title><polygon class="fail"' in page
    assert "net.py:42 (blocks.0)" in page
    assert page.count('class="node failed-4 center"') == 1
    assert page.count('class="node passed"') == 15  # It is seen without scrolling far.
    without = report_page(evolve(found, results=[]), chain(40))
    assert 'class="curve' not in without
    ours = [curve("isolated", None), {**curve("isolated", 20), "party": "onnx"}]
    ours[1]["tensors"] = [{**each, "relative": 1e-7} for each in ours[1]["tensors"]]
    both = report_page(evolve(found, results=[{"kind": "errors", "curves": ours}]), chain(40))
    assert "each node of the executed graph, by itself" in page  # The legend is of what is drawn.
    assert "each node of the executed graph, by itself" not in both
    first, second = re.findall(r'<div class="scroll curves".*?</svg>', both, re.S)
    scale = re.compile(r'text-anchor="end">(1e-?\d+)<')
    assert scale.findall(first) == scale.findall(second)


def test_results_are_told_apart_and_the_only_one_is_open() -> None:
    one = {"kind": "iteration", "name": "_N0", "outcome": "good", "state": {"name": "x"}}
    alone = evolve(document([], results=[one]), comparisons=[])
    opened = report_page(alone, None)
    assert "<details open><summary>iteration _N0 good</summary>" in opened
    several = evolve(alone, results=[one, {**one, "name": MARKUP}])
    page = report_page(several, None)
    assert "<details><summary>iteration _N0 good</summary>" in page
    assert "<img" not in page


@pytest.mark.parametrize(
    ("sides", "errors", "titles", "bars"),
    [
        (2, [0.5, None], ["runner0 us", "runner1 us", "difference", "max error"],
         [("first", 100), ("last", 50)]),
        (1, [0.5, math.nan, None], ["us", "max error"], [("first", 100), ("error", 0)]),
        (1, [None, None], ["us"], [("first", 200)]),
    ],
)  # fmt: skip
def test_times_of_nodes_are_beside_their_errors(
    sides: int, errors: list[float | None], titles: list[str], bars: list[tuple[str, float]]
) -> None:
    result = profile_result(sides, errors, MARKUP)
    page = report_page(evolve(document([], results=[result]), comparisons=[]), None)
    assert MARKUP not in page.partition('id="document"')[0]
    section = page.partition('<section id="times">')[2].partition("</section>")[0]
    head, body = section.partition("<tbody>")[::2]
    assert re.findall(r'class="number">(.*?)<', head) == titles
    lines = body.split("</tr>")[:-1]
    assert len(lines) == len(errors)
    last = next(line for line in lines if f"<td>{len(errors)}</td>" in line)
    found = re.findall(r'<rect class="(first|last|error)" x="[\d.]+" width="([\d.]+)"', last)
    assert [(kind, float(width)) for kind, width in found] == bars
    assert ('title="t0">0.5<' in body) is (errors[0] is not None)
    assert body.count(">nan<") == sum(map(math.isnan, filter(None, errors)))


def test_where_nothing_helps_the_page_says_how_it_is_reported() -> None:
    command = "polygraphy diagnose m.onnx --onnxrt --save-culprit m_culprit --issue m_issue.md"
    remedy = {"command": command, "proven": False}
    culprits = [{"nodes": ["n20"], "cause": "kernel", "remedy": remedy}]
    page = report_page(evolve(document([], culprits=culprits), comparisons=[]), None)
    assert command in page and "Possible fix, not tried." not in page
    assert "No fix is known." in page


def test_what_cannot_be_typed_cannot_be_copied() -> None:
    """Only the command that was run, and those that are remedies, have a button."""
    for remedy, buttons in (
        ({"command": "polygraphy convert m.onnx -o f.onnx", "proven": True}, 2),
        ({"command": None, "proven": True, "note": "Undo that the weight 'w' is scaled."}, 1),
    ):
        culprits = [{"nodes": ["n20"], "cause": "weight", "remedy": remedy}]
        page = report_page(evolve(document([], culprits=culprits), comparisons=[]), None)
        assert page.count('<button class="copy"') == buttons
        said = page[: page.index("<h2>Culprits")]
        assert ("<p>Undo that the weight" in said.replace("&#39;", "'")) == (buttons == 1)


def test_cells_of_a_sweep_have_verdict_report_and_command() -> None:
    page = report_page(sweep_document(40), None)
    assert page.count('<tr id="c') == 40
    assert '<a href="#c20" class="bad">failed</a>' in page
    assert '<tr id="c19" class="passed">' in page
    assert '<tr id="c20" class="failed">' in page
    assert f'<a href="plan.sweep/cells/00/{19:032x}.report.json">report</a>' in page
    assert f"polygraphy run model_0.onnx --onnxrt --load-inputs {19:032x}.json</code>" in page
    elsewhere = report_page(sweep_document(40), None, "out/pages")
    assert f'<a href="../../plan.sweep/cells/00/{19:032x}.report.json">report</a>' in elsewhere
    assert "<b>1 of 1" not in page
    assert "2 cells: Outputs differ; not diagnosed (add --diagnose)" in page


@pytest.mark.parametrize(
    ("command", "proven", "said"),
    [
        ("polygraphy surgeon copy m.onnx", True, "Verified fix: all outputs match."),
        ("polygraphy surgeon copy m.onnx", False, "Possible fix, not tried."),
        ("polygraphy diagnose m.onnx --issue i.md", False, "No fix is known."),
    ],
)
def test_what_is_known_of_a_remedy_of_cells_is_said(command: str, proven: bool, said: str) -> None:
    rows = [SweepRow("m a", "m", "a", "0", state="failed", known="Slow", changes=["newly failing"])]
    group = Group("Conv 'c': rewrite (onnxrt)", ["m a"], command, proven, True)
    results = [{"kind": "sweep", **as_json_value(SweepOutcome(rows, [group], folder="f"))}]
    found = evolve(document([]), comparisons=[], results=results)
    page = report_page(found, None)
    assert f"<p>{said}" in page
    assert "Newly failing. Slow." in page


def test_a_chart_of_differences_counts_what_it_cannot_draw() -> None:
    difference = {"decades": (-3, 1), "counts": [4, 9], "equal": 1200, "not_finite": 0}
    chart = difference_chart({"difference": difference})
    assert "Sizes of the differences (1,200 equal)" in chart
    assert chart.count('class="bars sizes"') == 1
    nothing = {**difference, "equal": 0}
    assert "Sizes of the differences<" in difference_chart({"difference": nothing})
