"""The reference evaluator of the onnx package, mended where it departs from the standard.

It evaluates with the functions of `OPERATORS` where there are some, because the package has them
wrong or not at all in some of its versions, gives every operator the defaults of its own version,
and says which node failed, on what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import ref

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from polygraphy.adapters.onnx_common import (
    controlflow,
    convolution,
    elementwise,
    indexing,
    normalization,
    quantization,
    recurrent,
    resizing,
    signals,
)
from polygraphy.adapters.onnx_common import convolution as pooling
from polygraphy.adapters.onnx_common.evaluated import NodeError
from polygraphy.adapters.onnx_common.messages import all_nodes, copy_of, tensors_read
from polygraphy.adapters.onnx_common.trees import transform_later
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.tensors.naming import one_line
from polygraphy.domain.tensors.precision import epsilon_of
from polygraphy.logger import G_LOGGER, LogMode

if TYPE_CHECKING:
    from onnx.defs import OpSchema

_STANDARD = ("", "ai.onnx")
_OWN_DOMAIN = "com.microsoft"
_WITH_CONTEXT = ("Loop", "Scan")


Missing = Callable[[onnx.NodeProto, int], Callable[..., Any]]
"""Takes a node that the evaluator does not know, and the version of its domain; returns what
computes it.
"""
Watch = Callable[[onnx.NodeProto, int, Callable[..., Any]], Callable[..., Any]]
"""Takes a node, the version of its domain and what computes it; returns what does instead."""


def evaluator_of(
    model: onnx.ModelProto | bytes | str,
    replaced: Sequence[type[OpRun]] = (),
    watched: Watch | None = None,
    missing: Missing | None = None,
) -> Evaluator:
    """Return an evaluator of a model.

    Args:
        model: the model, or its bytes or path.
        replaced: operators that take precedence over all others, also in subgraphs and functions.
        watched: is called for every node, there, too.
        missing: is called for every node that the evaluator does not know (default: the model is
            refused).
    """
    members = {
        "replaced": tuple(replaced),
        "watched": () if watched is None else (watched,),
        "missing": () if missing is None else (missing,),
    }
    kind = type("Evaluator", (Evaluator,), members) if any(members.values()) else Evaluator
    evaluator: Evaluator = kind(model)
    return evaluator


def operators_run_by_onnx(model: onnx.ModelProto) -> list[str]:
    """Return the operators of a model that `Evaluator` computes with the onnx package."""
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    operators = {(kind.op_domain, kind.__name__) for kind in _operators(model.graph.node, opsets)}
    used = {(node.domain, node.op_type) for node in model.graph.node}
    return sorted(op for domain, op in used - operators)


def formula_evaluator(model: onnx.ModelProto) -> Evaluator:
    """Return an evaluator that computes a model in float64, by formulas alone.

    Raises:
        NotImplementedError: there is no formula for one of its nodes.
    """
    from polygraphy.adapters.onnx_common.formulas import FORMULAS, TYPED

    opsets = {entry.domain: entry.version for entry in model.opset_import}
    replaced: dict[str, type[OpRun]] = {}
    for node in model.graph.node:
        formula = FORMULAS.get(node.op_type) if node.domain in _STANDARD else None
        if formula is None:
            raise NotImplementedError(f"There is no formula for {node.op_type}.")
        by_formula = partial(_compute_in_float64, formula, node.op_type in TYPED)
        replaced[node.op_type] = _operator(
            node.domain, node.op_type, opsets[node.domain], by_formula
        )
    return evaluator_of(model, list(replaced.values()))


def _compute_in_float64(
    formula: Callable[..., Any], is_typed: bool, *inputs: Any, outputs: int, **attributes: Any
) -> tuple[Any, ...]:
    """Return the results of a formula, computed in float64, in the type of its floating-point
    inputs, or in the formula's own type.

    Raises:
        NotImplementedError: they are whole numbers, of which the standard makes another type; or
            more is asked for than the formula makes.
    """
    floats = [value.dtype for value in inputs if value is not None and epsilon_of(value.dtype)]
    wide = [
        value.astype(np.float64) if value is not None and epsilon_of(value.dtype) else value
        for value in inputs
    ]
    with np.errstate(all="ignore"):
        result = formula(*wide, **attributes)
    every = [np.asarray(value) for value in (result if isinstance(result, tuple) else (result,))]
    if len(every) < outputs:
        raise NotImplementedError("several outputs")
    return tuple(
        (
            array
            if is_typed or (at and array.dtype == np.int64)
            else _cast_result(array, floats, inputs[0])
        )
        for at, array in enumerate(every[:outputs])
    )


def _cast_result(result: Any, floats: Sequence[Any], first: Any) -> Any:
    """Return a float64 result in the type of the first floating-point input.
    Raise NotImplementedError if another type differs from that of the first input.
    """
    if floats and result.dtype == np.float64:
        return result.astype(floats[0])
    if result.dtype.kind != "b" and result.dtype != first.dtype:
        raise NotImplementedError("an output type that differs from the input types")
    return result


class ZipMap(OpRun):
    """Computes maps from classes to their scores, which the onnx package does not."""

    op_domain = "ai.onnx.ml"

    def _run(
        self, x: Any, classlabels_int64s: Any = None, classlabels_strings: Any = None
    ) -> tuple[list[dict[Any, float]]]:
        """Return a map for each row."""
        labels = classlabels_strings or classlabels_int64s
        if labels is None or len(labels) != x.shape[-1]:
            raise ValueError("ZipMap requires a label for each column")
        rows = x.reshape(-1, x.shape[-1]).tolist()
        return ([dict(zip(labels, row)) for row in rows],)


def _with_own_import(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model that imports the domain of ONNX Runtime's operators if it has some:
    ONNX Runtime needs no import, and its optimizer for transformers writes none.
    """
    imported = {entry.domain for entry in model.opset_import}
    used = {node.domain for node in all_nodes(model.graph)}
    if _OWN_DOMAIN in imported or _OWN_DOMAIN not in used:
        return model
    copy = copy_of(model)
    copy.opset_import.add(domain=_OWN_DOMAIN, version=1)
    return copy


