"""Options for ONNX models, and the calls that load them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import frozen

from polygraphy.cli.declare.errors import CommandLineError, warn, warn_of_idle_flags
from polygraphy.cli.declare.kinds import Text, Texts
from polygraphy.cli.declare.kinds.base import ByteSize
from polygraphy.cli.declare.option import (
    Options,
    Values,
    call_of,
    non_default_flags_for_calls,
    option,
    option_group,
)
from polygraphy.codegen.source import Call, Name, nest_calls

LOADERS = ("check_lint", "draw_model", "inspect_model", "inspect_sparsity", "onnx_from_path")
"""The functions of commands that load ONNX models as the options say."""
SAVERS = ("save_onnx", "save_shards")
"""Those that save them."""
CASTS = ("convert_to_fp16", "convert_to_bf16")
"""Options that cast a model to a lower precision."""
EVERY_TENSOR = ("*",)
"""The option value that makes every tensor an output."""


class Outputs(Texts):
    """Names of tensors, or ``*`` for all of them, with the alternative spelling ``mark all``."""

    def parse(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the names, or `EVERY_TENSOR`."""
        return EVERY_TENSOR if " ".join(words) == "mark all" else tuple(words)

    def argument(self, value: Sequence[str]) -> Any:
        """Return a list, or the constant for every tensor."""
        return Name("polygraphy.constants", "MARK_ALL") if value == EVERY_TENSOR else list(value)


@option_group
class OutputOptions(Options):
    """Outputs: the tensors to compare, in every backend."""

    mark_all: bool = option(
        "--mark-all",
        help="Mark every tensor as an output in all selected backends, and compare tensors that"
        " both runs have, in the order of computation.",
        feeds="Comparator.compare_accuracy.allow_missing_outputs",
    )
    exclude_outputs: tuple[str, ...] = option(
        "--exclude-outputs",
        kind=Texts("NAME"),
        help="Tensors to exclude from the outputs of all backends; names may be patterns.",
    )


EXTERNAL_DATA_FOLDER: Any = option(
    "--external-data-dir",
    "--load-external-data",
    "--ext",
    reads="Folder of weights",
    kind=Text("DIR"),
    help="Folder with the external weights of the model.",
    otherwise="the folder of the model",
    feeds=tuple(f"{name}.external_data_dir" for name in LOADERS),
)

STRUCTURE_ONLY: Any = option(
    "--ignore-external-data",
    help="Load only the structure of the model, without external weights.",
    feeds="onnx_from_path.ignore_external_data",
)


@option_group
class OnnxLoadOptions(Options):
    """ONNX Model Loading: the weights and the outputs of an ONNX model."""

    external_data_dir: str | None = EXTERNAL_DATA_FOLDER
    ignore_external_data: bool = STRUCTURE_ONLY
    onnx_outputs: tuple[str, ...] = option(
        "--onnx-outputs",
        kind=Outputs("NAME"),
        help="Tensors of the ONNX model to mark as outputs, instead of its current outputs. Names"
        " may be patterns, such as 'conv*'; '*' and 'mark all' mean every tensor.",
        feeds="modify_outputs.outputs",
    )
    onnx_exclude_outputs: tuple[str, ...] = option(
        "--onnx-exclude-outputs",
        kind=Texts("NAME"),
        help="Tensors of the ONNX model to exclude from the outputs; names may be patterns.",
    )
    onnx_outputs_by_type: tuple[str, ...] = option(
        "--onnx-outputs-by-type",
        kind=Texts("OP"),
        help="Types of operators, such as Conv, whose tensors become outputs of the ONNX model,"
        " instead of its current outputs and in addition to --onnx-outputs.",
        feeds="modify_outputs.mark_types",
    )


def _cast_parameters(argument: str) -> tuple[str, ...]:
    """Return the parameters that an option feeds in both conversions."""
    return tuple(f"{name}.{argument}" for name in CASTS)


_CASTS = ("--fp-to-fp16", "--to-bf16")


