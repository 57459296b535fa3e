"""The plan of a sweep, as its TOML file has it, checked."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from attrs import frozen

from polygraphy.domain.errors import UnknownNameError, UsageError
from polygraphy.domain.tensors.naming import split_words

Words = tuple[str, ...]


@frozen
class RunnerRow:
    """A runner of a plan: the flags of ``run`` that choose it.

    Attributes:
        gpu: whether it gets a GPU, where there are any.
        exclusive: whether nothing else runs beside it, so that its times can be compared.
    """

    name: str
    flags: Words
    gpu: bool = True
    exclusive: bool = False


@frozen
class ChoiceRow:
    """A precision, or input shapes: flags by runner or model pattern; an empty key applies
    to all.
    """

    name: str
    flags: Mapping[str, Words]

    def flags_for(self, name: str) -> Words | None:
        """Return the flags for a runner or a model; None if this row does not apply to it."""
        return next(
            (self.flags[key] for key in self.flags if not key or fnmatchcase(name, key)), None
        )


@frozen
class EnvironmentRow:
    """A Python environment: an interpreter, its folder, or packages to install.

    Attributes:
        runners: the runners in it; none for all.
    """

    name: str
    path: str
    requirements: str
    runners: Words


@frozen
class ReferenceRow:
    """The reference of every cell: a runner on the same or another model, or a file of saved
    results and inputs."""

    flags: Words = ()
    outputs: str = ""
    inputs: str = ""
    models: Mapping[str, str] = {}

    def model_for(self, model: str) -> str:
        """Return the path of the reference model for a model."""
        models = (self.models[key] for key in self.models if fnmatchcase(model, key))
        return next(models, model)


@frozen
class Plan:
    """The plan of a sweep. `flags` belong to every cell, and `within` is the error that is accepted
    of a quantized model when it is diagnosed with a float model as its reference. `names_seeds`
    says whether the plan lists seeds: then names of cells contain them, however many there are."""

    models: Words
    runners: Sequence[RunnerRow]
    precisions: Sequence[ChoiceRow]
    shapes: Sequence[ChoiceRow]
    seeds: tuple[int, ...]
    environments: Sequence[EnvironmentRow]
    reference: ReferenceRow
    iterations: int
    flags: Words
    same_machine: bool
    within: float = 0.1
    names_seeds: bool = False


@frozen
class KnownFailure:
    """Cells of a sweep that are known to fail, with the reason.

    Attributes:
        cell: a pattern of names of cells.
        until: the last day on which it counts, as in ``2026-12-31``; empty for no end.
    """

    cell: str
    reason: str
    until: str = ""

    def is_expired(self, today: str) -> bool:
        """Return whether its last day has passed."""
        return bool(self.until) and self.until < today


_KEYS = (
    "models", "runners", "precisions", "shapes", "seeds", "environments", "reference",
    "iterations", "flags", "same_machine", "within",
)  # fmt: skip


DATA_FLAGS = (
    "--data-loader-backend-module",
    "--data-loader-func-name",
    "--data-loader-script",
    "--input-shapes",
    "--inputs",
    "--iterations",
    "--iters",
    "--load-input-data",
    "--load-inputs",
    "--preprocess",
    "--seed",
    "--val-range",
)
"""Flags of ``run`` about input data: cells load the inputs that the reference ran on."""

_COMPARING_FLAGS = ("--load-outputs", "--load-results")
_SAVING_FLAGS = ("--save-input-data", "--save-inputs", "--save-outputs", "--save-results")
_KEYS_OF_FLAGS = {"--seed": "seeds = [1]", "--iterations": "iterations = 1"}
_KEYS_OF_FLAGS["--iters"] = _KEYS_OF_FLAGS["--iterations"]
"""Keys of the plan that set flags of the reference."""


WRITING_FLAGS = (
    "--gen", "--gen-script", "--log-file", "--openvino-cache", "--report",
    "--save-accuracy-results",
    "--save-engine", "--save-error-by-depth", "--save-error-metrics-plot", "--save-heatmaps",
    "--save-input-blob", "--save-input-data", "--save-inputs", "--save-onnx", "--save-outputs",
    "--save-pb", "--save-profile", "--save-results", "--save-tactic-replay",
    "--save-tactics", "--save-tensorboard",
    "--save-timeline", "--save-timing-cache", "--save-worst", "--timing-cache",
)  # fmt: skip
"""Flags of ``run`` that name what it writes, or keeps to be faster next time: no verdict follows
from the contents.
"""


def plan_of(data: Mapping[str, Any], backends: Sequence[str] = ()) -> Plan:
    """Return the plan that a mapping, such as a parsed TOML file, describes.

    Args:
        data: the content of the file.
        backends: the names of those that may be a reference without being a runner of the plan, if
            they are known.

    Raises:
        UsageError: an entry is invalid.
    """
    _check_keys("the plan", data, _KEYS)
    models = _texts("models", data.get("models", ()))
    if not models:
        raise _entry_error("models", "lists no model", 'as in models = ["models/*.onnx"]')
    _check_distinct("models", models)
    runners = [parse_runner(name, row) for name, row in _table(data, "runners").items()]
    if not runners:
        raise _entry_error("runners", "has no row", 'as in [runners] and onnxrt = "--onnxrt"')
    _check_rows("runners", {runner.name: runner.flags for runner in runners})
    names = [runner.name for runner in runners]
    precisions = _choices(data, "precisions", names)
    shapes = _choices(data, "shapes", None)
    for row in shapes:
        for words in row.flags.values():
            if flag := next((word for word in words if word.startswith("-")), ""):
                why = f"has {flag}, but a shape is INPUT:[SHAPE]"
                raise _entry_error(f"shapes, row {row.name!r}", why, 'as in s = "image:[1,3]"')
    seeds = data.get("seeds", [1])
    if not isinstance(seeds, (list, tuple)) or not all(_is_count(seed) for seed in seeds):
        raise _entry_error("seeds", "is not a list of integers", "as in seeds = [1, 2]")
    if not seeds:
        raise _entry_error("seeds", "has no value", "remove it for one seed")
    _check_distinct("seeds", seeds)
    iterations = data.get("iterations", 1)
    if not _is_count(iterations) or iterations < 1:
        raise _entry_error("iterations", "is not an integer from 1", "as in iterations = 5")
    within = data.get("within", 0.1)
    if isinstance(within, bool) or not isinstance(within, (int, float)) or not within > 0:
        raise _entry_error("within", "is not a number above 0", "as in within = 0.1")
    environments = [
        _environment(name, row, names) for name, row in _table(data, "environments").items()
    ]
    _check_rows("environments", {e.name: (e.path, e.requirements) for e in environments})
    reference = _reference(data.get("reference"), runners, backends)
    flags = _words("flags", data.get("flags", ()))
    _check_data_flags("flags", flags, reference)
    _check_reference_flags(reference.flags)
    for runner in runners:
        if runner.flags != reference.flags:  # The flags of the reference determine the inputs.
            _check_data_flags(f"runner {runner.name!r}", runner.flags, reference)
    for row in precisions:
        for words in row.flags.values():
            _check_data_flags(f"precisions, row {row.name!r}", words, reference)
    return Plan(
        models,
        runners,
        precisions,
        shapes,
        tuple(seeds),
        environments,
        reference,
        iterations,
        flags,
        _boolean("same_machine", data.get("same_machine", False)),
        float(within),
        "seeds" in data,
    )


def _check_data_flags(name: str, flags: Words, reference: ReferenceRow) -> None:
    """Raise UsageError if flags set the inputs, which only the reference may do."""
    for word in flags:
        flag = word.partition("=")[0]
        if flag in _COMPARING_FLAGS:
            hint = 'write reference = { outputs = "o.json", inputs = "i.json" }'
            raise _entry_error(
                name, f"has {flag}, but every cell is compared with the reference", hint
            )
        if flag not in DATA_FLAGS:
            continue
        if flag in {"--input-shapes", "--inputs"}:
            hint = "write shapes as a row of [shapes]"
        elif reference.outputs:
            hint = "the inputs are those of the reference in the plan"
        else:
            hint = f'write it in the reference, as in reference = "--onnxrt {flag} ..."'
            if flag in _KEYS_OF_FLAGS:
                hint = f"write it as {_KEYS_OF_FLAGS[flag]}"
        raise _entry_error(
            name, f"has {flag}, but every cell loads the inputs of the reference", hint
        )


def _check_reference_flags(flags: Words) -> None:
    """Raise UsageError if the flags of the reference have one that the sweep sets itself."""
    for flag in (word.partition("=")[0] for word in flags):
        if flag in _KEYS_OF_FLAGS:
            why = f"has {flag}, which a key of the plan sets"
            raise _entry_error("reference", why, f"write it as {_KEYS_OF_FLAGS[flag]}")
        if flag in _SAVING_FLAGS:
            why = f"has {flag}, but the sweep itself saves the results of the reference"
            raise _entry_error("reference", why, "remove it")


def read_known_failures(data: Mapping[str, Any]) -> list[KnownFailure]:
    """Return the known failures that a mapping, such as a parsed TOML file, lists.

    Raises:
        UsageError: an entry is invalid.
    """
    _check_keys("the file of known failures", data, ("known",))
    rows = data.get("known", [])
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise _entry_error("known", "is not a list of tables", "write [[known]] above each")
    return [_read_known_failure(number, row) for number, row in enumerate(rows, 1)]


def _read_known_failure(number: int, row: Mapping[str, Any]) -> KnownFailure:
    """Return the known failure that a row describes; raise UsageError if the row is not valid."""
    text = f"known failure {number}"
    _check_keys(text, row, ("cell", "reason", "until"))
    for key in ("cell", "reason"):
        if not isinstance(row.get(key), str) or not row[key]:
            raise _entry_error(text, f"has no {key}", "each has cell, a pattern, and reason")
    until = row.get("until", "")
    if until:
        try:
            until = datetime.date.fromisoformat(str(until)).isoformat()
        except ValueError:
            raise _entry_error(
                text, f"has an invalid date {until!r}", "as in until = 2026-12-31"
            ) from None
    return KnownFailure(row["cell"], row["reason"], until)


def _entry_error(name: str, why: str, hint: str) -> UsageError:
    """Return the UsageError for an invalid entry, with its name, the problem, and a hint."""
    return UsageError(f"{name}: it {why}.", hint=f"{hint[0].upper()}{hint[1:]}.")


def _check_keys(name: str, data: Mapping[str, Any], known_names: Sequence[str]) -> None:
    """Raise UnknownNameError if a mapping has an unknown key."""
    for key in data:
        if key not in known_names:
            raise UnknownNameError(f"In {name} the key", str(key), known_names)


def _table(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the table of this name; empty if it is missing, UsageError if it is not valid."""
    rows = data.get(name, {})
    if not isinstance(rows, Mapping):
        raise _entry_error(
            name, "is not a table", f"write [{name}], and below it a row for each: name = value"
        )
    if name in data and not rows:
        raise _entry_error(name, "has no value", "remove it, or add a row")
    return rows


