"""The commands `surgeon ...`, which edit ONNX models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from polygraphy.cli.commands.surgeon.surgeon_context import (
    LOADED,
    cast_steps,
    check_fallback,
    edit_of,
    inference_steps,
    trial_of,
)
from polygraphy.cli.commands.surgeon.surgeon_options import (
    EditSaveOptions,
    ExtractOptions,
    FallbackOptions,
    FoldOptions,
    InsertOptions,
    PruneOptions,
    SanitizeOptions,
    SanitizeOutputOptions,
    SanitizeShapeOptions,
    StripOptions,
    TrialShapeOptions,
    VerifyOptions,
)
from polygraphy.cli.declare.command import Command, Values
from polygraphy.cli.declare.errors import CommandLineError, warn
from polygraphy.cli.declare.given import flags_given
from polygraphy.cli.declare.option import Options
from polygraphy.cli.declare.script import ScriptOptions
from polygraphy.cli.shared.data import DataOptions
from polygraphy.cli.shared.data_context import data_of
from polygraphy.cli.shared.log import LogOptions
from polygraphy.cli.shared.onnx import EVERY_TENSOR, OnnxCastOptions, OnnxShapeOptions
from polygraphy.cli.shared.onnx_context import cast_of
from polygraphy.codegen.scripts.data import Data
from polygraphy.codegen.scripts.surgeon import Step

_SAVED = (EditSaveOptions, ScriptOptions, LogOptions)
_TRIAL = (VerifyOptions, TrialShapeOptions, DataOptions)


class SurgeonExtractCommand(Command):
    """Cuts a part out of a model."""

    name = "surgeon extract"
    description = "Cut the part of an ONNX model that lies between some tensors out of it."
    groups = (
        *LOADED,
        ExtractOptions,
        OnnxShapeOptions,
        FallbackOptions,
        OnnxCastOptions,
        *_TRIAL,
        *_SAVED,
    )

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the program that cuts the part out."""
        usage = f"polygraphy {self.name}"
        chosen = values[ExtractOptions]
        tensors = {"inputs": chosen.inputs, "outputs": chosen.outputs}
        if chosen.outputs == ():
            raise CommandLineError(
                "--outputs names no tensor, and a model without outputs computes nothing.", usage
            )
        forced = check_fallback(values, usage)
        steps = [
            *inference_steps(values[OnnxShapeOptions]),
            *([Step("observe_shapes", takes_data=True)] if forced else []),
            Step(
                "extract",
                tensors={name: given for name, given in tensors.items() if given is not None},
                takes_data=True,
            ),
            *cast_steps(cast_of(values[OnnxCastOptions], usage)),
        ]
        return edit_of(
            values,
            words,
            usage,
            summary="Cut a part out of {}.",
            ending="_extracted.onnx",
            steps=steps,
            verifies=values[VerifyOptions].verify,
            data=data_of(values[DataOptions], values[TrialShapeOptions].model_input_shapes, usage),
        ).render()


