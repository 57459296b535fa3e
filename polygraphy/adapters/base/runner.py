"""The base of every runner: its name, its life cycle, and the checks around an inference."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeVar

from polygraphy import config
from polygraphy.domain.data.loading import check_feed
from polygraphy.domain.errors import PolygraphyInternalException, UsageError
from polygraphy.domain.tensors.facts import Facts, ModelFacts
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.logger import G_LOGGER

R = TypeVar("R", bound="BaseRunner")

_runner_counts: Counter[str] = Counter()


class BaseRunner:
    """Runs a model in one backend.

    A runner of your own implements `activate_impl`, `infer_impl` and `get_input_metadata_impl`, and
    `deactivate_impl` if there is something to release.

    Attributes:
        name: unique unless the caller chose it: kind, number, date and time.
        inference_time: seconds of the last inference; set by `infer_impl`.
        is_active: whether the runner is between `activate` and `deactivate`.
        outputs_are_fresh: whether each inference returns arrays that no later one overwrites, so
            that callers that keep them need not copy them.
        leaves_inputs_alone: whether an inference neither writes to its input arrays nor keeps them,
            so that data for several runners need not be copied. A derived class with its own
            `infer_impl` must set this again.
        rewrites_nothing: whether an output does not depend on which other tensors are outputs; it
            may if a backend rewrites graphs.
    """

    outputs_are_fresh = False
    RUNNER_COUNTS = _runner_counts
    leaves_inputs_alone = False
    rewrites_nothing = False

    def __init__(self, name: str | None = None, prefix: str | None = None) -> None:
        """Create a runner with a name; nothing is loaded before `activate`."""
        self.name = _unique_name(prefix or "Runner") if name is None else name
        self.inference_time: float | None = None
        self.is_active = False
        self._metadata: TensorMetadata | None = None
        self._before: dict[str, None] = {}
        self._accepted: tuple[Any, ...] | None = None

    def __repr__(self) -> str:
        """Return class and name of the runner, for debugging."""
        return f"{type(self).__name__}(name={self.name!r})"

    def activate_impl(self) -> None:
        """Load the model and allocate memory."""

    def deactivate_impl(self) -> None:
        """Release everything that `activate_impl` acquired."""

    def infer_impl(self, feed_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model once, set `inference_time`, and return the outputs by name."""
        raise NotImplementedError(f"{type(self).__name__} does not implement infer_impl")

    def get_input_metadata_impl(self) -> TensorMetadata:
        """Return the metadata of the inputs, with this package's data types."""
        raise NotImplementedError(
            f"{type(self).__name__} does not implement get_input_metadata_impl"
        )

    def get_model_facts(self) -> Facts:
        """Return the facts about the model that are known without running it; only while active.

        A runner of your own may return the data types in which it computes (`compute_dtypes`), and
        the values that inputs accept (`input_hints`).
        """
        return ModelFacts()

    def activate(self) -> None:
        """Load or build the model, and allocate memory."""
        if self.is_active:
            G_LOGGER.warning(f"{self.name} | Already active; not activated again.")
            return
        self.inference_time = None
        self._forget_metadata()
        self._before = self._state()
        self.activate_impl()
        self.is_active = True

    def deactivate(self) -> None:
        """Release everything that `activate` acquired.

        Raises:
            PolygraphyInternalException: `config.INTERNAL_CORRECTNESS_CHECKS` is on, and the runner
                has different attributes than before it was activated.
        """
        if not self.is_active:
            G_LOGGER.warning(f"{self.name} | Not active; nothing to deactivate.")
            return
        self.is_active = False
        self._forget_metadata()
        self.deactivate_impl()
        after = self._state()
        if after != self._before:
            raise PolygraphyInternalException(
                f"{self.name} was not reset: deactivate_impl() must delete exactly the attributes"
                f" that activate_impl() creates. Attributes before: {', '.join(self._before)};"
                f" after: {', '.join(after)}."
            )

    def _state(self) -> dict[str, None]:
        """Return the names of the public attributes; empty unless internal checks are on."""
        if not config.INTERNAL_CORRECTNESS_CHECKS:
            return {}
        return dict.fromkeys(name for name in vars(self) if not name.startswith("_"))

    def _forget_metadata(self) -> None:
        """Forget the metadata of the inputs, and the feed that was checked last."""
        self._metadata = None
        self._accepted = None

    def __enter__(self: R) -> R:
        """Activate the runner and return it."""
        self.activate()
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Deactivate the runner."""
        self.deactivate()

    def get_input_metadata(self, use_numpy_dtypes: bool | None = None) -> TensorMetadata:
        """Return the metadata of the inputs, in the model's order.

        Args:
            use_numpy_dtypes: whether data types are NumPy's, as in old releases (default: True).

        Raises:
            UsageError: the runner is not active.
        """
        if self._metadata is None:
            self._require_active("its inputs can be listed")
            self._metadata = self.get_input_metadata_impl()
        return self._metadata if use_numpy_dtypes is False else self._metadata.with_numpy_dtypes()

    def infer(
        self, feed_dict: Mapping[str, Any], check_inputs: bool = True, *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        """Run the model once and return its outputs by name.

        Args:
            feed_dict: one array per input.
            check_inputs: whether names, data types and shapes are checked first.
            args: passed to the backend, like `kwargs`; see the documentation of the runner.
            kwargs: see `args`.

        Returns:
            One array per output. The arrays may be overwritten by the next call: copy those that
            you keep.

        Raises:
            UsageError: the runner is not active.
            InputError: the data does not fit the model.
            BackendError: the backend could not run the model.
        """
        if not self.is_active:
            self._require_active("inference")
        if check_inputs:
            self._check(feed_dict)
        return self.infer_impl(feed_dict, *args, **kwargs)

    def _check(self, feed_dict: Mapping[str, Any]) -> None:
        """Raise InputError unless the data fit the inputs.
        Data that look like the last ones are not checked again."""
        try:
            described = tuple(
                [(name, array.dtype, array.shape) for name, array in feed_dict.items()]
            )
        except AttributeError:
            described = None
        if described is not None and described == self._accepted:
            return
        check_feed(feed_dict, self.get_input_metadata(use_numpy_dtypes=False))
        self._accepted = described

    def _require_active(self, purpose: str) -> None:
        """Raise UsageError unless the runner is active."""
        if not self.is_active:
            raise UsageError(
                f"{self.name} must be active before {purpose}.",
                hint="Call activate() or use it in a `with` block.",
            )

    def last_inference_time(self) -> float | None:
        """Return the time of the last inference, in seconds, or None.
        The result is None if the runner did not measure it."""
        return self.inference_time


def _unique_name(prefix: str) -> str:
    """Return a unique runner name: a prefix, a counter and the time."""
    count = _runner_counts[prefix]
    _runner_counts[prefix] += 1
    seconds, fraction = divmod(time.time_ns(), 10**9)
    when = time.strftime("%m/%d/%y-%H:%M:%S", time.localtime(seconds))
    return f"{prefix}-N{count}-{when}.{fraction // 1000:06}"  # Each process counts from 0.
