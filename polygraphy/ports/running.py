"""What runs models: runners, loaders, and what is asked of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from polygraphy.binding import port

if TYPE_CHECKING:
    import numpy as np

    from polygraphy.domain.catalog.compute import ComputePrecision
    from polygraphy.domain.profiling.execution import ExecutionProfile, ModelNodes
    from polygraphy.domain.results.results import DeviceTimes
    from polygraphy.domain.search.check_rules import Finished
    from polygraphy.domain.tensors.facts import Facts
    from polygraphy.domain.tensors.metadata import TensorMetadata


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


class RunnerExtras(Protocol):
    """What a `Runner` may have besides, method by method."""

    def get_model_facts(self) -> Facts:
        """Return what is known of the model: data types in which it computes, sources of its
        outputs; only while active.
        """

    def last_device_times(self) -> DeviceTimes | None:
        """Return what the device measured of the last `infer`; None where it did not."""

    def runner_of(self, feed_dict: Mapping[str, Any]) -> Runner:
        """Return the runner that takes a feed dictionary, of one that consists of several; only
        while active.
        """

    def device_memory(self) -> int:
        """Return the bytes that activations take; only while active."""

    def open_profiler(self) -> NodeProfiler:
        """Open the model with the profiler of the backend; only while active.

        Raises:
            BackendError: the backend cannot profile this model.
        """

    @property
    def uses_device(self) -> bool:
        """Whether it computes on a device, where the first inference loads libraries and kernels;
        only while active.
        """


class NodeProfiler(Protocol):
    """Runs a model with the profiler of its backend, which measures each executed node."""

    def infer(self, feed_dict: Mapping[str, Any]) -> None:
        """Run the model once.

        Args:
            feed_dict: one array per input.

        Raises:
            BackendError: the backend could not run the model.
        """

    def finish(self, groups: Sequence[Sequence[int]]) -> list[ExecutionProfile]:
        """End profiling, and return a profile for each group of runs; it cannot run any more.

        Args:
            groups: the positions of the runs, from 0. Runs that are in no group are dropped.

        Raises:
            BackendError: the backend measured nothing.
        """

    def close(self) -> None:
        """Release the model, and delete temporary files; again is allowed."""


Promise = Literal["leaves_inputs_alone", "outputs_are_fresh", "rewrites_nothing"]
"""Attributes that a `Runner` may have besides, False where it has none.

- ``leaves_inputs_alone``: no inference writes to the arrays that it is passed, nor keeps them.
- ``outputs_are_fresh``: each inference returns arrays that no later one overwrites.
- ``rewrites_nothing``: an output does not depend on which other tensors are outputs.

They hold for the class that states them, not for one derived from it that infers in another way.
"""


T_co = TypeVar("T_co", covariant=True)


class Loader(Protocol[T_co]):
    """A callable without arguments. Making it does no work; every call does the work."""

    def __call__(self) -> T_co:
        """Do the work; what cannot be done is raised as one of `polygraphy.domain.errors`."""


T = TypeVar("T")


@port
def call_isolated(
    function: Callable[[], T],
    *,
    what: str,
    timeout: float | None = None,
    is_silent: bool = False,
) -> T:
    """Call a function and hand over what it returns, or raise what it raised.

    Args:
        function: what to call; changes that it makes to objects of the caller are lost.
        what: what is being done, for messages: the name of a runner.
        timeout: how long it may take, in seconds; None for as long as it takes.
        is_silent: whether what it writes to standard error is of no interest.

    Raises:
        BackendError: it crashed, was killed, or took too long.
    """


class KeptObject(Protocol):
    """What a `WarmProcess` keeps: as an argument of a call there, it is that.

    Attributes:
        is_there: whether the process has it still; not after a crash.
    """

    is_there: bool


class WarmProcess(Protocol):
    """Calls functions in a process that was started anew, never forked, and stays warm. It starts
    when it is first needed, starts again after a crash, and ends with this process. Functions and
    arguments are pickled, so modules that define them must be importable; models and arrays go
    through memory that both processes map.
    """

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function there, and return what it returns, or raise what it raises.

        Raises:
            BackendError: it crashed, was killed, or took too long.
            UsageError: something cannot be pickled.
        """

    def keep(self, function: Callable[..., Any], *arguments: Any) -> KeptObject:
        """Call a function, and keep there what it returns as long as what this returns exists.

        Raises:
            BackendError: as for `call`.
        """

    def limited(
        self, timeout: float | None = None, is_silent: bool = False
    ) -> AbstractContextManager[None]:
        """Limit each call in a block.

        Args:
            timeout: how long it may take, in seconds.
            is_silent: whether what it writes to standard error is of no interest.
        """

    def close(self) -> None:
        """End the process, with what it keeps, until it is needed again."""


