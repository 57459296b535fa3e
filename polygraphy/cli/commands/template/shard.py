"""The commands `template shard-hints` and `multi-device shard`."""

from __future__ import annotations

from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.surgeon.surgeon_options import EditedModelOptions, EditSaveOptions
from polygraphy.cli.declare.errors import CommandLineError, warn_of_idle_flags
from polygraphy.cli.declare.kinds import Choice, Integer, Integers
from polygraphy.cli.declare.option import (
    Options,
    Values,
    call_of,
    non_default_flags,
    option,
    option_group,
)
from polygraphy.cli.shared.onnx import OnnxShapeOptions, onnx_of
from polygraphy.codegen.source import Call, quote_word

_AXIS = Integer()
_RANK = Integer(minimum=1)


@option_group
class HintOutputOptions(Options):
    """Output: where to save the hints."""

    output: str | None = option(
        "-o", "--output", writes=True, help="Path of the JSON file to write. Required."
    )


@option_group
class HintSourceOptions(Options):
    """Source: the description of the split; exactly one of these is required."""

    hint: str | None = option(
        "-s", "--hint", reads="File of hints", help="JSON file that template shard-hints wrote."
    )
    one_shot: bool = option(
        "--one-shot", help="Compute the hints first, like template" " shard-hints."
    )


@option_group
class ShardHintOptions(Options):
    """Shard Hints: how to split the model."""

    parallelism: str | None = option(
        "--parallelism",
        kind=Choice("CP", "TP"),
        help="Parallelism: CP splits the sequence, TP splits the weights.",
        feeds="find_shard_hints.parallelism",
    )
    nb_rank: int | None = option(
        "--nb-rank",
        kind=_RANK,
        help="Number of devices.",
        feeds="find_shard_hints.nb_rank",
    )
    root: int | None = option(
        "--root",
        kind=Integer(minimum=-1),
        help="Root device of reduce and gather operations.",
        feeds="find_shard_hints.root",
    )
    gpus: int | None = option(
        "--gpus",
        kind=Integer(minimum=0),
        help="Number of participating devices; 0 means all.",
        feeds="find_shard_hints.gpus",
    )
    groups: tuple[int, ...] = option(
        "--groups",
        kind=Integers(nargs="*"),
        help="Groups of devices that participate.",
        otherwise="all",
        feeds="find_shard_hints.groups",
    )
    cp_type: str | None = option(
        "--cp-type",
        kind=Choice("native", "fused"),
        help="Kind of context parallelism: native gathers K and V of each attention layer; fused"
        " replaces each attention layer with one distributed node.",
        feeds="find_shard_hints.cp_type",
    )
    no_suggest_io: bool = option(
        "--no-suggest-io",
        help="Do not split the inputs that attention depends on, and do not gather the outputs"
        " that depend on attention.",
        as_=False,
        feeds="find_shard_hints.suggest_io",
    )
    i_idx: int | None = option(
        "--i-idx",
        kind=_AXIS,
        help="Axis of the sequence in inputs.",
        feeds="find_shard_hints.i_idx",
    )
    o_idx: int | None = option(
        "--o-idx",
        kind=_AXIS,
        help="Axis of the sequence in outputs.",
        feeds="find_shard_hints.o_idx",
    )
    k_idx: int | None = option(
        "--k-idx",
        kind=_AXIS,
        help="Axis of the sequence in K, in the layout of the matrix product.",
        feeds="find_shard_hints.k_idx",
    )
    v_idx: int | None = option(
        "--v-idx", kind=_AXIS, help="Axis of the sequence in V.", feeds="find_shard_hints.v_idx"
    )
    i_rank: int | None = option(
        "--i-rank",
        kind=_RANK,
        help="Rank to assume for inputs of unknown shape.",
        feeds="find_shard_hints.i_rank",
    )
    o_rank: int | None = option(
        "--o-rank",
        kind=_RANK,
        help="Rank to assume for outputs of unknown shape.",
        feeds="find_shard_hints.o_rank",
    )
    kv_rank: int | None = option(
        "--kv-rank",
        kind=_RANK,
        help="Rank to assume for K and V of unknown shape.",
        feeds="find_shard_hints.kv_rank",
    )
    reduce_op: str | None = option(
        "--reduce-op",
        kind=Choice("sum", "prod", "min", "max", "avg"),
        help="Reduction of the per-device copies of an input.",
        feeds="find_shard_hints.reduce_op",
    )
    attention_pattern: int | None = option(
        "--attention-pattern",
        kind=Integer(minimum=0),
        help="Attention pattern: 0 requires scale and mask to be weights or inputs, 1 also"
        " accepts computed ones.",
        feeds="find_shard_hints.attention_pattern",
    )
    q_shuffle: tuple[int, ...] | None = option(
        "--q-shuffle",
        kind=Integers(nargs="*"),
        help="Permutation of the axes of Q, for --cp-type fused.",
        feeds="find_shard_hints.q_shuffle",
    )
    k_shuffle: tuple[int, ...] | None = option(
        "--k-shuffle",
        kind=Integers(nargs="*"),
        help="Permutation of the axes of K, for --cp-type fused.",
        otherwise="swaps the last two",
        feeds="find_shard_hints.k_shuffle",
    )
    v_shuffle: tuple[int, ...] | None = option(
        "--v-shuffle",
        kind=Integers(nargs="*"),
        help="Permutation of the axes of V, for --cp-type fused.",
        feeds="find_shard_hints.v_shuffle",
    )
    is_causal: bool = option(
        "--is-causal",
        help="Mask later positions in attention, for --cp-type fused.",
        feeds="find_shard_hints.is_causal",
    )


