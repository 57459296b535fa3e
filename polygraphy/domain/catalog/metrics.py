"""The metrics of the comparison functions, and the thresholds that these hold outputs to.

The options and thresholds of the command line, what programs call, what files hold, the published
names, defaults and scales are all read from these rows.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

Scale = Literal["error", "signed", "similarity", "decibels"]


class Metric(NamedTuple):
    """A number about a pair of outputs, the comparison function that computes it, and its
    threshold.

    Attributes:
        function: the name of the function for ``--compare``.
        stem: the beginning of the names of its classes.
        title: the common name of the number.
        scale: ``error`` must be small, ``signed`` small in either direction; ``similarity``, at
            most 1, and ``decibels`` must be large.
        limit: the quantity that the threshold limits, for the help.
        default: the threshold where none is set.
        field: the number's name in results and files.
        argument: the argument of the function's class that sets the threshold.
        threshold_name: name of the class of thresholds; empty where verdicts are not of a number.
        flags: the options that set the threshold, the preferred one first.
        threshold_doc, result_doc, function_doc: what the classes of thresholds, verdicts and
            functions say of themselves; empty where their classes are written by hand.
        details: the further facts of a verdict that a log line shows.
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
    threshold_doc: str = ""
    result_doc: str = ""
    function_doc: str = ""
    details: tuple[str, ...] = ()

    @property
    def class_name(self) -> str:
        """The name of the class of the comparison function."""
        return f"{self.stem}CompareFunc"

    @property
    def result_name(self) -> str:
        """The name of the class of its results."""
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
        """The unit after the number."""
        return " dB" if self.scale == "decibels" else ""

    @property
    def help(self) -> str:
        """The help of the threshold option."""
        return f"{self.function}: {self.limit}."

    @property
    def default_text(self) -> str:
        """Return the default threshold as text."""
        return f"{self.default:g}".replace("e-0", "e-")


def _metric(function: str, stem: str, **values: Any) -> Metric:
    """Return a metric whose names follow from those of the function unless they are set."""
    usual = {
        "field": function,
        "argument": f"{function}_threshold",
        "threshold_name": f"{stem}Threshold",
        "flags": (f"--{function.replace('_', '-')}-threshold",),
    }
    return Metric(function, stem, **{**usual, **values})


