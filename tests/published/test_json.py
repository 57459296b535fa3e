"""polygraphy.json, as scripts use it."""

from __future__ import annotations

import inspect
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polygraphy.json
from polygraphy.domain.errors import FileError
from polygraphy.json import (
    Decoder,
    Encoder,
    add_json_methods,
    from_json,
    load_json,
    save_json,
    to_json,
)
from polygraphy.logger import G_LOGGER


@pytest.fixture(autouse=True)
def _in_fresh_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    for name in ("info", "progress"):
        monkeypatch.setattr(G_LOGGER, name, lines.append)
    return lines


@add_json_methods("points")
class Point:
    """A type that the package does not know."""

    def __init__(self, x: Any, y: Any) -> None:
        self.x = x
        self.y = y

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and bool(np.all(self.x == other.x)) and self.y == other.y


@Encoder.register(Point)
def _encode(point: Point) -> dict[str, Any]:
    return {"x": point.x, "y": point.y}


@Decoder.register(Point, alias="OldPoint")
def _decode(fields: dict[str, Any]) -> Point:
    return Point(**fields)


def test_the_published_names() -> None:
    assert polygraphy.json.__all__ == [
        "Decoder",
        "Encoder",
        "add_json_methods",
        "from_json",
        "load_json",
        "save_json",
        "to_json",
    ]


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (to_json, ["obj"]),
        (from_json, ["src"]),
        (save_json, ["obj", "dest", "description"]),
        (load_json, ["src", "description"]),
        (add_json_methods, ["description"]),
    ],
)
def test_parameters(function: Any, parameters: list[str]) -> None:
    assert list(inspect.signature(function).parameters) == parameters


def test_the_marker_comes_last() -> None:
    expected = {"x": 1, "y": [2, None], "polygraphy_class": "Point"}
    assert to_json(Point(1, (2, None))) == json.dumps(expected, indent=4)


def test_values_come_back() -> None:
    value = {"points": [Point(np.arange(3), Point(1, 2))], "rest": [1.5, "é", True, None]}
    assert from_json(to_json(value)) == value


def test_plain_objects_are_dictionaries() -> None:
    assert type(from_json('{"a": {"b": 1}}')["a"]) is dict


@pytest.mark.parametrize("marker", ["Point", "OldPoint"])
def test_an_alias_is_read_too(marker: str) -> None:
    assert from_json(json.dumps({"x": 1, "y": 2, "polygraphy_class": marker})) == Point(1, 2)


def test_an_alias_is_not_written() -> None:
    class Renamed:
        pass

    Encoder.register(Renamed, alias="Former")(lambda _: {})
    assert from_json.__module__ == "polygraphy.json"
    assert json.loads(to_json(Renamed())) == {"polygraphy_class": "Renamed"}


def test_the_old_marker_is_read_and_not_handed_to_the_decoder() -> None:
    legacy = {"x": 1, "y": 2, "__polygraphy_encoded_Point": "polygraphy_serialized_json_type"}
    assert from_json(json.dumps(legacy)) == Point(1, 2)


def test_the_last_registration_counts() -> None:
    class Twice:
        pass

    Encoder.register(Twice)(lambda _: {"first": 1})
    assert json.loads(to_json(Twice()))["first"] == 1
    Encoder.register(Twice)(lambda _: {"second": 2})
    assert list(json.loads(to_json(Twice()))) == ["second", "polygraphy_class"]


def test_an_unknown_marker_is_reported() -> None:
    with pytest.raises(FileError, match="unknown type 'Nobody'"):
        from_json('{"polygraphy_class": "Nobody"}')


def test_fields_that_do_not_fit_are_reported() -> None:
    with pytest.raises(FileError, match=r"an object of type 'Point' in it is damaged.*'y'"):
        from_json('{"x": 1, "polygraphy_class": "Point"}')


def test_a_field_called_array_stays_text() -> None:
    class Named:
        pass

    Decoder.register(Named)(lambda fields: fields)
    text = "k05VTVBZ" * 1000  # As if it were an array.
    fields = {"array": text, "inner": {"array": text}}
    Path("named.json").write_text(json.dumps({**fields, "polygraphy_class": "Named"}))
    assert load_json("named.json") == fields


def test_types_without_an_encoder_are_reported() -> None:
    with pytest.raises(FileError, match=r"type 'object' cannot be written as JSON \(at \['a'\]\)"):
        to_json({"a": object()})


@pytest.mark.parametrize("as_path", [str, Path])
def test_files_are_saved_and_loaded_silently(as_path: Any, log: list[str]) -> None:
    save_json([1, Point(1, 2)], as_path("file.json"))
    assert load_json(as_path("file.json")) == [1, Point(1, 2)]
    assert not log


def test_files_with_a_description_are_logged(log: list[str]) -> None:
    save_json([1], "file.json", "numbers")
    load_json(Path("file.json"), description="numbers")
    assert log == ["Saving numbers to file.json", "Loading numbers from file.json"]


def test_an_extension_is_not_needed() -> None:
    save_json([1], "file")
    assert load_json("file") == [1]


@pytest.mark.parametrize("mode", ["w+", "w+b"])
def test_temporary_files(mode: Any, log: list[str]) -> None:
    with tempfile.NamedTemporaryFile(mode) as file:
        save_json([1, 2], file, "numbers")
        assert load_json(file, "numbers") == [1, 2]
        assert load_json(file.name) == [1, 2]
        assert log == [f"Saving numbers to {file.name}", f"Loading numbers from {file.name}"]


@pytest.mark.parametrize("make_file", [io.StringIO, io.BytesIO])
def test_files_in_memory(make_file: Any) -> None:
    file = make_file()
    save_json({"x": np.arange(2000.0)}, file)
    np.testing.assert_array_equal(load_json(file)["x"], np.arange(2000.0))


def test_a_file_in_memory_that_is_not_json_is_reported() -> None:
    with pytest.raises(FileError, match="Could not load an open file: it is truncated"):
        load_json(io.StringIO('{"a": '))
    with pytest.raises(FileError, match="not JSON text"):
        load_json(io.TextIOWrapper(io.BytesIO(b'"\xff"'), encoding="utf-8"))


def test_methods(log: list[str]) -> None:
    point = Point(1, 2)
    assert Point.from_json(point.to_json()) == point  # type: ignore[attr-defined]
    point.save("point.json")  # type: ignore[attr-defined]
    assert Point.load("point.json") == point  # type: ignore[attr-defined]
    assert log == ["Saving points to point.json", "Loading points from point.json"]


def test_methods_check_the_type() -> None:
    save_json([1, 2], "list.json")
    with pytest.raises(
        FileError,
        match=r"Could not load list\.json: it contains a list, not an object of type 'Point'",
    ):
        Point.load("list.json")  # type: ignore[attr-defined]
    with pytest.raises(
        FileError,
        match="Could not read JSON text: it contains a list, not an object of type 'Point'",
    ):
        Point.from_json("[1]")  # type: ignore[attr-defined]


def test_methods_without_a_description_are_silent(log: list[str]) -> None:
    @add_json_methods()
    class Quiet:
        pass

    Encoder.register(Quiet)(lambda _: {})
    Decoder.register(Quiet)(lambda _: Quiet())
    Quiet().save("quiet.json")  # type: ignore[attr-defined]
    assert isinstance(Quiet.load("quiet.json"), Quiet)  # type: ignore[attr-defined]
    assert not log
