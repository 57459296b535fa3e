"""The commands `template shard-hints` and `multi-device shard`."""

from __future__ import annotations

from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.surgeon.surgeon_options import EditedModelOptions, EditSaveOptions
from polygraphy.cli.declare.errors import CommandLineError, warn_idle
from polygraphy.cli.declare.kinds import Choice, Integer, Integers
from polygraphy.cli.declare.option import (
    Options,
    Values,
    call_of,
    flags_given,
    option,
    option_group,
)
from polygraphy.cli.shared.onnx import OnnxShapeOptions, onnx_of
from polygraphy.codegen.source import Call, quoted

_AXIS = Integer()
_RANK = Integer(minimum=1)


@option_group
class HintOutputOptions(Options):
    """Output: where the hints go."""

    output: str | None = option(
        "-o", "--output", writes=True, help="The JSON file to write. It must be given."
    )


@option_group
class HintSourceOptions(Options):
    """Source: where it is said how the model is split; one of these must be given."""

    hint: str | None = option(
        "-s", "--hint", reads="File of hints", help="A JSON file that template shard-hints wrote."
    )
    one_shot: bool = option("--one-shot", help="Find it out, as template shard-hints does.")


@option_group
class ShardHintOptions(Options):
    """Shard Hints: how the model is split."""

    parallelism: str | None = option(
        "--parallelism",
        kind=Choice("CP", "TP"),
        help="CP splits the sequence, TP the weights.",
        feeds="find_shard_hints.parallelism",
    )
    nb_rank: int | None = option(
        "--nb-rank",
        kind=_RANK,
        help="How many devices there are.",
        feeds="find_shard_hints.nb_rank",
    )
    root: int | None = option(
        "--root",
        kind=Integer(minimum=-1),
        help="The device that results go to which go to one.",
        feeds="find_shard_hints.root",
    )
    gpus: int | None = option(
        "--gpus",
        kind=Integer(minimum=0),
        help="How many devices take part; 0 is all.",
        feeds="find_shard_hints.gpus",
    )
    groups: tuple[int, ...] = option(
        "--groups",
        kind=Integers(nargs="*"),
        help="The groups of devices that take part.",
        otherwise="all",
        feeds="find_shard_hints.groups",
    )
    cp_type: str | None = option(
        "--cp-type",
        kind=Choice("native", "fused"),
        help="native gathers K and V of each attention layer; fused makes each one node, which"
        " spreads over the devices by itself.",
        feeds="find_shard_hints.cp_type",
    )
    no_suggest_io: bool = option(
        "--no-suggest-io",
        help="Do not split inputs that attention depends on, nor join outputs that depend on it.",
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
        help="Axis of the sequence in K, as it is multiplied.",
        feeds="find_shard_hints.k_idx",
    )
    v_idx: int | None = option(
        "--v-idx", kind=_AXIS, help="Axis of the sequence in V.", feeds="find_shard_hints.v_idx"
    )
    i_rank: int | None = option(
        "--i-rank",
        kind=_RANK,
        help="How many axes inputs have whose shape the model does not say.",
        feeds="find_shard_hints.i_rank",
    )
    o_rank: int | None = option(
        "--o-rank",
        kind=_RANK,
        help="How many axes outputs have whose shape the model does not say.",
        feeds="find_shard_hints.o_rank",
    )
    kv_rank: int | None = option(
        "--kv-rank",
        kind=_RANK,
        help="How many axes K and V have whose shape the model does not say.",
        feeds="find_shard_hints.kv_rank",
    )
    reduce_op: str | None = option(
        "--reduce-op",
        kind=Choice("sum", "prod", "min", "max", "avg"),
        help="What becomes of the copies of an input that the devices have.",
        feeds="find_shard_hints.reduce_op",
    )
    attention_pattern: int | None = option(
        "--attention-pattern",
        kind=Integer(minimum=0),
        help="0 finds attention whose scale and mask are weights or inputs, 1 also where they are"
        " computed.",
        feeds="find_shard_hints.attention_pattern",
    )
    q_shuffle: tuple[int, ...] | None = option(
        "--q-shuffle",
        kind=Integers(nargs="*"),
        help="A permutation of the axes of Q, for --cp-type fused.",
        feeds="find_shard_hints.q_shuffle",
    )
    k_shuffle: tuple[int, ...] | None = option(
        "--k-shuffle",
        kind=Integers(nargs="*"),
        help="A permutation of the axes of K, for --cp-type fused.",
        otherwise="swaps the last two",
        feeds="find_shard_hints.k_shuffle",
    )
    v_shuffle: tuple[int, ...] | None = option(
        "--v-shuffle",
        kind=Integers(nargs="*"),
        help="A permutation of the axes of V, for --cp-type fused.",
        feeds="find_shard_hints.v_shuffle",
    )
    is_causal: bool = option(
        "--is-causal",
        help="A position only attends to those before it, with --cp-type fused.",
        feeds="find_shard_hints.is_causal",
    )


_PATTERNS = (0, 1)


class TemplateShardHintsCommand(Command):
    """Find out how an ONNX model can be split over several devices, and write it to a JSON file for
    multi-device shard.
    """

    name = "template shard-hints"
    groups = (EditedModelOptions, HintOutputOptions, ShardHintOptions)

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
        warn_idle(unused, ", because --hint says how")
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
        warn_idle(given, " without --cp-type fused")
    if options.parallelism == "TP" and (options.nb_rank or 1) < 2:
        raise CommandLineError(
            "--parallelism TP splits weights over several devices. Add --nb-rank with their"
            " number."
        )
    return call_of("find_shard_hints", values)
