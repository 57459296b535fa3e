"""How an ONNX model comes to be: the calls that options about ONNX models stand for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import frozen

from polygraphy.cli.declare.errors import CommandLineError, warn, warn_idle
from polygraphy.cli.declare.values import Values, call_of, flags_feeding
from polygraphy.cli.shared.onnx import (
    CASTS,
    EVERY_TENSOR,
    OnnxCastOptions,
    OnnxLoadOptions,
    OnnxSaveOptions,
    OnnxShapeOptions,
    OutputOptions,
    Outputs,
)
from polygraphy.codegen.call import Call, in_turn

_LOAD = Call("onnx_from_path")


@frozen
class OnnxModel:
    """How an ONNX model comes to be.

    Attributes:
        calls: functions of the model, each of what the one before returns; the first one takes a
            path, or a TensorFlow graph.
        graph: loaders of that graph, in order; the first one takes a path.
    """

    calls: tuple[Call, ...] = (_LOAD,)
    graph: tuple[Call, ...] = ()

    def of(self, path: Any) -> Call:
        """Return the call that returns the model."""
        made: Call = in_turn(in_turn(path, self.graph), self.calls)
        return made

    def loader(self, path: Any) -> Call:
        """Return the call that makes a loader of the model."""
        loaders = (Call(_class_name(call.name), call.args, call.kwargs) for call in self.calls)
        made: Call = in_turn(in_turn(path, self.graph), loaders)
        return made

    def without(self, *names: str) -> OnnxModel:
        """Return the same model, but for what some functions do to it."""
        return OnnxModel(tuple(call for call in self.calls if call.name not in names), self.graph)

    @property
    def with_mapped_weights(self) -> OnnxModel:
        """The same model, whose weights stay in its file until they are needed: for what only
        changes and saves it.
        """
        return OnnxModel((self.calls[0].of(map_weights=True), *self.calls[1:]), self.graph)

    @property
    def is_as_saved(self) -> bool:
        """Whether the model is run as it is in its file, so that backends may load it
        themselves.
        """
        return self == OnnxModel()

    @property
    def outputs(self) -> dict[str, Any]:
        """How its outputs are chosen: the arguments of what does that; empty where nothing does."""
        return next((dict(call.kwargs) for call in self.calls if call.name == "modify_outputs"), {})

    @property
    def is_marked(self) -> bool:
        """Whether every tensor is an output."""
        return not isinstance(self.outputs.get("outputs", ()), (list, tuple))


def _class_name(function: str) -> str:
    """Return the name of the loader that does what a function does."""
    return function.replace("_", " ").title().replace(" ", "")


def onnx_of(
    values: Values,
    *,
    is_loaded: bool = True,
    has_others: bool = False,
    graph: tuple[Call, ...] = (),
    opset: int | None = None,
) -> OnnxModel:
    """Return how the model is loaded.

    Args:
        values: the options.
        is_loaded: whether a runner loads the model at all.
        has_others: whether there is another model that the options for all backends are about.
        graph: the loaders of the TensorFlow graph that it is converted from; none for an ONNX file.
        opset: the opset that it is converted to.

    Raises:
        CommandLineError: the model is asked to be changed or saved, and nothing loads it.
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
    made = OnnxModel(steps)
    if not is_loaded and not made.is_as_saved:
        raise CommandLineError(
            "no selected runner loads the ONNX model, so it can neither be changed nor saved."
            " Choose one that does, such as --onnxrt or --onnx."
        )
    if every.mark_all and load.onnx_outputs not in ((), EVERY_TENSOR):
        warn("--onnx-outputs: has no effect, because --mark-all makes every tensor an output.")
    warn_about_saving(values, is_saved=save.save_onnx is not None)
    if graph and is_loaded:
        convert = Call("onnx_from_tf_graph", kwargs={"opset": opset})
        return OnnxModel((convert, *made.calls[1:]), graph)
    return made


def inference_of(values: Values) -> list[Call]:
    """Return the call that infers shapes, where that is asked for."""
    return [call_of("infer_shapes", values)] if values[OnnxShapeOptions].shape_inference else []


def cast_of(options: OnnxCastOptions) -> list[Call]:
    """Return the call that converts the model to another data type, if any."""
    if options.fp_to_fp16 or options.to_bf16:
        chosen = "convert_to_fp16" if options.fp_to_fp16 else "convert_to_bf16"
        return [call_of(chosen, (options,))]
    return []


def tolerance_of(calls: Iterable[Call]) -> Call | None:
    """Return what compares a model before and after some calls; None where the usual does."""
    if not any(call.name in CASTS for call in calls):
        return None
    return Call("SimpleCompareFunc", kwargs={"rtol": "auto", "atol": "auto"})


def _outputs_of(load: OnnxLoadOptions, every: OutputOptions, values: Values) -> list[Call]:
    """Return the call that chooses the outputs, if any are chosen."""
    excluded = list(dict.fromkeys(every.exclude_outputs + load.onnx_exclude_outputs))
    made = call_of("modify_outputs", values, exclude_outputs=excluded or None)
    if every.mark_all:
        made = made.of(outputs=Outputs("NAME").argument(EVERY_TENSOR))
    return [made] if made.kwargs else []


def warn_about_saving(values: Values, *, is_saved: bool = True) -> None:
    """Log which options about the files of large weights have no effect."""
    unused = flags_feeding(values, ["save_onnx"])
    unused = [flag for flag in unused if flag != "--save-onnx"]
    if not is_saved:
        warn_idle(unused, ", because no model is saved: see --save-onnx")
    elif unused and "--save-external-data" not in unused:
        warn(
            f"{', '.join(unused)}: only matters with --save-external-data, or for models of 2 GB or"
            " more."
        )