def parse_runner(name: str, row: Any) -> RunnerRow:
    """Return the runner for a row of a plan or a ``--runner`` option:
    its flags, or a table with them.

    Raises:
        UsageError: the row is not valid.
    """
    text = f"runner {name!r}"
    if not isinstance(row, Mapping):
        row = {"flags": row}
    _check_keys(text, row, ("flags", "gpu", "exclusive"))
    flags = _words(text, row.get("flags", ()))
    if not flags:
        raise _entry_error(text, "has no flags", 'as in onnxrt = "--onnxrt"')
    gpu, exclusive = row.get("gpu", True), row.get("exclusive", False)
    return RunnerRow(name, flags, _boolean(text, gpu), _boolean(text, exclusive))


def _choices(data: Mapping[str, Any], axis: str, runners: Sequence[str] | None) -> list[ChoiceRow]:
    """Return the rows of an axis whose flags may depend on the runner, or on the model."""
    choices = []
    for name, row in _table(data, axis).items():
        text = f"{axis}, row {name!r}"
        if isinstance(row, Mapping):
            if not row:
                raise _entry_error(text, "has no value", "remove it, or add flags")
            if runners is not None:
                _check_keys(text, row, runners)
            flags = {str(key): _words(text, value) for key, value in row.items()}
        else:
            flags = {"": _words(text, row)}
        choices.append(ChoiceRow(name, flags))
    _check_rows(axis, {choice_row.name: tuple(choice_row.flags.items()) for choice_row in choices})
    return choices


