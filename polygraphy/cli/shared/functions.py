"""Thresholds of the comparison functions that `--compare` chooses from, beside `simple`."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from polygraphy.cli.declare.kinds import Integer, Number, PerName
from polygraphy.cli.declare.option import Options, option
from polygraphy.cli.shared.tolerances import threshold

GROUPS = {
    "distance_metrics": ("l2", "cosine_similarity"),
    "quality_metrics": ("psnr", "snr"),
}
"""Names that stand for several functions."""

FUNCTIONS = (
    "simple",
    "indices",
    "l2",
    "normalized_l2",
    "cosine_similarity",
    "distance_metrics",
    "psnr",
    "snr",
    "sqnr",
    "quality_metrics",
    "perceptual_metrics",
    "ulp",
    "top_k",
    "bias",
    "non_finite",
    "error_distribution",
)
"""What `--compare` chooses from."""


@frozen
class FunctionOptions(Options):
    """Other Comparison Functions: what --compare indices, l2, ... hold outputs to, for all outputs
    or per output. Each field is named after its function.
    """

    indices: Any = threshold(
        "indices",
        Integer(minimum=0),
        "by how many places an entry of a list may be off; 0 unless given.",
        "--index-tolerance",
    )
    l2: Any = threshold(
        "l2",
        Number(minimum=0),
        "largest Euclidean length of the difference; 1e-5 unless given.",
        "--l2-threshold",
        "--l2-tolerance",
    )
    normalized_l2: Any = threshold(
        "normalized_l2",
        Number(minimum=0),
        "the same, relative to the length of the second run's output; 1e-5 unless given.",
    )
    cosine_similarity: Any = threshold(
        "cosine_similarity",
        Number(minimum=-1, maximum=1),
        "smallest cosine of the angle between outputs; 0.997 unless given.",
    )
    psnr: Any = threshold(
        "psnr",
        Number(),
        "smallest peak signal to noise ratio in dB; 30 unless given.",
        "--psnr-threshold",
        "--psnr-tolerance",
    )
    snr: Any = threshold(
        "snr",
        Number(),
        "smallest ratio of the first run's output to the difference in dB; 20 unless given.",
        "--snr-threshold",
        "--snr-tolerance",
    )
    sqnr: Any = threshold(
        "sqnr",
        Number(),
        "smallest ratio of the second run's output to the difference in dB; 20 unless given.",
    )
    perceptual_metrics: Any = threshold(
        "perceptual_metrics",
        Number(minimum=0),
        "largest perceptual distance (LPIPS) of images; 0.1 unless given.",
        "--lpips-threshold",
        "--lpips-tolerance",
    )
    ulp: Any = threshold(
        "ulp",
        Number(minimum=0),
        "largest distance in units in the last place, of the data type in which the output was"
        " computed; 16 unless given.",
    )
    top_k: Any = threshold(
        "top_k",
        Number(minimum=0, maximum=1),
        "smallest share of lists (the last dimension) whose highest entries agree; 1 unless"
        " given.",
    )
    bias: Any = threshold(
        "bias",
        Number(minimum=0),
        "largest mean signed error in either direction, relative to the size of the second"
        " run's values; 1e-5 unless given.",
    )
    non_finite: Any = threshold(
        "non_finite",
        Integer(minimum=0),
        "how many elements may be NaN or infinite on one side only; 0 unless given.",
    )
    error_distribution: Any = threshold(
        "error_distribution",
        Number(minimum=0),
        "largest 99th percentile of the absolute error; 1e-5 unless given.",
    )


@frozen
class TopKOptions(Options):
    """Comparison Function `top_k`: which entries are looked at."""

    k: Any = option(
        "--top-k",
        kind=PerName(Integer(minimum=1)),
        help="How many of the highest entries must agree, for all outputs or per output; 1 unless"
        " given.",
    )
    margin: Any = option(
        "--top-k-margin",
        kind=PerName(Number(minimum=0)),
        help="How much lower than the lowest of the second run's highest scores the score of an"
        " entry may be there, so that near ties may change places; 0 unless given.",
    )
