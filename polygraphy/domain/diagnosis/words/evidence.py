"""What was measured, tried and proved about a culprit: one sentence a fact."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import inf

from polygraphy.domain.checks.order import FUNCTION
from polygraphy.domain.diagnosis.facts import Fact, fact, statement
from polygraphy.domain.diagnosis.versions import Span
from polygraphy.domain.rounding import Deviation
from polygraphy.domain.tensors.naming import (
    count_text,
    in_percent,
    join_lines,
    list_some,
    quote_all,
)

# Measured: the value of a tensor, and the expected value.
_PROBLEMS = {
    "not finite": "which is not finite",
    "negative": "but a variance cannot be negative",
    "zero": "which is a division by zero",
}


@fact
def wrong_by_itself(
    tensor: str, deviation: Deviation, elements: int, party: str, reference: str
) -> str:
    """Return the fact that a tensor differs when its node runs by itself."""
    return (
        f"Run by itself in {party} on inputs from {reference}, without rewrites: {tensor!r}"
        f" {deviation.in_words()} ({_share(deviation, elements)})."
    )


@fact
def wrong_in_graph(tensor: str, deviation: Deviation, elements: int, party: str) -> str:
    """Return the fact that a tensor differs in the graph that a backend runs."""
    return (
        f"In the graph that {party} runs, {tensor!r} {deviation.in_words()}"
        f" ({_share(deviation, elements)})."
    )


@fact
def wrong_from_saved(tensor: str, deviation: Deviation, source: str, parties: Sequence[str]) -> str:
    """Return the fact that a tensor differs if its node runs on inputs from `source`."""
    inputs = "the program's values" if source == "program" else "its saved inputs"
    return (
        f"Computed from {inputs}, {tensor!r} {deviation.in_words()}"
        f" (in {' and '.join(parties)})."
    )


@fact
def no_order_explains(op: str) -> str:
    """Return the fact that a scatter writes several updates to one place, but differs otherwise."""
    return f"{op} writes several updates to one element, but no order gives the expected values."


@fact
def order_explains(op: str) -> str:
    """Return the fact that a scatter writes several updates to one place, and a different order
    explains the expected values."""
    return f"{op} writes several updates to one element. A different order also explains this."


@fact
def random_numbers(op: str) -> str:
    """Return the fact that an operator generates random numbers."""
    return f"{op} generates random numbers, so results differ in every run and every backend."


@fact
def runs_disagree(party: str, tensor: str, deviation: Deviation) -> str:
    """Return the fact that two runs of a backend on the same data differ."""
    return (
        f"Two runs of {party} on the same data differ: {tensor!r} {deviation.in_words()} in the"
        " first run."
    )


@fact
def parties_disagree(
    reference: str, party: str, tensor: str = "", deviation: Deviation | None = None
) -> str:
    """Return the fact that two backends disagree on equal inputs."""
    text = "" if deviation is None else f": in {party}, {tensor!r} {deviation.in_words()}"
    return f"Run by itself on equal inputs, {reference} and {party} disagree{text}."


@statement
def has_broken_elements(tensor: str) -> str:
    """Return the fact that a tensor has NaN or infinite elements."""
    return f"{tensor!r} has NaN or infinite elements."


def _count_of(count: int, elements: int) -> str:
    """Return a number of elements with its verb: ``3 of 4 elements are``."""
    verb = "is" if count == 1 else "are"
    return f"{count} of {count_text(elements, 'element')} {verb}"


@fact
def not_a_number(tensor: str, nan: int, infinite: int, elements: int) -> str:
    """Return the fact that a tensor has NaN or infinite elements, with their numbers."""
    counts = [(nan, "NaN"), (infinite, "infinite")]
    shares = [f"{_count_of(count, elements)} {what}" for count, what in counts if count]
    return f"In {tensor!r}, {' and '.join(shares)}."


@fact
def creates_nan(op: str, node: str) -> str:
    """Return the fact that a node behind the culprit creates NaN or infinity."""
    return f"{op} {node!r} then computes NaN or infinity."


@fact
def input_range(
    tensor: str, least: float, largest: float, negative: int, zero: int, elements: int
) -> str:
    """Return the fact that an input lies in a range, with its negative and zero elements."""
    counts = [(negative, "negative"), (zero, "zero")]
    shares = [f"{_count_of(count, elements)} {what}" for count, what in counts if count]
    signs = f"; {' and '.join(shares)}" if shares else ""
    return f"Its input {tensor!r} ranges from {least:.4g} to {largest:.4g}{signs}."


@fact
def input_type(tensor: str, dtype: str) -> str:
    """Return the fact that an input of the node has a type."""
    return f"Its input {tensor!r} has type {dtype}."


@fact
def bad_weight(
    name: str, value: float, index: Sequence[int], problem: str, count: int, elements: int
) -> str:
    """Return the fact that elements of a weight are not finite, negative or zero."""
    return (
        f"Its weight {name!r} is {value:.4g} at {list(index)}, {_PROBLEMS[problem]} ({count} of"
        f" {elements} elements)."
    )


@fact
def agrees_by_itself() -> str:
    """Return the fact that every node agrees when run by itself."""
    return "Every node agrees when run by itself."


@fact
def amplifies_errors(op: str, node: str, factor: float) -> str:
    """Return the fact that a node amplifies errors in every backend."""
    return f"{op} {node!r} amplifies errors {factor:.3g} times, in every backend."


@fact
def errors_grow(op: str, node: str) -> str:
    """Return the fact that errors grow gradually, most in one node."""
    return f"Errors grow gradually, most in {op} {node!r}."


# Changed: the difference that explains the outputs.


@fact
def change_of_node(change: Fact) -> str:
    """Return the fact about a change as a sentence."""
    return sentence(str(change))


@fact
def undone_gives_expected(count: int = 1, source: str = "saved") -> str:
    """Return the fact that nodes compute the expected values without the change."""
    values = {"saved": "the saved values", "program": "the program's values"}
    makes = "the node computes" if count == 1 else "these nodes compute"
    return f"Without this change, {makes} {values.get(source, 'the values of the reference')}."


@fact
def change_elsewhere(nodes: Sequence[str]) -> str:
    """Return the fact that a change of other nodes has the same effect."""
    return f"A change of {list_some(nodes)} instead has the same effect."


@fact
def undone_matches_outputs() -> str:
    """Return the fact that all outputs match without the change."""
    return "Without this change, all outputs match."


@fact
def undone_matches_one_set(number: int) -> str:
    """Return the fact that the outputs of one input set match without the change."""
    return (
        f"Without this change, all outputs of input set {number} match, but not those of every"
        " other input set."
    )


@fact
def other_branch(node: str, source: str) -> str:
    """Return the fact that the other branch of an If computes the expected values."""
    values = "the program's values" if source == "program" else "the saved values"
    return f"With the other branch of If {node!r}, the model computes {values}."


@fact
def saved_in_other_type(tensor: str) -> str:
    """Return the fact that no saved tensor tells the nodes apart, because a tensor between them was
    saved in another data type."""
    return (
        f"Cannot tell these nodes apart: {tensor!r} was saved in a different data type than the"
        " model computes."
    )


@fact
def made_sequence(name: str) -> str:
    """Return the fact that no tensor tells the nodes apart, because a sequence is between them."""
    return f"Cannot tell these nodes apart: {name!r} is a sequence, and only tensors are compared."


@fact
def cannot_tell_apart() -> str:
    """Return the fact that no saved tensor tells the nodes apart."""
    return (
        "Cannot tell these nodes apart: no tensor between them was saved. Save all tensors:"
        " --onnx-outputs mark all."
    )


@fact
def computes_differently(tensors: Sequence[str], nodes: int) -> str:
    """Return the fact that nodes compute different tensors from equal inputs."""
    subject = "the node computes" if nodes == 1 else "these nodes compute"
    return f"From equal inputs, {subject} a different {quote_all(tensors)} than the reference."


@fact
def ends_too_early(name: str, early: str, ops: Sequence[str]) -> str:
    """Return the fact that the nodes that the reference applies to an output are missing."""
    applies = f"The reference then applies {list_some(ops, worded=str)}, which the model lacks."
    return f"Output {name!r} equals the tensor {early!r} of the reference. {applies}"


@fact
def ends_too_late(name: str, late: str, ops: Sequence[str]) -> str:
    """Return the fact that nodes after a tensor that equals the expected output are too many."""
    applies = f"The model then applies {list_some(ops, worded=str)}, which the reference does not."
    return f"Tensor {late!r} equals the expected output {name!r}. {applies}"


@fact
def ignores_inputs(name: str) -> str:
    """Return the fact that a tensor is constant,
    although it is computed from data in the reference."""
    return f"{name!r} does not depend on the inputs of the model, unlike in the reference."


@fact
def one_of_nodes(before: Sequence[str], after: Sequence[str], nodes: int) -> str:
    """Return the fact that the fault is among the nodes between two tensors."""
    end = quote_all(after)
    location = f"between {list_some(before)} and {end}" if before else f"before {end}"
    fault = f"The fault is in one or more of the {nodes} nodes {location}."
    return f"{fault} No tensor in between matches."


@fact
def usual_data_match() -> str:
    """Return the fact that the saved results come from the default data of `run`."""
    return "The saved results come from the data that `polygraphy run` generates by default."


@fact
def scaled_data_match(formula: str) -> str:
    """Return the fact that the saved results come from scaled data."""
    return f"With the input {formula}, all outputs match: the saved results come from such data."


@fact
def in_training_mode(op: str) -> str:
    """Return the fact that an operator computes in training mode."""
    return f"{op} computes in training mode (training_mode=1), with the statistics of the batch."


@fact
def short_thresholds() -> str:
    """Return the fact that rounding does not explain rows on thresholds,
    because these are exact numbers."""
    return "float32 contains these thresholds exactly, so rounding does not explain the rows."


# Proved: the change that makes all outputs match.


@fact
def right_without_rewrites(rewrites: Sequence[str]) -> str:
    """Return the fact that outputs match without some rewrites; no names mean all rewrites."""
    disabled = f"only {' and '.join(rewrites)}" if rewrites else "all rewrites"
    return f"With {disabled} disabled, all outputs match."


@fact
def nodes_are_right(nodes: Sequence[str]) -> str:
    """Return the fact that each node is correct by itself."""
    each = "" if len(nodes) == 1 else "Each of "
    return f"{each}{list_some(nodes)} is correct by itself."


@fact
def rounding_has_same_effect() -> str:
    """Return the fact that different rounding between the nodes has the same effect."""
    return "Different rounding between them has the same effect."


@fact
def match_after_restoring(count: int = 1) -> str:
    """Return the fact that all outputs match if only these differences are undone."""
    text = "this" if count == 1 else f"these {count} differences"
    return f"Restoring only {text} makes all outputs match."


@fact
def larger_than_rounding(name: str, where: Sequence[int], effect: float, rest: float) -> str:
    """Return the fact that a difference changes an element more than rounding does."""
    at = f" at {[*where]}" if where else ""
    return f"It changes {name!r}{at} by {effect:.3g}. Rounding changes that element by {rest:.3g}."


@fact
def accepted_by_run(dtype: str) -> str:
    """Return the fact that the error of the outputs is within the rounding limit of a type."""
    return (
        f"{dtype} rounding alone may cause an error of this size, so run --rtol auto accepts these"
        " outputs. The reference shows that this error is not rounding."
    )


@fact
def allowed_rounding(dtype: str, attribute: str) -> str:
    """Return the fact that an attribute allows the rounding that explains the error."""
    return f"{attribute!r} allows {dtype} rounding, which may cause an error of this size."


@fact
def accepted_by_run_of_backends(dtype: str) -> str:
    """Return the fact that the difference of backends is within the rounding limit of a type."""
    return (
        f"{dtype} rounding alone may cause a difference of this size, so run --rtol auto accepts"
        " these outputs. Rounding is not the cause here."
    )


@fact
def also_copied(changes: Sequence[Fact]) -> str:
    """Return the fact that the fix also undoes other differences."""
    other_name = "; ".join(map(str, changes))
    return f"Other differences in these nodes, which the fix also removes: {other_name}."


@fact
def match_with_reference_tensors(tensors: Sequence[str]) -> str:
    """Return the fact that all outputs match if these tensors come from the reference."""
    value = "value" if len(tensors) == 1 else "values"
    return f"With only the reference's {value} for {quote_all(tensors)}, all outputs match."


@fact
def match_with_program_tensors(count: int) -> str:
    """Return the fact that all outputs match if this number of tensors comes from the program."""
    text = "this tensor" if count == 1 else f"these {count} tensors"
    return f"With only {text} replaced by the program's, all outputs match."


@fact
def still_differ(count: int, outputs: Sequence[str]) -> str:
    """Return the fact that outputs differ even if these tensors are replaced by the program's."""
    text = "this tensor" if count == 1 else f"these {count} tensors"
    verb = "differs" if len(outputs) == 1 else "differ"
    value = "value" if count == 1 else "values"
    return f"With the program's {value} for {text}, {quote_all(outputs)} still {verb}."