def _environment(name: str, row: Any, runners: Sequence[str]) -> EnvironmentRow:
    """Return the environment that a row describes; raise UsageError if the row is not valid."""
    name_alone = f"environment {name!r}"
    if isinstance(row, str):
        row = {"path": row}
    if not isinstance(row, Mapping):
        raise _entry_error(name_alone, "is not a path", 'as in "1.26" = "venvs/1.26"')
    _check_keys(name_alone, row, ("path", "requirements", "runners"))
    path, requirements = row.get("path", ""), row.get("requirements", "")
    if not isinstance(path, str) or not isinstance(requirements, str):
        raise _entry_error(name_alone, "has a path that is not a string", "write it in quotes")
    if bool(path) == bool(requirements):
        raise _entry_error(name_alone, "requires either path or requirements", "set one of them")
    named = _texts(name_alone, row.get("runners", ()))
    for text in named:
        if text not in runners:
            raise UnknownNameError(f"In {name_alone} the runner", text, runners)
    return EnvironmentRow(name, path, requirements, named)


def _reference(row: Any, runners: Sequence[RunnerRow], backends: Sequence[str]) -> ReferenceRow:
    """Return the reference that a row describes; raise UsageError if the row is not valid."""
    if row is None:
        raise _entry_error("reference", "is missing", 'set the reference, as in reference = "onnx"')
    if isinstance(row, str):
        return ReferenceRow(_reference_flags(row, runners, backends))
    if not isinstance(row, Mapping):
        raise _entry_error(
            "reference", "is neither a string nor a table", 'as in reference = "onnx"'
        )
    _check_keys("reference", row, ("runner", "models", "outputs", "inputs"))
    texts = {key: row.get(key, "") for key in ("runner", "outputs", "inputs")}
    if not all(isinstance(text, str) for text in texts.values()):
        raise _entry_error("reference", "has a value that is not a string", "write paths in quotes")
    if texts["outputs"] or texts["inputs"]:
        if not (texts["outputs"] and texts["inputs"]) or texts["runner"] or "models" in row:
            raise _entry_error(
                "reference", "requires outputs and inputs, or a runner", "set both files"
            )
        return ReferenceRow((), texts["outputs"], texts["inputs"])
    models = row.get("models", {})
    if not isinstance(models, Mapping) or not all(isinstance(m, str) for m in models.values()):
        raise _entry_error(
            "reference", "has models that are not a table", 'as in models = {"a.onnx" = "b.onnx"}'
        )
    if not texts["runner"]:
        raise _entry_error("reference", "has no runner", 'as in runner = "onnx"')
    flags = _reference_flags(texts["runner"], runners, backends)
    return ReferenceRow(flags, models={str(key): str(value) for key, value in models.items()})


