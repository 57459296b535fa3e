"""Options for editing ONNX models."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds import Choice, Integer, Kind, PerName, Text, Texts, split_list
from polygraphy.cli.declare.kinds.base import ByteSize
from polygraphy.cli.declare.kinds.per_name import dims_in, is_by_x, shapes_in
from polygraphy.cli.declare.option import Options, option, option_group
from polygraphy.cli.shared.model import NamedModel, model_shapes_option
from polygraphy.cli.shared.onnx import (
    EXTERNAL_DATA_FOLDER,
    EXTERNAL_DATA_NAME,
    EXTERNAL_DATA_THRESHOLD,
    ONE_FILE_PER_WEIGHT,
    STRUCTURE_ONLY,
    Outputs,
    onnx_alone_option,
)
from polygraphy.domain.tensors.shapes import quote_name

_UNKNOWN = "auto"


class TensorSpec(NamedTuple):
    """A tensor by name, with its type and shape; None for parts that are determined later."""

    name: str
    shape: tuple[int | str | None, ...] | None = None
    dtype: str | None = None


class Tensors(Kind):
    """Tensors with their shapes and data types, which may be omitted or ``auto``:
    ``x:[1,3,N]:float32 y:auto:auto z``."""

    nargs = "*"
    metavar = "NAME[:SHAPE][:DTYPE]"

    def parse(self, words: Sequence[str]) -> tuple[TensorSpec, ...]:
        """Return the tensors, in order."""
        specs = tuple(map(_spec, words))
        names = [spec.name for spec in specs]
        for name in names:
            if names.count(name) > 1:
                raise BadValue(f"tensor {name!r} occurs twice")
        return specs

    def unparse(self, value: Sequence[TensorSpec]) -> list[str]:
        """Return one word per tensor."""
        return [
            ":".join((spec.name, _shape_text(spec.shape), spec.dtype or _UNKNOWN)) for spec in value
        ]

    def argument(self, value: Sequence[TensorSpec]) -> Any:
        """Return the expression that creates the metadata of the tensors."""
        from polygraphy.codegen.source import Metadata

        return Metadata(value)


def _spec(word: str) -> TensorSpec:
    """Return the name, data type and shape in a word, split from its end because names may contain
    colons.
    """
    name, dtype, shape = word, None, None
    remaining_name, colon, last = name.rpartition(":")
    is_shape = _is_shape(last)
    if colon and last.startswith("[") and not is_shape:
        raise BadValue(f"{word!r} has an unmatched bracket")
    if colon and not is_shape and _is_dtype(last):
        name, dtype = remaining_name, last.lower()
        remaining_name, colon, last = name.rpartition(":")
        is_shape = _is_shape(last)
    elif (
        colon
        and not is_shape
        and (remaining_name.endswith("]") or remaining_name.endswith(f":{_UNKNOWN}"))
    ):
        raise BadValue(f"{last!r} in {word!r} is not a data type, such as float32 or int64")
    if colon and is_shape:
        name, shape = remaining_name, tuple(map(_dim, dims_in(last)))
    elif colon and last == _UNKNOWN:
        name = remaining_name
    if not name:
        raise BadValue(f"{word!r} does not contain a tensor name")
    return TensorSpec(name, shape, None if dtype == _UNKNOWN else dtype)


def _is_shape(text: str) -> bool:
    """Return whether a text looks like a shape, such as [1,3] or 1x3."""
    return is_by_x(text) or (text.startswith("[") and text.endswith("]"))


def _is_dtype(text: str) -> bool:
    """Return whether a text is the name of a data type."""
    from polygraphy.domain.tensors.datatype import DataType

    return text.lower() == _UNKNOWN or text.upper() in DataType.__members__


def _dim(text: str) -> int | str | None:
    """Return a dimension: a number, a name, or None for any."""
    plain = text.strip("'\"")
    try:
        value = int(plain)
    except ValueError:
        if not plain:
            raise BadValue("a dimension is empty") from None
        return None if plain in ("None", "?") else plain
    return None if value < 0 else value


def _shape_text(shape: Sequence[int | str | None] | None) -> str:
    """Return the text of a shape for the command line, with -1 for unknown dimensions."""
    if shape is None:
        return _UNKNOWN
    return f"[{','.join('-1' if dim is None else str(dim) for dim in shape)}]"


class NamedShapes(Kind):
    """One shape per tensor: ``image:[1,3,224,224] mask:[N,224]``; a dimension may be a name."""

    nargs = "+"
    metavar = "INPUT:[DIM,...]"

    def parse(self, words: Sequence[str]) -> dict[str, tuple[int | str | None, ...]]:
        """Return a dictionary from names to shapes."""
        shapes: dict[str, tuple[int | str | None, ...]] = {}
        for name, dims in shapes_in(words):
            if name in shapes:
                raise BadValue(f"{name!r} has two shapes")
            shapes[name] = tuple(map(_dim, dims))
        return shapes

    def unparse(self, value: Mapping[str, Sequence[int | str | None]]) -> list[str]:
        """Return a word per input."""
        return [f"{quote_name(name)}:{_shape_text(shape)}" for name, shape in value.items()]

    def argument(self, value: Mapping[str, Sequence[int | str | None]]) -> Any:
        """Return a dictionary from names to lists."""
        return {name: list(shape) for name, shape in value.items()}


class Attributes(Kind):
    """Attributes of a node: ``axis=1 alpha=0.5 mode=linear sizes=[1,2]``."""

    nargs = "+"
    metavar = "NAME=VALUE"

    def parse(self, words: Sequence[str]) -> dict[str, Any]:
        """Return a dictionary from names to numbers, texts, and lists of either."""
        attributes: dict[str, Any] = {}
        for word in words:
            name, equals, text = word.partition("=")
            if not equals or not name:
                raise BadValue(f"{word!r} does not set an attribute, as in axis=1")
            if name in attributes:
                raise BadValue(f"{name!r} has two values")
            attributes[name] = _parse_attribute(text)
        return attributes

    def unparse(self, value: Mapping[str, Any]) -> list[str]:
        """Return a word per attribute, ``NAME=VALUE``."""
        return [f"{name}={_attribute_text(item)}" for name, item in value.items()]


def _attribute_text(value: Any) -> str:
    """Return the text that `_parse_attribute` reads as this value:
    a string without quotes if possible."""
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(repr, value))}]"
    if not isinstance(value, str):
        return repr(value)
    try:
        return value if _parse_attribute(value) == value else repr(value)
    except BadValue:
        return repr(value)


def _parse_attribute(text: str) -> Any:
    """Return the value of an attribute from its text."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        if text.startswith("["):
            value = [_parse_attribute(part) for part in split_list(text)]
        else:
            return text
    if isinstance(value, tuple):
        value = list(value)
    items = value if isinstance(value, list) else [value]
    kinds = {type(item) for item in items}
    if kinds == {int, float}:
        value, kinds = [float(item) for item in items], {float}
    if not kinds or len(kinds) > 1 or not kinds <= {int, float, str}:
        raise BadValue(f"{text!r} is not a number, a string, or a list of numbers or strings")
    return value


@option_group
class EditedModelOptions(NamedModel):
    """Model: the ONNX model that is edited."""

    model_file: str | None = option(reads="Model", kind=Text("MODEL"), help="Path of the model.")
    external_data_dir: str | None = EXTERNAL_DATA_FOLDER
    ignore_external_data: bool = STRUCTURE_ONLY


@option_group
class EditSaveOptions(Options):
    """Saving: where to save the edited model."""

    output: str | None = option(
        "-o",
        "--output",
        writes=True,
        help="Path of the edited model.",
        otherwise="named after the model, in the current folder",
    )
    save_external_data: str | None = EXTERNAL_DATA_NAME
    external_data_size_threshold: int | None = EXTERNAL_DATA_THRESHOLD
    no_save_all_tensors_to_one_file: bool = ONE_FILE_PER_WEIGHT


@option_group
class VerifyOptions(Options):
    """Verification: check that the edit does not change the outputs."""

    verify: bool = option(
        "--verify",
        help="Run the model before and after the edit on the same data, and save it only if"
        " all outputs match; otherwise, exit with code 1. Missing weights are restored for the"
        " comparison. A model with random weights is only run and checked for NaN and infinity.",
    )


@option_group
class TrialShapeOptions(Options):
    """Trial Shapes: shapes of the data for running the model."""

    model_input_shapes: Mapping[str, tuple[tuple[int, ...], ...]] | None = model_shapes_option(
        "Shapes of the data for running the model, as in image:1x3x224x224.",
        otherwise="1 for each dynamic dimension",
    )


@option_group
class ExtractOptions(Options):
    """Extraction: the tensors at the cut."""

    inputs: Any = option(
        "--inputs",
        kind=Tensors(),
        help="Tensors that become the inputs, with shapes and data types, as in"
        " x:[1,3,N]:float32. Missing fields, and auto, are read from the model, inferred, or"
        " determined by running the model. If you pass no names, the model has no inputs.",
        otherwise="the inputs of the model",
        feeds="extract.inputs",
    )
    outputs: Any = option(
        "--outputs",
        kind=Tensors(),
        help="Tensors that become the outputs, as in y:float32.",
        otherwise="the outputs of the model",
        feeds="extract.outputs",
    )


@option_group
class FallbackOptions(Options):
    """Observed Shapes: shapes that cannot be inferred."""

    force_fallback_shape_inference: bool = option(
        "--force-fallback-shape-inference",
        excludes=("--no-shape-inference", "--shape-inference"),
        help="Determine the shapes of all tensors by running the model instead of inferring"
        " them. Every dimension becomes fixed.",
    )


@option_group
class SanitizeShapeOptions(Options):
    """ONNX Shape Inference: data types and shapes that are missing from the model."""

    no_shape_inference: bool = option(
        "--no-shape-inference", help="Skip shape inference when the model is loaded."
    )
    no_onnxruntime_shape_inference: bool = onnx_alone_option(
        "infer_shapes.allow_onnxruntime", "fold_constants.allow_onnxruntime_shape_inference"
    )
    override_input_shapes: Mapping[str, tuple[int | str | None, ...]] | None = option(
        "--override-input-shapes",
        "--override-inputs",
        kind=NamedShapes(),
        help="Set new shapes of inputs, as in image:1x3x224x224, and infer the shapes of all"
        " other tensors again.",
        feeds="override_input_shapes.shapes",
    )


@option_group
class SanitizeOutputOptions(Options):
    """Outputs: the outputs of the model."""

    outputs: tuple[str, ...] = option(
        "--outputs",
        kind=Outputs("NAME"),
        help="Tensors that become outputs of the model, instead of its current outputs. Names may"
        " be patterns; '*' means every tensor.",
        feeds="modify_outputs.outputs",
    )
    exclude_outputs: tuple[str, ...] = option(
        "--exclude-outputs",
        kind=Texts("NAME"),
        help="Tensors to exclude from the outputs; names may be patterns.",
        feeds="modify_outputs.exclude_outputs",
    )
    outputs_by_type: tuple[str, ...] = option(
        "--outputs-by-type",
        kind=Texts("OP"),
        help="Types of operators, such as Conv, whose tensors become outputs.",
        feeds="modify_outputs.mark_types",
    )


@option_group
class SanitizeOptions(Options):
    """Tidying: changes to the graph."""

    cleanup: bool = option("--cleanup", help="Remove nodes and weights that no output depends on.")
    simplify: bool = option(
        "--simplify",
        help="Remove nodes that do not change a value, such as a Reshape to the current shape,"
        " and duplicate computations. Outputs stay identical to the bit.",
    )
    toposort: bool = option("--toposort", help="Sort the nodes topologically.")
    upper_bounds: Any = option(
        "--set-unbounded-dds-upper-bound",
        kind=PerName(Integer(minimum=1), "TENSOR"),
        help="Limit tensors whose size depends on data without an upper bound. Min nodes are"
        " inserted before the inputs that determine the size. Set one limit for all tensors, or"
        " limits by name, as in 10000 indices:500.",
        feeds="set_upper_bound.upper_bounds",
    )


@option_group
class FoldOptions(Options):
    """Constant Folding: replace constant computations with weights."""

    fold_constants: bool = option(
        "--fold-constants",
        help="Replace computations that do not depend on inputs with their values.",
    )
    num_passes: int | None = option(
        "--num-passes",
        "--num-const-fold-passes",
        needs="--fold-constants",
        kind=Integer(minimum=1),
        help="Number of passes over the model.",
        otherwise="until no more constants can be folded",
        feeds="fold_constants.num_passes",
    )
    partitioning: str | None = option(
        "--partitioning",
        needs="--fold-constants",
        kind=Choice("basic", "recursive"),
        help="Fallback for constants that cannot be computed: basic folds the others, recursive"
        " also folds the inputs of these nodes. By default, folding stops.",
        feeds="fold_constants.partitioning",
    )
    no_fold_shapes: bool = option(
        "--no-fold-shapes",
        needs="--fold-constants",
        help="Keep Shape and Size nodes, and all nodes that depend on them.",
        as_=False,
        feeds="fold_constants.fold_shapes",
    )
    no_per_pass_shape_inference: bool = option(
        "--no-per-pass-shape-inference",
        needs="--fold-constants",
        help="Skip shape inference between the passes.",
        as_=False,
        feeds="fold_constants.do_shape_inference",
    )
    fold_size_threshold: int | None = option(
        "--fold-size-threshold",
        needs="--fold-constants",
        kind=ByteSize(),
        help="Size in bytes above which constants are not folded, as in 16e6, 512K, 4M.",
        feeds="fold_constants.size_threshold",
    )


@option_group
class InsertOptions(Options):
    """Node: the new node."""

    inputs: tuple[str, ...] = option(
        "--inputs",
        kind=Texts("NAME"),
        help="Tensors that become the inputs of the new node, in order.",
        feeds="insert_node.inputs",
    )
    outputs: tuple[str, ...] = option(
        "--outputs",
        kind=Texts("NAME"),
        help="Tensors that become the outputs of the new node, in order. If an output is also an"
        " input, later nodes read the new tensor.",
        feeds="insert_node.outputs",
    )
    op: str | None = option(
        "--op", kind=Text("OP"), help="Operator type of the new node.", feeds="insert_node.op"
    )
    name: str | None = option(
        "--name", kind=Text("NAME"), help="Name of the new node.", feeds="insert_node.name"
    )
    attrs: Any = option(
        "--attrs",
        kind=Attributes(),
        help="Attributes of the new node, as in axis=1 alpha=0.5 mode=linear sizes=[1,2].",
        feeds="insert_node.attrs",
    )


@option_group
class CopyOptions(Options):
    """Reference: the nodes to copy, and their source."""

    reference: str | None = option(
        "--reference",
        reads="Reference",
        kind=Text("MODEL"),
        help="Reference: a correct model, whose names may differ.",
        feeds="copy_nodes.reference",
    )
    nodes: tuple[str, ...] = option(
        "--nodes",
        kind=Texts("NAME"),
        help="Nodes of the edited model to replace with their counterparts in the reference. An"
        " unnamed node is selected by its first output.",
        otherwise="all nodes that differ",
        feeds="copy_nodes.nodes",
    )


@option_group
class PruneOptions(Options):
    """Pruning: the nodes or weights to remove."""

    remove_node_types: tuple[str, ...] = option(
        "--remove-node-types",
        kind=Texts("OP"),
        help="Remove all nodes of these types and connect their consumers to the first input of"
        " the removed node. By default, two of every four weights along the axis of a product"
        " become zero.",
        feeds="remove_nodes.types",
    )


@option_group
class StripOptions(Options):
    """Weights: the weights to keep."""

    exclude_list: str | None = option(
        "--exclude-list",
        reads="List of names",
        help="Text file with the names of weights to keep, one per line.",
        feeds="strip_weights.exclude_list",
    )
