"""Results of diagnosis steps: the lines below an answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from polygraphy.domain.diagnosis.facts import constant, statement
from polygraphy.domain.diagnosis.words import reasons
from polygraphy.domain.tensors.naming import (
    count_text,
    in_percent,
    input_sets_text,
    join_lines,
    list_some,
    quote_all,
)

EXAMPLE_CHANGES_NOTHING = constant(
    "example_changes_nothing", "The example input determines none of the differences."
)
NO_BRANCH_EXPLAINS = constant(
    "no_branch_explains", "No other branch of the program produces the nodes of the file."
)
NO_DIFFERENCE = constant("no_difference", "No tensor differs.")
NOT_EXPLAINED = constant(
    "not_explained", "No difference between the models explains why the outputs differ."
)
ALL_TENSORS_AGREE = constant("all_tensors_agree", "All tensors of both models agree.")
ROUNDING_HIDES_IT = constant("rounding_hides_it", "Rounding changes the outputs just as much.")
NOT_IN_HALF_PRECISION = constant(
    "not_in_half_precision", "Neither model computes in half precision."
)
MODELS_AGREE = constant("models_agree", "The models agree.")
MODELS_DIFFER = constant("models_differ", "The models differ.")
ROUNDING_LOSES_TOO_MUCH = constant(
    "rounding_loses_too_much", "Rounding the weights changes the outputs too much."
)
BACKENDS_AGREE = constant("backends_agree", "The backends agree.")
BACKENDS_DIFFER = constant("backends_differ", "The backends differ.")
MARKING_HIDES = constant(
    "marking_hides", "All tensors agree: marking outputs hides the difference, as does --mark-all."
)
AGREE_WITHIN_ROUNDING = constant("agree_within_rounding", "All tensors agree within rounding.")
NO_DIVERGENCE = constant("no_divergence", "Equal tensors do not show where the models diverge.")
MATCHES = constant("matches", "Matches.")
MATCHES_FLOAT32 = constant("matches_float32", "Matches float32.")
NO_NODES = constant("no_nodes", "None.")
NO_BACKEND_THERE = constant(
    "no_backend_there", "This backend is not installed in the environments."
)
NO_REWRITE = constant("no_rewrite", "No single rewrite is responsible.")
CANNOT_CHANGE_VERSION = constant(
    "cannot_change_version", "This backend cannot run in other environments."
)
NO_ENVIRONMENT = constant("no_environment", "No environment can be tried.")
TOO_FEW_NUMBERS = constant(
    "too_few_numbers", "Not searched: the outputs have too few elements to identify a weight."
)
EXPORTS_SKIPPED = constant("exports_skipped", "Other exports of this large model were not tried.")
CUT_SHORT = constant("cut_short", "The search was cut short: fewer nodes may be enough.")
NO_PART_FAILS = constant(
    "no_part_fails", "No part of the model shows the fault by itself, so nothing is saved."
)
TOO_LARGE_TO_EXCHANGE = constant(
    "too_large_to_exchange",
    "Tensors were not exchanged one by one: not enough memory (see --memory-budget).",
)
LOWERING_NOT_OBSERVED = constant(
    "lowering_not_observed", "The backends differ by less than this, so precision is not the cause."
)
WRONG_IN_FLOAT32 = constant("wrong_in_float32", "Also differs: precision is not the cause.")


@statement
def exchange_tried(names: Sequence[str]) -> str:
    """Return the sentence with the two inputs or outputs that have each other's name, if any."""
    if not names:
        return "No exchange of two inputs or outputs explains the difference."
    return f"If {quote_all(names)} are exchanged, all outputs match."


@statement
def opset_tried(version: int, is_right: bool) -> str:
    """Return the sentence on whether the model matches if it states another opset."""
    return f"If the model states opset {version}, {'all' if is_right else 'not all'} outputs match."