@fact
def weights_restored() -> str:
    """Return the fact that all outputs match if only this weight is replaced by the program's."""
    return "With only the program's value for this weight, all outputs match."


@fact
def reference_is_right(juror: str, reference: str) -> str:
    """Return the fact that the reference is correct according to a third backend."""
    return f"According to {juror}, {reference} is correct."


@fact
def reference_is_wrong(
    juror: str, party: str, reference: str, tensor: str, deviation: Deviation | None
) -> str:
    """Return the fact that the reference is incorrect according to a third backend."""
    measured = "" if deviation is None else f": {tensor!r} {deviation.in_words()}"
    return f"According to {juror}, {party} is correct and {reference} is incorrect{measured}."


@fact
def reference_repaired(party: str, reference: str) -> str:
    """Return the fact that the reference matches if it uses this value of a backend."""
    return f"With only this value from {party}, the outputs of {reference} match."


@fact
def nobody_decides() -> str:
    """Return the fact that no independent implementation can decide."""
    return "No independent implementation is available to decide."


@fact
def versions_tried(span: Span) -> str:
    """Return the fact that says which versions are correct and incorrect."""
    is_same = span.first == span.last
    wrong = (
        f"incorrect in {span.first}" if is_same else f"incorrect from {span.first} to {span.last}"
    )
    before = f"correct in {span.before}" if span.before else ""
    after = f"correct from {span.after}" if span.after else "correct in no newer version"
    return f"Versions tried: {', '.join(filter(None, [before, wrong, after]))}."


