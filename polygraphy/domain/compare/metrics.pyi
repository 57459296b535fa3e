"""What type checkers see of the classes made from the catalog; written by `make signatures`."""

from polygraphy.domain.compare.metric import (
    DetailedResult,
    MetricCompareFunc,
    MetricResult,
    MetricThreshold,
)
from polygraphy.domain.tensors.naming import PerOutput
from polygraphy.domain.tensors.pairing import FindOutput

__all__ = [
    "BiasCompareFunc",
    "BiasResult",
    "BiasThreshold",
    "CosineSimilarityCompareFunc",
    "CosineSimilarityResult",
    "CosineSimilarityThreshold",
    "ErrorDistributionCompareFunc",
    "ErrorDistributionResult",
    "ErrorDistributionThreshold",
    "L2CompareFunc",
    "L2Result",
    "L2Threshold",
    "LpipsThreshold",
    "NonFiniteCompareFunc",
    "NonFiniteResult",
    "NonFiniteThreshold",
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
    "TopKCompareFunc",
    "TopKResult",
    "TopKThreshold",
    "UlpCompareFunc",
    "UlpResult",
    "UlpThreshold",
]

class L2Threshold(MetricThreshold): ...

class L2Result(MetricResult):
    def __init__(
        self, l2_norm: float | None = None, thresholds: MetricThreshold | None = None
    ) -> None: ...
    @property
    def l2_norm(self) -> float | None: ...

class L2CompareFunc(MetricCompareFunc):
    def __init__(
        self,
        l2_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None: ...

class NormalizedL2Threshold(MetricThreshold): ...

class NormalizedL2Result(MetricResult):
    def __init__(
        self, normalized_l2: float | None = None, thresholds: MetricThreshold | None = None
    ) -> None: ...
    @property
    def normalized_l2(self) -> float | None: ...

class NormalizedL2CompareFunc(MetricCompareFunc):
    def __init__(
        self,
        normalized_l2_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None: ...

class CosineSimilarityThreshold(MetricThreshold): ...

class CosineSimilarityResult(MetricResult):
    def __init__(
        self, cosine_similarity: float | None = None, thresholds: MetricThreshold | None = None
    ) -> None: ...
    @property
    def cosine_similarity(self) -> float | None: ...

class CosineSimilarityCompareFunc(MetricCompareFunc):
    def __init__(
        self,
        cosine_similarity_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None: ...

class PsnrThreshold(MetricThreshold): ...

class PsnrResult(MetricResult):
    def __init__(
        self, psnr: float | None = None, thresholds: MetricThreshold | None = None
    ) -> None: ...
    @property
    def psnr(self) -> float | None: ...

class PsnrCompareFunc(MetricCompareFunc):
    def __init__(
        self,
        psnr_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None: ...

class SnrThreshold(MetricThreshold): ...

class SnrResult(MetricResult):
    def __init__(
        self, snr: float | None = None, thresholds: MetricThreshold | None = None
    ) -> None: ...
    @property
    def snr(self) -> float | None: ...

class SnrCompareFunc(MetricCompareFunc):
    def __init__(
        self,
        snr_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None: ...

class SqnrThreshold(MetricThreshold): ...

class SqnrResult(MetricResult):
    def __init__(
        self, sqnr: float | None = None, thresholds: MetricThreshold | None = None
    ) -> None: ...
    @property
    def sqnr(self) -> float | None: ...

class SqnrCompareFunc(MetricCompareFunc):
    def __init__(
        self,
        sqnr_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None: ...

class LpipsThreshold(MetricThreshold): ...

class PerceptualMetricsResult(MetricResult):
    def __init__(
        self, lpips: float | None = None, thresholds: MetricThreshold | None = None
    ) -> None: ...
    @property
    def lpips(self) -> float | None: ...

class PerceptualMetricsCompareFunc(MetricCompareFunc):
    def __init__(
        self,
        lpips_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None: ...

class UlpThreshold(MetricThreshold): ...
class UlpResult(DetailedResult): ...

class UlpCompareFunc(MetricCompareFunc):
    def __init__(
        self,
        ulp_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None: ...

class TopKThreshold(MetricThreshold): ...
class TopKResult(DetailedResult): ...

class TopKCompareFunc(MetricCompareFunc):
    def __init__(
        self,
        agreement_threshold: PerOutput[float] | None = None,
        k: PerOutput[int] | None = None,
        margin: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None: ...

class BiasThreshold(MetricThreshold): ...
class BiasResult(DetailedResult): ...

class BiasCompareFunc(MetricCompareFunc):
    def __init__(
        self,
        bias_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None: ...

class NonFiniteThreshold(MetricThreshold): ...
class NonFiniteResult(DetailedResult): ...

class NonFiniteCompareFunc(MetricCompareFunc):
    def __init__(
        self,
        non_finite_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None: ...

class ErrorDistributionThreshold(MetricThreshold): ...
class ErrorDistributionResult(DetailedResult): ...

class ErrorDistributionCompareFunc(MetricCompareFunc):
    def __init__(
        self,
        error_distribution_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None: ...