@statement
def weights_are_rounded(counts: Mapping[str, int]) -> str:
    """Return the sentence that weights are rounded, in the reference too from here on."""
    return f"{reasons.rounded_weights(counts)}; the same rounding is applied to the reference."


@statement
def first_difference(tensor: str) -> str:
    """Return the sentence that says which tensor differs first."""
    return f"First difference: {tensor}."


@statement
def largest_error(tensor: str, relative: float) -> str:
    """Return the clause with the tensor of the largest error, and that error."""
    return f"{tensor!r} (largest error {relative:.2g} x RMS)"


@statement
def refuses(party: str) -> str:
    """Return the sentence that a backend refuses the model."""
    return f"{party} rejects the model."


@statement
def refuses_only_model(party: str) -> str:
    """Return the sentence that a backend refuses the model but not the reference."""
    return f"{party} runs the reference, but rejects the model."


@statement
def with_rounding(party: str, measured: str, dtype: str, rounded: str) -> str:
    """Return the sentence with the measured error, and with that after rounding each operator."""
    return f"{party}: {measured} With every operator rounded to {dtype}: {rounded}"


@statement
def not_compared(reasons: Sequence[str]) -> str:
    """Return the sentence with the parts that were not compared, and the reasons."""
    return f"Not compared: {'; '.join(reasons)}."


@statement
def cannot_compare(error: object) -> str:
    """Return the sentence that a comparison is not possible, with the error."""
    return f"Cannot be compared: {join_lines(error)}"


@statement
def cannot_run(error: object) -> str:
    """Return the sentence that a model cannot run, with the error."""
    return f"Cannot run: {join_lines(error)}"


@statement
def cannot_run_nodes(party: str, error: object) -> str:
    """Return the sentence that a backend cannot run the nodes one by one."""
    return f"{party} cannot run the nodes one by one: {join_lines(error)}"


@statement
def cannot_run_parts(error: object) -> str:
    """Return the sentence that a backend cannot run its own graph in parts."""
    return f"Cannot run its own graph in parts: {join_lines(error)}"


@statement
def cannot_return_tensors(error: object) -> str:
    """Return the sentence that a backend cannot return all tensors."""
    return f"Cannot return all tensors: {join_lines(error)}"


@statement
def differences(count: int) -> str:
    """Return the sentence with the number of differences between the models."""
    return f"{count_text(count, 'difference')} between the models."


@statement
def explaining(count: int, total: int) -> str:
    """Return the sentence with the number of differences that explain the outputs."""
    makes = "makes" if count == 1 else "make"
    return (
        f"{count} of {count_text(total, 'difference')}, once restored, {makes} all outputs match."
    )


@statement
def counterparts(count: int, total: int) -> str:
    """Return the sentence with the number of tensors found in the program."""
    return f"{count} of {count_text(total, 'tensor')} found in the program."


@statement
def wrong_tensors(count: int, is_traced: bool) -> str:
    """Return the sentence that says how many tensors do not follow from their inputs."""
    inputs = "the program's values" if is_traced else "its saved inputs"
    if count == 1:
        return f"1 tensor differs when recomputed from {inputs}."
    return f"{count} tensors differ when recomputed from {inputs.replace('its', 'their')}."


@statement
def all_match(data: int) -> str:
    """Return the sentence that all outputs match on a number of input sets."""
    return f"All outputs match on {input_sets_text(data)}."


@statement
def runs(count: int, is_broken: bool) -> str:
    """Return the sentence with the number of runs, and whether outputs are NaN or infinite."""
    return f"{count_text(count, 'run')}{'; outputs contain NaN or infinity' if is_broken else ''}."


@statement
def differ(differing: str, data: int, output: str, largest: float, relative: float | None) -> str:
    """Return the sentence with the outputs that differ, and the largest error."""
    size = "" if relative is None else f" ({relative:.2g} x RMS)"
    error = f"largest error {largest:.3g}{size} in {output!r}"
    return f"{differing} on {input_sets_text(data)}; {error}."


