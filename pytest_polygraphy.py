"""The pytest plugin of Polygraphy: fixtures, and the session state that its assertions need.

Every pytest session in an environment with Polygraphy loads it, so it imports only pytest and the
standard library. The tests that use `polygraphy` import it.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.register_assert_rewrite("polygraphy.assertions")

_MARKER = "polygraphy_models"
_FOLDER = "__goldens__"
_WORKER = "polygraphy"


class PolygraphySession:
    """The options and results of a pytest session, which assertions read and write.

    Attributes:
        updates: whether golden files are created or updated.
        sample: the number of elements of an output that new golden files keep; 0 for all.
        budget: the time limit in seconds of the search for the first layer that differs.
        report: the folder of the page about all comparisons; empty for none.
        used: the paths of the golden files that tests used.
        remarks: lines to print at the end of the session.
        comparisons: the test and the result of each comparison.
        failed: the tests that failed, in order.
        session: the session of pytest, once its tests have ended.
    """

    def __init__(self, config: pytest.Config) -> None:
        """Start a session without outcomes."""
        self.updates = bool(config.getoption("polygraphy_update_golden"))
        self.sample = int(config.getoption("polygraphy_golden_sample"))
        self.budget = float(config.getoption("polygraphy_budget"))
        self.report = str(config.getoption("polygraphy_report") or "")
        self._item: pytest.Item | None = None
        self.session: pytest.Session | None = None
        self.used: set[str] = set()
        self.remarks: list[str] = []
        self.comparisons: list[tuple[str, Any]] = []
        self.failed: dict[str, None] = {}
        self._config = config
        self._root = config.rootpath
        self._start = time.perf_counter()
        self._collected: dict[str, set[str]] = defaultdict(set)
        self._passed: Counter[str] = Counter()
        self._ended: set[str] = set()
        self._partial = {
            self._relative_path(
                Path(str(config.invocation_params.dir), argument.partition("::")[0])
            )
            for argument in config.args
            if "::" in argument
        }

    def _relative_path(self, path: Path) -> str:
        """Return a path relative to the root folder of the tests, if it is inside it."""
        try:
            return path.resolve().relative_to(self._root).as_posix()
        except ValueError:
            return path.as_posix()

    def start_test(self, item: pytest.Item) -> None:
        """Record the test that runs from now on."""
        self._item = item

    @property
    def nodeid(self) -> str:
        """Return the ID of the test that runs; empty outside of a test."""
        return self._item.nodeid if self._item is not None else ""

    @property
    def name(self) -> str:
        """Return the name of the test that runs, without its file."""
        return self.nodeid.partition("::")[2].replace("::", ".")

    @property
    def folder(self) -> str:
        """Return the folder of the golden files of the test that runs."""
        path = self._item.path if self._item is not None else Path()
        return str(path.parent / _FOLDER / path.stem)

    @property
    def temporary_folder(self) -> str | None:
        """Return pytest's folder for temporary files; None if its plugin for them is disabled."""
        factory = getattr(self._config, "_tmp_path_factory", None)
        return None if factory is None else str(factory.getbasetemp())

    def record_selected(self, nodeids: Iterable[str]) -> None:
        """Record the IDs of tests that will run."""
        for nodeid in nodeids:
            self._collected[nodeid.partition("::")[0]].add(nodeid)

    def record_deselected(self, items: Iterable[pytest.Item]) -> None:
        """Record the files of tests that will not run."""
        self._partial.update(item.nodeid.partition("::")[0] for item in items)

    def record_outcome(self, report: pytest.TestReport) -> None:
        """Record the outcome of a phase of a test."""
        if report.when == "call" and report.passed:
            self._passed[report.nodeid.partition("::")[0]] += 1
        if report.failed:
            self.failed[report.nodeid] = None
        if report.when == "teardown":
            self._ended.add(report.nodeid)

    def unused_goldens(self) -> list[Path]:
        """Return the golden files that no test used, for test files in which every test passed."""
        paths: list[Path] = []
        for name, nodeids in self._collected.items():
            if name in self._partial or self._passed[name] < len(nodeids):
                continue
            file = self._root / name
            glob = (file.parent / _FOLDER / file.stem).glob("*.safetensors")
            paths += [path for path in glob if str(path) not in self.used]
        return sorted(paths)

    def serialize(self) -> bytes:
        """Return the results of this worker process, for the process that started it."""
        import pickle  # Imported late: only sessions with several processes need it.

        return pickle.dumps((self.used, self.remarks, self._partial, self.comparisons))

    def merge(self, sent: bytes) -> None:
        """Add the serialized results of a worker process."""
        import pickle

        used, remarks, partial, comparisons = pickle.loads(sent)
        self.used |= used
        self.remarks += remarks
        self._partial |= partial
        self.comparisons += comparisons

    def closing_lines(self, command: str, exit_status: int) -> Iterator[str]:
        """Yield the lines at the end of the test run, and write the report."""
        yield from self.remarks
        for path in self.unused_goldens():
            yield f"unused golden file: {self._relative_path(path)}"
        if self.updates and self.used:
            yield f"{len(self.used)} golden file{'s' * (len(self.used) != 1)} updated"
        if self.report:
            # Written even without comparisons, to replace the page of an earlier session.
            from polygraphy.assertions import write_report

            seconds = round(time.perf_counter() - self._start, 3)
            missing = len(set().union(*self._collected.values()) - self._ended)
            about = (exit_status, [*self.failed], missing)
            page = write_report(self.report, command, self.comparisons, seconds, *about)
            yield f"report: {page}"