THRESHOLDS = {
    names.function: names
    for names in (
        _metric(
            function="indices",
            stem="Indices",
            title="Misplaced Indices",
            scale="error",
            threshold_name="",
            limit="largest shift of an entry within its list",
            default=0,
            argument="index_tolerance",
            flags=("--index-tolerance",),
            minimum=0,
            is_whole=True,
        ),
        _metric(
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
            threshold_doc="Largest acceptable length of the difference, in the unit of the output.",
            result_doc="Euclidean length of the difference; grows with the number of elements.",
            function_doc="Limit the Euclidean length of the difference.",
        ),
        _metric(
            function="normalized_l2",
            stem="NormalizedL2",
            title="Normalized L2 Norm",
            scale="error",
            limit="largest Euclidean length of the difference, relative to the second run's output",
            default=1e-5,
            minimum=0,
            threshold_doc="Largest acceptable length of the difference, relative to the second"
            " run's output.",
            result_doc="Euclidean length of the difference, relative to that of the second"
            " run's output;"
            " independent of scale and size.",
            function_doc="Limit the length of the difference, relative to that of the second"
            " run's output.",
        ),
        _metric(
            function="cosine_similarity",
            stem="CosineSimilarity",
            title="Cosine Similarity",
            scale="similarity",
            limit="smallest cosine of the angle between outputs",
            default=0.997,
            minimum=-1,
            maximum=1,
            group="distance_metrics",
            threshold_doc="Smallest acceptable cosine, from -1 to 1.",
            result_doc="Cosine of the angle between the outputs, from -1 to 1; ignores a common"
            " factor.",
            function_doc="Require a minimum cosine of the angle between the outputs.",
        ),
        _metric(
            function="psnr",
            stem="Psnr",
            title="PSNR",
            scale="decibels",
            limit="smallest peak signal-to-noise ratio, in dB",
            default=30.0,
            flags=("--psnr-threshold", "--psnr-tolerance"),
            group="quality_metrics",
            threshold_doc="Smallest acceptable peak signal-to-noise ratio, in dB.",
            result_doc="Peak signal-to-noise ratio in dB; the peak is the largest element of"
            " the first"
            " run.",
            function_doc="Require a minimum peak signal-to-noise ratio; for images.",
        ),
        _metric(
            function="snr",
            stem="Snr",
            title="SNR",
            scale="decibels",
            limit="smallest ratio of the first run's output to the difference, in dB",
            default=20.0,
            flags=("--snr-threshold", "--snr-tolerance"),
            group="quality_metrics",
            threshold_doc="Smallest acceptable signal-to-noise ratio, in dB.",
            result_doc="Signal-to-noise ratio in dB; the first run is the signal.",
            function_doc="Require a minimum signal-to-noise ratio; the first run is the signal.",
        ),
        _metric(
            function="sqnr",
            stem="Sqnr",
            title="SQNR",
            scale="decibels",
            limit="smallest ratio of the second run's output to the difference in dB",
            default=20.0,
            threshold_doc="Smallest acceptable signal-to-quantization-noise ratio, in dB.",
            result_doc="Signal-to-quantization-noise ratio in dB; the second run is the signal."
            " About 6 dB"
            " for each correct bit.",
            function_doc="Require a minimum signal-to-quantization-noise ratio; the second run"
            " is the"
            " signal.",
        ),
        _metric(
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
            threshold_doc="Largest acceptable perceptual distance.",
            result_doc="Perceptual distance between two images: LPIPS (Zhang et al., 2018), 0 for"
            " identical images.",
            function_doc="Limit the perceptual distance between two images.\n\nRaises BackendError"
            " if no adapter is bound to the port `PerceptualDistance`.",
        ),
        _metric(
            function="ulp",
            stem="Ulp",
            title="Largest ULP Distance",
            scale="error",
            field="max_ulp",
            limit="largest distance in units in the last place, of the data type in which the"
            " output was computed",
            default=16.0,
            minimum=0,
            threshold_doc="Largest acceptable distance, in units in the last place.",
            result_doc="The largest distance in units in the last place of the data type in"
            " which the output was computed.\n\nDetails: ``p99_ulp``, ``mean_ulp``, and the"
            " data type as ``computed_in``.",
            function_doc="Limit the largest distance in units in the last place. The unit is that"
            " of the data type in which the output was computed or, if that is unknown, of the"
            " output itself.\n\nFor integers, the unit is 1.",
            details=("p99_ulp", "mean_ulp", "computed_in"),
        ),
        _metric(
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
            threshold_doc="Smallest acceptable share of lists that agree, from 0 to 1.",
            result_doc="The share of lists of scores whose highest entries are equal, or equally"
            " good.\n\nDetails: ``k``, the ``margin`` that was allowed, the ``needed_margin``"
            " with which all would agree, ``lists``, and ``first_disagreement``, the position"
            " of a list.",
            function_doc="Require a minimum share of lists (the last dimension) whose highest"
            " entries agree.",
            details=("k", "margin", "needed_margin", "lists", "first_disagreement"),
        ),
        _metric(
            function="bias",
            stem="Bias",
            title="Bias",
            scale="signed",
            limit="largest mean signed error in either direction, relative to the size of the"
            " second run's values",
            default=1e-5,
            minimum=0,
            threshold_doc="Largest acceptable bias in either direction.",
            result_doc="The mean signed error, divided by the RMS of the second"
            " run's output.\n\nDetails: ``mean_signed_error`` in the output's own unit.",
            function_doc="Limit the mean signed error, divided by the RMS of the second run's"
            " output, in either direction. Errors that cancel out do not count; drift does.",
            details=("mean_signed_error",),
        ),
        _metric(
            function="non_finite",
            stem="NonFinite",
            title="Non-Finite Mismatches",
            scale="error",
            field="non_finite_mismatches",
            limit="largest number of elements that are NaN or infinite on one side only",
            default=0.0,
            minimum=0,
            is_whole=True,
            threshold_doc="Largest acceptable number of elements that are NaN or infinite on"
            " one side only.",
            result_doc="Number of elements that are NaN, +inf or -inf on one side and differ"
            " on the other.\n\nDetails: the number of each kind (``nan``, ``posinf``,"
            " ``neginf``), and the index of the ``first``.",
            function_doc="Limit the number of elements that are NaN, +inf or -inf on one side"
            " only; finite elements are not compared.",
            details=("nan", "posinf", "neginf", "first"),
        ),
        _metric(
            function="error_distribution",
            stem="ErrorDistribution",
            title="99th Percentile of the Error",
            scale="error",
            field="p99",
            limit="largest 99th percentile of the absolute error",
            default=1e-5,
            minimum=0,
            threshold_doc="Largest acceptable 99th percentile of the absolute error, in the"
            " unit of the"
            " output.",
            result_doc="The 99th percentile of the absolute error.\n\nDetails: ``min``,"
            " ``max``, ``mean``, ``std``, ``median``, ``p90`` and ``p95`` of the absolute"
            " error, the number of ``nan`` errors, and their ``histogram`` (``bin_edges`` and"
            " ``counts``).",
            function_doc="Report the distribution of the absolute error, and limit its 99th"
            " percentile.",
            details=("min", "max", "mean", "std", "median", "p90", "p95", "nan"),
        ),
    )
}
"""All that have a threshold, by the name of the function."""

METRICS = {name: threshold for name, threshold in THRESHOLDS.items() if threshold.threshold_name}
"""Those whose verdict is a number."""

GROUPS = {
    group: tuple(name for name, threshold in THRESHOLDS.items() if threshold.group == group)
    for group in dict.fromkeys(threshold.group for threshold in THRESHOLDS.values())
    if group
}
"""Names that stand for several functions."""
