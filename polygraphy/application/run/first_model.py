"""A runner of a model in two files: one for the prompt, and one for each later step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from polygraphy.application.run.feeding import facts_of, last_device_times, promises
from polygraphy.domain.tensors.facts import Facts
from polygraphy.ports.running import Runner

if TYPE_CHECKING:
    from polygraphy.domain.tensors.metadata import TensorMetadata


class WithFirstModel:
    """A runner of a model with states, whose first step runs in another runner with the model
    without states."""

    def __init__(self, runner: Runner, first: Runner) -> None:
        """Join the runner of later steps with the runner of the first step.

        Args:
            runner: runs all later steps.
            first: runs the first step.
        """
        self._runner = runner
        self._first = first
        self._last = first
        self.outputs_are_fresh = all(
            promises(runner, "outputs_are_fresh") for runner in (runner, first)
        )

    @property
    def name(self) -> str:
        """The name of the runner of later steps."""
        return self._runner.name

    @name.setter
    def name(self, name: str) -> None:
        self._runner.name = name

    @property
    def is_active(self) -> bool:
        """Return whether both runners are active."""
        return self._runner.is_active and self._first.is_active

    @property
    def uses_device(self) -> bool:
        """Return whether one of the runners computes on a device."""
        return any(
            bool(getattr(runner, "uses_device", False)) for runner in (self._runner, self._first)
        )

    def activate(self) -> None:
        """Activate both runners; if one fails, none."""
        self._runner.activate()
        try:
            self._first.activate()
        except BaseException:
            self._runner.deactivate()
            raise

    def deactivate(self) -> None:
        """Deactivate both runners."""
        try:
            self._first.deactivate()
        finally:
            self._runner.deactivate()

    def __enter__(self) -> WithFirstModel:
        """Activate both runners, and return this one."""
        self.activate()
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Deactivate both runners."""
        self.deactivate()

    def get_input_metadata(self, use_numpy_dtypes: bool | None = None) -> TensorMetadata:
        """Return the inputs of later steps."""
        return self._runner.get_input_metadata(use_numpy_dtypes=use_numpy_dtypes)

    def get_model_facts(self) -> Facts:
        """Return the facts about the model of later steps."""
        return facts_of(self._runner)

    def runner_of(self, feed_dict: Mapping[str, Any]) -> Runner:
        """Return the runner for a step: the first one if an input of the other is missing,
        such as a state."""
        needed = self._runner.get_input_metadata(use_numpy_dtypes=False)
        return self._runner if all(name in feed_dict for name in needed) else self._first

    def infer(
        self, feed_dict: Mapping[str, Any], check_inputs: bool = True, *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the outputs of the step from the runner that accepts its inputs."""
        self._last = self.runner_of(feed_dict)
        return self._last.infer(feed_dict, check_inputs, *args, **kwargs)

    def last_inference_time(self) -> float | None:
        """Return the time of the last step, in seconds; None if it was not measured."""
        return self._last.last_inference_time()

    def last_device_times(self) -> Any:
        """Return the device times of the last step; None without them."""
        return last_device_times(self._last)
