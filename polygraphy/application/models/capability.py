"""Finds out which nodes of a model a backend supports, and why not the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from posixpath import basename, join, splitext
from typing import Any

from attrs import evolve

from polygraphy.binding import resolve
from polygraphy.domain.checks.capability import (
    ModelNode,
    ModelPart,
    Problem,
    SupportReport,
    parts_of,
)
from polygraphy.logger import G_LOGGER
from polygraphy.ports.editing import OpenModels
from polygraphy.ports.models import SupportChecker
from polygraphy.ports.reporting import BuildReports
from polygraphy.ports.storage import write_text

_OUTPUT = "polygraphy_capability_dumps"
_EXTERNAL_SUFFIX = "_ext_data"


def inspect_capability(
    model: Any,
    output: str | None = None,
    with_partitioning: bool = False,
    external_data_suffix: str | None = None,
    size_threshold: int | None = None,
    all_tensors_to_one_file: bool | None = None,
) -> bool:
    """Show which nodes of an ONNX model the parser of a backend does not support, and save that.

    Nothing is saved of a model that is supported.

    Args:
        model: an ``onnx.ModelProto``, or a loader that makes one.
        output: the folder for ``results.txt`` and the parts of the model
            (default: ``polygraphy_capability_dumps``).
        with_partitioning: whether the model is divided into parts that are supported and parts that
            are not, each of which is saved as a model.
        external_data_suffix: for weights of the parts in files beside them, named after each part
            with this text appended; the empty text stands for ``_ext_data``. Weights stay in the
            models unless this is given, or they take 2 GB.
        size_threshold: weights of more bytes go to such files (default: 1024).
        all_tensors_to_one_file: whether a part has a single such file, as it has unless this is
            False.

    Returns:
        Whether the whole model is supported.

    Raises:
        BackendError: the backend is not installed.
        FileError: the folder cannot be written.
    """
    loaded = model() if callable(model) else model
    report = _partitioned(loaded) if with_partitioning else _whole(loaded)
    resolve(BuildReports).support(report)
    if report.is_supported:
        return True
    folder = output or _OUTPUT

    def save(part: ModelPart) -> None:
        name = part.file_name
        resolve(OpenModels).save(
            _part(loaded, part.nodes),
            join(folder, name),
            external_data_path=_external(name, external_data_suffix),
            size_threshold=size_threshold,
            all_tensors_to_one_file=all_tensors_to_one_file,
        )

    _save(report, folder, save)
    parts = f" and {len(report.parts)} part(s) of the model" if report.parts else ""
    G_LOGGER.info(f"Saved results.txt{parts} in the folder {folder}.")
    return False


def _save(report: SupportReport, folder: str, save: Callable[[ModelPart], None]) -> None:
    for part in report.parts:
        save(part)
    write_text(join(folder, "results.txt"), report.table())


def _external(name: str, suffix: str | None) -> str | None:
    if suffix is None:
        return None
    return splitext(basename(name))[0] + (suffix or _EXTERNAL_SUFFIX)


def _whole(model: Any) -> SupportReport:
    """Ask about the model as a whole."""
    problems = resolve(SupportChecker).problems(model)
    operators = resolve(OpenModels).open(model, as_it_is=True).operators
    return SupportReport(not problems, tuple(map(ModelNode, operators)), tuple(problems))


def _part(model: Any, nodes: Sequence[int]) -> Any:
    """Return a model of some of the nodes."""
    opened = resolve(OpenModels).open(model, as_it_is=True)
    return opened.part(nodes, outputs=opened.needed_of(nodes), keeps_types=True)


def _partitioned(model: Any) -> SupportReport:
    """Divide the model into parts, and say about each that is not supported why."""
    report = _whole(model)
    if report.is_supported:
        return report
    count = len(report.nodes)
    parts = parts_of(count, _supported(model, list(range(count))))
    return evolve(report, parts=tuple(_explained(model, part, report.problems) for part in parts))


def _supported(model: Any, positions: list[int]) -> list[list[int]]:
    """Return groups of nodes that are supported.

    Args:
        model: some nodes of the model that was asked about.
        positions: the position in that of each node of `model`.
    """
    found: list[list[int]] = []
    for group, is_supported in resolve(SupportChecker).groups(model):
        if is_supported:
            found.append([positions[node] for node in group])
        elif 0 < len(group) < len(positions):
            found += _supported(_part(model, group), [positions[node] for node in sorted(group)])
    return found


def _explained(model: Any, part: ModelPart, known: tuple[Problem, ...]) -> ModelPart:
    """Add the reasons to a part that is not supported: those that were given for the whole model,
    else those that are given for the part alone.
    """
    if part.is_supported:
        return part
    problems = [problem for problem in known if problem.node in part.nodes]
    if not problems:
        alone = resolve(SupportChecker).problems(_part(model, part.nodes))
        problems = [
            evolve(one, node=None if one.node is None else one.node + part.start) for one in alone
        ]
    return evolve(part, problems=tuple(problems))
