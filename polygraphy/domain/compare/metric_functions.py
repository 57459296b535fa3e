"""The comparison functions that hold a single metric of each output to a threshold."""

from __future__ import annotations

from typing import ClassVar

from polygraphy.domain import arithmetic
from polygraphy.domain.arithmetic import DotMetrics
from polygraphy.domain.compare import metrics
from polygraphy.domain.compare.function import PairwiseCompareFunc, Side
from polygraphy.domain.compare.metric import MetricResult, MetricThreshold
from polygraphy.domain.compare.result import CompareResult, UncomparedResult
from polygraphy.domain.errors import BackendError
from polygraphy.domain.tensors.pairing import FindOutput
from polygraphy.domain.tensors.per_output import PerOutput, kept_setting, value_for
from polygraphy.ports.binding import Unbound, resolve
from polygraphy.ports.perceptual import PerceptualDistance


class MetricCompareFunc(PairwiseCompareFunc):
    """Holds one metric of each output to a threshold, which may differ from output to output.

    Subclasses name the metric, its usual threshold, and what computes it.
    """

    result_type: ClassVar[type[MetricResult]]
    threshold_type: ClassVar[type[MetricThreshold]]
    default: ClassVar[float]

    def __init__(
        self,
        threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        super().__init__(check_shapes, fail_fast, find_output_func)
        self.threshold = kept_setting(threshold)
        for name in self.named_outputs() | {""}:
            self.thresholds_for(name)

    @property
    def label(self) -> str:  # type: ignore[override]
        """Name of the function."""
        return self.result_type.metric.function

    def per_output_settings(self) -> tuple[PerOutput[float] | None]:
        """Return the threshold."""
        return (self.threshold,)

    def thresholds_for(self, output_name: str) -> MetricThreshold:
        """Return what the output is held to."""
        given: float | None = value_for(self.threshold, output_name, None)
        if given is None:
            return self.threshold_type(self.default)
        return self.threshold_type(given, reason=self.given_by)

    def measure(self, value: Side, reference: Side) -> float:
        """Return the metric of two arrays of one shape.

        Raises:
            TypeError: they do not hold numbers.
        """
        raise NotImplementedError

    def compare_arrays(self, value: Side, reference: Side, setting: str) -> CompareResult:
        """Compute the metric; outputs that do not hold numbers fail."""
        try:
            return self.result_of(value, reference, setting)
        except TypeError:
            return UncomparedResult(
                f"{self.result_type.metric.title} is of numbers, unlike {value.tensor}, which is"
                f" compared with {reference.tensor}."
            )

    def result_of(self, value: Side, reference: Side, setting: str) -> CompareResult:
        """Measure two arrays of one shape, and hold that to the threshold of `setting`.

        Raises:
            TypeError: they do not hold numbers.
        """
        return self.result_type(self.measure(value, reference), self.thresholds_for(setting))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.threshold!r})"


class _DotCompareFunc(MetricCompareFunc):
    """Takes its metric from the one pass that gives norms and angles."""

    def dot_metrics(self, value: Side, reference: Side) -> DotMetrics:
        """Return norms and angles; TypeError where there are no numbers."""
        return arithmetic.dot_metrics(value.array, reference.array, threads=self.threads)


class L2CompareFunc(_DotCompareFunc):
    """Holds the Euclidean length of the difference to a largest value."""

    result_type = metrics.L2Result
    threshold_type = metrics.L2Threshold
    default = 1e-5

    def __init__(
        self,
        l2_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set the largest length, in the output's own unit; 1e-5 unless given."""
        super().__init__(l2_threshold, check_shapes, fail_fast, find_output_func)

    def measure(self, value: Side, reference: Side) -> float:
        """Return the metric of two arrays of one shape."""
        return arithmetic.l2_norm(self.dot_metrics(value, reference))


class NormalizedL2CompareFunc(_DotCompareFunc):
    """Holds the length of the difference, relative to that of the second run's output, to a largest
    value.
    """

    result_type = metrics.NormalizedL2Result
    threshold_type = metrics.NormalizedL2Threshold
    default = 1e-5

    def __init__(
        self,
        normalized_l2_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set the largest ratio; 1e-5 unless given."""
        super().__init__(normalized_l2_threshold, check_shapes, fail_fast, find_output_func)

    def measure(self, value: Side, reference: Side) -> float:
        """Return the metric of two arrays of one shape."""
        return arithmetic.normalized_l2(self.dot_metrics(value, reference))


class CosineSimilarityCompareFunc(_DotCompareFunc):
    """Holds the cosine of the angle between the outputs to a smallest value."""

    result_type = metrics.CosineSimilarityResult
    threshold_type = metrics.CosineSimilarityThreshold
    default = 0.997

    def __init__(
        self,
        cosine_similarity_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set the smallest cosine, from -1 to 1; 0.997 unless given."""
        super().__init__(cosine_similarity_threshold, check_shapes, fail_fast, find_output_func)

    def measure(self, value: Side, reference: Side) -> float:
        """Return the metric of two arrays of one shape."""
        return arithmetic.cosine_similarity(self.dot_metrics(value, reference))


class PsnrCompareFunc(_DotCompareFunc):
    """Holds the peak signal to noise ratio to a smallest value; for images."""

    result_type = metrics.PsnrResult
    threshold_type = metrics.PsnrThreshold
    default = 30.0

    def __init__(
        self,
        psnr_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set the smallest ratio in dB; 30 unless given."""
        super().__init__(psnr_threshold, check_shapes, fail_fast, find_output_func)

    def measure(self, value: Side, reference: Side) -> float:
        """Return the metric of two arrays of one shape."""
        return arithmetic.psnr(self.dot_metrics(value, reference))


class SnrCompareFunc(_DotCompareFunc):
    """Holds the signal to noise ratio to a smallest value; the first run is the signal."""

    result_type = metrics.SnrResult
    threshold_type = metrics.SnrThreshold
    default = 20.0

    def __init__(
        self,
        snr_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set the smallest ratio in dB; 20 unless given."""
        super().__init__(snr_threshold, check_shapes, fail_fast, find_output_func)

    def measure(self, value: Side, reference: Side) -> float:
        """Return the metric of two arrays of one shape."""
        return arithmetic.snr(self.dot_metrics(value, reference))


class SqnrCompareFunc(_DotCompareFunc):
    """Holds the signal to quantisation noise ratio to a smallest value; the second run is the
    signal.
    """

    result_type = metrics.SqnrResult
    threshold_type = metrics.SqnrThreshold
    default = 20.0

    def __init__(
        self,
        sqnr_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set the smallest ratio in dB; 20 unless given."""
        super().__init__(sqnr_threshold, check_shapes, fail_fast, find_output_func)

    def measure(self, value: Side, reference: Side) -> float:
        """Return the metric of two arrays of one shape."""
        return arithmetic.sqnr(self.dot_metrics(value, reference))


class PerceptualMetricsCompareFunc(MetricCompareFunc):
    """Holds how different two images look to a largest value.

    Where nothing is bound to the port `PerceptualDistance` it cannot be made: what was not compared
    has not passed.
    """

    result_type = metrics.PerceptualMetricsResult
    threshold_type = metrics.LpipsThreshold
    default = 0.1

    def __init__(
        self,
        lpips_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set the largest distance; 0.1 unless given.

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