@fact
def version_refuses(version: str, message: str) -> str:
    """Return the fact that a version cannot run the model."""
    return f"{version} cannot run the model: {message}"


@fact
def other_version_matches(party: str, version: str, instead: str) -> str:
    """Return the fact that all outputs match with a different version."""
    return f"With {party} {version} instead of {instead}, all outputs match."


# Refused: the backend rejects the model or a node.


@fact
def refusal(party: str, message: str, by_wrong_value: bool = False) -> str:
    """Return the fact that a backend refuses the model.
    `by_wrong_value` adds that an incorrect value is the cause."""
    because_of = " because of this" if by_wrong_value else ""
    return f"{party} rejects the model{because_of}: {join_lines(_without_signature(message))}"


_SIGNATURE = re.compile(r"\((\S+?)(?: of opset \d+ on .*?\)|, opset \d+\) on .*?)(?=: )")
"""The node in a message of a backend, with the types of all its inputs."""


def _without_signature(message: str) -> str:
    """Return a message without input types, which hide the reason."""
    return _SIGNATURE.sub(r"(\1)", message, count=1)


@fact
def each_node_refused() -> str:
    """Return the fact that each node is refused by itself."""
    return "It also rejects each node by itself."


@fact
def part_refused(nodes: int) -> str:
    """Return the fact that the nodes are refused in isolation."""
    return f"It also rejects {'this node' if nodes == 1 else 'these nodes'} in isolation."


