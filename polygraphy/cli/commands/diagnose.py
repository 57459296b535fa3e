"""The command `diagnose`."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from polygraphy.cli.backends.built_in import BuiltInBackend, Groups, RunnerModel
from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.diagnose_half import HalfOptions, half_of, render_half
from polygraphy.cli.commands.diagnose_options import (
    PARTIES,
    PROGRAMS,
    ComparedOptions,
    HandoverOptions,
    MemoryOptions,
    PartyOptions,
    ProgramOptions,
    QuantizedOptions,
    baseline_of,
    default_parties,
    groups_of,
    parties_of,
    program_of,
    values_by_party,
)
from polygraphy.cli.commands.named import select_runners
from polygraphy.cli.declare.errors import CommandLineError, warn_of_idle_flags
from polygraphy.cli.declare.option import Values, call_of, non_default_flags
from polygraphy.cli.shared.data import DataOptions, data_loader_argument, data_of
from polygraphy.cli.shared.model import CheckedModelOptions
from polygraphy.cli.shared.steps import StepOptions, with_steps
from polygraphy.codegen.source import Source, Step, quote_word

_BEFORE: Groups = (
    PartyOptions,
    ComparedOptions,
    QuantizedOptions,
    *((ProgramOptions,) if PROGRAMS else ()),
    CheckedModelOptions,
    HandoverOptions,
    MemoryOptions,
    HalfOptions,
)


class DiagnoseCommand(Command):
    """Find out why the outputs of an ONNX model are wrong: the node at fault, whether the model,
    the exporter or the backend is responsible, the cause, and a fix that was tried on the whole
    model. Exits with 0 if all outputs agree, with 1 if a fault was found, and with 4 if the
    result is inconclusive. The options --fp-to-fp16 and --to-bf16 find out whether the model works
    in half precision, and which nodes must stay in fp32.
    """

    name = "diagnose"

    def __init__(self, backends: Collection[BuiltInBackend] | None = None) -> None:
        """Set the backends with options, by default all."""
        self.backends = PARTIES.values() if backends is None else backends

    @cached_property
    def groups(self) -> Groups:  # type: ignore[override]
        """Return the groups of options, including those of backends."""
        of_backends = [group for backend in self.backends for group in groups_of(backend)]
        return (*_BEFORE, *of_backends, DataOptions, StepOptions, *self.ending)

    def extend(self, flags: Collection[str] | None = None) -> DiagnoseCommand:
        """Return the command with the options of the backends that flags name;
        with those of all backends for help or unknown flags.
        """
        few = DiagnoseCommand([party for party in PARTIES.values() if party.flag in (flags or ())])
        return self if flags is None or not few.flags.issuperset(flags) else few

    def values_by_runner(self, values: Values) -> dict[str, Values]:
        """Return the options of named backends, by name."""
        return values_by_party(self, values)

    def program(self, values: Values) -> Program:
        """Return the program that diagnoses the model."""
        path = values[CheckedModelOptions].path
        if not path:
            raise CommandLineError("missing model: add its path.")
        half = half_of(values)
        if half is not None:
            self._warn_of_unused(values)
            return render_half(values, half)
        exported = program_of(values)
        parties = parties_of(values, default_parties(values))
        self._warn_of_unused(values)
        data = data_of(values[DataOptions], values[CheckedModelOptions].input_shapes)
        data = with_steps(values, data, RunnerModel.path)
        return Program(
            "check.py.j2",
            f"Find the cause of wrong outputs of {quote_word(path)}.",
            model=path,
            before=[Step("parties", parties)],
            call=call_of(
                "diagnose",
                values,
                RunnerModel.path,
                Source("parties"),
                data_loader=data_loader_argument(data),
                program=exported,
                baseline=baseline_of(values),
            ),
        )

    def _warn_of_unused(self, values: Values) -> None:
        """Log warnings about options for backends that are not used."""
        chosen = {chosen_runner.backend for chosen_runner in select_runners(values, PartyOptions)}
        for backend in self.backends:
            if backend.name not in chosen:
                unused = non_default_flags(values, groups_of(backend))
                warn_of_idle_flags(unused, f", because {backend.flag} is not set")