@option_group
class OnnxCastOptions(Options):
    """ONNX Precision: the data type in which an ONNX model computes."""

    fp_to_fp16: bool = option(
        "--fp-to-fp16",
        excludes="--to-bf16",
        help="Convert the ONNX model to fp16; inputs and outputs keep their types.",
    )
    to_bf16: bool = option(
        "--to-bf16", help="Convert the ONNX model to bf16; inputs and outputs keep their types."
    )
    cast_keep_ops: tuple[str, ...] = option(
        "--cast-keep-ops",
        needs=_CASTS,
        feeds=_cast_parameters("keep_ops"),
        kind=Texts("OP"),
        help="Types of operators to keep in fp32, such as Softmax.",
    )
    cast_keep_nodes: tuple[str, ...] = option(
        "--cast-keep-nodes",
        needs=_CASTS,
        feeds=_cast_parameters("keep_nodes"),
        kind=Texts("NODE"),
        help="Nodes to keep in fp32; use an output name for unnamed nodes.",
    )
    cast_only_ops: tuple[str, ...] = option(
        "--cast-only-ops",
        needs=_CASTS,
        feeds=_cast_parameters("only_ops"),
        kind=Texts("OP"),
        help="Types of operators to convert; all others stay in fp32.",
    )
    cast_only_nodes: tuple[str, ...] = option(
        "--cast-only-nodes",
        needs=_CASTS,
        feeds=_cast_parameters("only_nodes"),
        kind=Texts("NODE"),
        help="Nodes to convert; all others stay in fp32.",
    )
    cast_io: bool = option(
        "--cast-io",
        needs=_CASTS,
        feeds=_cast_parameters("cast_io"),
        help="Also convert the types of inputs and outputs.",
    )


def onnx_alone_option(*feeds: str, needs: str | tuple[str, ...] = ()) -> Any:
    """Return the declaration of the option that keeps ONNX Runtime out of shape inference."""
    return option(
        "--no-onnxruntime-shape-inference",
        needs=needs,
        help="Infer shapes with the onnx package only. By default, ONNX Runtime's symbolic shape"
        " inference finds ranks that the onnx package does not, if sympy is installed.",
        as_=False,
        feeds=feeds,
    )


@option_group
class OnnxShapeOptions(Options):
    """ONNX Shape Inference: data types and shapes that are missing from an ONNX model."""

    shape_inference: bool = option(
        "--shape-inference",
        "--do-shape-inference",
        help="Infer the shapes of the ONNX model's tensors when it is loaded.",
        feeds=("inspect_model.infer_shapes", "draw_model.infer_shapes"),
    )
    no_onnxruntime_shape_inference: bool = onnx_alone_option(
        "inspect_model.allow_onnxruntime",
        "draw_model.allow_onnxruntime",
        "infer_shapes.allow_onnxruntime",
        needs="--shape-inference",
    )


EXTERNAL_DATA_NAME: Any = option(
    "--save-external-data",
    "--external-data-path",
    kind=Text("NAME", nargs="?", without_word=""),
    help="Save large weights in an external file with this name, next to the model. Always"
    " used for models of 2 GB or more.",
    otherwise="the name of the model with .data appended",
    feeds=tuple(f"{name}.external_data_path" for name in SAVERS),
)

EXTERNAL_DATA_THRESHOLD: Any = option(
    "--external-data-size-threshold",
    kind=ByteSize(),
    help="Size in bytes above which weights are saved in the external file, as in 16e6, 512K, 4M.",
    otherwise="1024",
    feeds=tuple(f"{name}.size_threshold" for name in SAVERS),
)

ONE_FILE_PER_WEIGHT: Any = option(
    "--no-save-all-tensors-to-one-file",
    help="Save each external weight in its own file.",
    as_=False,
    feeds=tuple(f"{name}.all_tensors_to_one_file" for name in SAVERS),
)


@option_group
class OnnxSaveOptions(Options):
    """ONNX Model Saving: the ONNX model that runs, with all changes."""

    save_onnx: str | None = option(
        "--save-onnx", writes=True, help="Save the ONNX model that runs.", feeds="save_onnx.path"
    )
    save_external_data: str | None = EXTERNAL_DATA_NAME
    external_data_size_threshold: int | None = EXTERNAL_DATA_THRESHOLD
    no_save_all_tensors_to_one_file: bool = ONE_FILE_PER_WEIGHT


_LOAD = Call("onnx_from_path")


@frozen
class OnnxModel:
    """The calls that load and change an ONNX model.

    Attributes:
        calls: functions that are applied in turn; the first one gets a path, or a TensorFlow graph.
        graph: loaders of that graph, in order; the first one gets a path.
    """

    calls: tuple[Call, ...] = (_LOAD,)
    graph: tuple[Call, ...] = ()

    def of(self, path: Any) -> Call:
        """Return the call that returns the model."""
        call: Call = nest_calls(nest_calls(path, self.graph), self.calls)
        return call

    def loader(self, path: Any) -> Call:
        """Return the call that creates a loader of the model."""
        loaders = (Call(_class_name(call.name), call.args, call.kwargs) for call in self.calls)
        new_call: Call = nest_calls(nest_calls(path, self.graph), loaders)
        return new_call

    def without(self, *names: str) -> OnnxModel:
        """Return the same model without some calls."""
        return OnnxModel(tuple(call for call in self.calls if call.name not in names), self.graph)

    @property
    def with_mapped_weights(self) -> OnnxModel:
        """Return the same model with weights that stay in its file until they are needed."""
        return OnnxModel((self.calls[0].of(map_weights=True), *self.calls[1:]), self.graph)

    @property
    def is_as_saved(self) -> bool:
        """Return whether the model runs as saved, so that backends can load the file themselves."""
        return self == OnnxModel()

    @property
    def outputs(self) -> dict[str, Any]:
        """Return the arguments that select its outputs; empty if they are unchanged."""
        return next((dict(call.kwargs) for call in self.calls if call.name == "modify_outputs"), {})

    @property
    def is_marked(self) -> bool:
        """Return whether every tensor is an output."""
        return not isinstance(self.outputs.get("outputs", ()), (list, tuple))