@fact
def no_part_refused() -> str:
    """Return the fact that no part is refused by itself."""
    return "It accepts every part of the model by itself."


@fact
def same_violation(nodes: Sequence[str]) -> str:
    """Return the fact that other nodes break the same rule of the specification."""
    names = quote_all(nodes[:3])
    return f"It is one of {count_text(len(nodes) + 1, 'node')} that violate this rule: {names}, ..."


@fact
def breaks_specification(message: str) -> str:
    """Return the fact that the model violates the ONNX specification."""
    return f"It violates the ONNX specification: {message}"


@fact
def is_in_subgraph(op: str, place: str) -> str:
    """Return the fact that the invalid node is in a subgraph, as ``then_branch/Add_1``."""
    return f"In its subgraph, this {op} is the node {place!r}."


@fact
def reads_too_early(op: str, node: str, tensor: str, owner_op: str, owner: str) -> str:
    """Return the fact that a node, in the subgraph of its owner or in a function, reads a tensor
    before another node computes it."""
    place = f"in the subgraph of {owner_op} {owner!r}" if owner_op else ""
    place = f"in the function {owner!r}" if owner_op == FUNCTION else place
    return (
        f"It violates the ONNX specification: {op} {node!r}{f', {place},' if place else ''} reads"
        f" {tensor!r} before another node computes it."
    )