@port
def warm_process(what: str, key: str) -> WarmProcess:
    """Return the process for a backend setting, the same each time.

    Args:
        what: whose calls these are, for messages.
        key: the setting.

    Raises:
        UsageError: the operating system has no such processes.
    """


@port
def is_fork_safe() -> bool:
    """Return whether this process may be forked: no library uses a device in it, or threads that a
    forked process lacks.
    """


@port
def find_facts(model: Any, lowered: ComputePrecision | None = None) -> Facts:
    """Return what is known of a model: an ``onnx.ModelProto``, its bytes, or its path.

    Args:
        model: the model.
        lowered: how its backend computes operators on float32 tensors, if not in float32.

    Facts are an extra: of a model that cannot be read, or is too large to be read on the side,
    nothing is known.
    """


@port
def model_nodes(model: Any) -> ModelNodes:
    """Return the nodes of a model, without weights.

    Args:
        model: an ``onnx.ModelProto``, its path, or a loader.

    Raises:
        FileError: there is no such file.
        ModelError: it is not an ONNX model.
    """


@port
def read_backend_profile(path: str, layers: str | None) -> list[ExecutionProfile]:
    """Return the profiles in a file that the profiler of a backend wrote.

    Args:
        path: the file.
        layers: another file that says what was executed; None if there is none.

    Raises:
        FileError: a file is damaged.
        UsageError: the file contains no run.
    """


@port
def node_inputs(model: Any, op: str, name: str, shapes: Mapping[str, Sequence[int]]) -> str:
    """Return what a node is given, for the message of a backend that fails at it: its opset,
    and its inputs with data types and shapes; empty where that is not known.

    Args:
        model: an ``onnx.ModelProto``, its bytes, or its path.
        op: the operator of the node.
        name: its name; may be empty.
        shapes: those of the data, by input of the model.
    """


@port
def ranked_inputs(model: Any) -> Collection[str]:
    """Return the inputs of a model whose rank it tells: an ``onnx.ModelProto``, its bytes, or
    its path; none of one that cannot be read.
    """


@port
def first_omission(model: str | bytes) -> str:
    """Return which node of a model, given by its path or its bytes, leaves out a numbered
    result; empty where none does, or the model cannot be read.
    """


@port
def input_metadata(model: Any) -> TensorMetadata:
    """Return what the model asks for."""


@port
def output_names(model: Any) -> list[str]:
    """Return the names of what the model gives."""


@port
def observe_tensors(
    model: Any, feed_dict: Mapping[str, Any], names: Sequence[str]
) -> dict[str, np.ndarray[Any, Any]]:
    """Return the values of some tensors, wherever in the graph they are.

    Raises:
        UnknownNameError: the model has no tensor of a name.
        BackendError: the model cannot be run.
    """


class RunningCommand(Protocol):
    """A command that was started."""

    def wait(self) -> Finished:
        """Wait for its end; it is stopped when its time is over."""

    def stop(self) -> None:
        """End it, with what it has started: its answer is not needed any more."""


class Commands(Protocol):
    """Runs commands."""

    def prepare(self, command: Sequence[str]) -> None:
        """Get ready to run a command soon, as far as that takes no waiting."""

    def start(
        self,
        command: Sequence[str],
        *,
        timeout: float | None = None,
        folder: str | None = None,
        environment: Mapping[str, str] | None = None,
        afresh: bool = False,
    ) -> RunningCommand:
        """Start a command, without a shell; it reads nothing. Several may run side by side.

        Args:
            command: the program and its arguments. ``polygraphy`` is the package that this is.
            timeout: how long it may take, in seconds; then it is stopped, with what it started.
            folder: where it runs (default: the current folder).
            environment: variables that it gets in addition.
            afresh: whether also a command of this package gets a new interpreter.

        Raises:
            UsageError: there is no such program, or it cannot be run.
        """

    def run(self, command: Sequence[str], *, timeout: float | None = None) -> Finished:
        """Run a command to its end; see `start`."""


@port
def can_ask() -> bool:
    """Return whether a user is there."""


@port
def ask(question: str) -> str:
    """Return the line that answers a question.

    Raises:
        CheckFailedError: nothing more will be answered.
    """
