"""What came of each step of a diagnosis: the lines under an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from polygraphy.domain.tensors.naming import counted, sets_of_data, some_of

NO_DIFFERENCE = "No tensor differs."
NOT_EXPLAINED = "No difference between the models explains the outputs."
ALL_TENSORS_AGREE = "All tensors of both models agree."
NOT_IN_HALF_PRECISION = "Neither model computes in half precision."
MODELS_AGREE, MODELS_DIFFER = "The models agree.", "The models differ."
BACKENDS_AGREE, BACKENDS_DIFFER = "The backends agree.", "The backends differ."
MARKING_HIDES = "All tensors agree: marking outputs hides the difference, as does --mark-all."
AGREE_WITHIN_ROUNDING = "All tensors agree within rounding."
NO_DIVERGENCE = "Equal tensors do not show where the models diverge."
NO_REWRITE = "No single rewrite is responsible."
CANNOT_CHANGE_VERSION = "This backend cannot run in other environments."
NO_ENVIRONMENT = "No environment can be tried."
EXAMPLE_CHANGES_NOTHING = "The example decides none of the differences."
TOO_FEW_NUMBERS = "The outputs have too few elements."
OUT_OF_TIME = "Other exports were not tried: out of time."
CUT_SHORT = "The search was cut short: fewer nodes may be enough."
NO_PART_FAILS = "No part of the model shows the fault by itself, so nothing is saved."
TOO_LARGE_TO_EXCHANGE = (
    "Tensors were not exchanged one by one: not enough memory (see --memory-budget)."
)
LOWERING_NOT_OBSERVED = "The backends differ by less than that, so precision is not the cause."
WRONG_IN_FLOAT32 = "Also differs: precision is not the cause."


def first_difference(tensor: str) -> str:
    return f"First difference: {tensor}."


def largest_error(tensor: str, relative: float) -> str:
    return f"{tensor!r} (largest error {relative:.2g} x RMS)"


def refuses(party: str) -> str:
    return f"{party} refuses the model."


def refuses_only_model(party: str) -> str:
    return f"{party} runs the reference, but refuses the model."


def with_rounding(party: str, measured: str, dtype: str, rounded: str) -> str:
    return f"{party}: {measured} With every operator rounded to {dtype}: {rounded}"


def not_compared(reasons: Sequence[str]) -> str:
    return f"Not compared: {'; '.join(reasons)}."


def cannot_compare(error: object) -> str:
    return f"Cannot be compared: {error}"


def cannot_run(error: object) -> str:
    return f"Cannot run: {error}"


def cannot_run_nodes(party: str, error: object) -> str:
    return f"{party} cannot run the nodes one by one: {error}"


def cannot_run_parts(error: object) -> str:
    return f"Cannot run its own graph in parts: {error}"


def cannot_return_tensors(error: object) -> str:
    return f"Cannot return all tensors: {error}"


def differences(count: int) -> str:
    return f"{counted(count, 'difference')} between the models."


def explaining(count: int, total: int) -> str:
    makes = "makes" if count == 1 else "make"
    return f"{count} of {counted(total, 'difference')}, once restored, {makes} all outputs match."


def counterparts(count: int, total: int) -> str:
    return f"{count} of {counted(total, 'tensor')} found in the program."


def wrong_tensors(count: int, is_traced: bool) -> str:
    inputs = "the program's values" if is_traced else "its saved inputs"
    if count == 1:
        return f"1 tensor does not follow from {inputs}."
    return f"{count} tensors do not follow from {inputs.replace('its', 'their')}."


def all_match(data: int) -> str:
    return f"All outputs match on {sets_of_data(data)}."


def runs(count: int, is_broken: bool) -> str:
    return f"{counted(count, 'run')}{'; outputs contain NaN or infinity' if is_broken else ''}."


def differ(differing: str, data: int, output: str, largest: float, relative: float | None) -> str:
    size = "" if relative is None else f" ({relative:.2g} x RMS)"
    return f"{differing} on {sets_of_data(data)}; largest error {largest:.3g}{size} in {output!r}."


def traced(count: int, party: str) -> str:
    return f"{counted(count, 'tensor')}, computed by {party}."


def party_cannot(party: str, error: object) -> str:
    return f"{party} cannot: {error}"


def wrong_nodes(count: int, total: int) -> str:
    return f"{count} of {counted(total, 'node')} differ{'s' if count == 1 else ''}."


def wrong_regions(count: int) -> str:
    return f"{counted(count, 'region')} differ{'s' if count == 1 else ''}."


def verdicts(juror: str, nodes: int, wrong: Mapping[str, int]) -> str:
    counts = ", ".join(f"{name} {count}" for name, count in wrong.items())
    return f"Incorrect according to {juror}, of {counted(nodes, 'node')}: {counts}."


def undecided(nodes: int) -> str:
    return f"Undecided: {counted(nodes, 'node')}."


def remedy_tried(rewrites: Sequence[str], matches: bool, is_all: bool) -> str:
    what = "all rewrites" if is_all else " and ".join(rewrites)
    return f"Outputs {'match' if matches else 'still differ'} with {what} disabled."


def refused_nodes(count: int, total: int) -> str:
    return f"{count or 'All'} of {counted(total, 'node')}."


def equal_pairs(count: int, places: int) -> str:
    where = counted(places, "place")
    return f"{counted(count, 'pair')} of equal tensors; the models diverge in {where}."


def explained_changes(count: int, total: int, is_late: bool) -> str:
    more = " Some changes were not tried: out of time." if is_late else ""
    return f"{count} of {total} explained.{more}"


def variants_tried(count: int, what: str, is_cut_short: bool = False) -> str:
    rest = "; the rest was skipped: out of time" if is_cut_short else ""
    return f"{counted(count, what)} tried{rest}."


def matches_saved(party: str, matches: bool) -> str:
    return f"{party} {'matches' if matches else 'does not match'} the saved results."


def renamed_outputs(names: Mapping[str, str]) -> str:
    pairs = (f"{theirs!r} with {mine!r}" for theirs, mine in names.items())
    return f"Compared by shape and order: {', '.join(pairs)}."


def differ_from_saved(differing: str) -> str:
    return f"{differing}."


def match_saved(count: int, what: str) -> str:
    return f"{counted(count, what)} {'matches' if count == 1 else 'match'}."


def twin_fails(exporter: str, error: object) -> str:
    return f"{exporter}: fails ({error})."


def example_changes(constants: int, has_other_nodes: bool) -> str:
    more = " and which nodes there are" if has_other_nodes else ""
    return f"It decides {counted(constants, 'constant')}{more}."


def twin_is(exporter: str, is_right: bool) -> str:
    return f"{exporter}: {'correct' if is_right else 'incorrect'}."


def same_as_versions(here: str, versions: Sequence[str]) -> str:
    return f"{here} agrees with {' and '.join(versions)}."


def not_at_fault(parties: Iterable[str]) -> str:
    return f"Not tried: the fault is in {' and '.join(sorted(parties))}."


def only_version(version: str) -> str:
    return f"No version other than {version} is available."


def versions_run(count: int, total: int) -> str:
    return f"{count} of {counted(total, 'version')} tried."


def shown_by(nodes: int, total: int, program: str = "") -> str:
    ends = f"; {program} exits with 1" if program else ""
    return f"{nodes} of {counted(total, 'node')} {'shows' if nodes == 1 else 'show'} it{ends}."


def idle_branches(branch: str, nodes: Sequence[str]) -> str:
    if len(nodes) == 1:
        return f"The {branch} branch of If {some_of(nodes)} does not run on these data."
    return f"The {branch} branches of If {some_of(nodes)} do not run on these data."


def quantized_alike(share: float) -> str:
    return f"It reproduces the model's outputs within {100 * share:.2g} % of their RMS."


def sets_tried(count: int, total: int, tried: int) -> str:
    return f"{count} of {total}, {counted(tried, 'set')} tried."


def kept_nodes(count: int, total: int, builds: int) -> str:
    return f"{count} of {total}, after {counted(builds, 'build')}."


def judged(is_tolerable: bool, error: object) -> str:
    return f"{'Good enough' if is_tolerable else 'Not good enough'}: {error}."
