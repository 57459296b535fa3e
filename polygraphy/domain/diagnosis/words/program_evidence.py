"""Evidence about a model and the program that it was exported from: one sentence a fact."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.domain.diagnosis.facts import Fact, fact, statement
from polygraphy.domain.rounding import Deviation
from polygraphy.domain.tensors.naming import count_text, list_some, quote_all


@fact
def export_of_operation(operation: str, ops: Sequence[str], others: Sequence[str] = ()) -> str:
    """Return the fact that an operation of the program became these operators."""
    beside = f" (with {', '.join(others)})" if others else ""
    return f"{operation}{beside} became {', '.join(ops) or 'a constant'}."


@fact
def lost_inputs(names: Sequence[str]) -> str:
    """Return the fact that a model does not have some inputs of its program."""
    return (
        f"The model has no input {quote_all(names)}: it contains the values from the example input"
        " as constants."
    )


@fact
def exchanged_inputs(names: Sequence[str]) -> str:
    """Return the fact that two inputs of a model have each other's name."""
    return (
        f"The inputs {quote_all(names)} have each other's name: if their data is exchanged, all"
        " outputs match."
    )


@fact
def exchanged_outputs(names: Sequence[str]) -> str:
    """Return the fact that two outputs of a model have each other's name."""
    return (
        f"The outputs {quote_all(names)} have each other's name: if they are exchanged, all outputs"
        " match."
    )


@fact
def framework_is_wrong(operation: str, framework: str) -> str:
    """Return the fact that the framework computes an operation incorrectly."""
    return (
        f"{operation} in float64 on the same data gives a different result: {framework} computes it"
        " incorrectly."
    )


@fact
def framework_is_right(operation: str) -> str:
    """Return the fact that the framework computes an operation correctly."""
    return f"{operation} in float64 on the same data gives the program's value."


@fact
def backend_follows_nodes(party: str) -> str:
    """Return the fact that a backend computes the nodes correctly."""
    return f"{party} computes these nodes correctly, according to formulas in float64."


@fact
def in_training_mode(op: str) -> str:
    """Return the fact that an operator runs in training mode."""
    return f"{op} runs in training mode; the program does not."


@fact
def other_layout(order: Sequence[int]) -> str:
    """Return the fact that the axes of a tensor are in a different order."""
    return f"The values are correct, but the axes are in the order {tuple(order)}."


@fact
def other_type(dtype: str, expected: str) -> str:
    """Return the fact that a tensor has another type."""
    return f"Its type is {dtype} instead of {expected}."


@fact
def extra_cast(node: str, dtype: str, types: Sequence[str]) -> str:
    """Return the fact that a node casts to a type that the program does not use."""
    return f"{node!r} casts to {dtype}; the program computes in {', '.join(types)}."


@fact
def other_weight(name: str, expected: str, is_folded: bool) -> str:
    """Return the fact that a weight is not that of the program."""
    folded = ", even after folding" if is_folded else ""
    return f"The weight {name!r} differs from the program's {expected!r}{folded}."


@fact
def unused_weight(name: str) -> str:
    """Return the fact that the model has all weights of an operation except one."""
    return f"The program uses the weight {name!r}; the model does not."


@fact
def differing_weight(
    name: str,
    ops: Sequence[str],
    expected: Sequence[str],
    deviation: Deviation,
    actual: str = "",
    relation: Fact | None = None,
) -> str:
    """Return the fact that a weight differs from the program's weight:
    which other weight it equals, or how it changed."""
    text = f"{actual!r}" if actual else str(relation or "")
    but = f"; it is {text}" if text else ""
    return (
        f"The weight {name!r} of {' and '.join(ops)} is not the program's"
        f" {quote_all(expected)}{but}: it {deviation.in_words()}."
    )


@fact
def transposition() -> str:
    """Return the relation of two weights, one of which is transposed."""
    return "transposed"


@fact
def other_axis_order(order: Sequence[int]) -> str:
    """Return the fact that a weight is transposed to an axis order."""
    return f"transposed to the axis order {tuple(order)}"


@fact
def axis_reversal(axis: int) -> str:
    """Return the fact that a weight is reversed along an axis."""
    return f"reversed along axis {axis}"


@fact
def scale_factor(factor: float) -> str:
    """Return the relation of two weights, one of which is scaled by a factor."""
    return f"scaled by {factor:.6g}"


@fact
def differing_number(name: str, ops: Sequence[str], value: float, expected: float) -> str:
    """Return the fact that a constant differs from the program's constant."""
    return f"The constant {name!r} of {' and '.join(ops)} is {value:.6g} instead of {expected:.6g}."


