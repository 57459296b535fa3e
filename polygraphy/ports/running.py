"""Ports for running models: runners, loaders, commands and other environments."""

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
    from polygraphy.domain.search.check_rules import CommandEnd
    from polygraphy.domain.tensors.facts import Facts
    from polygraphy.domain.tensors.metadata import TensorMetadata
    from polygraphy.domain.tensors.shapes import Shape


class Runner(Protocol):
    """Runs one model in one backend.

    Life cycle: ``activate``, any number of ``infer``, ``deactivate``; a runner can be activated
    again. As a context manager it is active inside the `with` block, and is deactivated however the
    block ends.
    """

    name: str

    @property
    def is_active(self) -> bool:
        """Return whether the runner is between `activate` and `deactivate`."""

    def activate(self) -> None:
        """Build or load the model, and allocate memory."""

    def deactivate(self) -> None:
        """Release the model and memory."""

    def __enter__(self) -> Any:
        """Activate and return the runner."""

    def __exit__(self, *exc_info: object) -> None:
        """Deactivate."""

    def get_input_metadata(self, use_numpy_dtypes: bool | None = None) -> TensorMetadata:
        """Return names, data types and shapes of the inputs, in the model's order;
        only while active.
        """

    def infer(self, feed_dict: Mapping[str, Any], check_inputs: bool = True) -> dict[str, Any]:
        """Return the outputs of one run of the model; only while active.

        Args:
            feed_dict: one array per input.
            check_inputs: whether names, data types and shapes are checked first.

        Returns:
            One array per output, in the model's order. The arrays may be overwritten by the next
            call.

        Raises:
            InputError: the data does not fit the model.
            BackendError: the backend could not run the model.
        """

    def last_inference_time(self) -> float | None:
        """Return the seconds that the last `infer` took; None if the runner does not measure it."""


class RunnerExtras(Protocol):
    """Optional methods of a `Runner`."""

    def get_model_facts(self) -> Facts:
        """Return the known facts about the model: data types of computations, sources of its
        outputs; only while active.
        """

    def declared_output_shapes(self) -> Mapping[str, Shape]:
        """Return the shapes of outputs that the model declares; only while active."""

    def last_device_times(self) -> DeviceTimes | None:
        """Return the times that the device measured for the last `infer`; None if it did not."""

    def runner_of(self, feed_dict: Mapping[str, Any]) -> Runner:
        """Return the runner that handles a feed dictionary, for a runner that combines several;
        only while active.
        """

    def accept_inputs(self, names: Collection[str]) -> None:
        """Make optional parameters with these names inputs of the model; only while active."""

    def device_memory(self) -> int:
        """Return the bytes of device memory for activations; only while active."""

    def open_profiler(self) -> NodeProfiler:
        """Return the model opened with the profiler of the backend; only while active.

        Raises:
            BackendError: the backend cannot profile this model.
        """

    @property
    def uses_device(self) -> bool:
        """Return whether it computes on a device, where the first inference loads libraries and
        kernels; only while active.
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
        """Return a profile for each group of runs, and end profiling.
        The model cannot run any more.

        Args:
            groups: the positions of the runs, from 0. Runs that are in no group are dropped.

        Raises:
            BackendError: the backend measured nothing.
        """

    def close(self) -> None:
        """Release the model, and delete temporary files; calling it twice is allowed."""


Promise = Literal["leaves_inputs_alone", "outputs_are_fresh", "rewrites_nothing"]
"""Attributes that a `Runner` may have besides, False where it has none.

- ``leaves_inputs_alone``: no inference writes to the arrays that it is passed, nor keeps them.
- ``outputs_are_fresh``: each inference returns arrays that no later one overwrites.
- ``rewrites_nothing``: an output does not depend on which other tensors are outputs.

