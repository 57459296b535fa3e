"""The rewrites of graphs that ONNX Runtime can leave out, which it calls optimizers."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from polygraphy.logger import G_LOGGER

REWRITES = (
    "AttentionFusion", "Avx2WeightS8ToU8Transformer", "BiasDropoutFusion", "BiasGeluFusion",
    "BiasSkipLayerNormFusion", "BiasSoftmaxFusion", "CastChainElimination", "CastElimination",
    "CastFloat16Transformer", "CommonSubexpressionElimination", "ConstantFolding",
    "ConstantSharing", "ConvActivationFusion", "ConvAddActivationFusion", "ConvAddFusion",
    "ConvBNFusion", "ConvMulFusion", "DQMatMulNBitsFusion", "DivMulFusion", "DoubleQDQPairsRemover",
    "DynamicQuantizeMatMulFusion", "EliminateDropout", "EliminateIdentity", "EliminateSlice",
    "EmbedLayerNormFusion", "EnsureUniqueDQForNodeUnit", "ExpandElimination", "FastGeluFusion",
    "FuseFp16InitializerToFp32NodeTransformer", "FuseReluClip", "GatherSliceToSplitFusion",
    "GatherToSliceFusion", "GatherToSplitFusion", "GeluApproximation", "GeluFusion", "GeluFusionL1",
    "GeluFusionL2", "GemmActivationFusion", "GemmSumFusion", "GemmTransposeFusion",
    "GroupQueryAttentionFusion", "GroupQueryAttentionPreNormFusion",
    "IdenticalChildrenConsolidation", "IsInfReduceSumFusion", "LabelEncoderFusion",
    "LayerNormFusion", "LayerNormFusionL1", "LayerNormFusionL2", "MatMulActivationFusion",
    "MatMulAddFusion", "MatMulIntegerToFloatFusion", "MatMulNBitsFusion", "MatMulNBitsMlpFusion",
    "MatMulNBitsQkvFusion", "MatMulScaleFusion", "MatMul_BatchNormalization_Fusion",
    "MatmulTransposeFusion", "NchwcTransformer", "NhwcTransformer", "NoopElimination",
    "NotWhereFusion", "Pad_Fusion", "PreShapeNodeElimination", "PropagateCastOps",
    "QDQFinalCleanupTransformer", "QDQPropagationTransformer", "QDQS8ToU8Transformer",
    "QDQSelectorActionTransformer", "QuickGeluFusion", "RemoveDuplicateCastTransformer",
    "ReshapeFusion", "ShapeInputMerge", "SimplifiedLayerNormFusion", "SkipLayerNormFusion",
    "SliceConcatToSpaceToDepthFusion", "SwiGluFusion", "TransposeOptimizer",
    "TransposeOptimizer_CPUExecutionProvider", "UnsqueezeElimination", "WeightBiasQuantization",
    "WhereDummyDq",
)  # fmt: skip
"""Rewrites of the releases from 1.15 on; one that a release does not have is ignored by it."""

_LEVELS = ("L1", "L2")
"""What is appended to the names of rewrites that are made twice, from 1.20 on."""

_GROUP = "RuleBasedTransformer"
"""What names of whole groups of rewrites, one per level, contain."""


def matched_rewrites(names: Sequence[str]) -> list[str]:
    """Return the names of rewrites as ONNX Runtime writes them, which it wants to the letter. It
    ignores one that it does not have without a word, so that is said here; a release that is newer
    than the list may have it. What older releases have as one rewrite means both levels of it.
    """
    known = {name.lower(): name for name in REWRITES}
    found = []
    for name in names:
        exact = known.get(name.lower())
        if exact is None and _GROUP not in name:
            matches = get_close_matches(name.lower(), known, n=2)
            meant = " or ".join(known[match] for match in matches)
            G_LOGGER.warning(
                f"ONNX Runtime has no rewrite {name!r} that is known here, and ignores what it does"
                f" not know{f'; did you mean {meant}?' if meant else '.'}"
            )
        levels = (f"{exact}{level}" for level in _LEVELS)
        found += [exact or name, *(level for level in levels if level in REWRITES)]
    return found
