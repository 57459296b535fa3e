"""The command `inspect profile`."""

from __future__ import annotations

from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.kinds import Choice, Integer, Texts
from polygraphy.cli.declare.option import Options, Values, call_of, option, option_group
from polygraphy.cli.shared.runners import SORTS
from polygraphy.codegen.source import quote_word
from polygraphy.domain.tensors.naming import join_words


@option_group
class InspectProfileOptions(Options):
    """Profile: the profiles to show, and the model whose nodes are the rows."""

    profiles: tuple[str, ...] = option(
        reads="Profile",
        kind=Texts("PROFILE", nargs="+"),
        help="One or two files from run --save-profile, the profiler of ONNX Runtime, trtexec"
        " --exportProfile, or benchmark_app -pc of OpenVINO.",
    )
    model: str | None = option(
        "--model",
        reads="Model",
        help="ONNX model whose nodes are the rows.",
        otherwise="the model in the first profile",
        feeds="inspect_profile.model",
    )
    layers: str | None = option(
        "--layers",
        reads="Layers",
        help="Executed graph of the first profile, if the profile does not contain it: the"
        " optimized model of ONNX Runtime, or a file from trtexec --exportLayerInfo.",
        feeds="inspect_profile.layers",
    )
    other_layers: str | None = option(
        "--other-layers",
        reads="Layers",
        help="Executed graph of the second profile, if the profile does not contain it.",
        feeds="inspect_profile.other_layers",
    )
    sort: str | None = option(
        "--sort",
        kind=Choice(*SORTS),
        help="Order of the rows.",
        otherwise="time",
        feeds="inspect_profile.sort",
    )
    rows: int | None = option(
        "--rows",
        kind=Integer(minimum=0),
        help="Number of rows to show; 0 for all.",
        otherwise="15",
        feeds="inspect_profile.rows",
    )


class InspectProfileCommand(Command):
    """Show the time of each node in a profile, or in two, joined by the nodes of the model, with a
    sentence about the difference.
    """

    name = "inspect profile"
    groups = (InspectProfileOptions,)

    def program(self, values: Values) -> Program:
        """Return the program that shows the profiles."""
        options = values[InspectProfileOptions]
        if len(options.profiles) > 2:
            raise CommandLineError(
                f"only two profiles can be compared, not {len(options.profiles)}."
            )
        if options.other_layers is not None and len(options.profiles) == 1:
            raise CommandLineError("--other-layers requires a second profile.")
        return Program(
            "show.py.j2",
            f"Show the times in {join_words([*map(quote_word, options.profiles)])}.",
            call=call_of("inspect_profile", values, *options.profiles),
        )