class SurgeonSanitizeCommand(Command):
    """Simplifies a model."""

    name = "surgeon sanitize"
    description = (
        "Simplify an ONNX model: fold constants, infer or override shapes, remove what nothing"
        " depends on."
    )
    groups = (
        *LOADED,
        FoldOptions,
        SanitizeOptions,
        SanitizeOutputOptions,
        SanitizeShapeOptions,
        FallbackOptions,
        OnnxCastOptions,
        *_TRIAL,
        *_SAVED,
    )

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the program that simplifies the model."""
        usage = f"polygraphy {self.name}"
        runs = values[FallbackOptions].force_fallback_shape_inference
        verifies = values[VerifyOptions].verify
        self._check(values, usage, needs_data=runs or verifies)
        tidying, shapes = values[SanitizeOptions], values[SanitizeShapeOptions]
        infers = not shapes.no_shape_inference and not runs
        # Folding infers what it needs itself, and leaves a smaller model to infer the shapes of.
        fold = values[FoldOptions]
        is_late = fold.fold_constants and not fold.no_per_pass_shape_inference
        infer = [Step("infer_shapes", _inference_arguments(shapes))] if infers else []
        early, late = ([], infer) if is_late else (infer, [])
        overrides = shapes.override_input_shapes
        steps = [
            *([] if overrides else early),
            *_output_steps(values[SanitizeOutputOptions]),
            *cast_steps(cast_of(values[OnnxCastOptions], usage)),
        ]
        if overrides:
            listed = {name: list(shape) for name, shape in overrides.items()}
            steps += [Step("override_input_shapes", {"shapes": listed}), *early]
        steps += [Step("observe_shapes", takes_data=True)] if runs else []
        steps += [Step("clean_up")] if tidying.cleanup else []
        steps += [Step("sort_nodes")] if tidying.toposort else []
        steps += [_fold_step(values)] if fold.fold_constants else []
        steps += late
        if tidying.upper_bounds is not None:
            steps.append(Step("set_upper_bound", {"upper_bounds": tidying.upper_bounds}))
        needs_data = runs or verifies
        given = values[TrialShapeOptions].model_input_shapes
        return edit_of(
            values,
            words,
            usage,
            summary="Simplify {}.",
            ending="_sanitized.onnx",
            steps=steps,
            verifies=verifies,
            data=data_of(values[DataOptions], given, usage) if needs_data else Data(),
        ).render()

    def _check(self, values: Values, usage: str, *, needs_data: bool) -> None:
        """Refuse options that exclude each other, and tell which have no effect."""
        shapes = values[SanitizeShapeOptions]
        if shapes.no_shape_inference and values[FallbackOptions].force_fallback_shape_inference:
            raise CommandLineError(
                "--no-shape-inference and --force-fallback-shape-inference exclude each other."
                " Choose one.",
                usage,
            )
        unused = [] if needs_data else flags_given(values, [DataOptions, TrialShapeOptions])
        if unused:
            warn(
                f"{', '.join(unused)}: without effect, because the model is not run: see --verify"
                " and --force-fallback-shape-inference."
            )
        if not values[FoldOptions].fold_constants and (
            unused := flags_given(values, [FoldOptions])
        ):
            warn(f"{', '.join(unused)}: without effect without --fold-constants.")


def _fold_step(values: Values) -> Step:
    fold, shapes = values[FoldOptions], values[SanitizeShapeOptions]
    infers = not fold.no_per_pass_shape_inference
    return Step(
        "fold_constants",
        {
            "num_passes": fold.num_passes,
            "do_shape_inference": None if infers else False,
            "partitioning": fold.partitioning,
            "fold_shapes": False if fold.no_fold_shapes else None,
            "size_threshold": fold.fold_size_threshold,
            "allow_onnxruntime_shape_inference": (
                False if infers and shapes.no_onnxruntime_shape_inference else None
            ),
        },
    )


def _inference_arguments(options: SanitizeShapeOptions) -> dict[str, bool | None]:
    return {"allow_onnxruntime": False if options.no_onnxruntime_shape_inference else None}


def _output_steps(options: SanitizeOutputOptions) -> list[Step]:
    marks_all = options.outputs == EVERY_TENSOR
    if not (options.outputs or options.exclude_outputs or options.outputs_by_type):
        return []
    arguments = {
        "outputs": None if marks_all else list(options.outputs) or None,
        "mark_types": list(options.outputs_by_type) or None,
        "exclude_outputs": list(options.exclude_outputs) or None,
    }
    return [Step("modify_outputs", arguments, marks_all=marks_all)]


class SurgeonInsertCommand(Command):
    """Puts a node into a model."""

    name = "surgeon insert"
    description = (
        "Put a node into an ONNX model, in the place of what is between its operands and results."
    )
    groups = (*LOADED, InsertOptions, OnnxShapeOptions, OnnxCastOptions, *_TRIAL, *_SAVED)

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the program that puts the node in."""
        usage = f"polygraphy {self.name}"
        node = values[InsertOptions]
        for flag, given in (("--inputs", node.inputs), ("--outputs", node.outputs)):
            if not given:
                raise CommandLineError(f"{flag} is missing: which tensors the node has.", usage)
        if node.op is None:
            raise CommandLineError("--op is missing: the type of the node's operator.", usage)
        arguments = {
            "op": node.op,
            "inputs": list(node.inputs),
            "outputs": list(node.outputs),
            "name": node.name,
            "attrs": node.attrs,
        }
        verifies, data = trial_of(values, usage)
        return edit_of(
            values,
            words,
            usage,
            summary="Put a node into {}.",
            ending="_inserted.onnx",
            steps=[
                *inference_steps(values[OnnxShapeOptions]),
                Step("insert_node", arguments),
                *cast_steps(cast_of(values[OnnxCastOptions], usage)),
            ],
            verifies=verifies,
            data=data,
        ).render()


