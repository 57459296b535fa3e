"""The metrics that are one number: thresholds, verdicts, and the functions that compute them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from attrs import frozen

from polygraphy.domain.arithmetic import similarity
from polygraphy.domain.arithmetic.similarity import DotMetrics
from polygraphy.domain.catalog.metrics import METRICS
from polygraphy.domain.compare.metric import MetricCompareFunc, MetricResult, MetricThreshold
from polygraphy.domain.compare.pairwise import Side
from polygraphy.domain.errors import BackendError
from polygraphy.domain.tensors.pairing import FindOutput
from polygraphy.domain.tensors.per_output import PerOutput
from polygraphy.ports.binding import Unbound, resolve

if TYPE_CHECKING:
    import numpy as np


class PerceptualDistance(Protocol):
    """Measures how different two images look."""

    def prepare(self) -> None:
        """Make sure that this can be measured, before anything is computed for it.

        Raises:
            BackendError: it cannot: a package, or a trained network, is missing.
        """

    def between(self, image0: np.ndarray[Any, Any], image1: np.ndarray[Any, Any]) -> float:
        """Return the distance of two arrays of images of one shape; 0 for the same image.

        It is NaN where one of them holds NaN or infinity.

        Raises:
            TypeError: they do not hold numbers.
            UsageError: they hold no images.
        """


__all__ = [
    "CosineSimilarityCompareFunc",
    "CosineSimilarityResult",
    "CosineSimilarityThreshold",
    "L2CompareFunc",
    "L2Result",
    "L2Threshold",
    "LpipsThreshold",
    "NormalizedL2CompareFunc",
    "NormalizedL2Result",
    "NormalizedL2Threshold",
    "PerceptualMetricsCompareFunc",
    "PerceptualMetricsResult",
    "PsnrCompareFunc",
    "PsnrResult",
    "PsnrThreshold",
    "SnrCompareFunc",
    "SnrResult",
    "SnrThreshold",
    "SqnrCompareFunc",
    "SqnrResult",
    "SqnrThreshold",
]


class _DotCompareFunc(MetricCompareFunc):
    """Takes its metric from the one pass that gives norms and angles."""

    def dot_metrics(self, value: Side, reference: Side) -> DotMetrics:
        """Return norms and angles; TypeError where there are no numbers."""
        return similarity.dot_metrics(value.array, reference.array, threads=self.threads)


@frozen
class L2Threshold(MetricThreshold):
    """The largest tolerable length of the difference, in the output's own unit."""

    metric = METRICS["l2"]


class L2Result(MetricResult):
    """The Euclidean length of the difference; it grows with the number of elements."""

    metric = L2Threshold.metric

    def __init__(
        self, l2_norm: float | None = None, thresholds: MetricThreshold | None = None
    ) -> None:
        super().__init__(l2_norm, thresholds)

    l2_norm = property(lambda self: self.value, doc="The metric; None when it was not computed.")


