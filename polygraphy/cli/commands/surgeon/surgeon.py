"""The commands `surgeon ...`, which edit ONNX models."""

from __future__ import annotations

from typing import ClassVar

from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.surgeon.surgeon_context import (
    LOADED,
    data_loader_of,
    edit_of,
    trial_of,
)
from polygraphy.cli.commands.surgeon.surgeon_options import (
    CopyOptions,
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
from polygraphy.cli.declare.errors import CommandLineError, warn_of_idle_flags
from polygraphy.cli.declare.option import Values, call_of, non_default_flags
from polygraphy.cli.shared.data import USUAL, DataOptions, data_of
from polygraphy.cli.shared.onnx import OnnxCastOptions, OnnxShapeOptions, cast_of, inference_of
from polygraphy.codegen.source import Call

_SAVED = (EditSaveOptions,)
_TRIAL = (VerifyOptions, TrialShapeOptions, DataOptions)


class SurgeonExtractCommand(Command):
    """Extract the part of an ONNX model between the given tensors."""

    name = "surgeon extract"
    groups = (
        *LOADED,
        ExtractOptions,
        OnnxShapeOptions,
        FallbackOptions,
        OnnxCastOptions,
        *_TRIAL,
        *_SAVED,
    )

    def program(self, values: Values) -> Program:
        """Return the program that extracts a part of the model."""
        chosen = values[ExtractOptions]
        if chosen.outputs == ():
            raise CommandLineError(
                "--outputs: must not be empty, because a model without outputs computes nothing."
            )
        forced = values[FallbackOptions].force_fallback_shape_inference
        data = data_of(values[DataOptions], values[TrialShapeOptions].model_input_shapes)
        loader = data_loader_of(data)
        steps = [
            *inference_of(values),
            *([call_of("observe_shapes", values, data_loader=loader)] if forced else []),
            call_of("extract", values, data_loader=loader),
            *cast_of(values[OnnxCastOptions]),
        ]
        return edit_of(
            values,
            summary="Extract a part of {}.",
            ending="_extracted.onnx",
            steps=steps,
            verifies=values[VerifyOptions].verify,
            data=data,
        )


class SurgeonSanitizeCommand(Command):
    """Simplify an ONNX model: fold constants, infer or override shapes, and remove unused nodes."""

    name = "surgeon sanitize"
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

    def program(self, values: Values) -> Program:
        """Return the program that simplifies the model."""
        runs = values[FallbackOptions].force_fallback_shape_inference
        verifies = values[VerifyOptions].verify
        needs_data = runs or verifies
        if not needs_data:
            unused = non_default_flags(values, [DataOptions, TrialShapeOptions])
            see = "see --verify and --force-fallback-shape-inference"
            warn_of_idle_flags(unused, f", because the model is not run: {see}")
        tidying, shapes = values[SanitizeOptions], values[SanitizeShapeOptions]
        infers = not shapes.no_shape_inference and not runs
        # Folding infers the shapes that it needs, and leaves a smaller model for shape inference.
        fold = values[FoldOptions]
        is_late = fold.fold_constants and not fold.no_per_pass_shape_inference
        infer = [call_of("infer_shapes", values)] if infers else []
        early, late = ([], infer) if is_late else (infer, [])
        overrides = shapes.override_input_shapes
        model_input_shapes = values[TrialShapeOptions].model_input_shapes
        data = data_of(values[DataOptions], model_input_shapes) if needs_data else USUAL
        steps = [
            *([] if overrides else early),
            *_output_steps(values),
            *cast_of(values[OnnxCastOptions]),
        ]
        if overrides:
            steps += [call_of("override_input_shapes", values), *early]
        if runs:
            steps.append(call_of("observe_shapes", values, data_loader=data_loader_of(data)))
        steps += [Call("clean_up")] if tidying.cleanup else []
        steps += [Call("sort_nodes")] if tidying.toposort else []
        steps += [_fold_step(values)] if fold.fold_constants else []
        steps += [Call("simplify")] if tidying.simplify else []
        steps += late
        if tidying.upper_bounds is not None:
            steps.append(call_of("set_upper_bound", values))
        return edit_of(
            values,
            summary="Simplify {}.",
            ending="_sanitized.onnx",
            steps=steps,
            verifies=verifies,
            data=data,
            checks_nodes=True,
        )


def _fold_step(values: Values) -> Call:
    """Return the call that folds constants."""
    infers = not values[FoldOptions].no_per_pass_shape_inference
    without = {} if infers else {"allow_onnxruntime_shape_inference": None}
    return call_of("fold_constants", values, **without)


def _output_steps(values: Values) -> list[Call]:
    """Return a list with the call that changes the outputs; empty if no option changes them."""
    options = values[SanitizeOutputOptions]
    if not (options.outputs or options.exclude_outputs or options.outputs_by_type):
        return []
    step = call_of("modify_outputs", values)
    # Programs name new outputs before excluded ones.
    return [step.of(**{name: step.kwargs.get(name) for name in ("outputs", "mark_types")})]


class _EditCommand(Command):
    """Base class of commands that edit a model, and run it if the edit is verified."""

    suffix: ClassVar[str]
    summary: ClassVar[str]

    def program(self, values: Values) -> Program:
        """Return the program that edits the model."""
        verifies, data = trial_of(values)
        return edit_of(
            values,
            summary=self.summary,
            ending=self.suffix,
            steps=self._steps(values),
            verifies=verifies,
            data=data,
        )

    def _steps(self, values: Values) -> list[Call]:
        """Return the calls that edit the model."""
        raise NotImplementedError


class SurgeonInsertCommand(_EditCommand):
    """Insert a node into an ONNX model, replacing the nodes between its inputs and outputs."""

    name = "surgeon insert"
    summary = "Insert a node into {}."
    suffix = "_inserted.onnx"
    groups = (*LOADED, InsertOptions, OnnxShapeOptions, OnnxCastOptions, *_TRIAL, *_SAVED)

    def _steps(self, values: Values) -> list[Call]:
        """Return the calls that insert the node."""
        node = values[InsertOptions]
        for flag, given_names in (("--inputs", node.inputs), ("--outputs", node.outputs)):
            if not given_names:
                raise CommandLineError(f"missing {flag}: set the tensors of the node.")
        if node.op is None:
            raise CommandLineError("missing --op: set the operator type of the node.")
        insert = call_of("insert_node", values)
        return [*inference_of(values), insert, *cast_of(values[OnnxCastOptions])]


class SurgeonCopyCommand(Command):
    """Copy nodes with their weights from a correct ONNX model into one that differs. diagnose
    --reference lists these nodes.
    """

    name = "surgeon copy"
    groups = (*LOADED, CopyOptions, *_SAVED)

    def program(self, values: Values) -> Program:
        """Return the program that copies nodes from a reference."""
        if values[CopyOptions].reference is None:
            raise CommandLineError("missing --reference: set the model to copy from.")
        return edit_of(
            values,
            summary="Copy nodes from a correct model into {}.",
            ending="_copied.onnx",
            steps=[call_of("copy_nodes", values)],
        )


class SurgeonPruneCommand(Command):
    """Prune an ONNX model: set two of every four weights along the axis of a product to zero (2:4
    sparsity, which speeds up tensor cores), or remove nodes of some types.
    """

    name = "surgeon prune"
    groups = (*LOADED, PruneOptions, OnnxCastOptions, *_TRIAL, *_SAVED)

    def program(self, values: Values) -> Program:
        """Return the program that prunes the model."""
        types = values[PruneOptions].remove_node_types
        step = call_of("remove_nodes", values) if types else Call("prune_weights")
        verifies, data = trial_of(values)
        return edit_of(
            values,
            summary="Remove nodes from {}." if types else "Make the weights of {} 2:4 sparse.",
            ending="_pruned.onnx",
            steps=[*cast_of(values[OnnxCastOptions]), step],
            verifies=verifies,
            data=data,
        )


class SurgeonWeightStripCommand(_EditCommand):
    """Remove the weights from an ONNX model. The result is sufficient to build a TensorRT engine
    that is refitted later.
    """

    name = "surgeon weight-strip"
    summary = "Remove the weights from {}."
    suffix = "_stripped.onnx"
    groups = (*LOADED, StripOptions, OnnxCastOptions, *_TRIAL, *_SAVED)

    def _steps(self, values: Values) -> list[Call]:
        """Return the calls that remove the weights."""
        return [*cast_of(values[OnnxCastOptions]), call_of("strip_weights", values)]


class SurgeonWeightReconstructCommand(_EditCommand):
    """Replace the weights that weight-strip removed with random numbers."""

    name = "surgeon weight-reconstruct"
    summary = "Fill {} with random weights."
    suffix = "_reconstructed.onnx"
    groups = (*LOADED, OnnxCastOptions, *_TRIAL, *_SAVED)

    def _steps(self, values: Values) -> list[Call]:
        """Return the calls that create random weights."""
        rebuild = call_of("reconstruct_weights", values, map_weights=True)
        return [*cast_of(values[OnnxCastOptions]), rebuild]
