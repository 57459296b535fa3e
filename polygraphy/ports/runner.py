"""What runs a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from polygraphy.domain.metadata import TensorMetadata

__all__ = ["Runner"]


class Runner(Protocol):
    """Runs one model in one backend.

    Life cycle: ``activate``, any number of ``infer``, ``deactivate``; a runner can be activated
    again. As a context manager it is active inside the `with` block, and is deactivated however the
    block ends.
    """

    name: str

    @property
    def is_active(self) -> bool:
        """Whether the runner is between `activate` and `deactivate`."""

    def activate(self) -> None:
        """Acquire what inference needs: build or load the model, allocate memory."""

    def deactivate(self) -> None:
        """Release what `activate` acquired."""

    def __enter__(self) -> Any:
        """Activate and return the runner."""

    def __exit__(self, *exc_info: object) -> None:
        """Deactivate."""

    def get_input_metadata(self, use_numpy_dtypes: bool | None = None) -> TensorMetadata:
        """Describe the inputs, in the model's order; only while active."""

    def infer(self, feed_dict: Mapping[str, Any], check_inputs: bool = True) -> dict[str, Any]:
        """Run the model once; only while active.

        Args:
            feed_dict: one array per input.
            check_inputs: whether names, data types and shapes are checked first.

        Returns:
            One array per output, in the model's order. The arrays may be overwritten by the next
            call.

        Raises:
            InputError: the data do not fit the model.
            BackendError: the backend could not run the model.
        """

    def last_inference_time(self) -> float | None:
        """Return how long the last `infer` took, in seconds; None when the runner does not
        measure.
        """
