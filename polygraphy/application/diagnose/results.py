"""Finds out why a model does not give the results that were saved once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from polygraphy.application.diagnose.case import Case, Feed, Values, noise_of
from polygraphy.application.diagnose.comparing import breaks
from polygraphy.application.diagnose.locating import Trace, isolated, misfits, trace
from polygraphy.application.diagnose.numbers import first_non_finite
from polygraphy.application.diagnose.rounding import LARGE
from polygraphy.domain.data.describing import describe_model
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.judging import Deviation
from polygraphy.domain.diagnosis.pairing import Side
from polygraphy.domain.diagnosis.regions import producers, region_before
from polygraphy.domain.diagnosis.variants import Variant, explains, guess, variants
from polygraphy.domain.errors import BackendError, FileError, PolygraphyException, UsageError
from polygraphy.domain.results.results import RunResults
from polygraphy.domain.tensors.naming import counted
from polygraphy.ports.binding import resolve
from polygraphy.ports.diagnosing import ModelPairs, SuspectedParty
from polygraphy.ports.storage import ResultStore

_SECONDS = 40.0
"""How long variants of all nodes are tried where only outputs were saved."""
_RELATED = 0.3
"""Outputs of one model on the same data go together at least so much, as a correlation, even where
a weight was changed.
"""
_SHUFFLES = 9
_STRONGLY = 0.95


def saved_results(paths: Iterable[str]) -> list[dict[str, Any]]:
    """Read results, one mapping from tensors to arrays for each set of data.

    Raises:
        FileError: a file is missing, damaged, or holds something else.
    """
    return [values for path in paths for values in _read(path)]


def _read(path: str) -> Iterator[dict[str, Any]]:
    if not str(path).endswith((".npz", ".npy")):
        try:
            for results in RunResults.load_streaming(path):
                for _, iterations in results:
                    yield from (dict(iteration) for iteration in iterations)
                    break  # Of several runners, the first.
            return
        except FileError as error:
            first = error
    else:
        first = None
    try:
        for values in resolve(ResultStore).iterate(path, dict):
            yield dict(values)
    except FileError:
        raise first or FileError(f"{path} holds no results.") from None


def against_results(
    case: Case, saved: Sequence[Values], feeds: Sequence[Feed], third: SuspectedParty
) -> DiagnosisResult | None:
    """Find out why a model does not give saved results.

    Returns:
        What was found out; None where the model gives them, or a backend is at fault.

    Raises:
        UsageError: the results are of other tensors than the model has.
    """
    return _Comparison(case, saved, feeds, third).result()


class _Comparison:
    """A model, what it was fed with, and what it should have made of it."""

    def __init__(
        self, case: Case, saved: Sequence[Values], feeds: Sequence[Feed], third: SuspectedParty
    ) -> None:
        self._case = case
        self._count = min(len(saved), len(feeds))
        self._saved = list(saved)
        self._feeds = list(feeds)
        self._third = third
        self._party: SuspectedParty = case.parties[0]
        self._pairs = resolve(ModelPairs)

    def result(self) -> DiagnosisResult | None:
        """Go through the steps."""
        case = self._case
        made = {name for node in case.model.nodes for name in node.makes}
        common = made & {name for values in self._saved for name in values}
        if not common:
            raise UsageError(
                "The saved results hold none of the tensors of the model.",
                hint="Results are found by the names of outputs.",
            )
        with case.attempt("saved results") as notes:
            try:
                compute = case.loaded(self._party)
                values = [compute(feed) for feed in self._feeds[: self._count]]
            except BackendError:
                return None
            number, found = self._worst(values)
            notes.append(
                "All outputs match."
                if not found
                else f"{len(found)} of {counted(len(common), 'tensor')} differ from them."
            )
        if not found:
            return DiagnosisResult(AGREE) if len(case.parties) == 1 else None
        feed, saved = self._feeds[number], self._saved[number]
        if breaks(values[number], saved):
            broken = first_non_finite(case, trace(case, self._third, feed))
            if broken is not None:
                return DiagnosisResult(FAULT, [broken])
        inner = common - set(case.model.outputs)
        if inner:
            return self._of_tensors(feed, saved, found)
        return self._of_outputs(feed, saved, values[number], found)

    def _worst(self, values: Sequence[Values]) -> tuple[int, dict[str, Deviation]]:
        worst: tuple[int, dict[str, Deviation]] = (0, {})
        most = -1.0
        for number, one in enumerate(values):
            found = self._case.differing(one, self._saved[number])
            size = max((each.relative for each in found.values()), default=0.0)
            if found and size > most:
                worst, most = (number, found), size
        return worst

    def _of_tensors(
        self, feed: Feed, saved: Values, outputs: Mapping[str, Deviation]
    ) -> DiagnosisResult | None:
        """Compute every node from what was saved, which says where they part."""
        case, model = self._case, self._case.model
        order = producers(model.nodes)
        known = Trace({name: saved[name] for name in saved if name in order}, feed, self._third)
        with case.attempt("node by node") as notes:
            wrong: list[dict[str, tuple[Deviation, Any]]] = []
            for party in dict.fromkeys((self._third, self._party)):
                try:
                    values, noise = isolated(case, model, party, known)
                except BackendError as error:
                    notes.append(f"{party.name} cannot run the nodes alone: {error}")
                    continue
                found = dict(misfits(values, noise, known, order))
                wrong.append(
                    {name: (made, values[name]) for name, made in found.items() if _counts(made)}
                )
            if not wrong:
                return None
            # What only one of two makes otherwise is no fault of the model.
            differing = {
                name: made for name, made in wrong[0].items() if all(name in one for one in wrong)
            }
            notes.append(f"{len(differing)} tensors are not made of what was saved.")
        regions = {
            name: region_before(model.nodes, name, known.values.keys() | feed.keys())
            for name in differing
        }
        if not regions:
            case.unexplained = max(each.relative for each in outputs.values()) > LARGE
            return None
        side = Side(self._pairs.graph(model.proto))
        positions = {self._first(side, index): index for index in range(len(side.nodes))}
        culprits = []
        for name, region in regions.items():
            index = positions.get(next(iter(model.nodes[region[-1]].makes), ""))
            culprits.append(self._named(name, region, differing[name], side, index, known))
        entering = [
            one for one, region in zip(culprits, regions.values())
            if any(set(model.nodes[index].reads) & feed.keys() for index in region)
        ]  # fmt: skip
        is_entry = len(entering) == len(culprits) and not any(x.remedy.proven for x in culprits)
        if is_entry and self._is_other_data(known, regions, differing, feed):
            return self._of_data(culprits)
        return DiagnosisResult(FAULT, culprits)

    @staticmethod
    def _first(side: Side, index: int) -> str:
        return next(filter(None, side.nodes[index].outputs), "")

    def _named(
        self,
        name: str,
        region: Sequence[int],
        wrong: tuple[Deviation, Any],
        side: Side,
        index: int | None,
        known: Trace,
    ) -> Culprit:
        """Return what is known of nodes that make something else than was saved."""
        nodes = self._case.model.nodes
        names = [nodes[one].name for one in region]
        evidence = [
            f"Of what was saved before it, it makes a {name!r} that {wrong[0].in_words()},"
            f" in {self._party.name} and in {self._third.name}."
        ]
        cause, proven, what = "structure", False, ""
        if index is not None and len(region) == 1:
            variant = self._variant(name, region[0], side, index, known)
            if variant is not None:
                cause, what, proven = variant.cause, variant.what, True
            else:
                cause, what = guess(side, index, wrong[1], known.values[name])
            evidence.append(f"{what[0].upper()}{what[1:]}.")
            if proven:
                evidence.append("With only that changed, it makes what was saved.")
        return Culprit(
            names,
            name,
            MODEL,
            cause,
            evidence=evidence,
            remedy=Remedy(f"Undo: {what}." if what else None, proven),
            op=nodes[region[-1]].op,
        )

    def _variant(
        self, name: str, position: int, side: Side, index: int, known: Trace
    ) -> Variant | None:
        """Return what a node may have been, if that makes what was saved."""
        held = {**known.values, **known.feed}
        part = self._case.model.part([position], held)
        given = {value.name: held[value.name] for value in part.graph.input if value.name in held}
        for variant in variants(side, index):
            if not set(variant.node.inputs) <= {"", *given, *side.weights}:
                continue
            try:
                made = self._pairs.altered(part, name, variant)
                if explains(self._third.load(made)(given)[name], known.values[name]):
                    return variant
            except Exception:  # A variant that no backend takes is none.
                continue
        return None

    def _is_other_data(
        self,
        known: Trace,
        regions: Mapping[str, Sequence[int]],
        wrong: Mapping[str, tuple[Deviation, Any]],
        feed: Feed,
    ) -> bool:
        """Return whether everything that reads the inputs differs, and all over: what a node loses
        has another look than what other data change.
        """
        nodes = self._case.model.nodes
        readers = {i for i, node in enumerate(nodes) if set(node.reads) & feed.keys()}
        differing = {index for region in regions.values() for index in region}
        if readers - differing:
            return False
        return all(not _is_related(value, known.values[name]) for name, (_, value) in wrong.items())

    def _of_data(self, culprits: Sequence[Culprit]) -> DiagnosisResult:
        evidence = [
            "Every node computes what was saved from what was saved; only those that read the"
            " inputs do not: the results were made with other data."
        ]
        one = Culprit(
            [], culprits[0].tensor, "data", "data", evidence=evidence,
            remedy=Remedy("Give the data that the results were made with: --load-inputs."),
        )  # fmt: skip
        return DiagnosisResult(FAULT, [one])

    def _of_outputs(
        self, feed: Feed, saved: Values, values: Values, found: Mapping[str, Deviation]
    ) -> DiagnosisResult | None:
        """Only outputs were saved: see whether the data or one changed node explains them."""
        case = self._case
        with case.attempt("third party") as notes:
            try:
                other: Values = self._third.load(case.model.proto)(feed)
            except BackendError as error:
                notes.append(str(error))
                other = values
            if not case.differing(other, saved):
                notes.append(f"{self._third.name} gives what was saved.")
                return None
            notes.append(f"{self._third.name} does not give what was saved either.")
        if self._are_usual_data(saved):
            evidence = ["The data that `polygraphy run` makes up give what was saved."]
            culprit = Culprit([], next(iter(found)), "data", "data", evidence=evidence)
            return DiagnosisResult(FAULT, [culprit])
        changed = self._changed_node(feed, saved)
        if changed is not None:
            return DiagnosisResult(FAULT, [changed])
        if not self._is_of_these_data(feed, saved, values, found):
            evidence = [
                "All backends agree, no changed node explains the saved outputs, and they have"
                " little to do with what the model makes of these data."
            ]
            culprit = Culprit([], next(iter(found)), "data", "data", evidence=evidence)
            return DiagnosisResult(FAULT, [culprit])
        return DiagnosisResult(
            INCONCLUSIVE,
            reason="All backends agree, so the model is not the one that the results were saved"
            " with. Which node differs cannot be seen from outputs alone: save all tensors of the"
            " model that is right, with --onnx-outputs mark all, or give it as --reference.",
        )

    def _is_of_these_data(
        self, feed: Feed, saved: Values, values: Values, found: Mapping[str, Deviation]
    ) -> bool:
        """Return whether saved outputs have more to do with what the model makes of the data than
        with what it makes of the same numbers in another order.
        """
        if any(_is_partly(values[name], saved[name]) for name in found):
            return True
        rng = np.random.default_rng(0)
        compute = self._case.loaded(self._party)
        others = []
        try:
            for _ in range(_SHUFFLES):
                mixed = {name: _mixed(array, rng) for name, array in feed.items()}
                others.append(compute(mixed))
        except BackendError:
            return True
        for name in found:
            middle = np.mean([np.asarray(one[name], np.float64) for one in others], axis=0)
            right = saved[name] - middle
            own = _together(values[name] - middle, right)
            if own > _RELATED and own > max(_together(one[name] - middle, right) for one in others):
                return True
        return False

    def _are_usual_data(self, saved: Values) -> bool:
        """Return whether the outputs were made with the data that are made up by default."""
        loader = DataLoader()
        try:
            describe_model(loader, self._case.model.inputs, self._case.model.facts)
            feed = dict(next(iter(loader)))
            return not self._case.differing(self._case.loaded(self._party)(feed), saved)
        except PolygraphyException:
            return False

    def _changed_node(self, feed: Feed, saved: Values) -> Culprit | None:
        """Try what every node may have been, on the whole model."""
        case = self._case
        side = Side(self._pairs.graph(case.model.proto))
        stop = time.perf_counter() + _SECONDS
        tried = 0
        with case.attempt("changed nodes") as notes:
            for index, node in enumerate(side.nodes):
                for variant in variants(side, index):
                    if time.perf_counter() > stop:
                        notes.append(f"{tried} variants; the rest was left out.")
                        return None
                    tried += 1
                    output = next(filter(None, node.outputs))
                    if self._gives(output, variant, feed, saved):
                        notes.append(f"{variant.what}.")
                        said = f"{variant.what[0].upper()}{variant.what[1:]}."
                        evidence = [said, "With only that changed, all outputs match."]
                        remedy = Remedy(f"Undo: {variant.what}.", True)
                        return Culprit(
                            [side.identity(index)], output, MODEL, variant.cause,
                            evidence=evidence, remedy=remedy, op=node.op,
                        )  # fmt: skip
            notes.append(f"None of {tried} variants gives what was saved.")
        return None

    def _gives(self, output: str, variant: Variant, feed: Feed, saved: Values) -> bool:
        try:
            made = self._pairs.altered(self._case.model.proto, output, variant)
            compute = self._party.load(made)
            values = compute(feed)
        except Exception:  # A variant that no backend takes is none.
            return False
        found = self._case.differing(values, saved)
        if any(each.relative > LARGE for each in found.values()):
            return False
        return not self._case.differing(values, saved, noise_of(compute, feed, values))


def _counts(made: Deviation) -> bool:
    return made.relative > 1e-5 or not np.isfinite(made.relative)


def _is_related(one: Any, other: Any) -> bool:
    """Return whether two arrays go together, or are the same in many places."""
    if np.shape(one) != np.shape(other) or np.size(one) < 2:
        return False
    return _is_partly(one, other) or _together(one, other) > _STRONGLY


def _is_partly(one: Any, other: Any) -> bool:
    """Return whether many elements are the same, or one array is no numbers any more."""
    first, second = (np.asarray(array, np.float64) for array in (one, other))
    if first.shape != second.shape:
        return False
    same = np.mean(np.isclose(first, second, rtol=1e-4, atol=1e-6))
    return bool(same > 0.05 or not np.isfinite(first).all() or not np.isfinite(second).all())


def _together(one: Any, other: Any) -> float:
    """Return the correlation of two arrays; 0 where there is none."""
    first, second = (np.asarray(array, np.float64).reshape(-1) for array in (one, other))
    if not first.std() or not second.std():
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _mixed(array: Any, rng: np.random.Generator) -> Any:
    return rng.permutation(np.reshape(array, -1)).reshape(np.shape(array))
