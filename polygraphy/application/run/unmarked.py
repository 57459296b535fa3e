"""Runs a model as it is beside the same model with tensors marked as outputs.

A backend keeps a tensor that is an output, so that it does not rewrite what makes or reads it:
faults of such rewrites are not there where every tensor is marked. What a model's own outputs are
is therefore found out with nothing marked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polygraphy.application.run.feeding import facts_of, last_device_times, promises
from polygraphy.binding import resolve
from polygraphy.domain.compare import OutputCompareResult, SimpleCompareFunc
from polygraphy.domain.compare.result import UncomparedResult
from polygraphy.domain.results.results import IterationResult
from polygraphy.domain.tensors.facts import DeferredFacts, Facts, ModelFacts
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.naming import matching_any
from polygraphy.ports.reporting import Console
from polygraphy.ports.running import Runner

Outputs = Mapping[str, Any]


class MarkingEffect:
    """Tells which outputs of one runner marking changes, each once."""

    def __init__(self) -> None:
        self._noted: set[str] = set()

    def tell(self, runner: str, marked: Outputs, unmarked: Outputs, facts: Facts) -> None:
        """Compare outputs of a model with tensors marked to those with nothing marked, and note
        where they differ by more than the default tolerance.
        """
        names = [
            name
            for name, array in marked.items()
            if name not in self._noted
            and isinstance(array, np.ndarray)
            and isinstance(unmarked.get(name), np.ndarray)
        ]
        if not names:
            return
        sides = (
            IterationResult({name: made[name] for name in names}, facts=facts)
            for made in (marked, unmarked)
        )
        for name, found in SimpleCompareFunc()(*sides).items():
            if not found:
                self._noted.add(name)
                resolve(Console).note(
                    f"{runner} | Marking tensors as outputs changes {name!r}{_by(found)}. It is"
                    " taken from a run with nothing marked; the other tensors do not show what the"
                    " backend does there."
                )


def _by(found: Any) -> str:
    if isinstance(found, OutputCompareResult):
        rounding = ", which rounding may explain" if found.is_rounding else ""
        return f" by up to {found.max_absdiff:.4g}{rounding}"
    return f": {found.reason.rstrip('.')}" if isinstance(found, UncomparedResult) else ""


class _Outputs(dict[str, Any]):
    """Outputs that are marked, and beside them those of the model that are not."""

    unmarked: Outputs


class WithUnmarked:
    """A runner of a model with tensors marked as outputs, whose own outputs come from another
    runner of the model with nothing marked. A comparison of two such runners fails where the
    model's own outputs differ, whichever tensors are marked.

    Where marking changes an output by more than rounding, it is noted once.
    """

    def __init__(
        self,
        marked: Runner,
        unmarked: Runner,
        exclude_outputs: Sequence[str] | None = None,
    ) -> None:
        """Join two runners.

        Args:
            marked: runs the model with tensors marked as outputs.
            unmarked: runs the model as it is.
            exclude_outputs: outputs of the model that are not looked at unless they are marked;
                names may be patterns.
        """
        self._marked = marked
        self._unmarked = unmarked
        self._exclude = tuple(exclude_outputs or ())
        self._effect = MarkingEffect()
        self.outputs_are_fresh = all(
            promises(runner, "outputs_are_fresh") for runner in (marked, unmarked)
        )

    @property
    def name(self) -> str:
        """The name of the runner of the marked model."""
        return self._marked.name

    @name.setter
    def name(self, name: str) -> None:
        self._marked.name = name

    @property
    def is_active(self) -> bool:
        """Whether both are active."""
        return self._marked.is_active and self._unmarked.is_active

    def activate(self) -> None:
        """Activate both, or none."""
        self._marked.activate()
        try:
            self._unmarked.activate()
        except BaseException:
            self._marked.deactivate()
            raise

    def deactivate(self) -> None:
        """Deactivate both."""
        try:
            self._unmarked.deactivate()
        finally:
            self._marked.deactivate()

    def __enter__(self) -> WithUnmarked:
        """Activate both."""
        self.activate()
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Deactivate both."""
        self.deactivate()

    def get_input_metadata(self, use_numpy_dtypes: bool | None = None) -> TensorMetadata:
        """Describe the inputs, which are those of both."""
        return self._marked.get_input_metadata(use_numpy_dtypes=use_numpy_dtypes)

    def get_model_facts(self) -> Facts:
        """Return what is known of the model; of its own outputs, with nothing marked."""
        marked, unmarked = facts_of(self._marked), facts_of(self._unmarked)

        def find() -> ModelFacts:
            dtypes = {**marked.compute_dtypes, **unmarked.compute_dtypes}
            sources = {**marked.sources, **unmarked.sources}
            return ModelFacts(
                dtypes,
                marked.input_hints,
                sources,
                bounded={*marked.bounded, *unmarked.bounded},
                ordered={*marked.ordered, *unmarked.ordered},
            )

        return DeferredFacts(find)

    def infer(
        self, feed_dict: Mapping[str, Any], check_inputs: bool = True, *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        """Run both; the outputs of the model come from the one with nothing marked. Those that are
        not marked themselves are the attribute `unmarked` of what is returned.
        """
        marked = self._marked.infer(feed_dict, check_inputs, *args, **kwargs)
        unmarked = self._unmarked.infer(feed_dict, check_inputs, *args, **kwargs)
        self._effect.tell(self.name, marked, unmarked, facts_of(self._unmarked))
        excluded = matching_any(self._exclude, unmarked)
        outputs = _Outputs({name: unmarked.get(name, array) for name, array in marked.items()})
        outputs.unmarked = {
            name: array
            for name, array in unmarked.items()
            if name not in marked and name not in excluded
        }
        return outputs

    def last_inference_time(self) -> float | None:
        """Return how long the marked model took, in seconds."""
        return self._marked.last_inference_time()

    def last_device_times(self) -> Any:
        """Return what the device measured of the marked model; None where it does not."""
        return last_device_times(self._marked)
