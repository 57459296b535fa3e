"""Options for what `diagnose` compares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polygraphy.cli.backends.built_in import BuiltInBackend, Groups, backends_by_name
from polygraphy.cli.commands.command import Command
from polygraphy.cli.commands.named import ChosenRunner, RunnerFlags, parse_named, select_runners
from polygraphy.cli.declare.errors import BadValue, inform, warn_of_idle_flags
from polygraphy.cli.declare.kinds import Number, Script, Text
from polygraphy.cli.declare.option import (
    NAMED_RUNNER,
    Options,
    Values,
    non_default_flags,
    option,
    option_group,
)
from polygraphy.cli.shared.compare import memory_budget_option
from polygraphy.codegen.source import Call
from polygraphy.mod import has_mod

PARTIES = {
    name: backend for name, backend in backends_by_name().items() if backend.party is not None
}
"""The backends that can be diagnosed, by name."""


PROGRAMS = {
    backend.flag: backend for backend in backends_by_name().values() if backend.program is not None
}
"""The backends of programs from which models are exported, by flag."""
_PROGRAM = next(iter(PROGRAMS), "--program")


def program_of(values: Values) -> Call | None:
    """Return the call that opens the program from which the model was exported, or None.
    The result is None without one."""
    if not PROGRAMS:
        return None
    options = values[ProgramOptions]
    if options.program is None:
        warn_of_idle_flags(
            non_default_flags(values, [ProgramOptions]), f", because {_PROGRAM} is not set"
        )
        return None
    make = PROGRAMS[_PROGRAM].program
    assert make is not None
    return make(options.program, options.device)


def default_parties(values: Values) -> Sequence[str]:
    """Return the names of the installed backends that run the model if none is selected:
    one, and another to compare it with if the command names nothing to compare the outputs
    with."""
    able = [
        name
        for name, party in PARTIES.items()
        if party.runs_parts and all(map(has_mod, party.modules[:1]))
    ]
    return able[: 1 if _has_reference(values) else 2]


def groups_of(backend: BuiltInBackend) -> Groups:
    """Return the groups of options of a backend in a diagnosis."""
    return (backend.party_groups or backend.groups)()


def parties_of(values: Values, default: Sequence[str] = ()) -> list[Call]:
    """Return the calls that create the backends of a diagnosis;
    default backends if none is selected.
    """
    chosen = select_runners(values, PartyOptions)
    if not chosen:
        chosen = [ChosenRunner(name, "", "", values) for name in default]
        if len(default) > 1:
            flags = " and ".join(PARTIES[name].flag for name in default)
            inform(f"Comparing {flags}, because no backend is set.")
    calls = []
    for chosen_runner in chosen:
        make = PARTIES[chosen_runner.backend].party
        assert make is not None
        calls.append(make(chosen_runner.values).of(name=chosen_runner.name or None))
    return calls


def baseline_of(values: Values) -> Call | None:
    """Return the call that creates a backend to compare the only backend with,
    if the command names nothing else; None if there is none.
    """
    if _has_reference(values):
        return None
    chosen = select_runners(values, PartyOptions)
    if len(chosen) != 1:
        return None
    return PARTIES[chosen[0].backend].baseline(chosen[0].values)


def _has_reference(values: Values) -> bool:
    """Return whether the command names something to compare the outputs of a backend with."""
    compared = values[ComparedOptions]
    has_program = bool(PROGRAMS) and values[ProgramOptions].program is not None
    has_versions = bool(values[HandoverOptions].environments)
    return bool(compared.reference or compared.golden or has_program or has_versions)


def values_by_party(command: Command, values: Values) -> dict[str, Values]:
    """Return the options of named backends, by name."""
    return parse_named(command, PartyOptions, values, lambda name: groups_of(PARTIES[name]))


@option_group
class PartyOptions(Options):
    """Backends: the backends that run the model; a flag can be repeated. By default, --onnxrt if
    ONNX Runtime is installed, else --onnx. If there is no reference, both are compared.
    """

    parties: tuple[str, ...] = option(
        *(party.flag for party in PARTIES.values()),
        NAMED_RUNNER,
        kind=RunnerFlags(
            {party.flag: name for name, party in PARTIES.items()},
            {party.flag: party.help for party in PARTIES.values()},
        ),
        help="Backends that run the model.",
    )


@option_group
class ComparedOptions(Options):
    """Reference: correct results or a correct model, if available."""

    reference: str | None = option(
        "--reference",
        reads="Reference",
        kind=Text("MODEL"),
        excludes="--golden",
        help="Reference: a correct model. Its names may differ, and it may be optimized.",
        feeds="diagnose.reference",
    )
    golden: tuple[str, ...] = option(
        "--golden",
        "--golden-outputs",
        "--load-outputs",
        reads="File of results",
        help="Correct results for the data of --load-inputs: the outputs, or preferably all"
        " tensors.",
        feeds="diagnose.golden",
    )


class MetricName(Script):
    """A metric by its name, or a function in a script."""

    def __init__(self, names: Sequence[str]) -> None:
        """Set the built-in metrics."""
        super().__init__("metric")
        self.names = names
        self.metavar = f"{{{','.join(names)},SCRIPT.py:FUNCTION}}"

    def parse(self, words: Sequence[str]) -> Any:
        """Return the name, or the path and the function."""
        if words[0] in self.names:
            return words[0]
        if ".py" not in words[0]:
            listed = ", ".join(self.names)
            raise BadValue(
                f"{words[0]!r} is not a metric: choose one of {listed}, or script.py:name"
            )
        return super().parse(words)

    def files(self, value: Any) -> list[tuple[str, str | None]]:
        """Return the script with its function, if it is one."""
        return [] if isinstance(value, str) else [value]

    def argument(self, value: Any) -> Any:
        """Return the name, or the call that returns the function."""
        return value if isinstance(value, str) else Call("import_from_script", value)


@option_group
class QuantizedOptions(Options):
    """Quantized model: the accuracy that it must reach beside --reference."""

    within: float | None = option(
        "--within",
        kind=Number(),
        feeds="diagnose.within",
        help="Target: largest acceptable value of --metric for a quantized model. Find the"
        " parameter that is wrong, or the smallest set of nodes that must stay in float.",
    )
    metric: Any = option(
        "--metric",
        kind=MetricName(("rms", "sqnr", "top1", "kl")),
        reads="Script",
        feeds="diagnose.metric",
        help="Metric, smaller is better: rms (error over reference, worst output), sqnr (noise in"
        " dB), top1 (share of rows with a different largest element), kl, or a function. A function"
        " receives the outputs and the reference outputs by name, and returns a number.",
        otherwise="rms",
    )
    save: str | None = option(
        "--save",
        writes=True,
        kind=Text("MODEL"),
        feeds="diagnose.save",
        help="Save the model that reaches --within: with corrected parameters, or with a few nodes"
        " in float.",
    )
    budget: float | None = option(
        "--budget",
        kind=Number(minimum=0),
        feeds="diagnose.budget",
        help="Time limit in seconds for the search of --within.",
        otherwise="200 runs",
    )


@option_group
class ProgramOptions(Options):
    """Program: the source of the exported model."""

    program: str | None = option(
        _PROGRAM,
        kind=Text("PROGRAM"),
        excludes=("--reference", "--golden"),
        reads="Model",
        help="Reference: the program that the model was exported from, as an exported program"
        " (.pt2) or a function in a script (script.py:load_model), which is executed.",
    )
    device: str | None = option(
        f"{_PROGRAM}-device",
        kind=Text("DEVICE"),
        help="Device that runs the program, such as cuda or cuda:1. It computes in float32 there.",
        otherwise="the device of the program",
    )


@option_group
class HandoverOptions(Options):
    """Bug report: material for the maintainers of the backend, and the versions that contain a
    fix.
    """

    save_culprit: str | None = option(
        "--save-culprit",
        writes=True,
        kind=Text("DIR"),
        help="Save the first culprit to this folder as a model, with a program that shows the"
        " failure. Inputs and correct outputs have the layout of the onnx backend tests.",
        feeds="diagnose.save_culprit",
    )
    issue: str | None = option(
        "--issue",
        writes=True,
        help="Write a bug report about the fault in Markdown; - means standard output.",
        feeds="diagnose.issue",
    )
    environments: tuple[str, ...] = option(
        "--environments",
        reads="Environment",
        help="Interpreters, or folders of virtual environments, with other versions of the"
        " backend at fault, to find the versions that are correct. Nothing is installed.",
        feeds=("diagnose.environments", "diagnose_half.environments"),
    )


@option_group
class MemoryOptions(Options):
    """Memory: limits for the tensors of a large model."""

    memory_budget: int | None = memory_budget_option(
        "diagnose.memory_budget",
        when="while all tensors are computed",
        how="Models that need more are computed in parts, with temporary files in TMPDIR. The"
        " result does not change.",
        otherwise="a quarter of the free memory, at most 768 MiB",
    )
