"""Remedies in words, for culprits without a command that fixes them."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.domain.diagnosis.facts import Fact, constant, statement
from polygraphy.domain.tensors.naming import quote_all

KEEP_BRANCH = constant(
    "keep_branch",
    "Exporters keep the branch that the example input takes. Use torch.where or torch.cond in the"
    " module, or export one model per branch.",
)
KEEP_LOOP = constant(
    "keep_loop",
    "Exporters repeat the body of a Python loop as often as the example input does. Compute all"
    " passes at once with tensors, or export one model per number of passes.",
)
KEEP_SIZE = constant(
    "keep_size",
    "Exporters keep the sizes of the example input. Pass dynamic_shapes (dynamic_axes in the older"
    " exporter), and compute sizes from x.shape in the module.",
)
KEEP_NUMBER = constant(
    "keep_number",
    "Exporters keep the numbers that Python computes from the example input (int(), .item(),"
    " size()). Compute with tensors in the module, or export one model per number.",
)
EXPORT_AGAIN = constant(
    "export_again",
    "The file was exported from a different program or checkpoint, or changed after the export."
    " Re-export the program that --torch names.",
)
EXPORT_AGAIN_IN_EVAL = constant(
    "export_again_in_eval",
    "The file was exported from a different program or checkpoint, or changed after the export."
    " Re-export the program that --torch names. Only running statistics of BatchNorm differ: a"
    " forward pass in training mode changes them.",
)
EXPORT_IN_EVAL = constant("export_in_eval", "Call model.eval(), and export without training=.")
KEEP_THRESHOLDS = constant(
    "keep_thresholds",
    "The conversion rounds thresholds to float32, and the model compares float32 features. Convert"
    " with float64 inputs and thresholds, or round features and thresholds before training.",
)
USE_REAL_DATA = constant(
    "use_real_data",
    "The input data was generated. Check whether real data gives the same result (--load-inputs).",
)
LOOK_FOR_ANOTHER = constant(
    "look_for_another",
    "Undo this change, then diagnose the model again: another input set still differs.",
)
QUANTIZE_AGAIN = constant(
    "quantize_again",
    "Quantize the model again. With the model in floating point as --reference, the diagnosis"
    " computes the correct scale.",
)
RENAME_NODES = constant("rename_nodes", "Give each node a unique name, or no name.")
PASS_REFERENCE = constant(
    "pass_reference", "Pass the original model with --reference to see what changed."
)


RENAME_INPUTS = constant(
    "rename_inputs",
    "List input_names in the order of the parameters of forward, and export the program again.",
)
RENAME_OUTPUTS = constant(
    "rename_outputs",
    "List output_names in the order in which forward returns the results, and export the program"
    " again.",
)


@statement
def state_opset(version: int, expected: int) -> str:
    """Return the sentence that advises to state the original opset, and then to convert the
    model."""
    return (
        "The opset number was changed, but the nodes were not converted. Set the number back"
        f" to {expected}, then convert the model: polygraphy convert --opset {version}."
    )


@statement
def append_nodes(ops: Sequence[str]) -> str:
    """Return the sentence that advises to append the nodes that the model lacks."""
    return f"Export or convert the model with its last operators: {', '.join(ops)}."


@statement
def end_at(tensor: str) -> str:
    """Return the sentence that advises to make an earlier tensor the output."""
    return f"Make {tensor!r} the output, or omit the later nodes in the export."


@statement
def undo(changes: Sequence[Fact]) -> str:
    """Return the sentence that lists the changes to undo."""
    return f"Undo this change: {'; '.join(dict.fromkeys(map(str, changes)))}."


@statement
def take(change: Fact, weights: Sequence[str]) -> str:
    """Return the sentence that lists the weights to copy from the reference, or the change to match
    it.
    """
    if weights:
        return f"Copy {quote_all(weights)} from the reference."
    return f"Change this to match the reference: {change}."


@statement
def invert_condition(node: str) -> str:
    """Return the sentence that advises to invert the condition of an If."""
    return f"Invert the condition of If {node!r}."


@statement
def export_with(exporter: str) -> str:
    """Return the sentence that recommends an exporter."""
    return f"Export it with {exporter}."


@statement
def no_other_export(framework: str) -> str:
    """Return the sentence of advice for a program that no exporter converts correctly."""
    return (
        "No other export is known to be correct. Rewrite the operation in the module, or report a"
        f" bug in the {framework} exporter."
    )


@statement
def compare_elsewhere(op: str, party: str) -> str:
    """Return the sentence that recommends another backend or version for comparison."""
    return f"Compare with another backend, or with a different version of {party}, for {op}."


@statement
def convert_again(options: str) -> str:
    """Return the sentence with the options that give a working half-precision model."""
    return f"Convert the fp32 model again with {options}."


@statement
def run_on_export(path: str, command: str) -> str:
    """Return the remedy: a command for a new export of the program."""
    return f"Export the program to {path}, then run: {command}"


@statement
def match_declared_type(op: str, attribute: str, tensor: str, dtype: str) -> str:
    """Return the advice for a node whose attribute contradicts the declared type of its result."""
    return (
        f"Set {attribute!r} of {op} to {dtype}, or correct the declared type of {tensor!r} and of"
        " what follows."
    )


@statement
def use_multiples(number: int) -> str:
    """Return the sentence that inputs must be resized or padded to multiples of a number."""
    return f"Resize or pad the inputs to sizes that are multiples of {number}."


@statement
def raise_epsilon(name: str, least: float) -> str:
    """Return the sentence with the least epsilon that half precision can represent."""
    return f"Set {name!r} to at least {least:.1g}, or keep the node in fp32."


@statement
def limit_weights(names: Sequence[str], numbers: Sequence[float]) -> str:
    """Return the sentence with the numbers to put in place of infinity in weights."""
    places = (f"those of {name!r} to {number:.5g}" for name, number in zip(names, numbers))
    return f"Set infinite elements of weights to finite numbers: {', '.join(places)}."


@statement
def quantize_without(nodes: Sequence[str]) -> str:
    """Return the sentence that lists the nodes to exclude from quantization."""
    return f"Quantize the model again without {quote_all(nodes)} (nodes_to_exclude)."


@statement
def split_scale(nodes: Sequence[str], output: str) -> str:
    """Return the sentence that the parts of an output need different scales."""
    if len(nodes) == 1:
        return (
            f"Quantize the inputs of the concatenation {nodes[0]!r} separately, each with its own"
            f" scale, or keep {output!r} in floating point."
        )
    return (
        f"Quantize the inputs of the concatenations {quote_all(nodes)} separately, each with its"
        f" own scale, and keep all that joins them to {output!r} in floating point."
    )
