"""Why a diagnosis ends without a culprit, or with none that is certain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from polygraphy.domain import rounding
from polygraphy.domain.diagnosis.facts import constant, statement
from polygraphy.domain.tensors.naming import count_text, in_percent, list_some

ROUNDED = constant("rounded", rounding.ROUNDED)
ADDS_UP = constant("adds_up", rounding.ADDS_UP)
SOME_NODES, SOME_WEIGHTS = "some changes of nodes", "some weights"
"""Changes that could explain outputs and were not tried."""
ROLES = {
    "quantization": "scale or zero point",
    "scale": "scale",
    "zero_point": "zero point",
    "epsilon": "epsilon",
}
"""Names of a weight with a special role, by the cause of the fault or by the role."""
NO_FAULT = constant("no_fault", "No fault found.")
NO_TENSORS = constant("no_tensors", "No backend could compute all tensors.")
NO_NODES = constant("no_nodes", "No backend could run the nodes one by one.")
NOT_BORN = constant(
    "not_born", "Outputs contain NaN or infinity, but no node creates them from finite inputs."
)
STEPS_EXPLAIN = constant(
    "steps_explain", "Every node agrees by itself; quantization steps explain the differences."
)
WITHIN_TYPE = constant(
    "within_type",
    "The differences are rounding to the type in which the outputs are computed. run accepts them"
    " with --rtol auto.",
)
UNSTEADY_PROGRAM = constant(
    "unsteady_program", "Two runs of the program on the same data differ: it uses random numbers."
)
NO_MODEL_DIFFERENCE = constant(
    "no_model_difference", "No difference between the models explains why the outputs differ."
)
INPUTS_ALONE = constant(
    "inputs_alone", "Rounding only the inputs changes the outputs just as much."
)
AMPLIFIED = constant(
    "amplified",
    "The model amplifies rounding (ill-conditioned): rounding every tensor changes these outputs"
    " just as much, so a different backend or device may have computed the saved outputs.",
)
NO_KEPT_NODES = constant(
    "no_kept_nodes", "No set of nodes in fp32 makes the outputs accurate enough."
)


@statement
def nothing_to_compare(party: str) -> str:
    """Return the sentence that there is nothing to compare with, and which option to add."""
    return (
        f"There is nothing to compare with: {party or 'the backend'} runs the model, and its"
        " outputs are finite. Add a second backend (--onnx), a reference model (--reference) or"
        " saved results (--golden)."
    )


@statement
def partly_compared(left_out: Sequence[str]) -> str:
    """Return the sentence that the comparison matches but is incomplete."""
    return f"All compared outputs match, but the comparison is incomplete: {'; '.join(left_out)}."


@statement
def rounding_only(dtype: str, error: object = "") -> str:
    """Return the sentence that rounding explains the differences."""
    measured = f": {error}" if str(error) else ""
    return f"The differences are rounding to {dtype}{measured}."


@statement
def inputs_alone(dtype: str) -> str:
    """Return the sentence that rounding only the inputs changes the outputs as much."""
    return f"Rounding only the inputs to {dtype} changes the outputs just as much."


@statement
def agree_in_float32(error: object) -> str:
    """Return the sentence that all backends agree in float32."""
    return f"All backends agree in fp32. {error}"


@statement
def wrong_in_float32(party: str) -> str:
    """Return the sentence that a backend is also incorrect in float32."""
    return f"{party} is also incorrect in float32. Compare with another backend: --onnxrt."


@statement
def only_in_backend(party: str, error: object, dtype: str) -> str:
    """Return the sentence that a backend differs, and rounding each operator does not."""
    return f"In {party}, {error}. With every operator rounded to {dtype}, the outputs match."


@statement
def same_here(party: str, other: str) -> str:
    """Return the sentence that two backends give the same results."""
    return f"{party} gives the same results as {other}."


@statement
def disagreement(party: str, ops: Sequence[str], nodes: Sequence[str]) -> str:
    """Return the sentence that backends disagree on nodes, and nothing available decides between
    them.
    """
    first, *other_names = party.split(" or ")
    parties = f"{first} and {other_names[0]}" if other_names else f"{first} and the reference"
    return (
        f"{parties} disagree on {' and '.join(ops)} {', '.join(map(repr, nodes))}, and nothing"
        " available can decide between them. Add another backend, other versions (--environments),"
        " or correct results (--golden)."
    )


@statement
def no_explanation(relative: float) -> str:
    """Return the sentence that outputs differ although every node and part agrees by itself."""
    return (
        f"Outputs differ by {relative:.2g} x RMS, but every node and every part of the executed"
        " graph agrees by itself. Accumulated rounding does not explain it either."
    )


@statement
def filled_with_nan(node: str) -> str:
    """Return the sentences that a node fills outputs with NaN, in every backend."""
    return (
        f"{node!r} fills a part of the outputs with NaN, in every backend. If outputs may contain"
        " NaN by design, nothing is wrong."
    )


@statement
def near_ties(nodes: Sequence[str], *, is_all: bool) -> str:
    """Return the sentences that nodes select different elements because these are nearly equal."""
    rest = "all outputs match" if is_all else "outputs differ less"
    return (
        f"{list_some(nodes)} {'selects' if len(nodes) == 1 else 'select'} different elements, whose"
        f" values are equal except for rounding. If the same elements are selected, {rest}."
    )


@statement
def tied_labels(names: Sequence[str], differing: int, count: int) -> str:
    """Return the sentence that labels differ only in rows with two equal scores."""
    verb = "differs" if len(names) == 1 else "differ"
    return (
        f"{list_some(names)} {verb} in {differing} of {count_text(count, 'row')}, whose two largest"
        " scores are equal except for rounding."
    )


@statement
def kernels_differ(relative: float, limit: float) -> str:
    """Return the sentence that outputs differ by no more than the kernels of two backends may."""
    return (
        f"Outputs differ by {relative:.2g} x RMS. Every node agrees by itself, within the {limit:g}"
        " x RMS by which the kernels of two backends may differ. If that is accurate enough, run"
        f" the model with --rtol {limit:g} --atol {limit:g}."
    )


@statement
def right_without_rewrites(party: str, command: str) -> str:
    """Return the sentence that all outputs match without rewrites."""
    return f"All outputs match with all rewrites of {party} disabled{_command_suffix(command)}"


@statement
def not_comparable(party: str, kind: str) -> str:
    """Return the sentence that a backend could not be compared."""
    return f"{party} could not be compared with {kind}."


@statement
def follows_but_differs(party: str, is_traced: bool) -> str:
    """Return the sentence that every node is correct by itself, but the backend is not."""
    values = "the program's values" if is_traced else "the saved results"
    return (
        f"Run by itself, each node reproduces {values}, but {party} does not compute them from the"
        " inputs."
    )


@statement
def other_data(nodes: Sequence[str]) -> str:
    """Return the sentence that only nodes that read the inputs disagree, and two possible
    causes."""
    return (
        f"Only the nodes that read the inputs ({', '.join(map(repr, nodes))}) disagree. Either the"
        " results come from other input data, or these nodes changed. Pass the original data"
        " (--load-inputs) or the original model (--reference)."
    )


@statement
def not_finite(lost: str, differs: bool) -> str:
    """Return the sentence that saved values are not finite, which proves nothing."""
    other_name = "some of the other elements differ" if differs else "all other elements match"
    return (
        f"{lost} are NaN or infinite, but finite in the model; {other_name}. Non-finite values"
        " prove"
        " nothing: save the results again, from a correct model."
    )


@statement
def constant_outputs(names: Sequence[str]) -> str:
    """Return the sentence that outputs are empty or constant, so that a match proves little."""
    if not names:
        return ""
    is_one = len(names) == 1
    are = "is" if is_one else "are"
    return f"{list_some(names)} {are} empty or constant on this data, so a match proves little."


@statement
def infinite_outputs(names: Sequence[str]) -> str:
    """Return the sentence that outputs are equally infinite in every backend."""
    if not names:
        return ""
    have = "has" if len(names) == 1 else "have"
    return (
        f"{list_some(names)} {have} the same infinite elements in every backend. If they are"
        " expected, `run` accepts them with --infinities-compare-equal; to find the node that"
        " creates them, diagnose with one backend."
    )


@statement
def versions_differ(
    party: str, here: str, versions: Sequence[str], errors: Sequence[float] = ()
) -> str:
    """Return the sentence that versions give different results, with errors if they are known."""
    known = " and ".join(f"{error:.3g}" for error in errors)
    end = f". Their largest errors are {known}." if known else "."
    return f"{party} {here} and {' and '.join(versions)} give different results{end}"


@statement
def versions_run_it(party: str, here: str, versions: Sequence[str]) -> str:
    """Return the sentence that other versions run a model that the version here rejects."""
    return f"{party} {' and '.join(versions)} runs the model, and {here} rejects it."


@statement
def version_confirmed(arbiter: str, party: str, here: str, wrong: str) -> str:
    """Return the sentence that another backend confirms the version in use, and that no node of the
    wrong version was found."""
    return f"{arbiter} confirms {here}, so {party} {wrong} is wrong, but no single node shows it."


@statement
def version_refuses(party: str, version: str, error: object) -> str:
    """Return the sentence that a version does not run the model."""
    return f"{party} {version} does not run the model ({error})"


@statement
def same_version(party: str, version: str) -> str:
    """Return the sentence that an environment has the same version of a backend."""
    return f"it has the same version of {party} ({version})"


@statement
def versions_not_compared(environments: Sequence[str]) -> str:
    """Return the sentence that says which environments were not compared, and why."""
    return f"Not compared with other versions: {'; '.join(environments)}."


@statement
def nobody_runs(messages: str, open_shapes: str) -> str:
    """Return the sentence that no backend runs the model."""
    return f"No backend could run the model: {messages}{open_shapes}"


@statement
def no_part_refused(messages: str) -> str:
    """Return the sentence that no part is refused by itself."""
    return f"No part of the model is rejected by itself: {messages}"


@statement
def invalid_data(message: str) -> str:
    """Return the sentence that generated data break the specification."""
    return (
        f"The generated data violates the ONNX specification: {message} Pass real data"
        " (--load-inputs, --input-shapes)."
    )


@statement
def cannot_either(parties: Sequence[str]) -> str:
    """Return the sentence that other backends cannot run the model either."""
    return f" {' and '.join(parties)} cannot run it either."


@statement
def open_shapes(inputs: Sequence[str]) -> str:
    """Return the sentence that dimensions of inputs are dynamic and default to 1."""
    return (
        f" Some dimensions of {list_some(inputs)} are dynamic, and default to 1. Set them with"
        " --input-shapes."
    )


@statement
def missing_operator(party: str, operators: Sequence[str], is_standard: bool) -> str:
    """Return the sentence that a backend does not support some operators."""
    kind = "a non-standard operator" if len(operators) == 1 else "non-standard operators"
    end = "." if is_standard else f", {kind}."
    return f"{party} does not support {list_some(operators, worded=str)}{end}"


@statement
def only_backend(party: str, op: str) -> str:
    """Return the sentence that a second backend would have to show what is at fault."""
    return (
        f"No other backend runs {op}, so it is not known whether the model, the data or {party} is"
        " at fault."
    )


@statement
def missing_operators(operators: str) -> str:
    """Return the sentences about unsupported operators, with the advice on other comparisons."""
    return (
        f"{operators} Compare with a version of a backend that supports it (--environments), a"
        " correct model (--reference) or correct results (--golden)."
    )


@statement
def model_differs(places: int, nodes: Sequence[str], is_exact: bool) -> str:
    """Return the sentence that models differ, but that this has no effect on the outputs, or one as
    small as rounding."""
    effect = (
        "the outputs are unaffected on this data"
        if is_exact
        else "rounding alone may change the outputs just as much"
    )
    return f"The models differ in {count_text(places, 'place')} ({list_some(nodes)}), but {effect}."


def rounded_weights(counts: Mapping[str, int]) -> str:
    """Return the clause with the number of weights that the model rounds, by data type."""
    listed = " and ".join(f"{count_text(count, 'weight')} to {t}" for t, count in counts.items())
    return f"The model rounds {listed}"


@statement
def weights_are_rounded(counts: Mapping[str, int], relative: float) -> str:
    """Return the sentence that weights are rounded, and how much that changes the outputs."""
    weights = rounded_weights(counts)
    return f"{weights}, which changes the outputs by {in_percent(relative)} of their RMS."


@statement
def half_storage(dtype: str, relative: float) -> str:
    """Return the sentence that tensors in half precision change the outputs."""
    return (
        f"The model keeps tensors in {dtype}, which changes the outputs by {in_percent(relative)}"
        " of their RMS. In float32 all outputs match."
    )


@statement
def only_in(names: Sequence[str], model: str) -> str:
    """Return the clause that names exist in one model only."""
    exist = "exists" if len(names) == 1 else "exist"
    return f"{', '.join(map(repr, names))} {exist} only in the {model}"


@statement
def equal_elements(nodes: Sequence[str]) -> str:
    """Return the sentence that nodes select among equal elements, which explains a difference."""
    return (
        f"No fault found, but the outputs differ: {list_some(nodes)} selected among equal elements,"
        " and the expected results contain others of them. ONNX prefers the first, and PyTorch any."
        " To compare what follows, use data without equal elements."
    )


@statement
def stands_for_export(path: str) -> str:
    """Return the sentence about a path in a command that the user first exports the program to."""
    return f"Export the program to {path} first."


@statement
def hardware_loses_more(party: str, error: str, command: str) -> str:
    """Return the sentence that hardware that rounds every operator loses more."""
    return f"{party} does not round at every operator. Hardware that does loses more: {error}." + (
        f" To find the cause: {command}" if command else ""
    )


@statement
def more_than_rounding(dtype: str) -> str:
    """Return the sentence that rounding does not explain the difference."""
    return f"The outputs differ by more than rounding to {dtype} explains."


@statement
def usual_quantization(relative: float) -> str:
    """Return the sentence that quantization changes the outputs as much as is usual."""
    return (
        f"Quantization changes the outputs by {in_percent(relative)} of their RMS, which is normal"
        " for quantized models. To accept it, set --atol in polygraphy run."
    )


def _effect_of_quantization(relative: float) -> str:
    """Return the clause about how much quantization changes the outputs."""
    if relative == inf:
        return "Quantization makes elements of the outputs infinite or NaN"
    return f"Quantization changes the outputs by {in_percent(relative)} of their RMS"


@statement
def quantization_alone(relative: float) -> str:
    """Return the sentence that only quantization explains the difference."""
    return f"{_effect_of_quantization(relative)}; no other difference explains it."


@statement
def loss_of_many_nodes(relative: float) -> str:
    """Return the sentence that many nodes share the loss by quantization, with the next step."""
    return (
        f"{_effect_of_quantization(relative)}, and no few nodes cause most of it. To find the nodes"
        " to keep in float for a target, add --within."
    )


@statement
def not_narrowed_down(count: int) -> str:
    """Return the sentence that the fault is among nodes that the reference has in another form."""
    return (
        f"The fault is in {count_text(count, 'node')} that have a different form in the reference,"
        " and no change of a single node explains it."
    )


@statement
def nodes_to_restore_together(count: int) -> str:
    """Return the sentence that the fault is among nodes that can only be restored together."""
    return (
        f"The fault is in one or more of {count_text(count, 'node')}: the parts of the reference"
        " that explain it correspond to all of these nodes."
    )


@statement
def any_of_nodes(count: int) -> str:
    """Return the sentence that a change of any of some nodes explains the fault."""
    return (
        f"The fault is in one of {count_text(count, 'node')}: a change of any of them explains it."
    )


@statement
def quantization_shows(relative: float, tensor: str) -> str:
    """Return the sentence that says where the error of quantization shows first."""
    return (
        f"{_effect_of_quantization(relative)}. The first visible error, at {tensor!r}, is not"
        " necessarily the costliest."
    )


@statement
def quantization_accumulates(
    relative: float, kept: int, nodes: int, losses: Sequence[tuple[str, float]]
) -> str:
    """Return the sentence that the error of quantization accumulates over many nodes."""
    named = ", ".join(f"{name!r} ({in_percent(loss)})" for name, loss in losses)
    return (
        f"{_effect_of_quantization(relative)}. The error accumulates: {kept} of"
        f" {count_text(nodes, 'node')} cause three quarters of it. The largest losses in inputs:"
        f" {named}."
    )


@statement
def accepted_by_run(dtype: str) -> str:
    """Return the sentence that `run` accepts outputs that saved ones do not prove to be correct."""
    return (
        f"{dtype} rounding may cause a difference of this size, so run --rtol auto accepts these"
        " outputs. Outputs alone cannot distinguish it from a fault of this size: save all tensors"
        " of the correct model (--onnx-outputs mark all), or pass it with --reference."
    )


@statement
def selection_changed(output: str, rows: int, expected: int) -> str:
    """Return the sentence that quantization changed how many rows a node selects."""
    return (
        f"Quantization changes what the model selects: {output!r} has {count_text(rows, 'row')}"
        f" instead of {expected}. The reference, quantized in the same way, gives the same outputs,"
        " so the models differ only in quantization. Compare the selected rows with a metric of"
        " your task."
    )


@statement
def selection_differs(output: str, rows: int, expected: int) -> str:
    """Return the sentence that a quantized model selects another number of rows than its reference,
    for a reason that is not proven."""
    return (
        f"The selection differs: {output!r} has {count_text(rows, 'row')} instead of {expected}."
        " Quantization can change scores enough for this, but that is not proven."
    )


@statement
def saved_selection_differs(output: str, rows: int, saved: int, nodes: Sequence[str]) -> str:
    """Return the sentence that a model selects another number of rows than were saved."""
    return (
        f"The selection differs: {output!r} has {count_text(rows, 'row')} instead of {saved},"
        f" selected by {list_some(nodes)}. Other data, or small changes of scores, such as those of"
        " quantization, can cause this. Pass the original data (--load-inputs), and save all"
        " tensors of the correct model (--onnx-outputs mark all), or pass it with --reference."
    )


@statement
def right_in_float32(dtype: str, error: object) -> str:
    """Return the sentence that the float32 model matches,
    and rounding does not explain the rest."""
    return (
        f"The float32 model matches the saved results, but rounding to {dtype} does not explain the"
        f" difference: {error}."
    )


@statement
def right_in_float32_by(command: str, why: str) -> str:
    """Return the sentence that all outputs match in float32, by a command."""
    how = f" ({command})" if command else ""
    return f"All outputs match in float32{how}. The nodes that need float32 are unknown: {why}"


@statement
def static_dimension(name: str, shape: Sequence[object], axes: Sequence[int]) -> str:
    """Return the sentence that a dimension is dynamic only in the program."""
    named = " and ".join(map(str, axes))
    return (
        f"The model requires shape {tuple(shape)} for {name!r}, but dimension {named} is dynamic in"
        " the program: export it with dynamic_shapes."
    )


@statement
def program_runs(framework: str, error: object) -> str:
    """Return the sentence that the framework runs the program, with the error of the failed
    step."""
    return f"{framework} runs the program. {error}"


@statement
def no_counterpart(name: str, owner: str) -> str:
    """Return the sentence that a tensor has no counterpart."""
    return f"{name!r} of the {owner} has no counterpart"


@statement
def half_works(dtype: str) -> str:
    """Return the sentence that all outputs match in half precision."""
    return f"All outputs match in {dtype}."


@statement
def inputs_alone_by(dtype: str, error: object) -> str:
    """Return the sentence that rounding only the inputs has the same effect, with the error."""
    return f"Rounding only the inputs to {dtype} changes the outputs just as much: {error}."


@statement
def no_set_of_nodes(dtype: str, error: object) -> str:
    """Return the sentence that no set of nodes in float32 makes the outputs match."""
    return f"No set of nodes in fp32 makes the outputs match; in {dtype}, {error}."


@statement
def more_allowed(factor: float) -> str:
    """Return the sentence that the allowed error is larger than usual,
    because rounding accumulates.
    """
    return (
        f"That is {factor:.2g} times the usual limit, because rounding accumulates and no node"
        " stands out. To accept it, set --rtol and --atol."
    )


@statement
def rounding_accumulates(
    dtype: str, before: object, kept: int = 0, nodes: int = 0, after: object = ""
) -> str:
    """Return the sentence that rounding accumulates in all nodes."""
    text = f" With {count_text(kept, 'node')} of {nodes} in fp32, {after}." if kept else ""
    return (
        f"In {dtype}, {before}. Rounding accumulates in all nodes; no small set of nodes is at"
        f" fault.{text}"
        " To accept it, set --rtol and --atol."
    )


@statement
def headroom(tensor: str, percent: float, dtype: str, is_within: bool) -> str:
    """Return the sentence with the largest tensor as a share of the range of a data type."""
    which = "largest tensor within the range" if is_within else "largest tensor"
    share = f"{percent:.2g}%" if percent >= _SMALLEST_SHARE else f"less than {_SMALLEST_SHARE}%"
    return f"The {which}, {tensor!r}, reaches {share} of the {dtype} range."


_SMALLEST_SHARE = 0.01
"""Percentage below which a share of a range is not stated exactly."""


@statement
def hidden_overflow(loss: object, more: int) -> str:
    """Return the sentence that the outputs hide a loss in other tensors."""
    text = f" (and {count_text(more, 'more tensor')})" if more else ""
    return f"The outputs do not show that {loss}{text}."


@statement
def fewer_results(run: str, sets: str, data: str) -> str:
    """Return the clause that a run has results of some of the input sets only."""
    return f"{run} contains results for {sets} of {data}"


@statement
def more_results(run: str, results: str, data: str) -> str:
    """Return the clause that a run has more results than input sets."""
    return f"{run} contains {results} for {data}"


@statement
def trials_stopped(count: int, times: int) -> str:
    """Return the sentence that changed models did not end, and were stopped."""
    trials = count_text(count, "tried change")
    return (
        f"{trials} did not end after more than {times} times the time of the unchanged model, and"
        f" {'was' if count == 1 else 'were'} stopped."
    )


@statement
def input_sets_cut(count: int, remedy: str) -> str:
    """Return the clause that memory was enough for the first input sets only."""
    return f"there was memory for only the first {count_text(count, 'input set')}{remedy}"


@statement
def missing_elements(lost: int, size: int, name: str) -> str:
    """Return the clause with the number of saved elements that are lost."""
    return f"{lost} of {count_text(size, 'element')} of the saved {name!r}"


@statement
def different_end(
    kind: str,
    name: str,
    own: tuple[object, Sequence[object] | None],
    reference: tuple[object, Sequence[object] | None],
) -> str:
    """Return the clause that an input or output differs from the reference in type or shape."""
    texts = [f"{dtype or 'unknown'} {_shape(shape)}" for dtype, shape in (own, reference)]
    return f"{kind} {name!r} is {texts[0]} in the model and {texts[1]} in the reference"


def _shape(shape: Sequence[object] | None) -> str:
    """Return a shape in words; ``of unknown shape`` if it is None."""
    return "of unknown shape" if shape is None else f"[{', '.join(str(d or '?') for d in shape)}]"


def _command_suffix(command: str) -> str:
    """Return the end of a sentence with a command; a period if there is none."""
    return f": {command}" if command else "."
