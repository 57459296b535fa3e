"""Who finds out what is wrong with a model, and who tries parts of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from polygraphy.domain.datatype import DataTypeEntry
    from polygraphy.domain.lint import Findings
    from polygraphy.domain.model import ModelSource

__all__ = ["ModelLinter", "ModelTrial", "TrialValue"]


class TrialValue(Protocol):
    """A tensor, or a sequence of tensors, as the backend holds it.

    Attributes:
        dtype: data type of the elements; None if it has no name here.
        shape: dimensions of a tensor; None of a sequence.
    """

    dtype: DataTypeEntry | None
    shape: tuple[int, ...] | None


class ModelTrial(Protocol):
    """Loads small models and runs them once; bound once per backend, with its name as the key."""

    def configured(
        self, providers: Sequence[Any] | None, graph_optimization_level: str | None
    ) -> ModelTrial:
        """Return a trial that runs models in a certain way, where the backend has several."""

    def run(
        self, model: bytes | str, feed: Mapping[str, Any], outputs: Sequence[str]
    ) -> Mapping[str, TrialValue]:
        """Load a model and run it.

        Args:
            model: a serialised model, or the path of one.
            feed: arrays, or what an earlier call gave.
            outputs: the outputs to compute.

        Raises:
            MissingDependencyError: the backend is not installed.
            UsageError: how models are to be run does not exist here.
            BackendError: the model cannot be loaded, or fails; the message is what the backend
                says about it, in one line.
            InconclusiveError: it did not end in time.
        """


class ModelLinter(Protocol):
    """Checks models of one kind."""

    def lint(
        self, source: ModelSource, feed: Mapping[str, Any] | None, trial: ModelTrial | None
    ) -> Findings:
        """Find everything that is wrong with a model's nodes in one go.

        Args:
            source: the model.
            feed: input data to try it with; None where there are none.
            trial: tries the nodes; None to only look at them.

        Raises:
            FileError: a file is missing or cannot be read.
            ModelError: the file is no model of this kind.
        """
