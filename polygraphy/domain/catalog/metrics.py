"""The metrics of the comparison functions, and the thresholds that these hold outputs to.

The options and thresholds of the command line, what programs call, what files hold, the published
names, defaults and scales are all read from these rows.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

Scale = Literal["error", "signed", "similarity", "decibels"]


class Metric(NamedTuple):
    """A number about a pair of outputs, the comparison function that computes it, and the threshold
    that it is held to.

    Attributes:
        function: what ``--compare`` calls the function.
        stem: what the names of its classes begin with.
        title: what people call the number.
        scale: ``error`` must be small, ``signed`` small in either direction; ``similarity``, at
            most 1, and ``decibels`` must be large.
        limit: what the threshold limits, for the help.
        default: the threshold where none is set.
        field: the number's name in results and files.
        argument: the argument of the function's class that sets the threshold.
        threshold_name: name of the class of thresholds; empty where verdicts are not of a number.
        flags: the options that set the threshold, the preferred one first.
        minimum: the smallest threshold.
        maximum: the largest one.
        is_whole: whether a threshold is a whole number.
        group: the name that stands for this function and others; empty for none.
    """

    function: str
    stem: str
    title: str
    scale: Scale
    limit: str
    default: float
    field: str
    argument: str
    threshold_name: str
    flags: Sequence[str]
    minimum: float = -math.inf
    maximum: float = math.inf
    is_whole: bool = False
    group: str = ""

    @property
    def class_name(self) -> str:
        """Name of the class of the comparison function."""
        return f"{self.stem}CompareFunc"

    @property
    def result_name(self) -> str:
        """Name of the class of its verdicts."""
        return f"{self.stem}Result"

    @property
    def published_names(self) -> tuple[str, ...]:
        """The names of `polygraphy.comparator` that belong to it."""
        names = self.class_name, self.result_name, self.threshold_name
        return tuple(name for name in names if name)

    @property
    def lower_is_better(self) -> bool:
        """Whether the threshold is the largest allowed value, rather than the smallest."""
        return self.scale in ("error", "signed")

    @property
    def unit(self) -> str:
        """What is written behind the number."""
        return " dB" if self.scale == "decibels" else ""

    @property
    def help(self) -> str:
        """What the option of the threshold does."""
        return f"{self.function}: {self.limit}."

    @property
    def default_text(self) -> str:
        """The default as people write it."""
        return f"{self.default:g}".replace("e-0", "e-")


def _row(function: str, stem: str, **values: Any) -> Metric:
    """Return a metric, whose names follow from those of the function where they are not set."""
    usual = {
        "field": function,
        "argument": f"{function}_threshold",
        "threshold_name": f"{stem}Threshold",
        "flags": (f"--{function.replace('_', '-')}-threshold",),
    }
    return Metric(function, stem, **{**usual, **values})


THRESHOLDS = {
    each.function: each
    for each in (
        _row(
            function="indices",
            stem="Indices",
            title="Misplaced Indices",
            scale="error",
            threshold_name="",
            limit="by how many places an entry of a list may be off",
            default=0,
            argument="index_tolerance",
            flags=("--index-tolerance",),
            minimum=0,
            is_whole=True,
        ),
        _row(
            function="l2",
            stem="L2",
            title="L2 Norm",
            scale="error",
            field="l2_norm",
            limit="largest Euclidean length of the difference",
            default=1e-5,
            flags=("--l2-threshold", "--l2-tolerance"),
            minimum=0,
            group="distance_metrics",
        ),
        _row(
            function="normalized_l2",
            stem="NormalizedL2",
            title="Normalized L2 Norm",
            scale="error",
            limit="the same, relative to the length of the second run's output",
            default=1e-5,
            minimum=0,
        ),
        _row(
            function="cosine_similarity",
            stem="CosineSimilarity",
            title="Cosine Similarity",
            scale="similarity",
            limit="smallest cosine of the angle between outputs",
            default=0.997,
            minimum=-1,
            maximum=1,
            group="distance_metrics",
        ),
        _row(
            function="psnr",
            stem="Psnr",
            title="PSNR",
            scale="decibels",
            limit="smallest peak signal to noise ratio in dB",
            default=30.0,
            flags=("--psnr-threshold", "--psnr-tolerance"),
            group="quality_metrics",
        ),
        _row(
            function="snr",
            stem="Snr",
            title="SNR",
            scale="decibels",
            limit="smallest ratio of the first run's output to the difference in dB",
            default=20.0,
            flags=("--snr-threshold", "--snr-tolerance"),
            group="quality_metrics",
        ),
        _row(
            function="sqnr",
            stem="Sqnr",
            title="SQNR",
            scale="decibels",
            limit="smallest ratio of the second run's output to the difference in dB",
            default=20.0,
        ),
        _row(
            function="perceptual_metrics",
            stem="PerceptualMetrics",
            title="LPIPS",
            scale="error",
            field="lpips",
            limit="largest perceptual distance (LPIPS) of images",
            default=0.1,
            argument="lpips_threshold",
            threshold_name="LpipsThreshold",
            flags=("--lpips-threshold", "--lpips-tolerance"),
            minimum=0,
        ),
        _row(
            function="ulp",
            stem="Ulp",
            title="Largest ULP Distance",
            scale="error",
            field="max_ulp",
            limit="largest distance in units in the last place, of the data type in which the"
            " output was computed",
            default=16.0,
            minimum=0,
        ),
        _row(
            function="top_k",
            stem="TopK",
            title="Top-K Agreement",
            scale="similarity",
            field="top_k_agreement",
            limit="smallest share of lists (the last dimension) whose highest entries agree",
            default=1.0,
            argument="agreement_threshold",
            minimum=0,
            maximum=1,
        ),
        _row(
            function="bias",
            stem="Bias",
            title="Bias",
            scale="signed",
            limit="largest mean signed error in either direction, relative to the size of the"
            " second run's values",
            default=1e-5,
            minimum=0,
        ),
        _row(
            function="non_finite",
            stem="NonFinite",
            title="Non-Finite Mismatches",
            scale="error",
            field="non_finite_mismatches",
            limit="how many elements may be NaN or infinite on one side only",
            default=0.0,
            minimum=0,
            is_whole=True,
        ),
        _row(
            function="error_distribution",
            stem="ErrorDistribution",
            title="99th Percentile of the Error",
            scale="error",
            field="p99",
            limit="largest 99th percentile of the absolute error",
            default=1e-5,
            minimum=0,
        ),
    )
}
"""All that have a threshold, by the name of the function."""

METRICS = {name: each for name, each in THRESHOLDS.items() if each.threshold_name}
"""Those whose verdict is a number."""

GROUPS = {
    group: tuple(name for name, each in THRESHOLDS.items() if each.group == group)
    for group in dict.fromkeys(each.group for each in THRESHOLDS.values())
    if group
}
"""Names that stand for several functions."""