class L2CompareFunc(_DotCompareFunc):
    """Holds the Euclidean length of the difference to a largest value."""

    result_type = L2Result
    threshold_type = L2Threshold

    def __init__(
        self,
        l2_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set the largest length, in the output's own unit (default: 1e-5)."""
        super().__init__(l2_threshold, check_shapes, fail_fast, find_output_func)

    def measure(self, value: Side, reference: Side) -> float:
        return similarity.l2_norm(self.dot_metrics(value, reference))


@frozen
class NormalizedL2Threshold(MetricThreshold):
    """The largest tolerable length of the difference, by that of the second run's output."""

    metric = METRICS["normalized_l2"]


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


class NormalizedL2CompareFunc(_DotCompareFunc):
    """Holds the length of the difference, relative to that of the second run's output, to a largest
    value.
    """

    result_type = NormalizedL2Result
    threshold_type = NormalizedL2Threshold

    def __init__(
        self,
        normalized_l2_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set the largest ratio (default: 1e-5)."""
        super().__init__(normalized_l2_threshold, check_shapes, fail_fast, find_output_func)

    def measure(self, value: Side, reference: Side) -> float:
        return similarity.normalized_l2(self.dot_metrics(value, reference))


@frozen
class CosineSimilarityThreshold(MetricThreshold):
    """The smallest tolerable cosine."""

    metric = METRICS["cosine_similarity"]


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


class CosineSimilarityCompareFunc(_DotCompareFunc):
    """Holds the cosine of the angle between the outputs to a smallest value."""

    result_type = CosineSimilarityResult
    threshold_type = CosineSimilarityThreshold

    def __init__(
        self,
        cosine_similarity_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set the smallest cosine, from -1 to 1 (default: 0.997)."""
        super().__init__(cosine_similarity_threshold, check_shapes, fail_fast, find_output_func)

    def measure(self, value: Side, reference: Side) -> float:
        return similarity.cosine_similarity(self.dot_metrics(value, reference))


@frozen
class PsnrThreshold(MetricThreshold):
    """The smallest tolerable peak signal to noise ratio, in dB."""

    metric = METRICS["psnr"]


class PsnrResult(MetricResult):
    """The peak signal to noise ratio in dB, the peak being the first run's greatest element."""

    metric = PsnrThreshold.metric

    def __init__(
        self, psnr: float | None = None, thresholds: MetricThreshold | None = None
    ) -> None:
        super().__init__(psnr, thresholds)

    psnr = property(lambda self: self.value, doc="The metric; None when it was not computed.")


class PsnrCompareFunc(_DotCompareFunc):
    """Holds the peak signal to noise ratio to a smallest value; for images."""

    result_type = PsnrResult
    threshold_type = PsnrThreshold

    def __init__(
        self,
        psnr_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set the smallest ratio in dB (default: 30)."""
        super().__init__(psnr_threshold, check_shapes, fail_fast, find_output_func)

    def measure(self, value: Side, reference: Side) -> float:
        return similarity.psnr(self.dot_metrics(value, reference))


@frozen
class SnrThreshold(MetricThreshold):
    """The smallest tolerable signal to noise ratio, in dB."""

    metric = METRICS["snr"]


class SnrResult(MetricResult):
    """The signal to noise ratio in dB, the first run being the signal."""

    metric = SnrThreshold.metric

    def __init__(self, snr: float | None = None, thresholds: MetricThreshold | None = None) -> None:
        super().__init__(snr, thresholds)

    snr = property(lambda self: self.value, doc="The metric; None when it was not computed.")


class SnrCompareFunc(_DotCompareFunc):
    """Holds the signal to noise ratio to a smallest value; the first run is the signal."""

    result_type = SnrResult
    threshold_type = SnrThreshold

    def __init__(
        self,
        snr_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set the smallest ratio in dB (default: 20)."""
        super().__init__(snr_threshold, check_shapes, fail_fast, find_output_func)

    def measure(self, value: Side, reference: Side) -> float:
        return similarity.snr(self.dot_metrics(value, reference))


@frozen
class SqnrThreshold(MetricThreshold):
    """The smallest tolerable signal to quantisation noise ratio, in dB."""

    metric = METRICS["sqnr"]


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


class SqnrCompareFunc(_DotCompareFunc):
    """Holds the signal to quantisation noise ratio to a smallest value; the second run is the
    signal.
    """

    result_type = SqnrResult
    threshold_type = SqnrThreshold

    def __init__(
        self,
        sqnr_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set the smallest ratio in dB (default: 20)."""
        super().__init__(sqnr_threshold, check_shapes, fail_fast, find_output_func)

    def measure(self, value: Side, reference: Side) -> float:
        return similarity.sqnr(self.dot_metrics(value, reference))


@frozen
class LpipsThreshold(MetricThreshold):
    """The largest tolerable perceptual distance."""

    metric = METRICS["perceptual_metrics"]


class PerceptualMetricsResult(MetricResult):
    """How different two images look: LPIPS (Zhang et al., 2018), 0 for the same image."""

    metric = LpipsThreshold.metric

    def __init__(
        self, lpips: float | None = None, thresholds: MetricThreshold | None = None
    ) -> None:
        super().__init__(lpips, thresholds)

    lpips = property(lambda self: self.value, doc="The metric; None when it was not computed.")


class PerceptualMetricsCompareFunc(MetricCompareFunc):
    """Holds how different two images look to a largest value.

    Where nothing is bound to the port `PerceptualDistance` it cannot be made: what was not compared
    has not passed.
    """

    result_type = PerceptualMetricsResult
    threshold_type = LpipsThreshold

    def __init__(
        self,
        lpips_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set the largest distance (default: 0.1).

        Raises:
            BackendError: LPIPS is not available.
        """
        super().__init__(lpips_threshold, check_shapes, fail_fast, find_output_func)
        try:
            self._distance = resolve(PerceptualDistance)
            self._distance.prepare()
        except Unbound:
            raise BackendError(
                "The comparison function perceptual_metrics is not available: it needs LPIPS, and"
                " nothing that computes it is installed.",
                backend="lpips",
                hint="Choose another one, such as psnr or cosine_similarity.",
            ) from None

    def measure(self, value: Side, reference: Side) -> float:
        """Return the perceptual distance of two images."""
        return self._distance.between(value.array, reference.array)
