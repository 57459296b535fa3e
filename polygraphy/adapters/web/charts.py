"""Pictures of a report as SVG. Colors are classes, so that they follow the page's style: dark,
printed, and distinguished by shape as well as by color.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil, floor, isfinite, isnan, log10
from typing import Any

from attrs import frozen
from markupsafe import Markup

from polygraphy.domain.accuracy.output_rows import OutputRow, brief_value
from polygraphy.domain.tensors.naming import shorten_text

_WIDTH, _HEIGHT = 960, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 26, 40
_MOST_POINTS = 1500
_SEGMENTES = 480
"""Number of segments if a model has too many tensors; the worst tensor of each is drawn."""
_ROOM = 46
"""Letters of a label; what is longer is cut off in the middle."""


@frozen
class Measure:
    """The title, metric and tolerance field of an error chart."""

    title: str
    metric: str
    limit: str


MEASURES = (
    Measure("Largest absolute difference", "max_absdiff", "atol"),
    Measure("Largest relative difference", "max_reldiff", "rtol"),
)


class _Scale:
    """A logarithmic axis from the bottom to the top of a chart, which covers most values."""

    def __init__(self, values: Sequence[float]) -> None:
        """Choose the ends of the axis from the values."""
        sizes = sorted(value for value in values if isfinite(value) and value > 0) or [1e-9, 1.0]
        # The axis starts at the 2% quantile. A few much smaller values are drawn at the bottom, so
        # that they do not compress the others.
        self.low = floor(log10(sizes[len(sizes) // 50]))
        self.high = max(ceil(log10(sizes[-1])), self.low + 1)

    def __call__(self, value: float) -> float:
        """Return the position of a value.
        0 is at the bottom, and values that are not finite at the top."""
        if not isfinite(value):
            return _TOP
        if value <= 0:
            return _HEIGHT - _BOTTOM
        share = (log10(value) - self.low) / (self.high - self.low)
        return _HEIGHT - _BOTTOM - min(max(share, 0.0), 1.0) * (_HEIGHT - _TOP - _BOTTOM)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield the powers of ten on an axis, with their labels."""
        step = max(1, (self.high - self.low) // 7)
        for exponent in range(self.low, self.high + 1, step):
            yield self(10.0**exponent), f"1e{exponent}"


def depth_chart(
    rows: Sequence[OutputRow], measure: Measure, anchor: Callable[[int], str]
) -> Markup | None:
    """Return a chart of the errors of tensors in the order of computation,
    with rounding limit and tolerance; None for too few tensors.

    Args:
        rows: the rows of a comparison.
        measure: the error measure.
        anchor: returns the id of the row with a number in the page.
    """
    points = [
        (number, row, float(row.metrics[measure.metric]))  # type: ignore[arg-type]
        for number, row in enumerate(rows)
        if row.metrics.get(measure.metric) is not None
    ]
    if len(points) < 3:
        return None
    points = _worst_of_segments(points, len(rows))
    limits = [(number, _positive_number(row.limit, measure.limit)) for number, row, _ in points]
    noise = [(number, _positive_number(row.rounding, measure.limit)) for number, row, _ in points]
    values = [value for _, value in (*limits, *noise) if value is not None]
    scale = _Scale([*(value for *_, value in points), *values])

    def x_of_row(number: int) -> float:
        """Return the horizontal position of a row."""
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (number + 0.5) / len(rows)

    parts = [_axes(scale, len(rows), measure.title)]
    band = [(x_of_row(number), scale(value)) for number, value in noise if value is not None]
    if len(band) > 1:
        bottom = _HEIGHT - _BOTTOM
        outline = [(band[0][0], bottom), *band, (band[-1][0], bottom)]
        parts.append(Markup('<path class="band" d="{}Z"/>').format(_path(outline)))
    line = [(x_of_row(number), scale(value)) for number, value in limits if value is not None]
    if line:
        parts.append(Markup('<path class="limit" d="{}"/>').format(_path(_stepped_line(line))))
    parts.append(
        Markup('<path class="trace" d="{}"/>').format(
            _path([(x_of_row(number), scale(value)) for number, _, value in points])
        )
    )
    for number, row, value in points:
        parts.append(_point(x_of_row(number), scale(value), row, value, anchor(number)))
    failed = next((point for point in points if not point[1].passed), None)
    if failed is not None:
        number, row, value = failed
        parts.append(_label_of_first_failure(x_of_row(number), scale(value), row, anchor(number)))
    return svg(_WIDTH, _HEIGHT, f"{measure.title} by depth", parts)


def curves_chart(
    curves: Sequence[Mapping[str, Any]], all_curves: Sequence[Mapping[str, Any]]
) -> Markup | None:
    """Return a chart of several measurements of the same tensors, in the order of computation.
    The result is None for too few tensors.

    Args:
        curves: the curves of one backend in the document of a diagnosis.
        all_curves: the curves of all backends, which share a scale.
    """
    order: Any = max((curve["tensors"] for curve in curves), key=len, default=())
    positions = {error["name"]: position for position, error in enumerate(order)}
    if len(positions) < 3:
        return None
    lines = [
        (
            curve["what"],
            [
                (positions[e["name"]], e, float(e["relative"]))
                for e in curve["tensors"]
                if e["name"] in positions
            ],
        )
        for curve in curves
    ]
    scale = _Scale(
        [float(value["relative"]) for all_curve in all_curves for value in all_curve["tensors"]]
    )

    def x_of_position(position: int) -> float:
        """Return the horizontal position of a place."""
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (position + 0.5) / len(positions)

    parts = [_axes(scale, len(positions), "Largest difference, relative to the root mean square")]
    for array, points in lines:
        path = _path([(x_of_position(position), scale(value)) for position, _, value in points])
        parts.append(Markup('<path class="curve {}" d="{}"/>').format(array, path))
    for array, points in lines:
        wrong = [point for point in points if point[1]["wrong"]][:_MOST_POINTS]
        for position, error, value in wrong:
            about = f"{error['name']}: {brief_value(value)} ({array})"
            parts.append(
                Markup("<g><title>{}</title>{}</g>").format(
                    about, _triangle(x_of_position(position), scale(value))
                )
            )
    by_itself = [point for value, points in lines if value != "cumulative" for point in points]
    first = next((point for point in by_itself if point[1]["wrong"]), None)
    if first is not None:
        position, error, value = first
        step, anchor = (10, "start") if x_of_position(position) < _WIDTH * 0.6 else (-10, "end")
        text = Markup('<text class="mark-text" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>')
        label = shorten_text(error["name"], _ROOM)
        parts.append(text.format(x_of_position(position) + step, scale(value) + 4, anchor, label))
    return svg(_WIDTH, _HEIGHT, "Errors by depth", parts)


def _worst_of_segments(
    points: list[tuple[int, OutputRow, float]], count: int
) -> list[tuple[int, OutputRow, float]]:
    """Return number, row and error of each point to draw.

    If there are very many, they are the first failure and the worst point of each segment.
    """
    if len(points) <= _MOST_POINTS:
        return points
    of_segments: dict[object, tuple[int, OutputRow, float]] = {}
    for point in points:
        number, row, value = point
        key: object = (number * _SEGMENTES // count, row.passed)
        if not row.passed and "first" not in of_segments:
            key = "first"
        if key not in of_segments or (isnan(value), value) > (
            isnan(of_segments[key][2]),
            of_segments[key][2],
        ):
            of_segments[key] = point
    return sorted(of_segments.values(), key=lambda point: point[0])


def _positive_number(facts: Any, field: str) -> float | None:
    """Return a metric if it is a finite positive number; else None."""
    value = getattr(facts, field, None)
    return value if isinstance(value, float) and isfinite(value) and value > 0 else None


def _axes(scale: _Scale, count: int, title: str) -> Markup:
    """Return the axes of a chart."""
    lines = [
        Markup(
            '<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>'
            '<text class="tick" x="{}" y="{:.1f}" text-anchor="end">{}</text>'
        ).format(_LEFT, _WIDTH - _RIGHT, y, y, _LEFT - 8, y + 4, label)
        for y, label in scale.ticks()
    ]
    base = _HEIGHT - _BOTTOM
    lines.append(
        Markup(
            '<line class="axis" x1="{0}" x2="{1}" y1="{2}" y2="{2}"/>'
            '<text class="tick" x="{0}" y="{3}">first tensor</text>'
            '<text class="tick" x="{1}" y="{3}" text-anchor="end">last of {4}</text>'
            '<text class="tick" x="{0}" y="14">{5}</text>'
        ).format(_LEFT, _WIDTH - _RIGHT, base, base + 18, count, title)
    )
    return Markup("").join(lines)


def _point(x: float, y: float, row: OutputRow, value: float, anchor: str) -> Markup:
    """Return the mark of one tensor, which links to its row."""
    if row.passed:
        shape = Markup('<circle class="pass" cx="{:.1f}" cy="{:.1f}" r="3.2"/>').format(x, y)
    else:
        shape = _triangle(x, y)
    op, failed = row.node.op if row.node else "", "" if row.passed else ", failed"
    about = f"{op} {row.name}: {brief_value(value)}{failed}".strip()
    # Hundreds of points would be hundreds of tab stops; keyboards can use the table.
    return Markup('<a href="#{}" tabindex="-1"><title>{}</title>{}</a>').format(
        anchor, about, shape
    )


def _triangle(x: float, y: float) -> Markup:
    """Return the mark of a tensor that failed."""
    corners = f"{x:.1f},{y - 5:.1f} {x - 4.6:.1f},{y + 3.4:.1f} {x + 4.6:.1f},{y + 3.4:.1f}"
    return Markup('<polygon class="fail" points="{}"/>').format(corners)


def _label_of_first_failure(x: float, y: float, row: OutputRow, anchor: str) -> Markup:
    """Return the label of the first tensor that failed."""
    is_right = x < _WIDTH * 0.6
    return Markup(
        '<line class="mark" x1="{0:.1f}" x2="{0:.1f}" y1="{1:.1f}" y2="{2}"/><a href="#{7}">'
        '<text class="mark-text" x="{3:.1f}" y="{4}" text-anchor="{5}">{6}</text></a>'
    ).format(
        x, y, _HEIGHT - _BOTTOM, x + (6 if is_right else -6), _HEIGHT - _BOTTOM - 6,
        "start" if is_right else "end", f"first to fail: {shorten_text(row.name, _ROOM)}", anchor,
    )  # fmt: skip


def _stepped_line(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the corners of a stepped line through points, for an SVG path."""
    left, right = _LEFT, _WIDTH - _RIGHT
    corners = [(float(left), points[0][1])]
    for (x0, y0), (x1, y1) in pairwise(points):
        if y0 != y1:
            middle = (x0 + x1) / 2
            corners += [(middle, y0), (middle, y1)]
    return [*corners, (float(right), points[-1][1])]


def histogram_chart(detail: Mapping[str, Any], names: Sequence[str]) -> Markup:
    """Return a chart of the distribution of elements on both sides."""
    low, high = detail["range"]
    return _bars(
        [("found", detail["found"], names[0]), ("expected", detail["expected"], names[1])],
        (brief_value(float(low)), brief_value(float(high))),
        "Values",
    )


def difference_chart(detail: Mapping[str, Any]) -> Markup:
    """Return a chart of the distribution of differences, by powers of ten."""
    difference = detail["difference"]
    low, high = difference["decades"]
    title = "Sizes of the differences"
    apart = [
        f"{difference[field]:,} {name}"
        for field, name in (("equal", "equal"), ("not_finite", "not finite"))
        if difference[field]
    ]
    title += f" ({', '.join(apart)})" if apart else ""
    ends = f"{10.0**low:.1g}", f"{10.0**high:.1g}"
    return _bars([("sizes", difference["counts"], "")], ends, title)


def _bars(series: Sequence[tuple[str, Sequence[int], str]], ends: Any, title: str) -> Markup:
    """Return a bar chart of one or two series."""
    width, height, margin, base = 460, 170, 10, 140
    most = max((max(counts, default=0) for _, counts, _ in series), default=0) or 1
    parts = []
    for position, (kind, counts, name) in enumerate(series):
        step = (width - 2 * margin) / max(len(counts), 1)
        corners = [(float(margin), float(base))]
        for index, count in enumerate(counts):
            y = base - 104 * (count / most) ** 0.5
            corners += [
                (margin + index * step, y),
                (margin + (index + 1) * step, y),
            ]
        corners.append((float(width - margin), float(base)))
        parts.append(Markup('<path class="bars {}" d="{}"/>').format(kind, _path(corners)))
        if name:
            parts.append(
                Markup(
                    '<rect class="bars {}" x="{}" y="20" width="14" height="9"/>'
                    '<text class="tick" x="{}" y="29">{}</text>'
                ).format(
                    kind,
                    margin + position * 210,
                    margin + 20 + position * 210,
                    name[:26],
                )
            )
    parts.append(
        Markup(
            '<text class="tick" x="{0}" y="12">{1}</text>'
            '<line class="axis" x1="{0}" x2="{2}" y1="{3}" y2="{3}"/>'
            '<text class="tick" x="{0}" y="{4}">{5}</text>'
            '<text class="tick" x="{2}" y="{4}" text-anchor="end">{6}</text>'
        ).format(margin, title, width - margin, base, base + 18, *ends)
    )
    return svg(width, height, f"{title}; heights are square roots of counts", parts)


def _path(points: Sequence[tuple[float, float]]) -> str:
    """Return the SVG path through points."""
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)


def svg(
    width: float, height: float, title: str, parts: Sequence[Markup], *, is_fixed: bool = False
) -> Markup:
    """Return an SVG image with a title for screen readers."""
    size = Markup(' width="{:.0f}" height="{:.0f}"').format(width, height) if is_fixed else ""
    return Markup('<svg viewBox="0 0 {:.0f} {:.0f}"{} role="img" aria-label="{}">{}</svg>').format(
        width, height, size, title, Markup("\n").join(parts)
    )