@statement
def count_of_tensors(count: int, party: str) -> str:
    """Return the sentence with the number of tensors that a backend computed."""
    return f"{count_text(count, 'tensor')}, computed by {party}."


@statement
def party_cannot(party: str, error: object) -> str:
    """Return the sentence that a backend failed, and its error."""
    return f"{party} cannot: {error}"


@statement
def wrong_nodes(count: int, total: int) -> str:
    """Return the sentence that says how many nodes differ."""
    return f"{count} of {count_text(total, 'node')} differ{'s' if count == 1 else ''}."


@statement
def wrong_regions(count: int) -> str:
    """Return the sentence that says how many regions differ."""
    return f"{count_text(count, 'region')} differ{'s' if count == 1 else ''}."


@statement
def verdicts(juror: str, nodes: int, wrong: Mapping[str, int]) -> str:
    """Return the sentence that counts the incorrect nodes of each backend according to a third."""
    counts = ", ".join(f"{name} {count}" for name, count in wrong.items())
    return f"Incorrect according to {juror}, of {count_text(nodes, 'node')}: {counts}."


@statement
def nodes_without_decision(nodes: int) -> str:
    """Return the sentence with the number of nodes without a decision."""
    return f"Undecided: {count_text(nodes, 'node')}."


@statement
def remedy_tried(rewrites: Sequence[str], matches: bool, is_all: bool) -> str:
    """Return the sentence on whether outputs match with rewrites disabled."""
    name = "all rewrites" if is_all else " and ".join(rewrites)
    return f"Outputs {'match' if matches else 'still differ'} with {name} disabled."


@statement
def count_of_refusals(count: int, total: int) -> str:
    """Return the sentence with the number of nodes that a backend refuses."""
    return f"{count or 'All'} of {count_text(total, 'node')}."


@statement
def equal_pairs(count: int, places: int) -> str:
    """Return the sentence with the number of equal tensors, and of places where models diverge."""
    where = count_text(places, "place")
    return f"{count_text(count, 'pair')} of equal tensors; the models diverge in {where}."


@statement
def exchanged_inputs(count: int) -> str:
    """Return the sentence that an exchange of inputs makes all outputs match;
    it changes a number of nodes."""
    return f"An exchange in {count_text(count, 'node')} makes all outputs match."


LEFT_OUT_NODES, VALUES_OF_REFERENCE = "removal", "attributes and weights of the reference"
USUAL_MISTAKES, OTHER_INPUTS, OTHER_NUMBERS = "usual mistakes", "other inputs", "other numbers"
"""Kinds of changes that are tried in a node."""


@statement
def count_of_explanations(
    count: int, total: int, untried: Mapping[str, Collection[int]] | None = None
) -> str:
    """Return the sentence with the number of explained differences, and the kinds of changes that
    were not tried because of the limit.
    """
    text = f"{count} of {total} explained."
    if not untried:
        return text
    left_out = [f"{kind} ({count_text(len(nodes), 'node')})" for kind, nodes in untried.items()]
    return f"{text} The limit of runs was reached. Not tried: {'; '.join(left_out)}."


@statement
def variants_tried(count: int, what: str, left_out: str = "") -> str:
    """Return the sentence with the number of variants that were tried, and those that the limit
    excluded."""
    rest = f" The limit of runs was reached. Not tried: {left_out}." if left_out else ""
    return f"{count_text(count, what)} tried.{rest}"


def nodes_left_out(count: int, first: str) -> str:
    """Return the phrase for the nodes whose changes a search did not try completely."""
    return f"changes of {count_text(count, 'node')}, the first of which is {first!r}"


def weights_left_out(count: int) -> str:
    """Return the phrase for the weights that a search left out."""
    return f"factors of {count_text(count, 'other weight')}"


@statement
def rows_explained(explained: int, rows: int, runs: int) -> str:
    """Return the sentence that says how many rows match with some thresholds moved."""
    return f"{explained} of {count_text(rows, 'row')} explained, {count_text(runs, 'set')} tried."


