"""The metrics that there are, with the names that files and scripts know them by."""

from __future__ import annotations

from attrs import frozen

from polygraphy.domain.compare.metric import Metric, MetricResult, MetricThreshold


@frozen
class L2Threshold(MetricThreshold):
    """The largest tolerable length of the difference, in the output's own unit."""

    metric = Metric("l2", "l2_norm", "L2 Norm", "error")


class L2Result(MetricResult):
    """The Euclidean length of the difference; it grows with the number of elements."""

    metric = L2Threshold.metric

    def __init__(
        self, l2_norm: float | None = None, thresholds: MetricThreshold | None = None
    ) -> None:
        super().__init__(l2_norm, thresholds)

    l2_norm = property(lambda self: self.value, doc="The metric; None when it was not computed.")


@frozen
class NormalizedL2Threshold(MetricThreshold):
    """The largest tolerable length of the difference, by that of the second run's output."""

    metric = Metric("normalized_l2", "normalized_l2", "Normalized L2 Norm", "error")


class NormalizedL2Result(MetricResult):
    """The Euclidean length of the difference by that of the second run's output: no scale and no
    size matters.
    """

    metric = NormalizedL2Threshold.metric

    def __init__(
        self, normalized_l2: float | None = None, thresholds: MetricThreshold | None = None
    ) -> None:
        super().__init__(normalized_l2, thresholds)

    normalized_l2 = property(
        lambda self: self.value, doc="The metric; None when it was not computed."
    )


@frozen
class CosineSimilarityThreshold(MetricThreshold):
    """The smallest tolerable cosine."""

    metric = Metric("cosine_similarity", "cosine_similarity", "Cosine Similarity", "likeness")


class CosineSimilarityResult(MetricResult):
    """The cosine of the angle between the outputs, from -1 to 1: blind to a factor between them."""

    metric = CosineSimilarityThreshold.metric

    def __init__(
        self, cosine_similarity: float | None = None, thresholds: MetricThreshold | None = None
    ) -> None:
        super().__init__(cosine_similarity, thresholds)

    cosine_similarity = property(
        lambda self: self.value, doc="The metric; None when it was not computed."
    )


@frozen
class PsnrThreshold(MetricThreshold):
    """The smallest tolerable peak signal to noise ratio, in dB."""

    metric = Metric("psnr", "psnr", "PSNR", "decibels")


class PsnrResult(MetricResult):
    """The peak signal to noise ratio in dB, the peak being the first run's greatest element."""

    metric = PsnrThreshold.metric

    def __init__(
        self, psnr: float | None = None, thresholds: MetricThreshold | None = None
    ) -> None:
        super().__init__(psnr, thresholds)

    psnr = property(lambda self: self.value, doc="The metric; None when it was not computed.")


@frozen
class SnrThreshold(MetricThreshold):
    """The smallest tolerable signal to noise ratio, in dB."""

    metric = Metric("snr", "snr", "SNR", "decibels")


class SnrResult(MetricResult):
    """The signal to noise ratio in dB, the first run being the signal."""

    metric = SnrThreshold.metric

    def __init__(self, snr: float | None = None, thresholds: MetricThreshold | None = None) -> None:
        super().__init__(snr, thresholds)

    snr = property(lambda self: self.value, doc="The metric; None when it was not computed.")


@frozen
class SqnrThreshold(MetricThreshold):
    """The smallest tolerable signal to quantisation noise ratio, in dB."""

    metric = Metric("sqnr", "sqnr", "SQNR", "decibels")


class SqnrResult(MetricResult):
    """The signal to quantisation noise ratio in dB, the second run being the signal; some 6 dB for
    each bit that is right.
    """

    metric = SqnrThreshold.metric

    def __init__(
        self, sqnr: float | None = None, thresholds: MetricThreshold | None = None
    ) -> None:
        super().__init__(sqnr, thresholds)

    sqnr = property(lambda self: self.value, doc="The metric; None when it was not computed.")


@frozen
class LpipsThreshold(MetricThreshold):
    """The largest tolerable perceptual distance."""

    metric = Metric("perceptual_metrics", "lpips", "LPIPS", "error")


class PerceptualMetricsResult(MetricResult):
    """How different two images look: LPIPS (Zhang et al., 2018), 0 for the same image."""

    metric = LpipsThreshold.metric

    def __init__(
        self, lpips: float | None = None, thresholds: MetricThreshold | None = None
    ) -> None:
        super().__init__(lpips, thresholds)

    lpips = property(lambda self: self.value, doc="The metric; None when it was not computed.")
