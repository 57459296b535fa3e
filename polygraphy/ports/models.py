"""Who knows what a model file holds, and who shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from polygraphy.domain.compatibility import Compatibility
    from polygraphy.domain.lint import LintReport
    from polygraphy.domain.model import Detail, ModelSource
    from polygraphy.domain.model.difference import Difference
    from polygraphy.domain.model.edits import Edit, Outline
    from polygraphy.domain.model.tensors import TensorUse
    from polygraphy.domain.sparsity import WeightSparsity

__all__ = ["ModelOutlines", "ModelReader", "ModelReports"]


class ModelOutlines(Protocol):
    """Tells in brief what an ``onnx.ModelProto`` consists of."""

    def outline(self, model: Any) -> Outline:
        """Return its parts; it stays as it is.

        Raises:
            ModelError: a name in it is no text.
        """


class ModelReader(Protocol):
    """Reads model files of one kind; bound once per kind (``onnx``, ``tensorrt``) as the key."""

    def read(self, source: ModelSource, detail: Detail) -> Any:
        """Describe a model.

        Returns:
            A frozen attrs object: of ONNX models a `polygraphy.domain.model.Model`.

        Raises:
            FileError: the file, or one that it names, is missing or cannot be read.
            ModelError: the file is no model of this kind.
        """


class ModelReports(Protocol):
    """Shows what was found out about models, as text or, in `document`, for other programs."""

    def loading(self, path: str) -> None:
        """A model is about to be read."""

    def model(self, description: Any, detail: Detail) -> None:
        """What a model consists of."""

    def statistics(self, statistics: Any) -> None:
        """How large a model is, and what it costs to run."""

    def unbounded(self, names: Sequence[str]) -> None:
        """Tensors whose shape depends on data without limit."""

    def tensors(self, uses: Sequence[TensorUse]) -> None:
        """Which tensors there are, and where they come from."""

    def sparsity(self, weights: Sequence[WeightSparsity]) -> None:
        """Which weights are sparse, of those that may be."""

    def differences(self, found: Sequence[Difference]) -> None:
        """In what two models differ; nothing where they are the same."""

    def outline(self, title: str, outline: Outline) -> None:
        """What a model consists of in brief, under a title, before or after an edit."""

    def edit(self, edit: Edit) -> None:
        """Which parts an edit took out of a model, and which it put in."""

    def lint(self, report: LintReport) -> None:
        """What is wrong with a model."""

    def compatibility(self, result: Compatibility) -> None:
        """Whether a backend can run a model."""

    def page_saved(self, path: str) -> None:
        """A page that shows a model was written."""

    def page_served(self, address: str) -> None:
        """A page that shows a model can be opened at this address."""

    def document(self, parts: Sequence[Mapping[str, Any]]) -> None:
        """Everything about some models, one mapping from titles to values per model."""
