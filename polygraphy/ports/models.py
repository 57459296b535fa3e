"""What reads, writes and checks models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Union

from polygraphy.binding import port

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from polygraphy.domain.checks.capability import Compatibility, Placements, Problem
    from polygraphy.domain.checks.lint import Findings, LintReport, TrialValue
    from polygraphy.domain.model import Detail, ModelSource
    from polygraphy.domain.model.description import TensorUse
    from polygraphy.domain.model.difference import Difference, Edit, Outline
    from polygraphy.domain.model.sparsity import WeightSparsity
    from polygraphy.domain.quantization.listing import QuantizedTensor


@port
def outline_of(model: Any) -> Outline:
    """Return its parts; it stays as it is.

    Raises:
        ModelError: a name in it is no text.
    """


@port
def describe_file(source: ModelSource, detail: Detail) -> Any:
    """Describe a model, of the kind that the key says: ``onnx``, ``tensorflow`` or ``tensorrt``.

    Returns:
        A frozen attrs object: of ONNX models a `polygraphy.domain.model.Model`.

    Raises:
        FileError: the file, or one that it names, is missing or cannot be read.
        ModelError: the file is no model of this kind.
    """


@port
def find_quantized_tensors(path: str) -> list[QuantizedTensor]:
    """Return the tensors that an ONNX file stores in few bits; none if it is not quantized, or
    cannot be read.
    """


class ModelReports(Protocol):
    """Shows what was found out about models."""

    def loading(self, path: str) -> None:
        """A model is about to be read."""

    def model(self, description: Any, detail: Detail) -> None:
        """What a model consists of."""

    def statistics(self, statistics: Any) -> None:
        """How large a model is, and what it costs to run."""

    def unbounded(self, names: Sequence[str]) -> None:
        """Tensors whose elements decide without limit how large others become."""

    def quantized_tensors(self, tensors: Sequence[QuantizedTensor], *, is_complete: bool) -> None:
        """How a model is quantized: in a line, or all tensors."""

    def placements(self, placements: Placements, *, is_complete: bool) -> None:
        """Which execution provider runs which node; all nodes, or those that run elsewhere."""

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


@port
def save_model(model: Any, path: str) -> None:
    """Write an ``onnx.ModelProto`` of any size to `path`, and its weights beside it.

    Raises:
        FileError: a file cannot be written.
    """


LayerSketch = tuple[str, str, dict[str, Any], list[str], list[str]]


"""A node to draw: its name, operator type, attributes, and the names of its inputs and outputs."""


@port
def load_onnx(path: str) -> Any:
    """Return the `onnx.ModelProto` in a file, with its weights.

    Raises:
        FileError: the file is missing.
        ModelError: it is no ONNX model.
    """


@port
def weight_files(path: str) -> list[str]:
    """Return the paths of the files beside a model that hold its weights; raises as `load_onnx`
    does.
    """


@port
def parse_onnx(content: bytes) -> Any:
    """Return the `onnx.ModelProto` that was serialised; ModelError when it is none."""


@port
def sketch_onnx(
    name: str,
    layers: list[LayerSketch],
    inputs: dict[str, tuple[Any, tuple[int, ...]]],
    outputs: dict[str, tuple[Any, tuple[int, ...]]],
) -> Any:
    """Return an `onnx.ModelProto` to look at, not to run.

    Args:
        name: the name of the graph.
        layers: its nodes, in order.
        inputs: data type (a `DataTypeEntry`) and shape of each input; -1 for a dynamic
            dimension.
        outputs: the same of each output.
    """


@port
def read_tensor(path: str | Path) -> tuple[str, np.ndarray[Any, Any]]:
    """Return the name of a tensor, which may be empty, and its elements.

    Raises:
        FileError: the file is missing, damaged, or holds something else.
    """


class ModelTrial(Protocol):
    """Loads small models and runs them once; bound once per backend, with its name as the key."""

    def with_settings(
        self,
        providers: Sequence[Any] | None,
        graph_optimization_level: str | None,
        provider_libraries: Mapping[str, str] | None = None,
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


Lint = Callable[[Union[Mapping[str, Any], None], Union[ModelTrial, None]], "Findings"]
"""Finds everything that is wrong with the nodes of a model in one go. It is given input data to try
it with, None where there are none, and who tries the nodes, None to only look at them. FileError
where a file cannot be read.
"""


@port
def open_to_lint(source: ModelSource) -> Lint:
    """Read a model and look at its nodes.

    Raises:
        FileError: a file is missing or cannot be read.
        ModelError: the file is no model of this kind.
    """


@port
def support_problems(model: Any) -> list[Problem]:
    """Return what a backend, by its name as the key, says against an ``onnx.ModelProto``, which
    stays as it is, without building anything; nothing if it supports the model.

    Raises:
        BackendError: the backend is missing, or cannot be asked.
    """


@port
def place_nodes(
    model: Any, providers: Sequence[Any], provider_libraries: Mapping[str, str] | None = None
) -> Placements:
    """Return which execution provider of ONNX Runtime runs each node of an ``onnx.ModelProto``,
    which stays as it is, and why nodes run elsewhere if that is known.

    Args:
        model: the model.
        providers: execution providers in order of priority; see `SessionFromOnnx`.
        provider_libraries: plugins with further providers.

    Raises:
        BackendError: ONNX Runtime cannot load the model.
        UnknownNameError: a provider does not exist in this installation.
        UnavailableError: a provider does not start.
    """


@port
def supported_groups(model: Any) -> list[tuple[list[int], bool]]:
    """Return groups of positions of nodes, and of each whether TensorRT is known to support it; of
    the others parts may be supported. Nodes that are in no group are not supported.
    """