@fact
def frozen_size(
    op: str, name: str, value: object, shape: Sequence[int], expected: Sequence[int]
) -> str:
    """Return the fact that a size of the example became a constant."""
    return (
        f"{op} reads the constant {value} ({name!r}), but the program uses a size of its input: the"
        f" output shape is {tuple(shape)} instead of {tuple(expected)}."
    )


@fact
def python_condition(operation: str, condition: str) -> str:
    """Return the fact that a Python condition decides whether an operation is computed."""
    return f"A Python condition decides whether {operation!r} is computed: {condition}."


@fact
def file_of_other_branch(condition: str, is_loop: bool = False) -> str:
    """Return the fact that another decision or number of passes explains the file:
    the exporter writes it if a Python condition is decided differently, or a loop has another
    // number of passes."""
    if is_loop:
        return (
            f"A Python loop repeated these nodes during export: {condition}. With another number of"
            " passes, the same exporter writes the nodes of this file."
        )
    return (
        f"A Python condition chose these nodes during export: {condition}. With the other outcome,"
        " the same exporter writes the nodes of this file."
    )


@fact
def file_of_other_example() -> str:
    """Return the fact that the exporter writes the file for another example."""
    return "For another example input, the same exporter writes the nodes of this file."


@fact
def same_exporter_is_right() -> str:
    """Return the fact that the same exporter is correct with this data."""
    return "Exported again with this data by the same exporter, the model is correct."


@fact
def match_after_new_export(exporter: str) -> str:
    """Return the fact that the program, exported again, is correct."""
    return f"Exported again from this program by the same exporter ({exporter}), it is correct."


@fact
def weights_differ(count: int, total: int) -> str:
    """Return the fact that says how many weights differ from the program's."""
    return (
        f"{count} of {count_text(total, 'weight')} differ{'s' * (count == 1)} from the program's."
    )


@fact
def first_weight(name: str, op: str, deviation: Deviation, origin: str) -> str:
    """Return the fact that says which weight differs first."""
    where = f" ({origin})" if origin else ""
    return f"First: {name!r} of {op} {deviation.in_words()}{where}."


@fact
def only_in_file(op: str, node: str) -> str:
    """Return the fact that only the model computes a node."""
    return f"The model computes {op} {node!r}; the program does not."


@fact
def only_in_program(operation: str, origin: str) -> str:
    """Return the fact that only the program computes an operation."""
    return f"The program computes {operation}{origin and f' ({origin})'}; the model does not."


@fact
def other_operator(op: str, node: str, operation: str, origin: str) -> str:
    """Return the fact that the model computes another operator than the program."""
    where = f" ({origin})" if origin else ""
    return f"The model computes {op} {node!r} instead of the program's {operation}{where}."


@fact
def other_wiring(op: str, node: str) -> str:
    """Return the fact that a node reads different tensors than in the program."""
    return f"{op} {node!r} reads different tensors than in the program."


@fact
def other_constant(op: str, name: str, value: str, expected: str) -> str:
    """Return the fact that a constant differs when the program is exported again."""
    return f"{name!r} of {op} is {value}; exported again from this program, it is {expected}."


@fact
def computes_as_in_training(count: int, op: str) -> str:
    """Return the fact that nodes compute as in training."""
    verb = f"({op}) compute{'s' * (count == 1)}"
    return f"{count_text(count, 'node')} {verb} as in training; the program does not."


@fact
def frozen_number(op: str, name: str, value: str, expected: str) -> str:
    """Return the fact that a number comes from the example input."""
    return (
        f"{name!r} of {op} is {value}, taken from the example input; exported with this data, it"
        f" is {expected}."
    )


@fact
def other_example(value: str) -> str:
    """Return the fact that a number differs with another example."""
    return f"Exported with another example, it is {value}."


@statement
def agrees_with_program_on_cpu(program: str, relative: float) -> str:
    """Return the sentence that a model matches its program on the CPU, and how much the program
    differs from that on its device.
    """
    return (
        f"The model computes what {program} computes on the CPU. On its device, {program} itself"
        f" differs from that by up to {relative:.2g} x RMS."
    )


@statement
def example_decides_nodes(statements: Sequence[str]) -> str:
    """Return why other nodes in a file do not prove that it comes from another program."""
    lines = f" ({list_some(statements, worded=str)})" if statements else ""
    return (
        f"The example input decides which nodes this exporter writes{lines}. The file was exported"
        " with a different example, or from a different program."
    )


@statement
def random_weights(names: Sequence[str]) -> str:
    """Return why the results of a program with random weights prove nothing."""
    return (
        f"The program has other weights each time it is loaded ({list_some(names)}), so no model"
        " can match it. Load the checkpoint in the function that --torch names."
    )