class Evaluator(ReferenceEvaluator):
    """Evaluates a model, a function or a subgraph. Subgraphs and functions, which may import other
    opsets, get evaluators of the same class."""

    replaced: ClassVar[tuple[type[OpRun], ...]] = ()
    watched: ClassVar[tuple[Watch, ...]] = ()
    missing: ClassVar[tuple[Missing, ...]] = ()

    def __init__(self, proto: Any, opsets: dict[str, int] | None = None, **options: Any) -> None:
        """Prepare the implementation of each node; the arguments are those of the onnx package."""
        if isinstance(proto, (str, bytes)):
            proto = onnx.load(proto) if isinstance(proto, str) else onnx.load_from_string(proto)
        if isinstance(proto, onnx.ModelProto):
            proto = _with_own_import(proto)
        imported = opsets or {entry.domain: entry.version for entry in proto.opset_import}
        graph = proto.graph if isinstance(proto, onnx.ModelProto) else proto
        operators = _operators(graph.node, imported)
        super().__init__(
            proto, opsets=opsets, **{**options, "new_ops": [*self.replaced, ZipMap, *operators]}
        )
        for node in self.rt_nodes_:
            # The default log function refers to the evaluator, which would keep all weights in
            # memory.
            getattr(node, "run_params", {})["log"] = _ignore_log
            _prepare(node, imported)
            node.run = transform_later(node, node.run)
            _warn_once(node.onnx_node, imported)
            for watched in self.watched:
                version = imported.get(node.onnx_node.domain, 1)
                node.run = watched(node.onnx_node, version, node.run)
        self.rt_nodes_ = _with_releases(self.rt_nodes_, self.output_names)

    def run(self, output_names: Sequence[str] | None, *args: Any, **options: Any) -> Any:
        """Return the named outputs, or all. Other tensors are released after their last reader."""
        if options.get("intermediate") or not set(self.output_names).issuperset(output_names or ()):
            raise ValueError(
                f"Not all of {output_names} are outputs, and other tensors are not kept."
            )
        return super().run(output_names, *args, **options)

    def _load_impl(self, node: onnx.NodeProto, *types: Any) -> Any:
        """Return the implementation of a node; raise NodeError if there is none."""
        try:
            return super()._load_impl(node, *types)
        except NotImplementedError as error:
            for missing in self.missing:
                return _foreign_operator(node, missing(node, self.opsets.get(node.domain, 1)))
            raise NodeError(_node_label(node, self.opsets), error) from error


def _ignore_log(pattern: str, *values: Any) -> None:
    """Ignore log messages of a node, which are for its developers."""


