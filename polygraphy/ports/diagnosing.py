"""Ports of the diagnosis."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from attrs import Factory, frozen

from polygraphy.binding import port

if TYPE_CHECKING:
    import numpy as np

    from polygraphy.domain.catalog.compute import ComputePrecision
    from polygraphy.domain.checks.operator_call import InvalidNode
    from polygraphy.domain.diagnosis.culprit import Attempt, DiagnosisResult
    from polygraphy.domain.diagnosis.failure import Failure
    from polygraphy.domain.diagnosis.headroom import NodeLoss
    from polygraphy.domain.diagnosis.quantizing import QuantizedOperand
    from polygraphy.domain.diagnosis.two_models import CopyPlan
    from polygraphy.domain.diagnosis.variants import Variant
    from polygraphy.domain.model import Model
    from polygraphy.domain.model.graph import Node
    from polygraphy.domain.quantization.code_tensors import CodeTensor
    from polygraphy.domain.quantization.requantization import Requantization
    from polygraphy.domain.quantization.schemes import Scheme
    from polygraphy.domain.quantization.sites import FloatNode, Site
    from polygraphy.domain.tensors.datatype import DataTypeEntry
    from polygraphy.domain.tensors.facts import Facts
    from polygraphy.domain.tensors.metadata import TensorMetadata


Compute = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Runs a loaded model: returns the outputs by name for input data by name; raises BackendError on
failure."""