_PATTERNS = (0, 1)


class TemplateShardHintsCommand(Command):
    """Determine how an ONNX model can be split over several devices, and write the result to a
    JSON file for multi-device shard.
    """

    name = "template shard-hints"
    groups = (EditedModelOptions, HintOutputOptions, ShardHintOptions)

    def program(self, values: Values) -> Program:
        """Return the program that finds shard hints."""
        model, output = values[EditedModelOptions], values[HintOutputOptions].output
        if output is None:
            raise CommandLineError("missing --output: add -o PATH.")
        path = model.model_file or ""
        return Program(
            "shard_hints.py.j2",
            f"Compute how to split {quote_word(path)} over several devices.",
            model=path,
            onnx=onnx_of(values).with_mapped_weights,
            find=_hints_call(values),
            output=output,
        )


class MultiDeviceShardCommand(Command):
    """Split an ONNX model over several devices: along the sequence, which creates one model for
    all devices, or by weights, which creates one numbered model per device.
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
        """Return the program that splits the model."""
        source, save = values[HintSourceOptions], values[EditSaveOptions]
        if (source.hint is None) != source.one_shot:
            raise CommandLineError("missing shard hints: set --hint PATH or --one-shot.")
        unused = [] if source.one_shot else non_default_flags(values, [ShardHintOptions])
        warn_of_idle_flags(unused, ", because --hint already defines the split")
        if save.output is None:
            raise CommandLineError("missing --output: add -o PATH.")
        path = values[EditedModelOptions].model_file or ""
        return Program(
            "shard.py.j2",
            f"Split {quote_word(path)} over several devices.",
            model=path,
            onnx=onnx_of(values).with_mapped_weights,
            hints=source.hint,
            find=None if source.hint else _hints_call(values),
            save=call_of("save_shards", values, path=save.output),
        )


def _hints_call(values: Values) -> Call:
    """Return the call that finds the hints."""
    options = values[ShardHintOptions]
    if options.attention_pattern not in (None, *_PATTERNS):
        raise CommandLineError(
            f"argument --attention-pattern: {options.attention_pattern} is not 0 or 1."
        )
    if options.cp_type != "fused":
        flags = ("--q-shuffle", "--k-shuffle", "--v-shuffle", "--is-causal")
        given_names = [
            name for name in non_default_flags(values, [ShardHintOptions]) if name in flags
        ]
        warn_of_idle_flags(given_names, " without --cp-type fused")
    if options.parallelism == "TP" and (options.nb_rank or 1) < 2:
        raise CommandLineError(
            "--parallelism TP splits weights over several devices. Set their number with"
            " --nb-rank."
        )
    return call_of("find_shard_hints", values)