class _Release:
    """A pseudo-node that replaces tensors that are no longer needed with None, because the
    evaluator keeps the outputs of all nodes."""

    op_type, input, has_linked_attribute = "Release", (), False

    def __init__(self, names: Sequence[str]) -> None:
        """Set the names of the tensors to release."""
        self.output = names

    def need_context(self) -> bool:
        """Return False, because the node has no subgraphs."""
        return False

    def run(self) -> tuple[None, ...]:
        """Return None for each tensor."""
        return (None,) * len(self.output)


def _with_releases(nodes: Sequence[Any], kept_names: Iterable[str]) -> list[Any]:
    """Return nodes with release nodes after the last reader of each tensor."""
    last = {}
    for index, node in enumerate(nodes):
        names = {*tensors_read(node.onnx_node), *node.onnx_node.output}
        last.update(dict.fromkeys(names, index))
    computed = {name for node in nodes for name in node.onnx_node.output if name} - set(kept_names)
    last_uses: dict[int, list[str]] = {}
    for name in computed:
        last_uses.setdefault(last[name], []).append(name)
    releasing: list[Any] = []
    for index, node in enumerate(nodes):
        releasing.append(node)
        if index in last_uses:
            releasing.append(_Release(last_uses[index]))
    return releasing


def _operators(nodes: Iterable[onnx.NodeProto], opsets: dict[str, int]) -> list[type[OpRun]]:
    """Return an operator class for each kind of node that is computed here."""
    operators: dict[tuple[str, str], type[OpRun]] = {}
    for node in nodes:
        opset = opsets.get(node.domain)
        if node.domain in _STANDARD and opset and (node.domain, node.op_type) not in operators:
            function = implementation(node.op_type, opset)
            if function is not None:
                kind = _operator(node.domain, node.op_type, opset, function)
                operators[node.domain, node.op_type] = kind
    return list(operators.values())