def _class_name(function: str) -> str:
    """Return the name of the loader class for a function."""
    return function.replace("_", " ").title().replace(" ", "")


def onnx_of(
    values: Values,
    *,
    is_loaded: bool = True,
    has_others: bool = False,
    graph: tuple[Call, ...] = (),
    opset: int | None = None,
) -> OnnxModel:
    """Return the way to load the model, as calls.

    Args:
        values: the options.
        is_loaded: whether a runner loads the model at all.
        has_others: whether the options for all backends also apply to another model.
        graph: the loaders of the TensorFlow graph that it is converted from; none for an ONNX file.
        opset: the opset that it is converted to.

    Raises:
        CommandLineError: the options change or save the model, but nothing loads it.
    """
    load, save = values[OnnxLoadOptions], values[OnnxSaveOptions]
    every = OutputOptions() if has_others and not is_loaded else values[OutputOptions]
    converts = [Call("convert_opset", kwargs={"opset": opset})] if opset and not graph else []
    steps = (
        call_of("onnx_from_path", values),
        *(converts if is_loaded else ()),
        *inference_of(values),
        *_outputs_of(load, every, values),
        *cast_of(values[OnnxCastOptions]),
        *([call_of("save_onnx", values)] if save.save_onnx else ()),
    )
    onnx_model = OnnxModel(steps)
    if not is_loaded and not onnx_model.is_as_saved:
        raise CommandLineError(
            "no selected runner loads the ONNX model, so it cannot be changed or saved. Add a"
            " runner that does, such as --onnxrt or --onnx."
        )
    if every.mark_all and load.onnx_outputs not in ((), EVERY_TENSOR):
        warn("--onnx-outputs: has no effect, because --mark-all makes every tensor an output.")
    warn_about_saving(values, is_saved=save.save_onnx is not None)
    if graph and is_loaded:
        convert = Call("onnx_from_tf_graph", kwargs={"opset": opset})
        return OnnxModel((convert, *onnx_model.calls[1:]), graph)
    return onnx_model


def inference_of(values: Values) -> list[Call]:
    """Return the call that infers shapes, if requested."""
    return [call_of("infer_shapes", values)] if values[OnnxShapeOptions].shape_inference else []


def cast_of(options: OnnxCastOptions) -> list[Call]:
    """Return the call that converts the model to another data type, in a list.
    The result is empty without one."""
    if options.fp_to_fp16 or options.to_bf16:
        chosen = "convert_to_fp16" if options.fp_to_fp16 else "convert_to_bf16"
        return [call_of(chosen, (options,))]
    return []


def tolerance_of(calls: Iterable[Call]) -> Call | None:
    """Return the comparison function for a model before and after some calls, or None.
    The result is None for the default."""
    if not any(call.name in CASTS for call in calls):
        return None
    return Call("SimpleCompareFunc", kwargs={"rtol": "auto", "atol": "auto"})


def _outputs_of(load: OnnxLoadOptions, every: OutputOptions, values: Values) -> list[Call]:
    """Return the call that selects the outputs, if any are selected."""
    excluded = list(dict.fromkeys(every.exclude_outputs + load.onnx_exclude_outputs))
    call = call_of("modify_outputs", values, exclude_outputs=excluded or None)
    if every.mark_all:
        call = call.of(outputs=Outputs("NAME").argument(EVERY_TENSOR))
    return [call] if call.kwargs else []


def warn_about_saving(values: Values, *, is_saved: bool = True) -> None:
    """Log options without effect about the files of large weights."""
    unused = non_default_flags_for_calls(values, ["save_onnx"])
    unused = [flag for flag in unused if flag != "--save-onnx"]
    if not is_saved:
        warn_of_idle_flags(unused, ", because no model is saved: see --save-onnx")
    elif unused and "--save-external-data" not in unused:
        warn(
            f"{', '.join(unused)}: has no effect without --save-external-data, except for"
            " models of 2 GB or more."
        )
