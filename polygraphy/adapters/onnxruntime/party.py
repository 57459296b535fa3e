"""ONNX Runtime as a party of a diagnosis: shows the graph that it runs, and leaves rewrites out."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from polygraphy import mod
from polygraphy.adapters.onnxruntime.errors import translated_errors
from polygraphy.adapters.onnxruntime.runner import OnnxrtRunner
from polygraphy.adapters.onnxruntime.session import (
    Provider,
    matched_providers,
    session_options,
)

onnxrt = mod.lazy_import("onnxruntime>=1.10.0")
onnx = mod.lazy_import("onnx")

_PLAIN = "DISABLE_ALL"
_PASSES = (
    "AttentionFusion", "Avx2WeightS8ToU8Transformer", "BiasDropoutFusion", "BiasGeluFusion",
    "BiasSkipLayerNormFusion", "BiasSoftmaxFusion", "CastChainElimination", "CastElimination",
    "CastFloat16Transformer", "CommonSubexpressionElimination", "ConstantFolding",
    "ConstantSharing", "ConvActivationFusion", "ConvAddActivationFusion", "ConvAddFusion",
    "ConvBNFusion", "ConvMulFusion", "DQMatMulNBitsFusion", "DivMulFusion", "DoubleQDQPairsRemover",
    "DynamicQuantizeMatMulFusion", "EliminateDropout", "EliminateIdentity", "EliminateSlice",
    "EmbedLayerNormFusion", "EnsureUniqueDQForNodeUnit", "ExpandElimination", "FastGeluFusion",
    "FuseFp16InitializerToFp32NodeTransformer", "FuseReluClip", "GatherSliceToSplitFusion",
    "GatherToSliceFusion", "GatherToSplitFusion", "GeluApproximation", "GeluFusion",
    "GemmActivationFusion", "GemmSumFusion", "GemmTransposeFusion", "GroupQueryAttentionFusion",
    "GroupQueryAttentionPreNormFusion", "IdenticalChildrenConsolidation", "IsInfReduceSumFusion",
    "LabelEncoderFusion", "LayerNormFusion", "MatMulActivationFusion", "MatMulAddFusion",
    "MatMulIntegerToFloatFusion", "MatMulNBitsFusion", "MatMulNBitsMlpFusion",
    "MatMulNBitsQkvFusion", "MatMulScaleFusion", "MatMul_BatchNormalization_Fusion",
    "MatmulTransposeFusion", "NchwcTransformer", "NhwcTransformer", "NoopElimination",
    "NotWhereFusion", "Pad_Fusion", "PreShapeNodeElimination", "PropagateCastOps",
    "QDQFinalCleanupTransformer", "QDQPropagationTransformer", "QDQS8ToU8Transformer",
    "QDQSelectorActionTransformer", "QuickGeluFusion", "RemoveDuplicateCastTransformer",
    "ReshapeFusion", "SimplifiedLayerNormFusion", "SkipLayerNormFusion",
    "SliceConcatToSpaceToDepthFusion", "SwiGluFusion", "TransposeOptimizer", "UnsqueezeElimination",
    "WeightBiasQuantization", "WhereDummyDq",
)  # fmt: skip
"""Rewrites of the releases from 1.15 on; one that a release does not have is ignored by it."""


@mod.export()
class OnnxrtParty:
    """ONNX Runtime; implements the port `SuspectedParty`."""

    name = "onnxrt"
    passes = _PASSES
    rewrites = True
    levels = ("ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_ALL")

    def __init__(
        self,
        providers: Sequence[Provider] | None = None,
        graph_optimization_level: str | None = None,
        threads: int | None = None,
    ) -> None:
        """Say how models are run: see `SessionFromOnnx`."""
        self._providers = ["cpu"] if providers is None else list(providers)
        self._level = graph_optimization_level
        self._threads = threads

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        """Make a session; see the port."""
        runner = OnnxrtRunner(self._session(model, _PLAIN if plain else None, without))
        runner.activate()
        return partial(runner.infer, check_inputs=False)

    def executed(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> Any | None:
        """Return the graph after all rewrites."""
        with tempfile.TemporaryDirectory(prefix="polygraphy-") as folder:
            path = Path(folder) / "optimised.onnx"
            self._session(model, level, without, str(path))
            return onnx.load(str(path)) if path.exists() else None

    def remedy(self, path: str, *, plain: bool, without: Collection[str]) -> str:
        """Return the command line that runs a model without rewrites."""
        if without and not plain:
            names = ", ".join(map(repr, without))
            return f"onnxruntime.InferenceSession({path!r}, disabled_optimizers=[{names}])"
        return f"polygraphy run {path} --onnxrt --graph-optimization-level {_PLAIN}"

    def _session(
        self, model: Any, level: str | None, without: Collection[str], saved: str | None = None
    ) -> Any:
        options = session_options(level or self._level)
        if self._threads is not None:
            options.intra_op_num_threads = self._threads
        if saved is not None:
            options.optimized_model_filepath = saved
        providers = matched_providers(self._providers)
        given = {"disabled_optimizers": list(without)} if without else {}
        with translated_errors("load", "the model"):
            source = model if isinstance(model, (str, bytes)) else model.SerializeToString()
            return onnxrt.InferenceSession(
                source, sess_options=options, providers=providers, **given
            )