current: PolygraphySession | None = None
"""The session of this process, for `polygraphy.assertions`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin to pytest."""
    group = parser.getgroup("polygraphy", "Polygraphy: tests of models")
    group.addoption(
        "--polygraphy-update-golden",
        action="store_true",
        help="Create or update the golden files of the tests that run.",
    )
    group.addoption(
        "--polygraphy-golden-sample",
        type=int,
        default=0,
        metavar="N",
        help="Number of elements of each output to store in new golden files, with statistics of"
        " all elements (default: all elements).",
    )
    group.addoption(
        "--polygraphy-budget",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="Time limit of the search for the first layer that differs, after a failure; 0 turns"
        " the search off (default: 10).",
    )
    group.addoption(
        "--polygraphy-report", metavar="DIR", help="Save a report of all comparisons to DIR."
    )
    parser.addini(
        _MARKER, "Patterns of the models that the fixture onnx_model returns.", "args", default=[]
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and start a `PolygraphySession`."""
    global current  # noqa: PLW0603 - `polygraphy.assertions` asks for it, and imports no pytest
    config.addinivalue_line(
        "markers", f"{_MARKER}(*patterns): run the test for each model that matches a pattern."
    )
    current = PolygraphySession(config)


def pytest_unconfigure() -> None:
    """Drop the `PolygraphySession`."""
    global current  # noqa: PLW0603
    current = None


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Remove the page of an earlier session: an option or a conftest.py may be invalid."""
    _remove_page(getattr(early_config.known_args_namespace, "polygraphy_report", None))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Remove the page of an earlier session, because this one may crash before it writes one."""
    if current is not None and not hasattr(session.config, "workerinput"):
        _remove_page(current.report)


def _remove_page(folder: str | None) -> None:
    """Remove the page of a session from a folder, if there is one."""
    for name in ("report.json", "index.html") if folder else ():
        with suppress(OSError):
            Path(str(folder), name).unlink()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Record the collected tests."""
    if current is not None:
        current.record_selected(item.nodeid for item in session.items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(ids: list[str]) -> None:
    """Record the tests that a worker process collected."""
    if current is not None:
        current.record_selected(ids)


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Record the deselected tests."""
    if current is not None:
        current.record_deselected(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Record the test that starts."""
    if current is not None:
        current.start_test(item)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record the outcome of a phase of a test."""
    if current is not None:
        current.record_outcome(report)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show errors with a complete message without a traceback, but with the line of the test."""
    report = yield
    raised = call.excinfo
    if raised is not None and report.failed and getattr(raised.value, "says_enough", False):
        lines_of_test = [
            entry.lineno + 1 for entry in raised.traceback if Path(entry.path) == item.path
        ]
        where = f"{report.nodeid.partition('::')[0]}:{lines_of_test[-1]}: " if lines_of_test else ""
        kind = type(raised.value).__name__
        # The first line appears in pytest's summary.
        report.longrepr = _escape_text(f"{raised.value}\n{where}{kind}")
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep the session open, or send the results of a worker process of pytest-xdist.

    Other plugins may still change the exit status.
    """
    if current is not None:
        current.session = session
    output = getattr(session.config, "workeroutput", None)
    if output is not None and current is not None:
        output[_WORKER] = current.serialize()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add the results of a worker process; one that crashed sent none."""
    sent = getattr(node, "workeroutput", {}).get(_WORKER)
    if sent is not None and current is not None:
        current.merge(sent)


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Print the remarks about golden files, and write the report."""
    if current is None:
        return
    command = " ".join(["pytest", *config.invocation_params.args])
    status = exitstatus if current.session is None else current.session.exitstatus
    lines = [*current.closing_lines(command, int(status))]
    if lines:
        terminalreporter.section("polygraphy")
        for line in lines:
            terminalreporter.line(_escape_text(line))


def _escape_text(text: str) -> str:
    """Return a text with control characters and commands for GitHub's runner escaped."""
    from polygraphy.logger.sinks import escape_controls

    return escape_controls(text)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each selected model, if it uses the plugin's fixture `onnx_model`."""
    if "onnx_model" not in metafunc.fixturenames or not _uses_own_fixture(metafunc):
        return
    config, marker = metafunc.config, metafunc.definition.get_closest_marker(_MARKER)
    if marker and marker.kwargs:
        raise pytest.Collector.CollectError(
            f"{metafunc.definition.nodeid}: {_MARKER} accepts only patterns of files, not"
            f" {', '.join(marker.kwargs)}. Pass options to assert_outputs_match."
        )
    patterns = marker.args if marker else config.getini(_MARKER)
    if not patterns:
        return
    base = metafunc.definition.path.parent if marker else config.rootpath
    models = [_matching_paths(base, str(pattern)) for pattern in patterns]
    every = list(dict.fromkeys(path for paths in models for path in paths))
    ids = [_escape_text(str(path.relative_to(base))) for path in every]
    metafunc.parametrize("onnx_model", every, ids=ids)


def _uses_own_fixture(metafunc: pytest.Metafunc) -> bool:
    """Return whether a test uses the plugin's fixture `onnx_model`, which nothing replaces."""
    paths = getattr(metafunc, "_arg2fixturedefs", {}).get("onnx_model", ())
    iter_markers = metafunc.definition.iter_markers("parametrize")
    names = {name.strip() for marker in iter_markers for name in _argument_names(marker)}
    return bool(paths) and paths[-1].func.__module__ == __name__ and "onnx_model" not in names


def _argument_names(marker: pytest.Mark) -> list[str]:
    """Return the argument names in a `parametrize` marker."""
    names = marker.args[0] if marker.args else marker.kwargs.get("argnames", ())
    return names.split(",") if isinstance(names, str) else list(names)


def _matching_paths(base: Path, pattern: str) -> list[Path]:
    """Return the paths that match a pattern; raise CollectError if there are none."""
    glob = sorted(base.glob(pattern))
    if not glob:
        raise pytest.Collector.CollectError(f"{_MARKER}: no file in {base} matches {pattern!r}.")
    return glob


@pytest.fixture
def onnx_model(request: pytest.FixtureRequest) -> Path:
    """Return the path of an ONNX model; the test runs once for each selected model.

    The marker or the ini option `polygraphy_models` selects them.
    """
    pytest.fail(  # Called only if no models are selected.
        f"onnx_model: no models are selected. Add @pytest.mark.{_MARKER}('models/*.onnx'), or set"
        f" {_MARKER} = models/*.onnx in the pytest configuration.",
        pytrace=False,
    )


@pytest.fixture
def polygraphy() -> ModuleType:
    """Return the module `polygraphy.assertions`."""
    from polygraphy import assertions

    return assertions