def _reference_flags(name: str, runners: Sequence[RunnerRow], backends: Sequence[str]) -> Words:
    """Return the flags of a reference: a runner of the plan, flags, or the name of a backend."""
    named = {runner.name: runner.flags for runner in runners}
    if name in named:
        return named[name]
    if name.startswith("--"):
        return _words("reference", name)
    if backends and name not in backends:
        raise UnknownNameError("As reference the runner", name, [*named, *backends])
    return (f"--{name}",)


def _words(name: str, value: Any) -> Words:
    """Return the flags in a value: a text, split as a shell splits it, or a list of words."""
    if isinstance(value, str):
        try:
            return tuple(split_words(value))
        except ValueError as error:
            raise _entry_error(
                name, f"has flags with invalid quoting ({error})", "close the quotes"
            ) from None
    return _texts(name, value)


def _texts(name: str, value: Any) -> Words:
    """Return a text or a list of texts as a tuple; raise UsageError for anything else."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, (list, tuple)) or not all(isinstance(word, str) for word in value):
        raise _entry_error(name, "is not a list of strings", 'as in ["a", "b"]')
    return tuple(value)


def _boolean(name: str, value: Any) -> bool:
    """Return a value that must be a bool; raise UsageError if it is not."""
    if not isinstance(value, bool):
        raise _entry_error(name, f"has {value!r} instead of true or false", "write true or false")
    return value


def _is_count(value: Any) -> bool:
    """Return whether a value is an integer, not negative and not a bool."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_distinct(axis: str, values: Sequence[Any]) -> None:
    """Raise UsageError if a value occurs twice."""
    twice = [value for value in dict.fromkeys(values) if list(values).count(value) > 1]
    if twice:
        raise _entry_error(axis, f"has {twice[0]!r} twice", "remove one of them")


def _check_rows(axis: str, rows: Mapping[str, Any]) -> None:
    """Raise UsageError if two rows have the same value under different names."""
    seen_values: dict[Any, str] = {}
    for name, row in rows.items():
        if row in seen_values:
            raise _entry_error(
                axis, f"has identical rows {seen_values[row]!r} and {name!r}", "remove one"
            )
        seen_values[row] = name