They hold for the class that states them, not for one derived from it that infers in another way.
"""


T_co = TypeVar("T_co", covariant=True)


class Loader(Protocol[T_co]):
    """A callable without arguments. Creating it does no work; each call does the work."""

    def __call__(self) -> T_co:
        """Return the loaded object; raise one of `polygraphy.domain.errors` if that fails."""


T = TypeVar("T")


@port
def call_isolated(
    function: Callable[[], T],
    *,
    what: str,
    timeout: float | None = None,
    is_silent: bool = False,
    memory: int | None = None,
) -> T:
    """Return the result of a function called in a separate process, or raise its error.

    Args:
        function: the function to call; changes that it makes to objects of the caller are lost.
        what: the current activity, for messages: the name of a runner.
        timeout: time limit in seconds; None for as long as it takes.
        is_silent: whether what it writes to standard error is of no interest.
        memory: bytes that the process may allocate, or four times what the caller uses, if that is
            more; None for no limit. Only Linux has this limit.

    Raises:
        BackendError: it crashed, was killed, or took too long.
    """


class KeptObject(Protocol):
    """A handle of an object in a `WarmProcess`; passed to a call there, it is that object.

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
        """Return the result of a function that is called in the process, or raise its error.

        Raises:
            BackendError: it crashed, was killed, or took too long.
            UsageError: something cannot be pickled.
        """

    def keep(self, function: Callable[..., Any], *arguments: Any) -> KeptObject:
        """Return a handle of the result of a function called in the process,
        which stores the result as long as the handle exists.

        Raises:
            BackendError: as for `call`.
        """

    def begin_to_keep(self, function: Callable[..., Any], *arguments: Any) -> KeptObject:
        """Return a handle like `keep`, but without waiting for the result.
        The next call raises the function's error, if any."""

    def limit_calls(
        self, timeout: float | None = None, is_silent: bool = False
    ) -> AbstractContextManager[None]:
        """Return a context manager that limits each call in a block.

        Args:
            timeout: time limit in seconds.
            is_silent: whether what it writes to standard error is of no interest.
        """

    def close(self) -> None:
        """End the process, with everything it keeps; it is restarted when it is needed again."""


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
    """Return the facts about a model: an ``onnx.ModelProto``, its bytes, or its path.

    Args:
        model: the model.
        lowered: the precision in which its backend computes operators on float32 tensors, if not
            float32.

    Facts are optional: nothing is known about a model that cannot be read, or that is too large to
    be read in addition.
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
def describe_node_inputs(
    model: Any, op: str, name: str, shapes: Mapping[str, Sequence[int]]
) -> str:
    """Return a phrase for the error message of a backend:
    the opset of a node, and its inputs with data types and shapes; empty if they are not known.

    Args:
        model: an ``onnx.ModelProto``, its bytes, or its path.
        op: the operator of the node.
        name: its name; may be empty.
        shapes: those of the data, by input of the model.
    """


@port
def inputs_of_known_rank(model: Any) -> Collection[str]:
    """Return the inputs of a model with a declared rank.
    The model is an ``onnx.ModelProto``, its bytes, or its path. Empty if it cannot be read.
    """


@port
def crashing_node(model: str | bytes) -> tuple[str, str]:
    """Return a phrase for the first node that would end the process, and what to do; empty if none.
    The model is a path or bytes. The node would end the process in ONNX Runtime. Both texts are
    also empty if the model cannot be read.

    Raises:
        ModelError: the model has too many nodes after its functions are inlined.
    """


@port
def input_metadata(model: Any) -> TensorMetadata:
    """Return names, data types and shapes of the inputs of a model."""


@port
def output_names(model: Any) -> list[str]:
    """Return the names of the outputs of a model."""


@port
def observe_tensors(
    model: Any, feed_dict: Mapping[str, Any], names: Sequence[str]
) -> dict[str, np.ndarray[Any, Any]]:
    """Return the values of some tensors, from anywhere in the graph.

    Raises:
        UnknownNameError: the model has no tensor of a name.
        BackendError: the model cannot be run.
    """


class RunningCommand(Protocol):
    """A command that was started."""

    def wait(self) -> CommandEnd:
        """Return the result of the command at its end; it is stopped after its time limit."""

    def stop(self) -> None:
        """Stop the command and its child processes: its result is not needed any more."""


class Commands(Protocol):
    """Runs commands."""

    def prepare(self, command: Sequence[str]) -> None:
        """Prepare to run a command soon, without waiting."""

    def start(
        self,
        command: Sequence[str],
        *,
        timeout: float | None = None,
        folder: str | None = None,
        environment: Mapping[str, str] | None = None,
        in_new_process: bool = False,
    ) -> RunningCommand:
        """Return a command that was started without a shell and without input.
        Several may run in parallel.

        Args:
            command: the program and its arguments. ``polygraphy`` is the package that this is.
            timeout: time limit in seconds; then it is stopped, with what it started.
            folder: its working directory (default: the current folder).
            environment: variables that it gets in addition.
            in_new_process: whether a command of this package also gets a new interpreter.

        Raises:
            UsageError: there is no such program, or it cannot be run.
        """

    def run(self, command: Sequence[str], *, timeout: float | None = None) -> CommandEnd:
        """Return the result of a command that is run to its end; see `start`."""


class OtherEnvironment(Protocol):
    """A Python environment with its own version of a backend.

    Attributes:
        path: its path, as given.
        version: of the backend.
        install: the command line that installs that version.
        saves_graph: whether `runtime_graph` returns a graph, and `run` knows the setting ``plain``,
            with which nothing is rewritten.
    """

    path: str
    version: str
    install: str
    saves_graph: bool

    def run(
        self, model: Any, feed: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the outputs of an ``onnx.ModelProto``, run with settings of a `SuspectedParty`.

        Raises:
            BackendError: the backend refuses it there.
        """

    def runtime_graph(self, model: Any, settings: Mapping[str, Any]) -> Any | None:
        """Return the graph that the backend executes for an ``onnx.ModelProto``,
        as `SuspectedParty.runtime_graph` does; None if the backend does not save it there.

        Raises:
            BackendError: the backend refuses it there.
        """


@port
def open_environment(path: str) -> OtherEnvironment:
    """Return the environment of a Python interpreter, or of a virtual environment's folder, with
    its backend version.

    Raises:
        FileError: there is no interpreter.
        BackendError: the backend cannot be imported there.
    """


@port
def can_ask() -> bool:
    """Return whether a user can answer questions."""


@port
def ask(question: str) -> str:
    """Return the line with which the user answers a question.

    Raises:
        CheckFailedError: nothing more will be answered.
    """
