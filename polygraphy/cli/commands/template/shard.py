"""The commands `template shard-hints` and `multi-device shard`."""

from __future__ import annotations

from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.surgeon.surgeon_options import EditedModelOptions, EditSaveOptions
from polygraphy.cli.commands.template.shard_options import (
    HintOutputOptions,
    HintSourceOptions,
    ShardHintOptions,
)
from polygraphy.cli.declare.call import call_of
from polygraphy.cli.declare.errors import CommandLineError, warn
from polygraphy.cli.declare.given import flags_given
from polygraphy.cli.declare.values import Values
from polygraphy.cli.shared.onnx import OnnxShapeOptions
from polygraphy.cli.shared.onnx_model import onnx_of
from polygraphy.codegen.call import Call
from polygraphy.codegen.docstring import quoted

_PATTERNS = (0, 1)


class TemplateShardHintsCommand(Command):
    """Find out how an ONNX model can be split over several devices, and write it to a JSON file for
    multi-device shard.
    """

    name = "template shard-hints"
    groups = (
        EditedModelOptions,
        HintOutputOptions,
        ShardHintOptions,
    )

    def program(self, values: Values) -> Program:
        model, output = values[EditedModelOptions], values[HintOutputOptions].output
        if output is None:
            raise CommandLineError("where to write the hints is not given. Add -o PATH.")
        path = model.model_file or ""
        return Program(
            "shard_hints.py.j2",
            f"Find out how {quoted(path)} can be split over devices.",
            model=path,
            onnx=onnx_of(values).with_mapped_weights,
            find=_found(values),
            output=output,
        )


class MultiDeviceShardCommand(Command):
    """Split an ONNX model over several devices: along the sequence, which makes one model for all
    devices, or by its weights, which makes one for each, named after its number.
    """

    name = "multi-device shard"
    groups = (
        EditedModelOptions,
        HintSourceOptions,
        ShardHintOptions,
        OnnxShapeOptions,
        EditSaveOptions,
    )

    def program(self, values: Values) -> Program:
        source, save = values[HintSourceOptions], values[EditSaveOptions]
        if (source.hint is None) != source.one_shot:
            raise CommandLineError("give either --hint PATH or --one-shot: how is the model split?")
        unused = [] if source.one_shot else flags_given(values, [ShardHintOptions])
        if unused:
            warn(f"{', '.join(unused)}: without effect, because --hint says how.")
        if save.output is None:
            raise CommandLineError("where to save the model is not given. Add -o PATH.")
        path = values[EditedModelOptions].model_file or ""
        return Program(
            "shard.py.j2",
            f"Split {quoted(path)} over several devices.",
            model=path,
            onnx=onnx_of(values).with_mapped_weights,
            hints=source.hint,
            find=None if source.hint else _found(values),
            save=call_of("save_shards", values, path=save.output),
        )


def _found(values: Values) -> Call:
    """Return the call that finds the hints."""
    options = values[ShardHintOptions]
    if options.attention_pattern not in (None, *_PATTERNS):
        raise CommandLineError(
            f"argument --attention-pattern: {options.attention_pattern} is none of 0, 1."
        )
    if options.cp_type != "fused":
        flags = ("--q-shuffle", "--k-shuffle", "--v-shuffle", "--is-causal")
        given = [one for one in flags_given(values, [ShardHintOptions]) if one in flags]
        if given:
            warn(f"{', '.join(given)}: without effect without --cp-type fused.")
    if options.parallelism == "TP" and (options.nb_rank or 1) < 2:
        raise CommandLineError(
            "--parallelism TP splits weights over several devices. Add --nb-rank with their"
            " number."
        )
    return call_of("find_shard_hints", values)