@fact
def channels_last(name: str, shape: Sequence[int]) -> str:
    """Return the fact that the data of an input has its channels last."""
    return (
        f"The data of {name!r} has shape {tuple(shape)}, with the channels last; the model expects"
        " them at axis 1."
    )


@fact
def other_opset(version: int, expected: int, operators: Sequence[str]) -> str:
    """Return the fact that a model states another opset, which defines operators differently."""
    return (
        f"The model states opset {version}, and the reference opset {expected}, which"
        f" define {' and '.join(operators)} differently."
    )


@fact
def match_with_opset(expected: int) -> str:
    """Return the fact that all outputs match if the model states the opset of the reference."""
    return f"If the model states opset {expected}, all outputs match."


@fact
def undefined_result(message: str) -> str:
    """Return the fact that the ONNX specification leaves the result of a node undefined."""
    return f"The ONNX specification does not define the result: {message}"


@fact
def accepts_more(party: str) -> str:
    """Return the fact that a backend accepts more than the specification."""
    return f"{party} runs the model: it accepts more than the specification allows."


@fact
def runs_with_other_size(party: str, shape: str, size: int, constants: Sequence[str]) -> str:
    """Return the fact that a backend runs the model if an input has another size, and the constant
    that contains this size, if it is known."""
    fits = f"the constant {constants[0]!r} fits" if constants else "the model fits"
    return (
        f"With --input-shapes {shape}, {party} runs the model: {fits} that input size, but not the"
        " given one."
    )


@fact
def runs_with_multiples(party: str, shapes: str, number: int) -> str:
    """Return the fact that a backend runs the model with sizes that are multiples of a number."""
    return (
        f"With --input-shapes {shapes}, {party} runs the model, as with other multiples of"
        f" {number}."
    )


@fact
def runs(party: str) -> str:
    """Return the fact that a backend runs the model."""
    return f"{party} runs the model."


@fact
def cannot_run_either(party: str, message: str) -> str:
    """Return the fact that another backend cannot run the model either."""
    return f"{party} cannot run it either: {message}"


