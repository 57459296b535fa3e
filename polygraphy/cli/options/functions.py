"""Thresholds of the comparison functions that `--compare` chooses from, beside `simple`."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from polygraphy.cli.kinds import Integer, Number, PerName
from polygraphy.cli.option import Options, option

__all__ = ["FUNCTIONS", "GROUPS", "FunctionOptions", "TopKOptions"]

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

    indices: Any = option(
        "--index-tolerance",
        kind=PerName(Integer(minimum=0)),
        help="indices: by how many places an entry of a list may be off; 0 unless given.",
    )
    l2: Any = option(
        "--l2-threshold",
        "--l2-tolerance",
        kind=PerName(Number(minimum=0)),
        help="l2: largest Euclidean length of the difference; 1e-5 unless given.",
    )
    normalized_l2: Any = option(
        "--normalized-l2-threshold",
        kind=PerName(Number(minimum=0)),
        help="normalized_l2: the same, relative to the length of the second run's output; 1e-5"
        " unless given.",
    )
    cosine_similarity: Any = option(
        "--cosine-similarity-threshold",
        kind=PerName(Number(minimum=-1, maximum=1)),
        help="cosine_similarity: smallest cosine of the angle between outputs; 0.997 unless given.",
    )
    psnr: Any = option(
        "--psnr-threshold",
        "--psnr-tolerance",
        kind=PerName(Number()),
        help="psnr: smallest peak signal to noise ratio in dB; 30 unless given.",
    )
    snr: Any = option(
        "--snr-threshold",
        "--snr-tolerance",
        kind=PerName(Number()),
        help="snr: smallest ratio of the first run's output to the difference in dB; 20 unless"
        " given.",
    )
    sqnr: Any = option(
        "--sqnr-threshold",
        kind=PerName(Number()),
        help="sqnr: smallest ratio of the second run's output to the difference in dB; 20 unless"
        " given.",
    )
    perceptual_metrics: Any = option(
        "--lpips-threshold",
        "--lpips-tolerance",
        kind=PerName(Number(minimum=0)),
        help="perceptual_metrics: largest perceptual distance (LPIPS) of images; 0.1 unless given.",
    )
    ulp: Any = option(
        "--ulp-threshold",
        kind=PerName(Number(minimum=0)),
        help="ulp: largest distance in units in the last place, of the data type in which the"
        " output was computed; 16 unless given.",
    )
    top_k: Any = option(
        "--top-k-threshold",
        kind=PerName(Number(minimum=0, maximum=1)),
        help="top_k: smallest share of lists (the last dimension) whose highest entries agree; 1"
        " unless given.",
    )
    bias: Any = option(
        "--bias-threshold",
        kind=PerName(Number(minimum=0)),
        help="bias: largest mean signed error in either direction, relative to the size of the"
        " second run's values; 1e-5 unless given.",
    )
    non_finite: Any = option(
        "--non-finite-threshold",
        kind=PerName(Integer(minimum=0)),
        help="non_finite: how many elements may be NaN or infinite on one side only; 0 unless"
        " given.",
    )
    error_distribution: Any = option(
        "--error-distribution-threshold",
        kind=PerName(Number(minimum=0)),
        help="error_distribution: largest 99th percentile of the absolute error; 1e-5 unless"
        " given.",
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
