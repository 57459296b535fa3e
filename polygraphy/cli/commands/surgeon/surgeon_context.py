"""From options to a program that edits an ONNX model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from polygraphy.cli.commands.command import Program
from polygraphy.cli.commands.surgeon.surgeon_options import (
    EditedModelOptions,
    EditSaveOptions,
    TrialShapeOptions,
    VerifyOptions,
)
from polygraphy.cli.declare.errors import inform, warn_of_idle_flags
from polygraphy.cli.declare.option import Values, call_of, non_default_flags
from polygraphy.cli.shared.data import USUAL, DataOptions, data_loader_argument, data_of
from polygraphy.cli.shared.onnx import tolerance_of, warn_about_saving
from polygraphy.cli.shared.paths import check_files
from polygraphy.codegen.source import Call, Source

LOADED = (EditedModelOptions,)
"""The groups about the model that is edited."""


def edit_of(
    values: Values,
    *,
    summary: str,
    ending: str,
    steps: Sequence[Call],
    verifies: bool = False,
    data: Call = USUAL,
    checks_nodes: bool = False,
) -> Program:
    """Return the program that loads, edits, verifies and saves a model.

    Args:
        values: the options.
        summary: the summary of the program, in which ``{}`` stands for the model's name.
        ending: the ending of the default file name after the model's name.
        steps: the calls that edit the model, without the argument for it.
        verifies: whether outputs are compared.
        data: the call that creates the data for running the model.
        checks_nodes: whether the program warns of an edited model that is invalid.

    Raises:
        CommandLineError: a file is both read and written.
    """
    model, save = values[EditedModelOptions], values[EditSaveOptions]
    path = model.model_file or ""
    output = save.output or PurePath(path).stem + ending
    if save.output is None:
        inform(f"Saving to {output}, because --output is not set.")
    check_files(values, written=[("--output", output)])
    warn_about_saving(values)
    load = load_of(values)
    verify = _verification(load, steps, data) if verifies else None
    takes_data = verifies or any(step.kwargs.get("data_loader") is not None for step in steps)
    return Program(
        "surgeon.py.j2",
        summary.replace("{}", model.in_words),
        model=path,
        data=data_loader_argument(data) if takes_data else None,
        load=load,
        steps=steps,
        verify=verify,
        save=call_of("save_onnx", values, path=output),
        show=Call(
            "show_edited",
            [Source("original"), Source("model")],
            {"checks_nodes": True} if checks_nodes else {},
        ),
    )


def _verification(load: Call, steps: Sequence[Call], data: Call) -> Call:
    """Return the call that compares outputs before and after the edits."""
    names = {step.name for step in steps}
    model, loader = Source("model"), data_loader_of(data)
    if "reconstruct_weights" in names:  # The model could not run before.
        return Call("verify_runs", [model], {"data_loader": loader})
    edited: Any = model
    if "strip_weights" in names:
        call = load
        for step in steps:
            if step.name != "strip_weights":
                call = step.of(call)
        edited = Call("restore_weights", [model, call])
    kwargs = {"data_loader": loader, "compare_func": tolerance_of(steps)}
    return Call("verify", [load, edited], kwargs)


def load_of(values: Values) -> Call:
    """Return the call that loads the model, with weights left in its files."""
    return call_of("onnx_from_path", values, Source("MODEL"), map_weights=True)


def data_loader_of(data: Call) -> Source | None:
    """Return the name of the data loader in the program; None for the default."""
    return None if data == USUAL else Source("data_loader")


def trial_of(values: Values) -> tuple[bool, Call]:
    """Return whether the edit is verified by running the model, and the call that creates the data.

    Raises:
        CommandLineError: the data has two sources.
    """
    if values[VerifyOptions].verify:
        shapes = values[TrialShapeOptions].model_input_shapes
        return True, data_of(values[DataOptions], shapes)
    unused = non_default_flags(values, [DataOptions, TrialShapeOptions])
    warn_of_idle_flags(unused, ", because the model is not run: see --verify")
    return False, USUAL