@statement
def matches_saved(party: str, matches: bool) -> str:
    """Return the sentence on whether a backend matches the saved results."""
    return f"{party} {'matches' if matches else 'does not match'} the saved results."


@statement
def renamed_outputs(names: Mapping[str, str]) -> str:
    """Return the sentence that says which outputs are compared although their names differ."""
    pairs = (f"{reference_name!r} with {name!r}" for reference_name, name in names.items())
    return f"Compared by shape and order: {', '.join(pairs)}."


@statement
def differ_from_saved(differing: str) -> str:
    """Return the sentence with the outputs that differ from the saved results."""
    return f"{differing}."


@statement
def match_saved(count: int, what: str) -> str:
    """Return the sentence with the number of outputs or tensors that match the saved results."""
    return f"{count_text(count, what)} {'matches' if count == 1 else 'match'}."


@statement
def twin_fails(exporter: str, error: object) -> str:
    """Return the sentence that another export of the program fails."""
    return f"{exporter}: fails ({error})."


@statement
def example_changes(constants: int, has_other_nodes: bool) -> str:
    """Return the sentence with the number of constants that the example input decides."""
    addition = " and which nodes exist" if has_other_nodes else ""
    return f"It determines {count_text(constants, 'constant')}{addition}."


@statement
def same_nodes(condition: str) -> str:
    """Return the sentence that an export with a differently decided Python condition has the nodes
    of the file."""
    return f"It produces the nodes of the file{f': {condition}' if condition else ''}."


@statement
def twin_is(exporter: str, is_right: bool) -> str:
    """Return the sentence on whether another export of the program is correct."""
    return f"{exporter}: {'correct' if is_right else 'incorrect'}."


@statement
def same_as_versions(here: str, versions: Sequence[str]) -> str:
    """Return the sentence that a version agrees with others."""
    return f"{here} agrees with {' and '.join(versions)}."


@statement
def rejected_by_versions(here: str, versions: Sequence[str]) -> str:
    """Return the sentence that all versions reject the model."""
    return f"{here} rejects the model, and so does {' and '.join(versions)}."


@statement
def only_version(version: str) -> str:
    """Return the sentence that no other version is available."""
    return f"No version other than {version} is available."


@statement
def versions_run(count: int, total: int) -> str:
    """Return the sentence that says how many versions were tried."""
    return f"{count} of {count_text(total, 'version')} tried."


@statement
def program_stopped(seconds: float) -> str:
    """Return the sentence that a program that should show a fault did not end."""
    return f"The program for a part of the model did not end within {seconds:g} s."


@statement
def nodes_that_show_fault(nodes: int, total: int, program: str = "") -> str:
    """Return the sentence with the number of nodes that show the fault."""
    ends = f"; {program} exits with 1" if program else ""
    verb = "shows" if nodes == 1 else "show"
    return f"{nodes} of {count_text(total, 'node')} {verb} the fault{ends}."


@statement
def idle_branches(branch: str, nodes: Sequence[str]) -> str:
    """Return the sentence that says which branches of If nodes do not run on this data."""
    if len(nodes) == 1:
        return f"The {branch} branch of If {list_some(nodes)} does not run on this data."
    return f"The {branch} branches of If {list_some(nodes)} do not run on this data."


@statement
def match_of_quantized_reference(share: float) -> str:
    """Return the sentence that a quantized reference reproduces the outputs of the model."""
    return f"It reproduces the model's outputs within {in_percent(share)} of their RMS."


@statement
def sets_tried(count: int, total: int, tried: int) -> str:
    """Return the sentence with the number of nodes that were kept, and of sets that were tried."""
    return f"{count} of {total}, {count_text(tried, 'set')} tried."


@statement
def count_of_float_nodes(count: int, total: int, builds: int) -> str:
    """Return the sentence with the number of nodes that were kept, and of builds."""
    return f"{count} of {total}, after {count_text(builds, 'build')}."


