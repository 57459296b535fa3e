"""A node that breaks the rules of its operator is found, whatever backends accept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper, parser

from polygraphy.adapters.onnx.graph.declared_types import correct_declared_types
from polygraphy.adapters.onnx.lint.node_checks import find_violations

F, INT = np.float32, np.int64


def invalid(body: str, weights: dict[str, Any], inputs: str, opset: int) -> list[str]:
    text = f'<ir_version: 8, opset_import: ["": {opset}, "ai.onnx.ml": 3]> g ({inputs}) => (float y) {{ {body} }}'
    model = parser.parse_model(text)
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].ClearField("type")
    for name, array in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return [one.message for one in find_violations(model, {})]


IMAGE, MATRIX = "float[1,6,4,5] x", "float[2,3] x"
TREE = (
    'nodes_modes=["BRANCH_LEQ","LEAF","LEAF"], nodes_treeids=[0,0,0], nodes_nodeids=[0,1,2],'
    " nodes_falsenodeids=[2,0,0]"
)
CASES = [
    (IMAGE, "y = PRelu(x, s)", {"s": np.ones(6, F)}, "such as (6, 1, 1)"),
    (IMAGE, "y = BatchNormalization(x,s,s,s,s)", {"s": np.ones((1, 6), F)}, "shape (6,)"),
    (IMAGE, "y = InstanceNormalization(x,s,s)", {"s": np.ones(5, F)}, "the scale"),
    (IMAGE, "y = Conv<group=2>(x,w)", {"w": np.ones((4, 6, 1, 1), F)}, "x 2 groups"),
    (IMAGE, "y = Conv<group=4>(x,w)", {"w": np.ones((6, 2, 1, 1), F)}, "group"),
    (IMAGE, "y = Conv(x,w,b)", {"w": np.ones((4, 6, 1, 1), F), "b": np.ones(3, F)}, "bias"),
    (IMAGE, "y = Conv<pads=[1,1]>(x,w)", {"w": np.ones((4, 6, 1, 1), F)}, "4 values in pads"),
    (IMAGE, "y = ConvTranspose(x,w)", {"w": np.ones((4, 6, 1, 1), F)}, "axis 0"),
    (IMAGE, "y = DeformConv<group=3>(x,w,o)",
     {"w": np.ones((6, 6, 1, 1), F), "o": np.ones((1, 2, 4, 5), F)}, "x 3 groups"),
    (IMAGE, "y = MaxPool<kernel_shape=[2,2,2]>(x)", {}, "2 values in kernel_shape"),
    (IMAGE, "y = SpaceToDepth<blocksize=3>(x)", {}, "height and width"),
    (IMAGE, "y = Gather<axis=3>(x,i)", {"i": np.array([0, 5], INT)}, "indices in [-5, 4]"),
    (IMAGE, "y = GatherND(x,i)", {"i": np.array([[0, 6]], INT)}, "axis 1 of size 6"),
    (IMAGE, "y = Resize(x,,,s)", {"s": np.ones(3, INT)}, "4 sizes"),
    (IMAGE, "y = GridSample(x,g)", {"g": np.ones((2, 3, 3, 2), F)}, "a grid of shape"),
    (IMAGE, 'y = GridSample<mode="box">(x,g)', {"g": np.ones((1, 3, 3, 2), F)}, "one of nearest"),
    (MATRIX, "y = Where(x,x,x)", {}, "an input of type bool, but 'x' is float32"),
    (MATRIX, "y = Gather(x,x)", {}, "an input of type int32, int64"),
    (IMAGE, "y = GroupNormalization<num_groups=4>(x,s,s)", {"s": np.ones(4, F)}, "6 channels"),
    (MATRIX, "y = Transpose<perm=[1,1]>(x)", {}, "each of the axes"),
    (MATRIX, "y = Reshape(x,s)", {"s": np.array([-1, 4], INT)}, "6 elements"),
    (MATRIX, "y = Concat<axis=1>(x,w)", {"w": np.ones((3, 3), F)}, "equal sizes except on axis 1"),
    (MATRIX, "y, z = Split<axis=1>(x)", {}, "2 outputs divide"),
    (MATRIX, "y = Add(x,w)", {"w": np.ones(2, F)}, "broadcasts with (2, 3)"),
    (MATRIX, "y = Mul(x,w)", {"w": np.ones(3)}, "one data type"),
    (MATRIX, "y = Gemm<transB=1>(x,w)", {"w": np.ones((3, 4), F)}, "3 rows"),
    (MATRIX, "y = Slice(x,a,b)", {"a": np.zeros(2, INT), "b": np.ones(1, INT)}, "as many ends"),
    (MATRIX, "y = ScatterElements(x,i,u)", {"i": np.zeros((1, 3), INT), "u": np.ones((2, 3), F)},
     "the updates"),
    (MATRIX, 'y = Einsum<equation="ij,jk->ik">(x,w)', {"w": np.ones((2, 2), F)}, "one size for 'j'"),
    (MATRIX, "y = Clip(x,l)", {"l": np.zeros(2, F)}, "a scalar"),
    (MATRIX, "y = Pad(x,p)", {"p": np.zeros(2, INT)}, "4 pads"),
    (MATRIX, "y = LayerNormalization(x,s)", {"s": np.ones(2, F)}, "broadcasts to the normalized"),
    (MATRIX, "y = OneHot(i,d,v)", {"i": np.zeros(2, INT), "d": np.array([-3]), "v": np.ones(2, F)},
     "a depth of at least 1"),
    (MATRIX, "y = ReverseSequence(x,l)", {"l": np.array([2, 1, 3], INT)}, "lengths in [0, 2]"),
    (MATRIX, "y = ReverseSequence(x,l)", {"l": np.array([2, 1], INT)}, "for the lengths"),
    (MATRIX, "y = Compress<axis=0>(x,c)", {"c": np.array([True, False, True])}, "at most 2"),
    (MATRIX, "y = ConstantOfShape(s)", {"s": np.array([2, -3], INT)}, "contains -3"),
    (MATRIX, "y = Pad(x,p)", {"p": np.array([0, -2, 0, -2], INT)}, "the 3 elements of axis 1"),
    (IMAGE, "y = Resize(x,,s)", {"s": np.array([1, 1, 0, 2], F)}, "scales above 0"),
    ("int64[3] x", "y = Div(x,z)", {"z": np.array([1, 0, 2], INT)}, "a divisor other than 0"),
    (MATRIX, "y = SoftmaxCrossEntropyLoss(x,l)", {"l": np.array([0, 3], INT)}, "in [0, 2]"),
    (MATRIX, "s = SequenceConstruct(x) y = SequenceAt(s,p)", {"p": np.zeros(2, INT)}, "a scalar"),
    (IMAGE, "y = Conv(x,w)", {"w": np.ones((4, 6, 9, 1), F)}, "9 elements on axis 2"),
    (IMAGE, "y = MaxPool<kernel_shape=[2,2], strides=[0,1]>(x)", {}, "positive values in strides"),
    (IMAGE, "y = LRN<size=-3>(x)", {}, "a positive size"),
    (MATRIX, "y = LpNormalization<p=3>(x)", {}, "one of 1, 2"),
    ("float[5,1,3] x", 'y = RNN<hidden_size=2, activations=["Swish"]>(x,w,r)',
     {"w": np.ones((1, 2, 3), F), "r": np.ones((1, 2, 2), F)}, "activations of Relu, Tanh"),
    ("float[5,1,3] x", 'y = GRU<hidden_size=2, activations=["Tanh"]>(x,w,r)',
     {"w": np.ones((1, 6, 3), F), "r": np.ones((1, 6, 2), F)}, "at least 2 activations"),
    (IMAGE, "y = MaxUnpool<kernel_shape=[1,1]>(x,i)", {"i": np.full((1, 6, 4, 5), 120)},
     "in [0, 119]"),
    ("float[5,1,3] x", "y = LSTM<hidden_size=2>(x,w,r)",
     {"w": np.ones((1, 6, 3), F), "r": np.ones((1, 8, 2), F)}, "shape (1, 8, 3)"),
    (IMAGE, "y = MaxPool<kernel_shape=[2,2], pads=[2,0,0,0]>(x)", {}, "pads below 2 on axis 2"),
    (IMAGE, "y = AveragePool<kernel_shape=[1,1], pads=[0,0,0,1]>(x)", {}, "pads below 1 on axis 3"),
    (IMAGE, 'y = Conv<auto_pad="SAME_UPPER", pads=[1,0,0,0]>(x,w)', {"w": np.ones((4, 6, 2, 2), F)},
     "no pads with auto_pad SAME_UPPER"),
    (IMAGE, "y = ConvTranspose<output_padding=[2,2]>(x,w)", {"w": np.ones((6, 4, 2, 2), F)},
     "output_padding below"),
    (IMAGE, "y = ConvTranspose<pads=[5,5,0,0]>(x,w)", {"w": np.ones((6, 4, 2, 2), F)},
     "fewer than the 5 elements of axis 2"),
    (IMAGE, "y = MaxUnpool<kernel_shape=[1,1]>(x,i)", {"i": np.zeros((1, 6, 4, 4), INT)},
     "for the indices"),
    (IMAGE, "y = RoiAlign(x,r,b)", {"r": np.ones((2, 4), F), "b": np.zeros(1, INT)}, "(2,)"),
    ("float[1,5,4] x", "y = Col2Im(x,i,b)", {"i": np.full(2, 5), "b": np.array([1, 4])},
     "a multiple of 4"),
    (MATRIX, 'y = Pad<mode="reflect">(x,p)', {"p": np.array([0, 3, 0, 0], INT)}, "at most 2"),
    ("float[0,3] x", 'y = Pad<mode="edge">(x,p)', {"p": np.array([1, 0, 0, 0], INT)},
     "an element on axis 0"),
    ("float[4,4] x", "y = ReverseSequence<batch_axis=0>(x,l)", {"l": np.ones(4, INT)},
     "0 and 1 in either order"),
    (MATRIX, "y, z = TopK(x,k)", {"k": np.array(2, INT)}, "shape (1,)"),
    (MATRIX, "y = Mod(x,x)", {}, "fmod 1 for floating-point"),
    ("float[0,3] x", "y = Reshape<allowzero=1>(x,s)", {"s": np.array([0, -1], INT)}, "not both"),
    (MATRIX, "y = Slice(x,a,a)", {"a": np.zeros((1, 1), INT)}, "rank 1 for input 1"),
    (MATRIX, "y = Cast<to=14>(x)", {}, "a data type"),
    (MATRIX, "y = Dropout(x,r,t)", {"r": np.array(1, F), "t": np.array(True)}, "a ratio in [0, 1)"),
    ("float[2,3,4] x", "y = GatherND<batch_dims=1>(x,i)", {"i": np.zeros((3, 1), INT)},
     "indices that begin with [2]"),
    ("float[1,4,4] x", "y = NonMaxSuppression(x,s,n,t)",
     {"s": np.ones((1, 1, 4), F), "n": np.array([2]), "t": np.array([1.5], F)}, "in [0, 1]"),
    ("uint8[2,5,3] x", "y = MatMulInteger(x,w,z,p)",
     {"w": np.ones((2, 3, 6), np.int8), "z": np.uint8(1), "p": np.zeros((2, 6), np.int8)},
     "shape (2, 1, 6)"),
    ("uint8[2,3] x", "y = QLinearMatMul(x,s,z,w,o,p,o,p)",
     {"s": np.ones(3, F), "z": np.zeros(3, np.uint8), "w": np.ones((3, 4), np.uint8),
      "o": np.array(1, F), "p": np.array(0, np.uint8)}, "one per row (2)"),
    ("uint8[1,6,4,5] x", "y = QLinearConv(x,o,p,w,o,p,o,p,b)",
     {"w": np.ones((4, 6, 2, 2), np.uint8), "b": np.zeros(5, np.int32),
      "o": np.array(1, F), "p": np.array(0, np.uint8)}, "(4,) for the bias"),
    ("float[2,4] x", "y = QuantizeLinear<block_size=2>(x,s)", {"s": np.ones((2, 3), F)},
     "shape (2, 2) for blocks of 2"),
    ("float[1,8,3] x", "y = DFT(x)", {}, "1 (real) or 2 (complex)"),
    ("float[1,16,1] x", "y = STFT(x,s,w)", {"s": np.array(2), "w": np.ones(32, F)},
     "one frame of 32 elements"),
    ("int64 x", "y = HannWindow(n)", {"n": np.array(-3)}, "a size of at least 0"),
    ("float[1,2,2] x", "y = AffineGrid(x,s)", {"s": np.array([1, 1, 3, 3])}, "(1, 2, 3)"),
    ("float[1,3,2,4] x", "y = Attention(x,w,w)", {"w": np.ones((1, 2, 2, 4), F)},
     "heads that divides 3"),
    ("float[1,2,3,4] x", "y = RotaryEmbedding(x,c,c)", {"c": np.ones((1, 3, 3), F)},
     "2 elements on its last axis"),
    (MATRIX, "y = ai.onnx.ml.Normalizer<norm=\"L3\">(x)", {}, "one of MAX, L1, L2"),
    (MATRIX, "y = ai.onnx.ml.LinearRegressor<coefficients=[1.0,2.0]>(x)", {}, "3 coefficients"),
    (MATRIX, "y = ai.onnx.ml.FeatureVectorizer<inputdimensions=[2,1]>(x)", {}, "as many inputs"),
    (MATRIX, "y = ai.onnx.ml.Scaler<scale=[1.0,2.0]>(x)", {}, "1 or 3 numbers"),
    (MATRIX, "y = ai.onnx.ml.ZipMap<classlabels_int64s=[1,2]>(x)", {}, "2 columns"),
    (MATRIX, "y = ai.onnx.ml.SVMRegressor<n_supports=1, support_vectors=[1.0]>(x)", {},
     "1 support vectors of 3 features"),
    (MATRIX, f"y = ai.onnx.ml.TreeEnsembleRegressor<{TREE}, nodes_featureids=[7,0,0]>(x)", {},
     "features in [0, 2]"),
    (MATRIX, f"y = ai.onnx.ml.TreeEnsembleRegressor<{TREE}, nodes_truenodeids=[9,0,0]>(x)", {},
     "branches to nodes of the same tree"),
    (MATRIX, "y = OneHot(i,d,v)",
     {"i": np.zeros(2, INT), "d": np.zeros((1, 1), INT) + 3, "v": np.ones(2, F)}, "rank 0 to 1"),
    (MATRIX, "y = EyeLike<dtype=8>(x)", {}, "a data type that it can return"),
    (MATRIX, "y = ReduceSum(x,a)", {"a": np.zeros((1, 1), INT)}, "rank 0 to 1 for input 1"),
    ("int64[1] x", "y = ConstantOfShape<value=float[2] {1,2}>(x)", {}, "a value with one element"),
    ("float[1,16,1] x", "y = STFT(x,s)", {"s": np.array(2)}, "a window or a frame_length"),
    ("float[1,16,2] x", "y = STFT(x,s,w)", {"s": np.array(2), "w": np.ones(4, F)},
     "onesided 0 for complex numbers"),
    ("int64 x", "y = MelWeightMatrix(n,d,r,l,h)",
     {"n": np.array(0), "d": np.array(16), "r": np.array(8000), "l": F(0), "h": F(9)},
     "num_mel_bins of at least 1"),
    ("float[1,2,4,8] x", "y = Attention(x,x,x,m)", {"m": np.ones((3, 4), F)},
     "a mask that broadcasts to (1, 2, 4, 4)"),
    ("float[1,2,4,8] x", "y = Attention(x,x,x,m)", {"m": np.ones((4, 5), F)}, "broadcasts to"),
    ("float[1,1,4,4] x", "y = DeformConv(x,w,o)",
     {"w": np.ones((1, 1, 2, 2), F), "o": np.ones((1, 6, 3, 3), F)}, "(1, 8, 3, 3) for the offsets"),
    ("int64[1] x", "y = ai.onnx.ml.LabelEncoder<keys_int64s=[1,2], values_int64s=[1]>(x)", {},
     "as many values_int64s as keys_int64s (2)"),
    (MATRIX, "y = ai.onnx.ml.Imputer(x)", {}, "it has neither"),
    (MATRIX, "y = ai.onnx.ml.Imputer<imputed_value_floats=[0.5], imputed_value_int64s=[1]>(x)", {},
     "it has both"),
    (MATRIX, f"y = ai.onnx.ml.TreeEnsembleRegressor<{TREE}, n_targets=1, target_ids=[0,3]>(x)", {},
     "target_ids in [0, 0]"),
    (MATRIX, f"y, z = ai.onnx.ml.TreeEnsembleClassifier<{TREE}, classlabels_int64s=[4,5],"
     " class_ids=[0,2]>(x)", {}, "class_ids in [0, 1]"),
    (MATRIX, "y = ai.onnx.ml.LinearRegressor<coefficients=[0.1,0.2,0.3], post_transform=\"RELU\">(x)",
     {}, "one of NONE"),
    (MATRIX, "y = LayerNormalization<stash_type=7>(x,s)", {"s": np.ones(3, F)}, "one of 1, 10"),
    (IMAGE, 'y = GridSample<mode="linear">(x,g)', {"g": np.ones((1, 3, 3, 2), F)}, "bilinear"),
    (IMAGE, 'y = Pad<mode="wrap">(x,p)', {"p": np.zeros(8, INT)}, "one of constant, reflect, edge"),
    (MATRIX, 'y = Einsum<equation="ij->i,j">(x)', {}, "one output"),
    (MATRIX, 'y = Einsum<equation="i1->i">(x)', {}, "letters"),
    ("float[1,2,4,8] x", "y = Attention<qk_matmul_output_mode=7>(x,x,x)", {}, "one of 0, 1, 2, 3"),
    ("float[1,2,4,8] x", "y = Attention(x,k,k)", {"k": np.ones((2, 2, 4, 8), F)}, "a batch of 1"),
    ("float[1,2,4,8] x", "y = Attention<q_num_heads=2, kv_num_heads=2>(x,k,k)",
     {"k": np.ones((1, 4, 16), F)}, "rank 4, like its query"),
    ("float[1,2,4,8] x", "y = Attention(x,x,x,,k,v)",
     {"k": np.ones((1, 2, 3, 8), F), "v": np.ones((1, 2, 5, 8), F)}, "length 3, like past_key"),
    ("float[1,2,3] x", "y = AffineGrid(x,s)", {"s": np.array([1, 1, 3, 0])}, "at least 1"),
    ("float[1,5,4] x", "y = Col2Im(x,i,b)", {"i": np.full(2, 5), "b": np.array([1, 0])},
     "positive sizes of the block"),
    ("float[1,1,4,4] x", "y = DeformConv(x,w,o)",
     {"w": np.ones((1, 1, 2, 2), F), "o": np.ones((1, 8, 3, 4), F)}, "(1, 8, 3, 3) for the offsets"),
    (MATRIX, "y = Expand(x,s)", {"s": np.array([-2, 3], INT)}, "sizes of at least 0"),
    (IMAGE, "y = MaxUnpool<kernel_shape=[1,1], strides=[1,0]>(x,i)",
     {"i": np.zeros((1, 6, 4, 5), INT)}, "positive values in strides"),
    ("float[2,3,4] x", "y = GatherND<batch_dims=-3>(x,i)", {"i": np.zeros((2, 1), INT)},
     "batch_dims of at least 0"),
    ("float[1,2,3,4] x", "y = RotaryEmbedding(x,c,c,i)",
     {"c": np.ones((5, 2), F), "i": np.zeros((1, 2), INT)}, "position ids of shape (1, 3)"),
    ("float[1,2,3,4] x", "y = RotaryEmbedding(x,c,s,i)",
     {"c": np.ones((5, 2), F), "s": np.ones((4, 2), F), "i": np.zeros((1, 3), INT)},
     "the shape of cos_cache"),
    ("float[1,16,1] x", "y = STFT(x,s,,n)", {"s": np.array(2), "n": np.array(-4)},
     "a frame_length of at least 1"),
    (MATRIX, "y = Reshape(x,s)", {"s": np.array([[3, 2]], INT)}, "rank 1 for input 1"),
    (MATRIX, "y = TfIdfVectorizer<mode=\"TF\", min_gram_length=1, max_gram_length=3,"
     " max_skip_count=0, ngram_counts=[0,1], ngram_indexes=[0,1], pool_int64s=[1,2,3]>(i)",
     {"i": np.zeros(2, INT)}, "a max_gram_length of at most 2"),
    ("bool[2,3] x", "y = ai.onnx.ml.Binarizer(x)", {}, "'x' is bool"),
]  # fmt: skip


@pytest.mark.parametrize(("inputs", "body", "weights", "said"), CASES)
def test_a_broken_rule_is_found(inputs: str, body: str, weights: dict[str, Any], said: str) -> None:
    recent = {
        "Group": 21,
        "block_size": 21,
        "Attention": 23,
        "Rotary": 23,
        "AffineGrid": 20,
        "DeformConv": 19,
    }
    opset = next((version for word, version in recent.items() if word in body), 18)
    [message] = invalid(body, weights, inputs, opset)
    assert said in message


SCAN = "(float[3] e) => (float[3] o) { o = Neg(e) }"
LOOP = "(int64 i, bool c, float[2,3] s) => (bool d, float[2,3] o) { d = Identity(c) o = Neg(s) }"
SUBGRAPHS = [
    (f"y = Scan<num_scan_inputs=2, body=b {SCAN}>(x)", "num_scan_inputs in [1, 1]"),
    (f"y = Scan<num_scan_inputs=1, body=b {SCAN}>(x,x)", "2 inputs of body"),
    (f"y,z = Scan<num_scan_inputs=1, body=b {SCAN}>(x)", "2 outputs of body"),
    (f"y = Scan<num_scan_inputs=1, scan_input_directions=[2], body=b {SCAN}>(x)", "0 (forward)"),
    (f"y = Scan<num_scan_inputs=1, scan_output_axes=[0,1], body=b {SCAN}>(x)", "1 value in"),
    (f"y = Scan<num_scan_inputs=1, scan_input_axes=[2], body=b {SCAN}>(x)", "axes in [-2, 1]"),
    ("y = Scan<num_scan_inputs=1, body=b (double[3] e) => (double[3] o) { o = Neg(e) }>(x)",
     "the same data type in its body"),
    ("y = Scan<num_scan_inputs=1, body=b (float[2] e) => (float[2] o) { o = Neg(e) }>(x)",
     "slices of shape (2,)"),
    ("y = Scan<num_scan_inputs=2, body=b (float[3] e, float f) => (float[3] o) { o = Add(e,f) }>"
     "(x,w)", "2 elements on axis 0, like the others"),
    (f"y = Loop<body=b {LOOP}>(n,c)", "2 inputs of body"),
    (f"y = Loop<body=b {LOOP}>(n)", "at least 2 inputs, but it has 1"),
    (f"y = Scan<body=b {SCAN}>(x)", "attribute 'num_scan_inputs', but it is missing"),
    ("y = If<then_branch=a () => (float[2,3] o) { o = Neg(x) }>(c)", "attribute 'else_branch'"),
    (f"y,z = Loop<body=b {LOOP}>(n,c,x)", "3 outputs of body"),
    ("y = Loop<body=b (int64 i, bool c, float[2,3] s) => (float d, float[2,3] o)"
     " { d = Cast<to=1>(c) o = Neg(s) }>(n,c,x)", "bool for the condition"),
    (f"y = Loop<body=b {LOOP.replace('int64 i', 'int32 i')}>(n,c,x)", "int64 for the number"),
    ("y = Loop<body=b (int64 i, bool c, float[2,3] s) => (bool d, int64[2,3] o)"
     " { d = Identity(c) o = Cast<to=7>(s) }>(n,c,x)", "in all iterations"),
    ("y = If<then_branch=a () => (float[2,3] o) { o = Neg(x) },"
     " else_branch=b () => (float[2,3] o, float[2,3] p) { o = Abs(x) p = Neg(x) }>(c)", "1 output of"),
    ("y = If<then_branch=a () => (float[2,3] o) { o = Neg(x) },"
     " else_branch=b () => (int64[2,3] o) { o = Cast<to=7>(x) }>(c)", "from both branches"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "said"), SUBGRAPHS)
def test_a_broken_rule_of_a_subgraph_is_found(body: str, said: str) -> None:
    weights = {"n": np.array(3), "c": np.array(True), "w": np.ones(4, F)}
    [message] = invalid(body, weights, MATRIX, 17)
    assert said in message


def test_what_is_unknown_breaks_no_rule() -> None:
    """Open dimensions, and an empty tensor where an opset asks for one."""
    slope = {"s": np.ones((6, 1, 1), F)}
    assert not invalid("y = PRelu(x,s)", slope, "float[N,C,H,W] x", 17)
    assert not invalid("y = Gather(x,i)", {}, "float[2,3] x, int64[4] i", 17)
    ignored = {"l": np.array([0, -7], INT)}
    assert not invalid("y = SoftmaxCrossEntropyLoss<ignore_index=-7>(x,l)", ignored, MATRIX, 17)
    assert not invalid("y = Div(x,x)", {}, "int64[3] x", 17)
    assert not invalid("y = Div(x,z)", {"z": np.zeros(3, F)}, MATRIX, 17)
    assert not invalid("y = MaxPool<kernel_shape=[5,5]>(x)", {}, IMAGE, 17)
    assert not invalid('y = Pad<mode="wrap">(x,p)', {"p": np.array([0, 7, 0, 0])}, MATRIX, 19)
    dilated = "y = MaxPool<kernel_shape=[2,2], pads=[2,0,0,0], dilations=[2,1]>(x)"
    assert not invalid(dilated, {}, IMAGE, 17)
    assert not invalid("y = PRelu(x,s)", {"s": np.ones(6, F)}, IMAGE, 6)
    assert not invalid(
        "y = STFT(x,n,w)", {"n": np.array(2), "w": np.ones(4, F)}, "float[1,9] x", 17
    )
    short = {"m": np.ones((4, 3), F)}
    assert not invalid("y = Attention(x,x,x,m)", short, "float[1,2,4,8] x", 23)
    grows = LOOP.replace("float[2,3]", "float[N]")
    assert not invalid(f"y = Loop<body=b {grows}>(n,,x)", {"n": np.array(2)}, MATRIX, 17)
    empty = {"e": np.zeros(0, F), "s": np.array([1, 6, 8, 10], INT)}
    assert not invalid("y = Resize(x,e,e,s)", empty, IMAGE, 11)


@pytest.mark.thorough
def test_the_cases_of_the_onnx_package_break_no_rule() -> None:
    from onnx.backend.test.case.node import collect_testcases

    for case in collect_testcases(None):
        for data, _ in case.data_sets or ():
            names = [value.name for value in case.model.graph.input]
            values = {n: array for n, array in zip(names, data) if isinstance(array, np.ndarray)}
            assert not find_violations(case.model, values), case.name


def test_declared_types_are_checked_against_the_nodes() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float16[2,2] x) => (float16[2,2] y)'
        " <float[2,2] h> { h = MatMul(x,x) y = Relu(h) }"
    )
    [found] = find_violations(model, {})
    assert not find_violations(model, {}, [1])
    assert [one.index for one in find_violations(model, {}, [0])] == [0]
    assert (found.index, found.op) == (0, "MatMul")
    assert "the graph declares float32" in found.message


@pytest.mark.parametrize(
    ("nodes", "index", "said"),
    [
        ("h = f.act(x) y = Relu(h)", 0, "'h' is float32, but the graph declares float16"),
        ("s = SequenceConstruct(x) h = ConcatFromSequence<axis=0>(s) y = Relu(h)", 0,
         "'s' is a sequence of tensors, but the graph declares a tensor"),
        ("q = SequenceConstruct(x) h = ConcatFromSequence<axis=0>(q) y = Relu(h)", 0,
         "'q' is a sequence of tensors of type float32, but the graph declares float16"),
    ],
)  # fmt: skip
def test_the_node_with_a_wrong_declaration_is_found_and_the_declaration_corrected(
    nodes: str, index: int, said: str
) -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17, "f": 1]> g (float[2,2] x) => (float[2,2] y)'
        f" <float16[2,2] h, float[2,2] s, seq(float16[2,2]) q> {{ {nodes} }}"
        ' <domain: "f", opset_import: ["": 17]> act (p) => (r) { r = Abs(p) }'
    )
    first, *_ = find_violations(model, {})
    assert first.index == index and said in first.message
    correct_declared_types(model)
    assert not find_violations(model, {})


def test_later_nodes_are_not_blamed_and_large_indices_are_looked_at() -> None:
    body = "r = Reshape(x,s) z = Concat<axis=0>(r,x) g = GatherElements<axis=1>(x,i) y = Add(g,z)"
    indices = np.zeros((2, 300), INT)
    indices[1, 299] = 300
    weights = {"s": np.array([2, 200], INT), "i": indices}
    first, second = invalid(body, weights, "float[2,300] x", 17)
    assert first.startswith("Reshape") and second.startswith("GatherElements")


def test_a_dimension_of_minus_one_is_unknown() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2,3] x) => (float[2,3] y)'
        " <float[2,3] h> { h = Neg(x) y = Relu(h) }"
    )
    dims = model.graph.value_info[0].type.tensor_type.shape.dim
    values = {name: np.ones((2, 3), np.float32) for name in "xhy"}
    dims[0].dim_value = -1
    assert not find_violations(model, values)
    dims[1].dim_value = 4
    assert [one.index for one in find_violations(model, values)] == [0]


def test_a_position_outside_a_sequence_is_found() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]> g (seq(float[2]) s, int64 p) => (float[2] y)
        { t = SequenceErase(s, p) y = SequenceAt(t, p) }"""
    values = {"s": [np.ones(2, F), np.ones(3, F)], "t": [np.ones(2, F)], "p": np.array(1)}
    [found] = find_violations(parser.parse_model(text), values)
    assert (found.index, "in [-1, 0]" in found.message) == (1, True)