class NarrowModel(Protocol):
    """A float32 model, computed with rounding at every operator, as hardware would.

    Attributes:
        inputs: names, data types and shapes of its inputs.
        passes: the names of the nodes that can compute in the narrower type, in order; one without
            a name goes by the first tensor that it computes.
        users: the nodes that read what a node makes, by its name.
    """

    inputs: TensorMetadata
    passes: Sequence[str]
    users: Mapping[str, Collection[str]]

    def facts(self) -> Facts:
        """Return the facts about the model that are known without running it."""

    def load(self, *, plain: bool = False, without: Collection[str] = ()) -> Compute:
        """Return a function that computes the outputs; see `SuspectedParty.load`.

        Args:
            plain: whether all nodes stay in float32.
            without: the names of nodes that do.

        Raises:
            BackendError: the model cannot be run.
        """

    def run_rounded(self, feed: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
        """Return the outputs with the digits of the narrower type, but without its range limits, to
        show the effect of rounding only.

        Raises:
            BackendError: the model cannot be run.
        """

    def measure(
        self, feed: Mapping[str, Any]
    ) -> tuple[dict[str, np.ndarray[Any, Any]], list[NodeLoss]]:
        """Return the outputs in float32, and the loss of each node alone in the narrower type.

        Raises:
            BackendError: the model cannot be run.
        """


class NarrowModels(Protocol):
    """Opens models to show the effect of a narrower type."""

    def open(
        self, model: Any, dtype: DataTypeEntry, only: Collection[str] | None = None
    ) -> NarrowModel:
        """Return a model prepared for running in a narrower type.

        Args:
            model: an ``onnx.ModelProto``, or a loader that makes one; it is not changed.
            dtype: the narrower type, such as `DataType.FLOAT16`.
            only: the names of the nodes that compute in it (default: all that can).

        Raises:
            ModelError: the model cannot be cast to that type.
        """

    def narrow_nodes(self, model: Any) -> tuple[DataTypeEntry, list[str]] | None:
        """Return a model's narrow type, and the names of its nodes in that type, or None.
        The model is an ``onnx.ModelProto``. The result is None if there are none.
        """

    def rounding_emulator(self, model: Any) -> Compute | None:
        """Return a function that computes a narrow ``onnx.ModelProto``, rounded at every operator;
        None if no node is narrow.

        Raises:
            BackendError: the reference evaluator cannot run it.
        """

    def tf32_emulator(self, model: Any, *, drops: bool = False) -> Compute:
        """Return a function that computes an ``onnx.ModelProto`` with products in TF32.

        Args:
            model: the model.
            drops: whether digits are dropped instead of rounded.

        Raises:
            BackendError: the reference evaluator cannot run it.
        """

    def perturbed_function(
        self, model: Any, dtype: str = "float32"
    ) -> Callable[[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
        """Return a function that lazily computes two or more perturbed versions of a model, in
        which each element moves within the rounding limit of one operator. For float16 or
        bfloat16: one version with the digits of the type but without its range limits, and one
        in float32; empty if a node amplifies rounding more than others, because then that node
        is at fault.

        Args:
            model: an ``onnx.ModelProto``, its bytes or its path.
            dtype: the coarsest type in which it is computed.

        Raises:
            BackendError: the reference evaluator cannot run it.
        """

    def widen_model(
        self,
        model: Any,
        like: Any = None,
        *,
        drops_casts: bool = False,
        keeps_range: bool = True,
    ) -> Any:
        """Return an ``onnx.ModelProto`` converted to float32, with the same names.

        Args:
            model: an ``onnx.ModelProto``.
            like: a narrow model that was made of it: weights get the digits of its type; those of
                nodes that are not narrow in it stay.
            drops_casts: whether nodes are removed that only change the precision of a tensor, so
                that the model has the nodes of one that was never narrow.
            keeps_range: whether weights keep numbers that are too large or too small for the type
                of `like`.
        """


REFERENCE = "reference"
"""The key of the party that decides if others differ."""
USUAL = "usual"
"""The key of the party in which models are run in the end."""


class SuspectedParty(Protocol):
    """A backend that may be at fault.

    Attributes:
        name: its name: its backend, unless the user chose a name.
        backend: its flag without the dashes.
        passes: the names of its rewrites that can be switched off one by one; none where it
            rewrites nothing, or does not say.
        rewrites: whether it may run a different graph than it is given.
        levels: the supported levels of rewriting, from the least to the most.
        settings: the way it runs models, for a program that needs nothing of this package: its
            ``module``, and arguments that are not the default; none where there can be no such
            program.
        options: its options on the command line, by the names of their rows.

    It may have six more attributes: `survives_fork`, whether a forked process can use its library
    after this process has used it (default: True); `uses_device`, whether its library holds memory
    of a device (default: False); a method `on_host` without arguments, which returns the same
    backend on the CPU, or None if it is that already (default: there is no such party); a method
    `with_exact_products` without arguments, which returns the same backend without saturating
    products of uint8 and int8, or None if there is none (default: None); a method `check_graph`,
    which raises UsageError if its options cannot be used for the graph of the whole model; and a
    method `start` without arguments, which loads libraries and starts the device, so that they are
    ready for the first model. It is called while other work goes on, and may fail.
    """

    name: str
    backend: str
    passes: Sequence[str]
    rewrites: bool
    levels: Sequence[str]
    settings: Mapping[str, Any]
    options: Mapping[str, Any]

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Compute:
        """Return a function that runs a model as a user would.

        Args:
            model: an ``onnx.ModelProto``, its path, or what returns one, which is then not held
                beside what is made of it.
            plain: whether nothing is rewritten, as far as that can be switched off.
            without: the names of rewrites that are switched off; see also `LoweringParty`.

        Raises:
            BackendError: it refuses the model.
        """

    def runtime_graph(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> Any | None:
        """Return the executed graph as an ``onnx.ModelProto`` in which tensors keep their names.
        The result is None if the backend does not expose it.

        Args:
            model: an ``onnx.ModelProto``, or its path.
            without: the names of rewrites that are switched off.
            level: the level of rewriting (default: that of a normal run).

        Raises:
            BackendError: it refuses the model.
        """

    def remedy(self, *, plain: bool, without: Collection[str]) -> Mapping[str, Any]:
        """Return the options that run a model as `load` does with these arguments."""


class LoweringParty(SuspectedParty, Protocol):
    """A backend that may compute in half precision. Its passes are the nodes of a model: a disabled
    one computes in float32, and an unnamed node is identified by the first tensor it computes.

    Attributes:
        lowers_to: ``tf32``, ``fp16`` or ``bf16``; None where it computes in float32. With ``tf32``
            it has no passes of its own: float32 is one option for all nodes.
        compute_precision: with ``tf32``, which operators that applies to; else None.
    """

    lowers_to: str | None
    compute_precision: ComputePrecision | None

    def in_float32(self) -> SuspectedParty:
        """Return the same backend, computing in float32."""


@frozen
class Decision:
    """The decision of a statement of a program, such as an `if` or a loop, during a run.

    Attributes:
        path: the file.
        line: the line of the statement, from 1.
        text: the condition, in words.
        outcomes: each time that it ran, 1 if its body did; for a loop, the number of passes.
        follows_data: whether it asks for what follows from the data.
        others: the other outcomes that can be forced.
        last_line: the last line of the statement.
        is_loop: whether it is a loop.
    """

    path: str
    line: int
    text: str
    outcomes: tuple[int, ...]
    follows_data: bool = True
    others: tuple[int, ...] = ()
    last_line: int = 0
    is_loop: bool = False


@frozen
class Exporter:
    """The way in which a model was exported from a program.

    Attributes:
        dynamo: whether by the exporter that is based on `torch.export`.
        opset: the version of the standard operators; None for the default.
        sizes: by input, the dimensions that may vary, with their names.
        outputs: the names of the outputs.
        decides: a statement of the program that decides something else, and what.
    """

    dynamo: bool
    opset: int | None = None
    sizes: Mapping[str, Mapping[int, str]] = Factory(dict)
    outputs: Sequence[str] = ()
    decides: tuple[Decision, int] | None = None


class OpenedProgram(Protocol):
    """A program of a framework from which models are exported, opened for data of one shape.

    Attributes:
        nodes: its operations in order, each called as the tensor that it makes; none where it does
            not show what is inside.
        weights: by name what operations read that no operation makes, and is no input.
        release: the version of the exporter, as models record it; empty where that is not known.
        unsteady: the reason why its runs differ, or why it computes as in training, a sentence;
            empty where that is not so.
        notes: further notes about it, in sentences.
        open_dimensions: by input, the dimensions that it takes in any size, with their names.
    """

    nodes: Sequence[Node]
    weights: Mapping[str, Any]
    release: str
    unsteady: str
    notes: Sequence[str]
    open_dimensions: Mapping[str, Mapping[int, str]]

    def run(
        self, feed: Mapping[str, Any], keep: Callable[[str, Any], None] | None = None
    ) -> list[tuple[str, Any]]:
        """Return the names and values of the outputs, in order.

        Args:
            feed: arrays by the names of the model.
            keep: receives the name and value of each tensor when it is computed.

        Raises:
            BackendError: it cannot be run.
        """

    def run_operation(self, name: str, values: Mapping[str, Any], feed: Mapping[str, Any]) -> Any:
        """Return the float64 result of the operation that computes a tensor, run by itself on given
        values; None if it cannot be computed.

        Args:
            name: the tensor.
            values: the values that `run` kept.
            feed: the data, by the names of the model.
        """

    def condition_of(self, name: str) -> str:
        """Return a phrase for the Python `if` that decides whether the operation of a tensor runs.
        The result is empty if there is none.
        """

    def line_of_number(self, name: str) -> str:
        """Return the location where Python turns a tensor or a size into a number for an operation,
        such as ``net.py:12``; empty if it is the operation's own line or unknown."""

    def decisions(self, feed: Mapping[str, Any]) -> Sequence[Decision]:
        """Return the decisions of the program's statements for some data, in the order of their
        first run; empty if its code is not available."""

    def exports(self) -> Iterator[tuple[str, str, Callable[[Mapping[str, Any]], Any]]]:
        """Yield description, command line and function of other ways to export the program.

        The command line is empty if the program has no file. The function exports an
        ``onnx.ModelProto`` from input data, and may raise any error.
        """

    def export_again(self, feed: Mapping[str, Any], exporter: Exporter) -> tuple[Any, str]:
        """Return the program exported in the same way as the model, and the command line.
        The command line is empty if there is none.

        Args:
            feed: the example, by the names of the model.
            exporter: the exporter to use.

        Returns:
            An ``onnx.ModelProto``, and the command line.

        Raises:
            Exception: any error of the exporter.
        """


class SourceProgram(Protocol):
    """A program of a framework from which a model was exported.

    Attributes:
        name: its flag without the dashes.

    It may have `uses_device`, whether it runs on a device (default: False); if it does, `close`
    releases memory of that device. It may have a method `on_host` without arguments, which returns
    the same program on the CPU, or None if it runs there already (default: None). It may have
    `weight_dtype`, the half precision in which weights are stored, such as ``bfloat16``; None (the
    default) for none. It may have a method `random_weights` without arguments, which returns the
    names of the weights with other values after it is loaded again (default: none).
    """

    name: str

    def lost_inputs(self, feed: Mapping[str, Any]) -> Sequence[str]:
        """Return the names of inputs that the program has, and the model does not.

        Args:
            feed: the data of the model, by name and in order.
        """

    def open(self, feed: Mapping[str, Any]) -> OpenedProgram:
        """Return the program, opened for some input data.

        Args:
            feed: the data of a model that was exported from it, by name and in order.

        Raises:
            InputError: it takes other inputs.
            ModelError: it cannot be loaded.
        """

    def run(self, feed: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return the names and values of the outputs for data of any shape, in order.

        Args:
            feed: the data of a model that was exported from it, by name and in order.

        Raises:
            BackendError: it fails.
            InputError: it takes other inputs.
            ModelError: it cannot be loaded.
        """


class QuantizedModel(Protocol):
    """A quantized model whose sites can be switched off one by one.

    Attributes:
        sites: the places where it is quantized.
        nodes: the computing nodes, as before the quantization.
        producer: the quantizer that made it: ``static``, ``dynamic`` or ``nbits`` of ONNX Runtime,
            ``nncf``, ``nncf-weights``, ``modelopt``, ``olive``, ``genai``; empty if that is not
            known.
        reference: the form of the reference that the quantizer read, an ``onnx.ModelProto``; None
            without a reference.
    """

    sites: Sequence[Site]
    nodes: Sequence[FloatNode]
    producer: str
    reference: Any

    def named_reference(self, names: Mapping[str, str]) -> Any:
        """Return the reference in which each node has a name,
        if necessary that of its first output, and some inputs and outputs have other names.
        """

    @property
    def requantizable_weights(self) -> Mapping[int, tuple[int, Sequence[int]]]:
        """Return, by weight site, the site that its node reads and the sites after its node.

        These are weights that a backend may quantize again if they are in floating point. The
        sites after the node must be quantized for that.
        """

    def add_switches(self, *, requantizes: bool = False, is_lazy: bool = False) -> Any:
        """Return an ``onnx.ModelProto`` with a last input that switches sites on.

        Args:
            requantizes: whether a weight that is off is quantized again by the backend, if the
                tensors around its node are quantized.
            is_lazy: whether switches are If nodes, so that only what is switched on is computed;
                else Where nodes, which every backend supports.
        """

    def float_at_sites(self, off: Collection[int], *, requantizes: bool = False) -> Any:
        """Return the model with some sites in floating point.

        Args:
            off: these sites.
            requantizes: whether weights among them have the elements that the backend computes with
                if it quantizes them again; see `requantizable_weights`.
        """

    def with_activations(self) -> Any:
        """Return the model in floating point, with the activations of its sites as outputs."""

    def source(self, site: Site) -> str:
        """Return the name of the tensor that an activation site quantizes.
        Several sites may share it.
        """

    def with_schemes(self, schemes: Mapping[int, Scheme | None]) -> QuantizedModel:
        """Return the model with other parameters at some sites, or None.
        The result is None for a bias means those that follow from its operands.
        """

    def proto_with_schemes(self, schemes: Mapping[int, Scheme | None]) -> Any:
        """Return the same model as `with_schemes`, as an ``onnx.ModelProto``, which is faster."""


class CodeTensors(Protocol):
    """The tensors of codes that a quantized model computes.

    Attributes:
        tensors: these, in the order of their nodes.
    """

    tensors: Sequence[CodeTensor]

    def with_codes(self) -> Any:
        """Return an ``onnx.ModelProto`` with all quantized tensors as outputs."""

    def split(
        self, codes: Mapping[str, Any], marked: Sequence[str] = ()
    ) -> tuple[Any, dict[str, Any]]:
        """Return an ``onnx.ModelProto`` that reads given quantized tensors, and its inputs.

        Args:
            codes: the quantized tensors.
            marked: tensors that are outputs as well.
        """

    def split_into_pairs(self, codes: Mapping[str, Any], marked: Sequence[str] = ()) -> Any:
        """Return the model of `split`, with Q/DQ pairs for operators on quantized tensors."""

    def float_nodes(self, name: str) -> Sequence[FloatNode]:
        """Return the float nodes between quantized tensors and the QuantizeLinear behind them,
        in order; none if another operator computes what it quantizes.
        """


@port
def find_code_tensors(model: Any) -> CodeTensors:
    """Return the quantized tensors of an ``onnx.ModelProto``, which is not changed."""


@port
def open_quantized(model: Any, references: Sequence[Any]) -> QuantizedModel:
    """Return a quantized ``onnx.ModelProto`` with its quantization sites.

    Args:
        model: the model, which is not changed.
        references: the model that it was made of, and other forms of that, for its weights.
    """


@port
def open_node_weights(model: Any, reference: Any) -> Iterator[QuantizedModel]:
    """Yield, for each node of a quantized ``onnx.ModelProto`` that reads quantized weights, a model
    with only that node, so that only its weights need memory.

    Args:
        model: the model.
        reference: the model that it was made of.
    """


@port
def quantize_again(request: Requantization) -> Sequence[Any] | None:
    """Return the models that a quantizer creates with the parameters of another one, one for each
    set of excluded nodes; None if it is not installed, or cannot create such models. The key is the
    package of the quantizer.

    Raises:
        Exception: the quantizer fails, or is stopped.
    """


class DiagnosisReports(Protocol):
    """Shows the steps and the result of a diagnosis."""

    def show_attempt(self, attempt: Attempt) -> None:
        """Report a finished step."""

    def show_result(self, result: DiagnosisResult) -> bool:
        """Report the result after all steps; return whether the reason of an inconclusive result is
        already on the console."""

    def show_saved_part(self, folder: str, name: str) -> None:
        """Report that a part of the model that shows the fault was saved."""

    def show_bug_report(self, text: str) -> None:
        """Show the text of a bug report."""


@port
def write_failure(folder: str, failure: Failure) -> None:
    """Write ``model.onnx``, and ``test_data_set_0`` with ``input_*.pb`` and ``output_*.pb``, in the
    form of onnx's backend tests.

    Raises:
        FileError: a file cannot be written.
    """


@port
def failure_text(failure: Failure) -> str:
    """Return the model of a failure as text in ONNX syntax, without the elements of large
    weights."""


@port
def failure_program(failure: Failure) -> str:
    """Return a program that needs only the backend and numpy, and exits with code 1 if the fault
    shows; empty for a backend without such a program.
    """


@port
def find_violations(
    model: Any, values: Mapping[str, Any], chosen: Collection[int] | None = None
) -> list[InvalidNode]:
    """Return the nodes of an ``onnx.ModelProto`` that violate the ONNX specification,
    with one rule each.

    Args:
        model: the model.
        values: by tensor of its main graph an array, as far as they are known.
        chosen: the positions of the nodes that are checked (default: all).
    """


@port
def find_model_violation(model: Any) -> str:
    """Return how an ``onnx.ModelProto`` as a whole violates the ONNX specification,
    such as two tensors of one name; empty if it is valid."""


@port
def sanitize_model(model: Any, *, fold_constants: bool = False) -> Any:
    """Return a copy of an ``onnx.ModelProto`` with inferred types and, if requested, folded
    constants, as ``surgeon sanitize`` saves it."""


@port
def describe_with_weights(model: Any) -> Model:
    """Return a description of an ``onnx.ModelProto``, with the values of its weights."""


@port
def apply_copies(model: Any, reference: Any, plan: CopyPlan) -> Any:
    """Return a copy of a model with the parts of the reference that a plan names."""


@port
def change_node(model: Any, output: str, variant: Variant, *, asks: bool = False) -> Any:
    """Return a copy of a model with a variant of the node that computes a tensor.

    Args:
        model: an ``onnx.ModelProto``.
        output: the tensor.
        variant: the node.
        asks: whether its weights become inputs of the model, the last ones.
    """


@port
def find_quantized_operands(model: Any) -> list[QuantizedOperand]:
    """Return the operands that are quantized and dequantized before a node reads them."""


@port
def dequantize_model(model: Any) -> Any:
    """Return a copy of a model in which nodes read unquantized tensors,
    with weights in floating point.
    """


@port
def requantize_model(reference: Any, model: Any, places: Iterable[tuple[str, int, str]]) -> Any:
    """Return a copy of a model with operands quantized as in another model.

    Args:
        reference: an ``onnx.ModelProto``.
        model: the other.
        places: nodes of the first, by their names or those of what they make, positions of their
            operands, and what is read in place of them in the other.
    """