@statement
def is_error_tolerable(is_tolerable: bool, error: object) -> str:
    """Return the sentence on whether an error is tolerable."""
    return f"{'Good enough' if is_tolerable else 'Not good enough'}: {error}."


@statement
def failing_step(step: int, length: int) -> str:
    """Return the clause with a step and the number of its positions."""
    return f"Step {step}, {count_text(length, 'position')}"


@statement
def first_wrong_step(step: int, position: int, output: str, deviation: object) -> str:
    """Return the sentence that says which step is the first that differs."""
    return (
        f"Step {step} is the first that differs (position {position}): {output!r}"
        f" {getattr(deviation, 'in_words', str)()}."
    )


@statement
def all_steps_agree(count: int, states: Sequence[str]) -> str:
    """Return the sentence that all steps agree, and which states differ nevertheless."""
    agree = "The step agrees" if count == 1 else f"All {count} steps agree"
    if not states:
        return f"{agree}."
    return f"{agree}; values of {list_some(states)} differ, but no output shows it."


@statement
def first_step_on_equal_states(step: int, states: Sequence[str]) -> str:
    """Return the sentence that says which step is the first that differs on equal states."""
    text = f": it leaves {list_some(states)} wrong" if states else ""
    return f"Step {step} is the first that differs{text}."


@statement
def not_counted(causes: Sequence[str]) -> str:
    """Return the sentence with the known causes of differences that are not counted."""
    return f"These explain the differences: {', '.join(causes)}."


@statement
def effect_of_reference_states(states: Sequence[str], step: int) -> str:
    """Return the sentence that correct states alone correct a step."""
    return f"{list_some(states)} alone correct{'s' if len(states) == 1 else ''} step {step}."


@statement
def steps_with_fix(count: int, wrong: int | None) -> str:
    """Return the sentence on whether all steps match with the fix.
    `wrong` is the first that differs.
    """
    if wrong is None:
        return f"With the fix, all {count} steps match."
    return f"With the fix, step {wrong} still differs."


@statement
def tf32_differs(difference: str, is_explained: bool) -> str:
    """Return the sentence with the difference from float32, and whether TF32 explains it."""
    explains = "explains" if is_explained else "does not explain"
    return f"Compared with float32: {difference}; TF32 {explains} that."


@statement
def tf32_effect(difference: float, effect: float) -> str:
    """Return the sentence with a difference that TF32 may have caused, and the effect of TF32."""
    return (
        f"Changes these outputs by up to {effect:.2g} x RMS; the saved outputs differ by"
        f" {difference:.2g} x RMS."
    )


@statement
def loss(verdict: str, error: object) -> str:
    """Return the sentence with a verdict, and the error behind it; empty for none."""
    return f"{verdict}: {error}." if error else f"{verdict}."


@statement
def runs_cast(party: str, data: int, error: object) -> str:
    """Return the sentence with the error of a cast model in a backend."""
    return f"{party} runs it on {input_sets_text(data)}: {error}."


@statement
def nodes_measured(count: int, data: int) -> str:
    """Return the sentence that says how many nodes were measured on how many input sets."""
    return f"{count_text(count, 'node')} on {input_sets_text(data)}."


@statement
def no_other_version(version: str) -> str:
    """Return the sentence that the environments have no other version."""
    return f"The environments have no version other than {version}."


@statement
def counter_check(error: object) -> str:
    """Return the sentence with the error with some nodes in float32."""
    return f"With these in fp32, {error}."


@statement
def error_of_all(error: object) -> str:
    """Return the sentence with the error of all nodes together."""
    return f"{error}."


@statement
def more_than_rounding_of_element(name: str, where: Sequence[int]) -> str:
    """Return the note that an element of an output differs by more than rounding explains."""
    at = f" at {[*where]}" if where else ""
    return f"{name!r}{at} differs by more than rounding explains."