def _operator(domain: str, op: str, opset: int, function: Callable[..., Any]) -> type[OpRun]:
    """Return an operator class of the evaluator that calls a function.
    Its name must be the operator.
    """
    schema = onnx.defs.get_schema(op, opset, "")

    def run(self: OpRun, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        """Return the outputs of the operator as a tuple."""
        results = function(
            *inputs, opset=schema.since_version, outputs=len(self.onnx_node.output), **attributes
        )
        return results if isinstance(results, tuple) else (results,)

    members = {"op_domain": domain, "op_schema": schema, "_run": run}
    if op in _WITH_CONTEXT:
        members["need_context"] = lambda self: True
    return type(op, (OpRun,), members)


def _foreign_operator(node: onnx.NodeProto, compute: Callable[..., Any]) -> type[OpRun]:
    """Return an operator class of the evaluator for an operator without a schema."""

    def run(self: OpRun, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        """Return the outputs that the backend computes."""
        return tuple(compute(*inputs))

    return type(node.op_type, (OpRun,), {"op_domain": node.domain, "_run": run})


def _prepare(node: OpRun, opsets: dict[str, int]) -> None:
    """Set the default attributes of a node's opset, and add its name to its errors."""
    proto = node.onnx_node
    schema = _schema(proto, opsets)
    if schema is not None and hasattr(node, "attributes_names_"):
        names = {attribute.name for attribute in proto.attribute}
        for name in node.attributes_names_ - names:
            default = schema.attributes[name].default_value if name in schema.attributes else None
            if default is not None and default.type:
                setattr(node, name, _value(default))
        for name, value in IMPLIED.get((proto.op_type, schema.since_version), {}).items():
            setattr(node, name, value)
        # An old setting for shared memory, which does not change results.
        node.attributes_names_.discard("consumed_inputs")
    node.run = _name_errors(node, opsets)  # type: ignore[method-assign]


def _warn_once(node: onnx.NodeProto, opsets: dict[str, int]) -> None:
    """Log, once for each operator, that its results differ from other backends."""
    first, last, why = DEPARTING.get(node.op_type, (0, -1, ""))
    opset = opsets.get(node.domain, 0)
    is_inference = any(entry.name == "is_test" and entry.i for entry in node.attribute)
    if node.domain in _STANDARD and first <= opset <= last and not is_inference:
        G_LOGGER.warning(
            f"Reference evaluator: {node.op_type} (opset {opset}) {why}.", mode=LogMode.ONCE
        )


def _schema(node: onnx.NodeProto, opsets: dict[str, int]) -> OpSchema | None:
    """Return the schema of a node's operator; None if there is none."""
    try:
        domain = "" if node.domain in _STANDARD else node.domain
        return onnx.defs.get_schema(node.op_type, opsets[node.domain], domain)
    except onnx.defs.SchemaError:
        return None


def _value(attribute: onnx.AttributeProto) -> Any:
    """Return a default value in the form in which the evaluator keeps attributes."""
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.type == onnx.AttributeProto.FLOAT:
        return np.float32(value)
    if attribute.type == onnx.AttributeProto.TENSOR:
        return onnx.numpy_helper.to_array(value)
    if attribute.type == onnx.AttributeProto.STRINGS:
        return [text.decode() for text in value]
    return value.decode() if isinstance(value, bytes) else value


def _name_errors(node: OpRun, opsets: dict[str, int]) -> Callable[..., Any]:
    """Return a function that runs a node, and names it in errors.
    It keeps no reference to the node, which would keep its model alive.
    """
    run: Callable[..., Any] = type(node).run
    proto, errors = node.onnx_node, ref(node)
    omits = "" in proto.output

    def call(*inputs: Any, **options: Any) -> Any:
        """Return the outputs of the node; an error names the node."""
        try:
            outputs = run(errors(), *inputs, **options)
            if not omits:
                return outputs
            # Omitted outputs have an empty name, so later nodes would read them as omitted inputs.
            return tuple(value if name else None for name, value in zip(proto.output, outputs))
        except (NodeError, PolygraphyException, MemoryError):
            raise  # A node of a subgraph has already reported its name.
        except Exception as error:
            raise NodeError(_node_label(proto, opsets, inputs), _cause(error)) from error

    return call


def _cause(error: Exception) -> BaseException:
    """Return the original error: the evaluator wraps it in a TypeError that lists types."""
    wrapped = isinstance(error, TypeError) and str(error).startswith("Issues with types")
    return error.__cause__ if wrapped and error.__cause__ else error


def _node_label(
    node: onnx.NodeProto, opsets: dict[str, int], inputs: Sequence[Any] | None = None
) -> str:
    """Return a node for a message: its name, operator, opset and inputs."""
    op = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    name = repr(node.name) if node.name else f"that computes {', '.join(map(repr, node.output))}"
    node_label = one_line(f"node {name} ({op}, opset {opsets.get(node.domain, '?')})")
    if inputs is None:
        return node_label
    described = [
        f"{one_line(label)} {_describe_value(value)}"
        for label, value in zip(node.input, inputs)
        if label
    ]
    return f"{node_label} on {', '.join(described)}" if described else node_label


def _describe_value(value: Any) -> str:
    """Return the data type and shape of an array as text."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{','.join(map(str, value.shape))}]"
    return "nothing" if value is None else type(value).__name__


_ANY = 1 << 30
_LEGACY: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "And": np.logical_and,
    "Equal": np.equal,
    "Greater": np.greater,
    "Less": np.less,
    "Mul": np.multiply,
    "Or": np.logical_or,
    "Pow": np.power,
    "Sub": np.subtract,
    "Xor": np.logical_xor,
}
_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Mean", "Prod", "Sum", "SumSquare")

OPERATORS: Mapping[str, tuple[tuple[int, int, Callable[..., Any]], ...]] = {
    **{
        op: ((1, 6, elementwise.with_legacy_broadcast(function)),)
        for op, function in _LEGACY.items()
    },
    **{f"Reduce{kind}": ((1, _ANY, elementwise.reduce(f"Reduce{kind}")),) for kind in _REDUCTIONS},
    "AveragePool": ((1, _ANY, pooling.average_pool),),
    "BatchNormalization": ((1, _ANY, normalization.batch_normalization),),
    **({"Cast": ((6, _ANY, quantization.cast),)} if quantization.TRUNCATES else {}),
    "Clip": ((1, 10, elementwise.clip),),
    "Conv": ((1, _ANY, convolution.conv),),
    "ConvInteger": ((10, _ANY, quantization.conv_integer),),
    "ConvTranspose": ((1, _ANY, convolution.conv_transpose),),
    "CumSum": ((11, _ANY, elementwise.cum_sum),),
    "DequantizeLinear": ((10, 18, quantization.dequantize),),
    "Det": ((11, _ANY, elementwise.det),),
    "Div": ((1, 6, elementwise.with_legacy_broadcast(elementwise.div)), (7, _ANY, elementwise.div)),
    "Dropout": ((1, 6, indexing.dropout),),
    "Erf": ((9, _ANY, elementwise.erf),),
    "GRU": ((1, _ANY, recurrent.gru),),
    "GatherElements": ((11, _ANY, indexing.gather_elements),),
    "Gelu": ((20, _ANY, elementwise.gelu),),
    "Gemm": ((1, _ANY, elementwise.gemm),),
    "GlobalAveragePool": ((1, _ANY, pooling.global_average_pool),),
    "GlobalLpPool": ((1, _ANY, pooling.global_lp_pool),),
    "GlobalMaxPool": ((1, _ANY, pooling.global_max_pool),),
    "GridSample": ((16, _ANY, resizing.grid_sample),),
    "GroupNormalization": ((18, _ANY, normalization.group_normalization),),
    "Hardmax": ((1, _ANY, normalization.hardmax),),
    "InstanceNormalization": ((1, _ANY, normalization.instance_normalization),),
    "LRN": ((1, _ANY, normalization.lrn),),
    "LSTM": ((1, _ANY, recurrent.lstm),),
    "LayerNormalization": ((17, _ANY, normalization.layer_normalization),),
    "LogSoftmax": ((1, _ANY, normalization.log_softmax),),
    "Loop": ((1, _ANY, controlflow.run_loop),),
    "LpNormalization": ((1, _ANY, normalization.lp_normalization),),
    "LpPool": ((1, _ANY, pooling.lp_pool),),
    "MaxPool": ((1, _ANY, pooling.max_pool),),
    "MaxRoiPool": ((1, _ANY, pooling.max_roi_pool),),
    "Mean": ((1, _ANY, elementwise.mean),),
    "MeanVarianceNormalization": ((9, _ANY, normalization.mean_variance_normalization),),
    "NonMaxSuppression": ((10, _ANY, indexing.non_max_suppression),),
    "OneHot": ((9, _ANY, indexing.one_hot),),
    "Optional": ((15, _ANY, indexing.optional_content),),
    "OptionalHasElement": ((15, _ANY, indexing.has_element),),
    "PRelu": ((1, 6, elementwise.prelu),),
    "Pad": ((1, _ANY, indexing.pad),),
    "QLinearConv": ((10, _ANY, quantization.qlinear_conv),),
    "QLinearMatMul": ((10, _ANY, quantization.qlinear_matmul),),
    "QuantizeLinear": ((10, 18, quantization.quantize),),
    "RNN": ((1, _ANY, recurrent.rnn),),
    "Reshape": ((1, 4, indexing.reshape),),
    "Resize": ((10, 10, resizing.resize_10), (11, _ANY, resizing.resize)),
    "STFT": ((17, _ANY, signals.stft),),
    "Scan": ((8, 8, controlflow.scan_8), (9, _ANY, controlflow.scan)),
    "Scatter": ((9, _ANY, indexing.scatter),),
    "ScatterElements": ((11, _ANY, indexing.scatter),),
    "ScatterND": ((11, _ANY, indexing.scatter_nd),),
    "Slice": ((1, _ANY, indexing.slices),),
    "Softmax": ((1, _ANY, normalization.softmax),),
    "Split": ((1, 1, indexing.split),),
    "Squeeze": ((1, 12, indexing.squeeze),),
    "Sum": ((1, _ANY, elementwise.total),),
    "TopK": ((1, _ANY, indexing.top_k),),
    "Unique": ((11, _ANY, indexing.unique),),
    "Unsqueeze": ((1, 12, indexing.unsqueeze),),
    "Upsample": ((1, _ANY, resizing.upsample),),
}
"""By operator: the first and the last opset, and what computes it. A function takes the inputs, the
attributes by name, `opset` (the version of the operator) and `outputs` (how many there are)."""

IMPLIED: Mapping[tuple[str, int], Mapping[str, Any]] = {
    ("RoiAlign", 10): {"coordinate_transformation_mode": "output_half_pixel"},
}
"""Attributes of later versions whose value an earlier version implies."""


_RANDOM = "uses random numbers, which differ in each backend"
DEPARTING: Mapping[str, tuple[int, int, str]] = {
    **dict.fromkeys(
        (
            "Bernoulli",
            "Multinomial",
            "RandomNormal",
            "RandomNormalLike",
            "RandomUniform",
            "RandomUniformLike",
        ),
        (1, _ANY, _RANDOM),
    ),
    "Dropout": (1, 6, "is computed in inference mode, even if is_test is not set"),
}
"""Operators whose results are not those of other backends: the first and the last opset, and why.
They are reported when a model is loaded."""


def implementation(op: str, opset: int) -> Callable[..., Any] | None:
    """Return the function that computes a standard operator; None if the onnx package does."""
    for first, last, function in OPERATORS.get(op, ()):
        if first <= opset <= last:
            return function
    return None