class SurgeonPruneCommand(Command):
    """Takes weights or nodes out of a model."""

    name = "surgeon prune"
    description = (
        "Set two of every four weights that products sum over to zero, which tensor cores compute"
        " with faster; or take nodes of some types out of an ONNX model."
    )
    groups = (*LOADED, PruneOptions, OnnxCastOptions, *_TRIAL, *_SAVED)

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the program that prunes the model."""
        usage = f"polygraphy {self.name}"
        types = values[PruneOptions].remove_node_types
        step = Step("remove_nodes", {"types": list(types)}) if types else Step("prune_weights")
        verifies, data = trial_of(values, usage)
        return edit_of(
            values,
            words,
            usage,
            summary="Take nodes out of {}." if types else "Make the weights of {} 2:4 sparse.",
            ending="_pruned.onnx",
            steps=[*cast_steps(cast_of(values[OnnxCastOptions], usage)), step],
            verifies=verifies,
            data=data,
        ).render()


class _WeightsCommand(Command):
    """Takes weights out, or puts others in."""

    ending: ClassVar[str]
    summary: ClassVar[str]
    groups: tuple[type[Options], ...] = (*LOADED, OnnxCastOptions, *_TRIAL, *_SAVED)

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the program."""
        usage = f"polygraphy {self.name}"
        verifies, data = trial_of(values, usage)
        return edit_of(
            values,
            words,
            usage,
            summary=self.summary,
            ending=self.ending,
            steps=[*cast_steps(cast_of(values[OnnxCastOptions], usage)), self._step(values)],
            verifies=verifies,
            data=data,
            read=self._read(values),
        ).render()

    def _step(self, values: Values) -> Step:
        return Step("reconstruct_weights", {"map_weights": True})

    def _read(self, values: Values) -> Sequence[tuple[str, str | None]]:
        return ()


class SurgeonWeightStripCommand(_WeightsCommand):
    """Takes the weights out of a model."""

    name = "surgeon weight-strip"
    description = (
        "Take the weights out of an ONNX model: what is left is enough to build a TensorRT engine"
        " that is given its weights later."
    )
    summary = "Take the weights out of {}."
    ending = "_stripped.onnx"
    groups = (*LOADED, StripOptions, OnnxCastOptions, *_TRIAL, *_SAVED)

    def _step(self, values: Values) -> Step:
        return Step("strip_weights", {"exclude_list": values[StripOptions].exclude_list})

    def _read(self, values: Values) -> Sequence[tuple[str, str | None]]:
        return [("--exclude-list", values[StripOptions].exclude_list)]


class SurgeonWeightReconstructCommand(_WeightsCommand):
    """Puts random weights into a model that has none."""

    name = "surgeon weight-reconstruct"
    description = "Put random numbers in the place of weights that weight-strip took out."
    summary = "Put random weights into {}."
    ending = "_reconstructed.onnx"