FUNCTIONS = [
    ("y = f.inner(x, x)", "r = Neg(p)", "inner requires at most 1 input, but it has 2."),
    ("y, z = f.inner(x)", "r = Neg(p)", "inner requires 1 output, but it has 2."),
    ("y = f.inner(x)", "r = Mish(p)", "No Op registered for Mish"),
]


@pytest.mark.parametrize(("call", "body", "said"), FUNCTIONS)
def test_a_call_of_a_function_is_found_by_its_node(call: str, body: str, said: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["": 13, "f": 1]> g (float[2] x) => (float[2] y)
        {{ a = Relu(x) {call} }}
        <domain: "f", opset_import: ["": 13]> inner (p) => (r) {{ {body} }}"""
    [found] = find_violations(parser.parse_model(text), {})
    assert found.index == 1 and said in found.message


def test_a_node_in_a_body_is_checked_with_the_values_that_it_reads() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[4] t, int64[2] i) => (float y)
        { a = Abs(t) y = Scan<num_scan_inputs=1, body = b (int64 e) => (float o)
        { p = Relu(a) o = Gather(p, e) }>(i) }"""
    values = {"i": np.array([1, 9]), "a": np.ones(4, F)}
    [found] = find_violations(parser.parse_model(text), values)
    assert (found.index, found.tensor) == (1, "e")
    assert "contains 9" in found.message and found.place == "body/polygraphy_unnamed_node_1"


def test_past_keys_of_attention_have_the_heads_of_its_keys() -> None:
    body = "y = Attention(x,k,k,,p,p)"
    weights = {"k": np.ones((1, 2, 5, 8), F), "p": np.ones((1, 2, 3, 6), F)}
    [found] = invalid(body, weights, "float[1,2,4,8] x", 23)
    assert "past keys of 2 heads of 8 elements" in found
    assert not invalid(body, weights | {"p": np.ones((1, 2, 3, 8), F)}, "float[1,2,4,8] x", 23)
