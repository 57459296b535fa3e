"""Assertions for tests of models: that backends agree, that outputs of a model have not changed,
that arrays are close. Differences within rounding pass; a failure reports in a few lines the
location, the size and the first layer.

With pytest, the plugin `pytest_polygraphy` comes with this package: ``docs/testing.md``. Nothing is
logged if the logger has its default settings.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, TypeVar, Union, cast

import numpy as np
from attrs import frozen

from polygraphy import __version__
from polygraphy.adapters.arrays.foreign import host_copy
from polygraphy.adapters.console.terminal import Terminal, quantization_line
from polygraphy.adapters.files.small.goldens import (
    Golden,
    commit_with_model,
    golden_in,
    hash_of_inputs,
    save_golden,
)
from polygraphy.adapters.report.session import detail_of, file_facts
from polygraphy.application.compare.comparator import Comparator
from polygraphy.binding import bind, resolve
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.domain.accuracy.output_rows import Comparison
from polygraphy.domain.compare.simple import SimpleCompareFunc
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.errors import InputError, PolygraphyException, UnknownNameError, UsageError
from polygraphy.domain.ports import ResultStore, command_line
from polygraphy.domain.report.commands import diagnosis_command
from polygraphy.domain.report.document import VERDICTS, Document, Problem, Recorder
from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.domain.states.loading import StepLoader
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.naming import count_text, list_some, split_words
from polygraphy.domain.tensors.shapes import format_shape
from polygraphy.lifetime import end_group, start_command
from polygraphy.logger import G_LOGGER
from polygraphy.ports.models import save_model
from polygraphy.ports.reporting import Console, Findings
from polygraphy.ports.running import Runner
from polygraphy.python_command import safe_command

__all__ = ["OutputsDiffer", "assert_close", "assert_matches_golden", "assert_outputs_match"]

Tolerance = Union[float, str, Mapping[str, Union[float, str]]]
"""A number, ``"auto"``, or these by output."""
Shapes = Mapping[str, Sequence[int]]
T = TypeVar("T")

_BUDGET = 10.0
"""Time limit for finding the first layer that differs, in seconds."""
_MOST_ROWS = 4
"""Outputs that a failure lists."""


class OutputsDiffer(AssertionError):
    """Outputs differ by more than the tolerance; the message describes the output, the position and
    the cause."""


def assert_outputs_match(
    model: Any,
    backends: Sequence[str | Runner] | Mapping[str, str] = ("onnxrt", "onnx"),
    *,
    rtol: Tolerance = "auto",
    atol: Tolerance = "auto",
    inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    shapes: Shapes | None = None,
    seeds: int = 3,
    steps: int | None = None,
    first_model: str | Path | None = None,
) -> None:
    """Raise an AssertionError if a model gives different outputs in several backends.

    Args:
        model: the path of an ONNX model, or an ``onnx.ModelProto``.
        backends: names of backends as on the command line, optionally with their options
            (``"onnxrt --graph-optimization-level DISABLE_ALL"``), or runners. Each is compared with
            the next. A dictionary names them: ``{"plain": "onnxrt --graph-optimization-level
            DISABLE_ALL", "optimized": "onnxrt"}``.
        rtol: largest acceptable relative difference (default: the rounding limit).
        atol: largest acceptable absolute difference (default: the rounding limit).
        inputs: arrays by name, or a list of such dictionaries (default: generated data).
        shapes: shapes of inputs with dynamic dimensions, for generated data.
        seeds: number of generated input sets.
        steps: number of steps of a model with states; each backend runs on its own states (default:
            states are ordinary inputs).
        first_model: the path of an ONNX model that runs the first step, if prompt and decoding are
            two files.

    Raises:
        OutputsDiffer: the outputs differ.
        UsageError: a backend is unknown, there are fewer than two, or the model has no states.
    """
    __tracebackhide__ = True
    if len(backends) < 2:
        raise _hide_traceback(
            UsageError(
                "A comparison requires at least two backends.", hint="Choose a different path."
            )
        )
    if first_model is not None and steps is None:
        raise _hide_traceback(UsageError("first_model requires steps.", hint="Add steps=8."))
    data = _Data(inputs, shapes, 1, seeds, steps, None if first_model is None else str(first_model))
    with _silence_log(), _model_file(model, data) as path:
        flags = _flags_of_all(backends)
        listed = backends.values() if isinstance(backends, Mapping) else backends
        more = data.step_flags()
        runners = [
            _runner(path, words_of_runner, words and [*words, *more])
            for words_of_runner, words in zip(listed, flags)
        ]
        recorder, verdicts, _ = _run_and_compare(runners, data, None, rtol, atol)
        if not verdicts:
            command = data.command(path, [*chain.from_iterable(flags)]) if all(flags) else ""
            raise _difference_error(recorder, path, command)


def assert_matches_golden(
    model: Any,
    name: str = "",
    *,
    backend: str | Runner = "onnxrt",
    rtol: Tolerance | None = None,
    atol: Tolerance | None = None,
    inputs: Mapping[str, Any] | None = None,
    shapes: Shapes | None = None,
    seed: int = 1,
    folder: str | Path | None = None,
) -> None:
    """Raise an AssertionError if a model gives other outputs than its golden file,
    which ``pytest --polygraphy-update-golden`` writes.

    Args:
        model: the path of an ONNX model, or an ``onnx.ModelProto``.
        name: name of the golden (default: the name of the test).
        backend: backend that runs the model; see `assert_outputs_match`.
        rtol: largest acceptable relative difference (default: the value in the golden; for a new
            golden the rounding limit).
        atol: largest acceptable absolute difference, with the same default.
        inputs: arrays by name (default: generated data).
        shapes: shapes of inputs with dynamic dimensions, for generated data.
        seed: seed of the generated data.
        folder: folder of the golden (default: ``__goldens__/NAME_OF_TEST_FILE`` beside the test).

    Raises:
        OutputsDiffer: the outputs differ from the golden.
        UsageError: there is no golden, or it was created with other inputs.
        FileError: the golden is damaged.
    """
    __tracebackhide__ = True
    session = _session()
    data = _Data(inputs, shapes, seed, 1)
    with _silence_log(), _model_file(model, data) as path:
        file = _golden_file(session, folder, name)
        is_new = session is not None and session.updates
        if not is_new and not file.exists():
            raise UsageError(
                f"The golden file {_brief_path(file)} does not exist.",
                hint="Create it with pytest --polygraphy-update-golden, check it, and commit it.",
            )
        golden = None if is_new else golden_in(file)
        runner = _runner(path, backend)
        limits = _limits(golden, rtol, atol)
        if golden is None:
            outputs, feed = _compute_outputs(runner, data)
            _save(file, path, outputs, feed, limits, session.sample if session else 0)
        else:
            recorder, verdicts, feeds = _run_and_compare([runner], data, (file, golden), *limits)
            if hash_of_inputs(feeds[0]) != golden.inputs:
                raise UsageError(
                    f"The golden file {_brief_path(file)} was created with different inputs.",
                    hint="Use the same inputs, or create it again: --polygraphy-update-golden.",
                )
            changed = golden.model != file_facts([path])[0].sha256
            if not verdicts:
                # A sample of an output is not enough for a diagnosis: compare with --onnx.
                files = {"load_outputs": (str(file),)}
                expected = {"runners": ("onnx",)} if golden.sampled else files
                flags = _flags(backend) if isinstance(backend, str) else []
                command = data.command(path, flags, expected) if flags else ""
                older_model_command = ""
                if changed and command:
                    words = shlex.split(data.command(path, flags))[2:]
                    older_model_command = command_line("diagnose", words, {"reference": _OLD_MODEL})
                raise _difference_error(
                    recorder, path, command, _DifferingGolden(file, golden, older_model_command)
                )
            if changed and session is not None:
                session.remarks.append(
                    f"{_brief_path(file)} still matches, although the model changed"
                )
        if session is not None:
            session.used.add(str(file))


def assert_close(
    actual: Any, expected: Any, *, rtol: Tolerance = "auto", atol: Tolerance = "auto"
) -> None:
    """Raise an AssertionError if arrays of any library differ by more than a tolerance.

    Args:
        actual: an array, or arrays by name.
        expected: expected arrays, from the same library or another one.
        rtol: largest acceptable relative difference (default: the rounding limit of the data
            types).
        atol: largest acceptable absolute difference (default: the rounding limit).

    Raises:
        OutputsDiffer: the arrays differ.
        InputError: a value is not an array.
    """
    __tracebackhide__ = True
    with _silence_log():
        sides = [
            (name, [IterationResult(_arrays(side), runner_name=name)])
            for name, side in (("actual", actual), ("expected", expected))
        ]
        recorder, verdicts = _compare_results(RunResults(sides), rtol, atol)
        if not verdicts:
            raise _difference_error(recorder, "", "")


def _arrays(side: Any) -> dict[str, Any]:
    """Return NumPy arrays by name, for a mapping of arrays or a single array."""
    named = side if isinstance(side, Mapping) else {"array": side}
    for name, value in named.items():
        if value is None:
            raise InputError(f"{str(name)!r} is None, not an array.")
    named = {str(name): value for name, value in named.items()}
    return {n: np.asarray(v if isinstance(v, int) else host_copy(n, v)) for n, v in named.items()}


# Models, backends and data.


class _Data:
    """The input data of an assertion."""

    def __init__(
        self,
        inputs: Any,
        shapes: Shapes | None,
        seed: int,
        count: int,
        steps: int | None = None,
        first_model: str | None = None,
    ) -> None:
        """Set the inputs, or the shapes and the seed to generate them from."""
        single = isinstance(inputs, Mapping)
        self.inputs = [inputs] if single else None if inputs is None else list(inputs)
        self._shapes = dict(shapes or {})
        self._seed, self._count, self._steps = seed, count, steps
        self._first_model = first_model
        self.file = self.model = ""

    def loader(self) -> Any:
        """Return the data loader of the assertion."""
        if self._steps is None:
            return self._single_loader(self._count)
        return StepLoader(
            self.model,
            steps=self._steps,
            data_loader=self._single_loader(1),
            first_model=self._first_model,
        )

    def step_flags(self) -> list[str]:
        """Return the options that give runners the model of the first step."""
        if self._first_model is None:
            return []
        return ["--steps", f"{self._steps}", "--first-model", self._first_model]

    def _single_loader(self, count: int) -> Any:
        """Return the given inputs, or a loader of generated data with the requested shapes."""
        if self.inputs is not None:
            return [_arrays(feed) for feed in self.inputs]
        metadata = TensorMetadata()
        for name, shape in self._shapes.items():
            metadata.add(name, dtype=None, shape=tuple(shape))
        return DataLoader(self._seed, count, metadata if self._shapes else None)

    def command(self, path: str, flags: Sequence[str], *more: Mapping[str, Any]) -> str:
        """Return the command line that runs a model on the same data, in backends with these flags,
        with more options.
        """
        if self.inputs is not None:
            resolve(ResultStore).save(self._single_loader(1), self.file)
            data: dict[str, Any] = {"load_inputs": (self.file,)}
        else:
            shapes = {name: (tuple(dims),) for name, dims in self._shapes.items()}
            count = self._count if self._steps is None else 1
            data = {"seed": self._seed, "iterations": count, "input_shapes": shapes}
            data = {name: value for name, value in data.items() if value != 1}
        if self._steps is not None:
            data["steps"] = self._steps
        if self._first_model is not None:
            data["first_model"] = self._first_model
        return command_line("run", {"model_file": path}, flags, data, *more)


@contextmanager
def _model_file(model: Any, data: _Data) -> Iterator[str]:
    """Yield the path of a model.
    A model in memory is saved while it is needed, including for a diagnosis after a failure."""
    if isinstance(model, (str, Path)) and data.inputs is None:
        data.model = str(model)
        yield data.model
        return
    model_folder = getattr(_session(), "temporary_folder", None)
    folder = Path(tempfile.mkdtemp(prefix="polygraphy-", dir=model_folder))
    data.file, path = str(folder / "inputs.json"), str(model)
    is_needed = False
    try:
        if not isinstance(model, (str, Path)):
            path = str(folder / "model.onnx")
            save_model(model, path)
        data.model = path
        yield path
    except OutputsDiffer:
        is_needed = True
        raise
    finally:
        if not is_needed:
            shutil.rmtree(folder, ignore_errors=True)


def _flags(backend: str) -> list[str]:
    """Return the options that select a backend on a command line."""
    from polygraphy.cli.backends.built_in import backends_by_name, flag_of
    from polygraphy.mod.plugins import BACKENDS, entry_points_of

    name, *options = split_words(backend) or [""]
    known_names = [*backends_by_name(), *(entry.name for entry in entry_points_of(BACKENDS))]
    if name not in known_names:
        raise UnknownNameError("Backend", name, known_names)
    return [flag_of(name), *options]


def _flags_of_all(backends: Sequence[str | Runner] | Mapping[str, str]) -> list[list[str]]:
    """Return the options that select each of several backends on one command line.
    The result is empty for a runner. Backends with options become named runners, because an
    option would apply to all others."""
    names: Sequence[str] = ()
    if isinstance(backends, Mapping):
        names, backends = list(backends), list(backends.values())
    flags = [_flags(backend) if isinstance(backend, str) else [] for backend in backends]
    if not names and len(flags) > 1 and any(len(words) > 1 for words in flags):
        names = [words[0].lstrip("-") if words else "" for words in flags]
        names = [
            name if names[:at].count(name) == 0 else f"{name}-{names[:at].count(name) + 1}"
            for at, name in enumerate(names)
        ]
    if not names:
        return flags
    return [
        ["--runner", f"{name}={shlex.join(words)}"] if words else []
        for name, words in zip(names, flags)
    ]


def _runner(path: str, backend: str | Runner, flags: Sequence[str] = ()) -> Runner:
    """Return the runner of a model in a backend, from a program that the command line generates."""
    if not isinstance(backend, str):
        return backend
    from polygraphy.cli.commands.listing import load_command
    from polygraphy.cli.declare.option import flags_in
    from polygraphy.cli.parser import parse
    from polygraphy.codegen.render import render_list

    words = [path, *(flags or _flags(backend))]
    try:
        command = load_command("run").extend(flags_in(words))
        context = command.program(parse(command, words)).context
    except CommandLineError as error:
        raise UsageError(f"Backend {backend!r}: {error}") from error
    names: dict[str, Any] = {}
    steps = [*context["constants"], *context["run"].before]
    exec(render_list(steps, "runners", context["run"].runners), names)
    return cast("Runner", names["runners"][0])


def _compute_outputs(runner: Runner, data: _Data) -> tuple[IterationResult, Mapping[str, Any]]:
    """Return the outputs of a runner and its input data."""
    loader = data.loader()
    with bind(Console, cast("Any", Recorder())), bind(Findings, cast("Any", Recorder())):
        results = Comparator.run([runner], loader)
    return next(iter(results))[1][0], next(iter(loader))


def _run_and_compare(
    runners: Sequence[Runner],
    data: _Data,
    golden: tuple[Path, Golden] | None,
    rtol: Tolerance,
    atol: Tolerance,
) -> tuple[Recorder, AccuracyResults, Sequence[Mapping[str, Any]]]:
    """Return the record, the results and the data of a run that is compared.
    There may be a golden file to compare it with.
    """
    loader = data.loader()
    recorder = Recorder()
    with bind(Console, cast("Any", recorder)), bind(Findings, cast("Any", recorder)):
        results = Comparator.run(runners, loader)
    if golden is not None:
        file, saved = golden
        [(name, [outputs])] = results
        _check_shapes(file, saved, outputs)
        runs = [(name, [saved.select_elements(outputs)]), *RunResults.load(str(file))]
        results = RunResults(runs)
    return *_compare_results(results, rtol, atol), list(loader)


def _compare_results(
    results: RunResults, rtol: Tolerance, atol: Tolerance
) -> tuple[Recorder, AccuracyResults]:
    """Return the record and the results of a comparison, which the session reports."""
    recorder = Recorder()
    session = _session()
    if session is not None and session.report:
        recorder.look_closer(detail_of)
    with bind(Console, cast("Any", recorder)), bind(Findings, cast("Any", recorder)):
        judge = SimpleCompareFunc(rtol=cast("Any", rtol), atol=cast("Any", atol))
        verdicts = Comparator.compare_accuracy(results, compare_func=judge)
    if session is not None and session.report:
        session.comparisons += [(session.nodeid, comparison) for comparison in recorder.comparisons]
    return recorder, verdicts


def _golden_file(session: Any, folder: str | Path | None, name: str) -> Path:
    """Return the path of a golden file; its name has only safe characters."""
    if session is None and (folder is None or not name):
        raise UsageError(
            "Outside of a test, a golden has no default path.", hint="Pass its name and its folder."
        )
    name = name or session.name
    folder_path = Path(session.folder if folder is None else folder)
    older = folder_path / f"{_replace_characters(name, '-_.[]', '_')}.safetensors"
    if older.exists():
        return older
    return folder_path / f"{_replace_characters(name.rstrip(']'), '-_.', '-')}.safetensors"


def _replace_characters(name: str, allowed: str, mark: str) -> str:
    """Return a name with a mark in place of characters that are not alphanumeric or allowed."""
    return "".join(letter if letter.isalnum() or letter in allowed else mark for letter in name)


def _limits(
    golden: Golden | None, rtol: Tolerance | None, atol: Tolerance | None
) -> tuple[Tolerance, Tolerance]:
    """Return the tolerances: the requested ones, or else those of the golden file."""
    defaults = (golden.rtol, golden.atol) if golden is not None else ("auto", "auto")
    return defaults[0] if rtol is None else rtol, defaults[1] if atol is None else atol


def _save(
    file: Path,
    path: str,
    outputs: IterationResult,
    feed: Mapping[str, Any],
    limits: tuple[Tolerance, Tolerance],
    sample: int,
) -> None:
    """Write a golden file."""
    arrays = {name: np.asarray(array) for name, array in outputs.items()}
    modules = {name: sys.modules.get(name) for name in ("numpy", "onnx", "onnxruntime")}
    versions = {name: str(module.__version__) for name, module in modules.items() if module}
    rtol, atol = cast("Any", limits)
    golden = Golden(
        model=str(file_facts([path])[0].sha256),
        inputs=hash_of_inputs(feed),
        versions={"polygraphy": __version__, **versions},
        rtol=rtol,
        atol=atol,
        shapes={name: list(array.shape) for name, array in arrays.items()},
        sampled={name: sample for name, array in arrays.items() if 0 < sample < array.size},
    )
    save_golden(file, golden, outputs.runner_name, golden.select_elements(outputs))


def _check_shapes(file: Path, golden: Golden, outputs: IterationResult) -> None:
    """Raise an error if outputs have other shapes than in the golden file."""
    for name, shape in golden.shapes.items():
        now = list(np.shape(outputs[name])) if name in outputs else None
        if now is not None and now != shape:
            raise UsageError(
                f"Output {name!r} has shape {format_shape(now)}, but {format_shape(shape)} in"
                f" the golden file {_brief_path(file)}.",
                hint="If the change is intended, create it again: --polygraphy-update-golden.",
            )


def _session() -> Any:
    """Return the session of pytest if the plugin is active in a running test; else None."""
    plugin = sys.modules.get("pytest_polygraphy")
    return None if plugin is None else plugin.current


@contextmanager
def _silence_log() -> Iterator[None]:
    """Silence the log unless it was requested, and mark errors as complete messages."""
    with G_LOGGER.preserve():
        if G_LOGGER.module_severity.get() == G_LOGGER.INFO:
            G_LOGGER.module_severity = G_LOGGER.ERROR
        try:
            yield
        except (PolygraphyException, OutputsDiffer) as error:
            raise _hide_traceback(error)  # noqa: B904 - it is the same


def _hide_traceback(error: T) -> T:
    """Return an error, marked so that the plugin shows only its message, without a traceback."""
    error.says_enough = True  # type: ignore[attr-defined]
    return error


def _brief_path(path: Path) -> str:
    """Return a path relative to the current folder if it is inside, else unchanged."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


@frozen
class _DifferingGolden:
    """The golden file that outputs differ from, with the command that shows why.

    Attributes:
        file: its path.
        golden: its contents.
        older_model_command: compares with the model of the golden file; empty if it is the same.
    """

    file: Path
    golden: Golden
    older_model_command: str = ""


def _difference_error(
    recorder: Recorder, path: str, command: str, saved: _DifferingGolden | None = None
) -> OutputsDiffer:
    """Return the error that describes the differences, in about ten lines."""
    terminal = Terminal(recorder, command, path, "")
    [*rows] = (text for text, _ in terminal.tables() if text)
    shown_rows = rows[: _MOST_ROWS + 1]
    if len(rows) > len(shown_rows):
        shown_rows.append(f"  ... and {len(rows) - len(shown_rows)} more lines")
    why = takewhile(
        lambda line: not line.startswith("  next"), (t for t, _ in terminal.findings(1))
    )
    answer = terminal.verdict(1)
    if saved is not None:
        name = saved.file.name
        answer = re.sub("( differs?)\\b", lambda match: f"{match[1]} from {name}", answer, count=1)
    lines = [answer, *shown_rows, *why]
    if quantization := quantization_line(path):
        lines.append(f"  model     {quantization}")
    if saved is not None and saved.older_model_command:
        lines.append("  note      the model file differs from the one that created the golden")
    diagnosis = diagnosis_command(command) if command else ""
    if diagnosis:
        session = _session()
        verdict, layer = _first_layer(diagnosis, _BUDGET if session is None else session.budget)
        if saved is not None and verdict == VERDICTS[_INCONCLUSIVE]:
            # Running the same diagnosis again would not help.
            lines += _lines_on_older_model(path, saved) if saved.older_model_command else layer
        else:
            lines += [*layer, f"  next      {diagnosis}"]
    return OutputsDiffer("\n".join(lines))


def _first_layer(diagnosis: str, budget: float) -> tuple[str, list[str]]:
    """Return the verdict of a diagnosis, and a line on the node at fault.
    The verdict is empty if the diagnosis takes longer than the budget in seconds.
    """
    if budget <= 0:
        return "", []
    words = [sys.executable, "-m", "polygraphy", *shlex.split(diagnosis)[1:], "--format", "json"]
    process = start_command(safe_command(words), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        output, _ = process.communicate(timeout=budget)
        document = json.loads(output)
    except subprocess.TimeoutExpired:
        return "", [f"  layer     not found in {budget:g} s; raise --polygraphy-budget"]
    except ValueError:  # The search has no answer, but it did not fail.
        return "", []
    finally:
        end_group(process)
        process.communicate()
    verdict = str(document["verdict"])
    if document["culprits"] or verdict == VERDICTS[_INCONCLUSIVE]:
        return verdict, [f"  layer     {document['summary']}"]
    return verdict, []


_OLD_MODEL = "OLD.onnx"


def _lines_on_older_model(path: str, saved: _DifferingGolden) -> Iterator[str]:
    """Yield how to compare a model with the one from which its golden was created."""
    if commit := commit_with_model(saved.file, saved.golden, Path(path)):
        parent, name = Path(path).parent, f"./{Path(path).name}"
        folder = f"-C {shlex.quote(str(parent))} " if str(parent) != "." else ""
        target = shlex.quote(f"{commit}:{name}")
        yield f"  old model git {folder}show {target} > {_OLD_MODEL}"
    else:
        yield f"  old model {_OLD_MODEL}, with SHA-256 {saved.golden.model}"
    yield f"  next      {saved.older_model_command}"


_FAILED, _ERROR, _INCONCLUSIVE = 1, 3, 4
_CODES = {0: 0, 1: _FAILED}
"""Exit codes of this package by the exit status of pytest; others are errors."""
_MOST_TESTS = 5


def write_report(
    folder: str,
    command: str,
    comparisons: Sequence[tuple[str, Comparison]],
    seconds: float,
    exit_status: int = 0,
    failed_tests: Sequence[str] = (),
    missing: int = 0,
) -> str:
    """Write a page about a session of pytest; return its path.

    Args:
        folder: the folder for the page and its document.
        command: the command line of the session.
        comparisons: the name of a test and what it compared.
        seconds: the duration of the session.
        exit_status: the exit status of pytest; no page says "passed" of a session that did not.
        failed_tests: the tests that failed, for whatever reason.
        missing: the number of tests that did not run, because the session ended early.
    """
    from attrs import evolve

    from polygraphy.adapters.report.session import environment, json_of
    from polygraphy.domain.report.summary import summary_of
    from polygraphy.ports.reporting import report_page
    from polygraphy.ports.storage import write_text

    named = [
        evolve(comparison, parties=(f"{test}: {comparison.parties[0]}", comparison.parties[1]))
        for test, comparison in comparisons
    ]
    code = _CODES.get(exit_status, _ERROR)
    if not code and (missing or not named):
        code = _INCONCLUSIVE  # Nothing was compared, or not everything.
    if not code and not all(comparison.passed for comparison in named):
        code = _FAILED
    verdict = VERDICTS[code]
    problems = []
    if failed_tests:
        count = count_text(len(failed_tests), "test")
        names = list_some(failed_tests, _MOST_TESTS)
        problems.append(Problem("TestsFailed", f"{count} failed: {names}."))
    elif exit_status:
        problems.append(Problem("SessionFailed", f"pytest exited with status {exit_status}."))
    elif missing:
        problems.append(Problem("SessionFailed", f"{count_text(missing, 'test')} did not run."))
    elif not named:
        problems.append(Problem("SessionFailed", "No test compared outputs."))
    document = Document(
        command=command,
        started="",
        seconds=seconds,
        verdict=verdict,
        exit_code=code,
        summary=summary_of(verdict, named, problems, [], []),
        errors=problems,
        environment=environment(),
        comparisons=named,
    )
    folder_path = Path(folder)
    folder_path.mkdir(parents=True, exist_ok=True)
    write_text(str(folder_path / "report.json"), json_of(document))
    write_text(str(folder_path / "index.html"), report_page(document, None))
    return str(folder_path / "index.html")
