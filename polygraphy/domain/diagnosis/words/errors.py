"""Errors of a diagnosis: each says what is wrong with what it was given, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from polygraphy.domain.errors import FileError, InputError, UsageError
from polygraphy.domain.tensors.naming import count_text, in_bytes, one_line

_OTHER_PROGRAM = "Pass the program from which the model was exported."


def no_data() -> UsageError:
    """Return the error that there are no input data."""
    return UsageError("There is no input data: the data loader is empty.")


def no_backend() -> UsageError:
    """Return the error that no backend runs the model."""
    return UsageError("No backend runs the model.", hint="Add one, such as --onnxrt.")


def environments_without_backend() -> UsageError:
    """Return the error that --environments has no backend to compare."""
    return UsageError(
        "--environments has no backend whose versions can be compared.",
        hint="Add one, such as --onnxrt.",
    )


def several_references() -> UsageError:
    """Return the error that only one of a reference, saved results and a program can be used."""
    return UsageError(
        "A reference, saved results and a program cannot be combined.", hint="Choose one."
    )


def goal_over_steps() -> UsageError:
    """Return the error that --within cannot be combined with --steps."""
    return UsageError("--within compares whole runs, not steps.", hint="Remove --steps.")


def no_goal() -> UsageError:
    """Return the error that options of a target have no target."""
    return UsageError("--metric, --save and --budget need a target.", hint="Add --within.")


def no_float_model() -> UsageError:
    """Return the error that --within has no float model."""
    return UsageError(
        "--within needs the model in floating point.", hint="Pass it with --reference."
    )


def negative_goal(within: float, metric: str) -> UsageError:
    """Return the error that a target is below the least value of its metric."""
    return UsageError(
        f"--within {within:g} cannot be reached: {metric} is never negative.",
        hint="Pass a positive number, such as 0.1.",
    )


def infinite_goal() -> UsageError:
    """Return the error that every model reaches a target."""
    return UsageError(
        "--within inf accepts every model.", hint="Pass a finite number, such as 0.1."
    )


def unknown_metric(name: Any, known: Iterable[str]) -> UsageError:
    """Return the error that a metric does not exist."""
    return UsageError(
        f"{name!r} is not a metric.",
        hint=f"Choose one of rms, {', '.join(known)}, or a function: metric.py:NAME.",
    )


def goal_without_quantization() -> UsageError:
    """Return the error that --within has no quantized model."""
    return UsageError(
        "--within needs a quantized model and a reference in floating point.",
        hint="Pass the quantized model first, and the original as --reference.",
    )


def metric_raises(name: str, error: BaseException) -> InputError:
    """Return the error that a metric raises an exception."""
    rstrip = " ".join(str(error).split()).rstrip(".")
    return InputError(
        f"--metric: {name} raises {type(error).__name__}{f': {rstrip}' if rstrip else ''}.",
        hint="It receives the outputs and the reference outputs, by name, and must return a"
        " number; smaller is better.",
    )


def reference_with_other_inputs(path: str, name: str, own: Any, shape: Any) -> UsageError:
    """Return the error that an input of the reference has a different shape."""
    return UsageError(
        f"{path}: input {name!r} has shape {own}, but {shape} in the quantized model.",
        hint="Pass the original float model with --reference.",
    )


def reference_with_more_inputs(path: str, names: Sequence[str]) -> UsageError:
    """Return the error that the reference has inputs that the model does not have."""
    listed = ", ".join(map(repr, names))
    return UsageError(
        f"{path}: the quantized model has no input that corresponds to {listed}.",
        hint="Pass the original float model with --reference.",
    )


def reference_without_input(path: str, name: str) -> UsageError:
    """Return the error that the reference has no such input."""
    return UsageError(
        f"{path}: the model has no input that corresponds to {name!r} of the quantized model.",
        hint="Pass the original float model with --reference.",
    )


def reference_rejects_data(
    path: str, own: Mapping[str, Any], given: Mapping[str, Any]
) -> UsageError:
    """Return the error that the reference cannot run on the inputs of the model."""
    return UsageError(
        f"The reference {path} cannot run on the inputs of the model: it has {_inputs_text(own)};"
        f" the model has {_inputs_text(given)}.",
        hint="Pass a reference with the same inputs, or data that fits both (--load-inputs).",
    )


def _inputs_text(inputs: Mapping[str, Any]) -> str:
    """Return inputs with their types and shapes: ``x float32[1,4]``."""
    return ", ".join(
        f"{one_line(name)} {described.dtype}[{','.join(map(str, described.shape or '?'))}]"
        for name, described in inputs.items()
    )


def model_too_large_to_copy(size: int) -> UsageError:
    """Return the error that a quantized model is too large to be copied."""
    return UsageError(
        f"The quantized model has {in_bytes(size)} of weights, but a copy of it, in which layers"
        " are in float, can have at most 2 GB (protobuf).",
        hint="List weights and their losses with `inspect model --reference`, without data.",
    )


def search_needs_memory(needed: int, least: int, limit: int) -> UsageError:
    """Return the error that a search needs more memory than allowed.

    Args:
        needed: the bytes that it needs for all weights.
        least: the bytes that each weight needs at most if it is measured by itself.
        limit: the bytes that are allowed.
    """
    return UsageError(
        f"The search needs about {in_bytes(needed)} of memory for the weights, but only"
        f" {in_bytes(limit)} is allowed.",
        hint=f"With --memory-budget {-(-least >> 20)}M or more, each weight is measured by itself."
        " Without data, list ranges with `inspect model --reference`.",
    )


def metric_returns_other(name: str, returned: Any) -> InputError:
    """Return the error that a metric does not return a number."""
    shape = getattr(returned, "shape", None)
    what = f"a value of type {type(returned).__name__}"
    if isinstance(shape, tuple) and shape:
        what = f"an array of shape {tuple(map(int, shape))}"
    elif isinstance(returned, (bool, np.bool_)):
        what = "a boolean"
    return InputError(
        f"--metric: {name} returns {what}.", hint="It must return a number; smaller is better."
    )


def metric_returns_nan(name: str) -> InputError:
    """Return the error that a metric returns NaN."""
    return InputError(
        f"--metric: {name} returns NaN.", hint="It must return a number; smaller is better."
    )


def metric_returns_infinity(name: str) -> InputError:
    """Return the error that a metric returns minus infinity for outputs that differ."""
    return InputError(
        f"--metric: {name} returns -inf, although the outputs differ.",
        hint="It must return a number; smaller is better.",
    )


def unknown_value(name: str) -> InputError:
    """Return the error that the value of an input is unknown."""
    return InputError(f"The value of input {name!r} is unknown.")


def no_castable_node(dtype: str) -> UsageError:
    """Return the error that no node can be cast to a data type."""
    return UsageError(
        f"No node of the model can be cast to {dtype}.",
        hint="Pass a model with float32 nodes of standard ONNX operators.",
    )


def no_common_output(returned: str, outputs: str) -> UsageError:
    """Return the error that program and model have no output in common."""
    return UsageError(
        f"The program and the model have no output in common: the program returns"
        f" {returned or 'nothing'}, the model {outputs or 'nothing'}.",
        hint=_OTHER_PROGRAM,
    )


def different_program(lost: int, weights: int) -> UsageError:
    """Return the error that the model was not exported from the program."""
    return UsageError(
        "The model was not exported from this program: they have no tensor in common, and"
        f" {lost} of {count_text(weights, 'weight')} differ{'s' if lost == 1 else ''} in size.",
        hint=_OTHER_PROGRAM,
    )


def steps_with_saved_results() -> UsageError:
    """Return the error that --steps cannot be combined with --golden or --torch."""
    return UsageError(
        "--steps cannot be combined with --golden.",
        hint="Compare with another backend, with a correct model (--reference), or with the program"
        " (--torch).",
    )


def results_without_tensors(saved: str, outputs: str) -> UsageError:
    """Return the error that saved results have no tensor of the model."""
    return UsageError(
        f"The saved results contain no tensor of the model: they contain {saved or 'nothing'}, and"
        f" the outputs of the model are {outputs}.",
        hint="Save them under the names of the outputs.",
    )


def results_over_budget(size: int, budget: int) -> UsageError:
    """Return the error that saved results need more memory than the budget."""
    return UsageError(
        f"The saved results need {size} bytes of memory, but the budget is {budget}.",
        hint="Raise --memory-budget, or save fewer tensors or input sets.",
    )


def no_results(path: object) -> FileError:
    """Return the error that a file has no results."""
    return FileError(f"{path} contains no results.")


def missing_input_to_copy(name: str) -> UsageError:
    """Return the error that a node to copy reads an input that the model does not have."""
    return UsageError(
        f"A node to copy reads {name!r}, an input of the reference that the model does not have.",
        hint="The reference may be a different model.",
    )


def not_isolated(party: str, error: Exception) -> str:
    """Return the warning that a backend runs in this process."""
    return f"{party} runs in this process, and a crash would end it: {error}"


def not_on_cpu(party: str, error: Exception) -> str:
    """Return the warning that a backend cannot run on the CPU."""
    return f"{party} cannot run the model on the CPU: {error}"


def many_input_sets(count: int) -> str:
    """Return the note that many input sets were read, and more may follow."""
    return (
        f"{count:,} input sets were read, and the diagnosis uses all that the data loader returns."
        " If it never ends, stop it after some input sets."
    )
