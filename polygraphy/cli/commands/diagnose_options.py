"""What `diagnose` compares."""

from __future__ import annotations

from polygraphy.cli.backends.built_in import BuiltIn, Groups, built_in
from polygraphy.cli.declare.kinds import Ordered, Text
from polygraphy.cli.declare.option import Options, Values, option, option_group
from polygraphy.cli.shared.compare import memory_budget_option
from polygraphy.codegen.source import Call
from polygraphy.mod import has_mod

PARTIES = {name: each for name, each in built_in().items() if each.party is not None}
"""The backends that can be diagnosed, by name."""


PROGRAMS = {each.flag: each for each in built_in().values() if each.program is not None}
"""The backends of programs from which models are exported, by flag."""


def program_of(values: Values) -> Call | None:
    """Return the call that makes the program that the model was exported from; None without one."""
    given = values[ProgramOptions].program if PROGRAMS else None
    make = next((each.program for each in PROGRAMS.values()), None)
    return None if given is None or make is None else make(given)


def usual_party() -> str:
    """Return the name of the first backend that is installed and runs any part of a model."""
    able = (name for name, each in PARTIES.items() if each.runs_parts)
    return next(name for name in able if all(map(has_mod, PARTIES[name].modules[:1])))


def groups_of(backend: BuiltIn) -> Groups:
    """Return the groups of options that a party takes."""
    return (backend.party_groups or backend.groups)()


def party_of(name: str, values: Values) -> Call:
    """Return the call that makes a party."""
    make = PARTIES[name].party
    assert make is not None
    return make(values)


@option_group
class PartyOptions(Options):
    """Backends: who runs the model; a flag may repeat."""

    parties: tuple[str, ...] = option(
        *(each.flag for each in PARTIES.values()),
        kind=Ordered(
            {each.flag: name for name, each in PARTIES.items()},
            {each.flag: each.help for each in PARTIES.values()},
        ),
        help="The backends that run the model.",
    )


@option_group
class ComparedOptions(Options):
    """Reference: what is right, if that is known."""

    reference: str | None = option(
        "--reference",
        reads="Reference",
        kind=Text("MODEL"),
        excludes="--golden",
        help="A model that is right, with whatever names in it, or optimised.",
        feeds="diagnose.reference",
    )
    golden: tuple[str, ...] = option(
        "--golden",
        "--golden-outputs",
        "--load-outputs",
        reads="File of results",
        help="Results that are right, of the data of --load-inputs: of outputs, or better of all"
        " tensors.",
        feeds="diagnose.golden",
    )


@option_group
class ProgramOptions(Options):
    """Program: what the model was exported from."""

    program: str | None = option(
        next(iter(PROGRAMS), "--program"),
        kind=Text("PROGRAM"),
        excludes=("--reference", "--golden"),
        help="The program that the model was exported from, which is right: an exported program"
        " (.pt2), or what a function in a script returns (script.py:load_model), which is executed."
        " Without a backend, --onnxrt runs the model if it is installed, else --onnx.",
    )


@option_group
class HandoverOptions(Options):
    """Bug report: what those need who can mend it, and in which versions it is mended."""

    save_culprit: str | None = option(
        "--save-culprit",
        writes=True,
        kind=Text("DIR"),
        help="Save the first culprit as a model of its own in this folder, with inputs and right"
        " outputs as onnx's backend tests have them, and a program that shows the failure.",
        feeds="diagnose.save_culprit",
    )
    issue: str | None = option(
        "--issue",
        writes=True,
        help="Write the text of a bug report for the party at fault, in Markdown; - is standard"
        " output.",
        feeds="diagnose.issue",
    )
    environments: tuple[str, ...] = option(
        "--environments",
        reads="Environment",
        help="Interpreters, or folders of virtual environments, with other versions of the backend"
        " that is found to be at fault: which of them are right? Nothing is installed.",
        feeds="diagnose.environments",
    )


@option_group
class MemoryOptions(Options):
    """Memory: how much of it the tensors of a large model take."""

    memory_budget: int | None = memory_budget_option(
        "diagnose.memory_budget",
        when="all of them are computed, and every node alone",
        how="What does not fit is computed in parts, and kept in temporary files (TMPDIR). The"
        " answer is the same.",
        otherwise="a quarter of the free memory, at most 768 MiB",
    )
