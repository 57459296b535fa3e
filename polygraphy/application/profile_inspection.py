"""Shows execution profiles that were saved."""

from __future__ import annotations

from attrs import evolve

from polygraphy.application.run.profiling import report_tables, tables_of
from polygraphy.domain.errors import UsageError
from polygraphy.domain.profiling.execution import ExecutionProfile
from polygraphy.ports.running import model_nodes
from polygraphy.ports.storage import load_profiles


def inspect_profile(
    path: str,
    other: str | None = None,
    model: str | None = None,
    layers: str | None = None,
    other_layers: str | None = None,
    sort: str | None = None,
    rows: int | None = None,
) -> None:
    """Show the time of each node in one profile, or in two, joined by the nodes of the model.

    Args:
        path: a profile from ``run --save-profile``, ONNX Runtime, trtexec or OpenVINO.
        other: a second profile (default: only the first one is shown).
        model: the model whose nodes are the rows (default: the one in the first profile).
        layers: the executed layers of the first profile, if its file lacks them: the graph of ONNX
            Runtime, or the file of ``trtexec --exportLayerInfo``.
        other_layers: the same for the second profile.
        sort: ``time``, ``difference`` or ``error`` (default: ``time``).
        rows: the number of rows to show; 0 for all (default: 15).

    Raises:
        FileError: a file is missing, damaged, or has another format.
        UsageError: a profile is of another model, or the profiles have no shapes in common.
    """
    nodes = None if model is None else model_nodes(model)
    first = load_profiles(path, layers)
    if other is None:
        report_tables(tables_of(first, nodes), sort, rows)
        return
    second = load_profiles(other, other_layers)
    pairs = pair_profiles(first, second, path, other)
    tables = [table for pair in pairs for table in tables_of(pair, nodes)]
    report_tables(tables, sort, rows)


def pair_profiles(
    first: list[ExecutionProfile], second: list[ExecutionProfile], path: str, other_name: str
) -> list[list[ExecutionProfile]]:
    """Return profiles of both files with equal shapes, and of runners with equal names if there are
    any; unknown shapes match any.
    """
    pairs = []
    for execution_profile in first:
        is_only = len(first) == len(second) == 1
        matches = [
            two for two in second if _have_equal_shapes(execution_profile, two, is_only=is_only)
        ]
        twins = [two for two in matches if two.runner == execution_profile.runner]
        for two in (twins or matches)[:1]:
            names = (
                [execution_profile.runner, two.runner]
                if not twins
                else _file_names(path, other_name, execution_profile.runner)
            )
            pairs.append(
                [
                    evolve(execution_profile, runner=names[0]),
                    evolve(two, runner=names[1], shapes=execution_profile.shapes),
                ]
            )
    if not pairs:
        raise UsageError(
            f"{path} and {other_name} have no input shapes in common:"
            f" {_shapes(first[0])} and {_shapes(second[0])}.",
            hint="Profile both with the same input shapes.",
        )
    return pairs


def _have_equal_shapes(
    profile: ExecutionProfile, other_profile: ExecutionProfile, *, is_only: bool
) -> bool:
    """Return whether other profiles have equal input shapes.
    Shapes are compared without names if input names differ, and not at all if each file has only
    one profile."""
    if (
        not profile.shapes
        or not other_profile.shapes
        or profile.shapes.keys() & other_profile.shapes.keys()
    ):
        names = profile.shapes.keys() & other_profile.shapes.keys()
        return all(list(profile.shapes[name]) == list(other_profile.shapes[name]) for name in names)
    return is_only or sorted(_shapes(profile).values()) == sorted(_shapes(other_profile).values())


def _shapes(profile: ExecutionProfile) -> dict[str, list[int]]:
    """Return the shapes of a profile, by name."""
    return {name: list(shape) for name, shape in sorted(profile.shapes.items())}


def _file_names(path: str, other_name: str, runner: str) -> list[str]:
    """Return display names for two profiles of one runner:
    the distinct ends of the file paths, or A and B for the same file."""
    parts = [name.replace("\\", "/").split("/") for name in (path, other_name)]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-count:]) for part in parts]
        if names[0] != names[1]:
            return names
    return [f"{runner} A", f"{runner} B"]