@fact
def runs_without(rewrites: Sequence[str], party: str, is_whole_model: bool = True) -> str:
    """Return the fact that a backend runs the model without some rewrites."""
    name = "the whole model" if is_whole_model else "them"
    return f"With {' and '.join(rewrites) or 'all rewrites'} disabled, {party} runs {name}."


@fact
def refusal_without_rewrites() -> str:
    """Return the fact that the model is refused with all rewrites disabled."""
    return "It also rejects the model with all rewrites disabled."


@fact
def runs_in_float32() -> str:
    """Return the fact that the whole model runs and matches in float32."""
    return "In float32 it runs the whole model, and all outputs match."


@fact
def runs_when_cast(party: str, path: str, dtype: str) -> str:
    """Return the fact that a backend runs the cast model correctly."""
    return f"{party} runs {path} in {dtype}, and its outputs are correct."


@fact
def same_name(count: int, name: str) -> str:
    """Return the fact that several nodes share a name."""
    return f"{count} nodes share the name {name!r}."


# Lost in half precision, or by quantization.


@fact
def quantization_cost(before: float, after: float, kept: int, nodes: int) -> str:
    """Return the fact that says how much quantization changes the outputs,
    with and without some nodes."""
    which = "this node" if kept == 1 else f"these {kept} of {nodes} nodes"
    if before == inf:
        return (
            "Quantization makes elements of the outputs infinite or NaN; the outputs differ by"
            f" {in_percent(after)} if {which} {'is' if kept == 1 else 'are'} not quantized."
        )
    return (
        f"Quantization changes the outputs by {in_percent(before)} of their RMS, and by"
        f" {in_percent(after)} if {which} {'is' if kept == 1 else 'are'} not quantized."
    )


@fact
def lost_part(output: str, deviation: Deviation) -> str:
    """Return the fact that the parts of an output need scales of their own,
    with the worst element of the lost part."""
    return (
        f"All parts of {output!r} are quantized with a single scale, which is too large for one of"
        f" them: the output {deviation.in_words()}."
    )


@fact
def lost_operand(joined: str, part: str, count: int, left: int) -> str:
    """Return the fact that a part of a joined tensor needs a scale of its own,
    with the number of its different values before and after."""
    return (
        f"All parts of {joined!r} are quantized with a single scale, which is too large for"
        f" {part!r}: of its {count} different values, {left} {'is' if left == 1 else 'are'} left."
    )


@fact
def error_without_quantization(before: float, after: float) -> str:
    """Return the fact that the largest error is smaller without a quantization."""
    if after == 0:
        return "Without this quantization, the outputs match exactly."
    return f"Without this quantization, the error is {before / after:,.0f} times smaller."


@fact
def quantized_inputs_cost(node: str, loss: float) -> str:
    """Return the fact that says how much a node loses by quantized inputs."""
    return f"Quantizing the inputs of {node!r} costs {in_percent(loss)} of their RMS."


def sentence(clause: str) -> str:
    """Return a clause as a sentence: with a capital letter and a period."""
    return f"{clause[:1].upper()}{clause[1:]}."


def _share(deviation: Deviation, elements: int) -> str:
    """Return the share of elements that differ, in words."""
    return f"{deviation.count} of {elements} elements"


@fact
def rows_on_thresholds(rows: int, count: int, thresholds: Sequence[float]) -> str:
    """Return the fact that the rows that differ lie on thresholds of trees."""
    shown = ", ".join(f"{number:.6g}" for number in thresholds[:4])
    more = f" and {len(thresholds) - 4} more" if len(thresholds) > 4 else ""
    return (
        f"{rows} of {count} rows differ, and each has a feature that equals a threshold in float32"
        f" ({shown}{more})."
    )


@fact
def thresholds_moved() -> str:
    """Return the fact that rows match if equal features take the other branch."""
    return (
        "If features equal to these thresholds take the other branch, these rows match. The saved"
        " results were computed in float64, or with thresholds that were not rounded."
    )
