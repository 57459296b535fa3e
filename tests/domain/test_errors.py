from __future__ import annotations

import copy
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy import exception
from polygraphy.domain import errors
from polygraphy.domain.errors import (
    BackendError,
    CheckFailedError,
    DamagedFileError,
    DataTypeConversionException,
    FileError,
    InconclusiveError,
    InputError,
    MissingDependencyError,
    MissingFileError,
    ModelError,
    NotFetchedError,
    PolygraphyException,
    PolygraphyInternalException,
    UnavailableError,
    UnknownKeyError,
    UnknownNameError,
    UnsupportedModelError,
    UnsupportedOperatorError,
    UsageError,
    close_matches,
)

EXAMPLES: dict[str, Exception] = {
    "PolygraphyException": PolygraphyException("text", hint="Do this."),
    "UsageError": UsageError("text", hint="Do this."),
    "UnknownNameError": UnknownNameError("Input", "imput", ["input", "mask"]),
    "UnknownKeyError": UnknownKeyError("Input", "imput", ["input", "mask"]),
    "InputError": InputError("text", hint="Do this."),
    "CheckFailedError": CheckFailedError("text"),
    "FileError": FileError("text", path="model.onnx", hint="Do this."),
    "MissingFileError": MissingFileError("text", path="model.onnx", hint="Do this."),
    "DamagedFileError": DamagedFileError("text", path="model.onnx", hint="Do this."),
    "ModelError": ModelError("text", path="model.onnx"),
    "NotFetchedError": NotFetchedError("text", path="model.onnx"),
    "BackendError": BackendError("text", backend="onnx", hint="Do this."),
    "UnsupportedModelError": UnsupportedModelError("text", backend="trt", hint="do that"),
    "UnsupportedOperatorError": UnsupportedOperatorError("text", backend="onnx"),
    "UnavailableError": UnavailableError("text", backend="onnx", hint="Do this."),
    "MissingDependencyError": MissingDependencyError("text", module="onnx", install="pip"),
    "DataTypeConversionException": DataTypeConversionException("text"),
    "InconclusiveError": InconclusiveError("text"),
    "PolygraphyInternalException": PolygraphyInternalException("text"),
}


def _drawn_tree() -> dict[str, tuple[str, int]]:
    """Read the tree at the top of the module: the base and the exit code of each class."""
    tree: dict[str, tuple[str, int]] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^    ([\u2502\u251c\u2514\u2500 ]*)([A-Z]\w+) +(\d) ", line)
        if match:
            depth = len(match[1]) // 4
            path[depth:] = [match[2]]
            tree[match[2]] = (path[depth - 1] if depth else "Exception", int(match[3]))
    return tree


def _own_classes() -> set[str]:
    return {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and value.__module__ == errors.__name__ and name[0] != "_"
    }


def test_the_drawn_tree_is_the_real_one() -> None:
    tree = _drawn_tree()
    classes = {name for name in _own_classes() if name != "PolygraphyInternalException"}
    assert set(tree) == classes
    for name, (base, exit_code) in tree.items():
        error_class = getattr(errors, name)
        assert error_class.__bases__[0].__name__ == base
        assert error_class.exit_code == exit_code


def test_every_class_has_an_example() -> None:
    assert set(EXAMPLES) == _own_classes()


def test_every_class_is_published() -> None:
    assert set(exception.__all__) == _own_classes()


def test_some_errors_are_builtin_ones_too() -> None:
    assert issubclass(InputError, ValueError)
    assert issubclass(UnknownKeyError, KeyError)
    assert issubclass(MissingFileError, FileNotFoundError)
    assert issubclass(DamagedFileError, ValueError)
    assert issubclass(MissingDependencyError, ImportError)
    assert not issubclass(PolygraphyInternalException, PolygraphyException)


@pytest.mark.parametrize("name", EXAMPLES)
def test_errors_survive_another_process(name: str) -> None:
    error = EXAMPLES[name]
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_the_hint_follows_the_message() -> None:
    assert str(UsageError("What is wrong.", hint="What to do.")) == "What is wrong. What to do."
    assert str(UsageError("What is wrong.")) == "What is wrong."
    assert str(PolygraphyException()) == ""
    unknown = UnknownKeyError("Input", "x", ["y"], hint="What to do.")
    assert str(unknown) == "Input 'x' does not exist. Available: 'y'. What to do."
    assert UsageError("a", hint="b").hint == "b"


def test_fields_are_kept() -> None:
    assert FileError("text", path="x").path == "x"
    assert BackendError("text", backend="onnx").backend == "onnx"
    missing = MissingDependencyError("text", module="onnx", install="pip install onnx")
    assert (missing.module, missing.install, missing.backend) == (
        "onnx",
        "pip install onnx",
        "onnx",
    )
    assert str(missing) == "text"


def test_an_unknown_name_tells_what_there_is_and_what_was_meant() -> None:
    error = UnknownNameError("Input", "Imput", iter(["input", "mask"]))
    assert (error.name, error.known, error.matches) == ("Imput", ("input", "mask"), ("input",))
    assert str(error) == (
        "Input 'Imput' does not exist. Available: 'input', 'mask'. Did you mean 'input'?"
    )


def test_an_unknown_name_among_none() -> None:
    assert str(UnknownNameError("Output", "y", [])) == "Output 'y' does not exist. Available: none."


def test_a_given_hint_outranks_the_guess() -> None:
    assert str(UnknownNameError("Input", "x", ["x1"], hint="Look.")).endswith("'x1'. Look.")


@given(st.text(max_size=6), st.lists(st.text(max_size=6), max_size=6), st.integers(1, 4))
def test_close_matches_are_few_known_names(name: str, known: list[str], limit: int) -> None:
    matches = close_matches(name, known, limit)
    assert len(matches) <= limit
    assert len(set(matches)) == len(matches)
    assert set(matches) <= set(known)


@given(st.text(alphabet="abcXYZ_1", min_size=1), st.lists(st.text(max_size=6), max_size=4))
def test_the_same_name_in_another_case_is_the_best_match(name: str, others: list[str]) -> None:
    matches = close_matches(name.swapcase(), [*others, name])
    assert matches[0].lower() == name.lower()
