"""The fast reader agrees with the json module, on whatever text and wherever it is cut."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from polygraphy.adapters.files.json.json_codec import ContentError, DeferredText, decode_tree
from polygraphy.adapters.files.store import json_io
from polygraphy.adapters.files.store.json_io import parse_file, parse_text

ARRAY_START = "k05VTVBZ"


def parsed_from(folder: Path, text: str | bytes, block_bytes: int = 1 << 20) -> Any:
    path = folder / "document.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return parse_file(path, block_bytes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("documents")


def restored(tree: Any) -> Any:
    """Return a tree with strings where the reader left text in the file."""
    if isinstance(tree, DeferredText):
        return tree[:].decode()
    if isinstance(tree, dict):
        return {key: restored(value) for key, value in tree.items()}
    return [restored(value) for value in tree] if isinstance(tree, list) else tree


def deferred_in(tree: Any) -> int:
    if isinstance(tree, (dict, list)):
        return sum(map(deferred_in, tree.values() if isinstance(tree, dict) else tree))
    return isinstance(tree, DeferredText)


LONG = ARRAY_START + "Ab0/+" * 300 + "=="
STRINGS = st.text(max_size=5) | st.sampled_from(
    [
        LONG,
        ARRAY_START,
        "UEsDB" + "x" * 1100,
        LONG + "\\",
        LONG + '"',
        LONG + "é",
        "\\" + LONG,
        f'"array": "{LONG}"',
        f'\\"array": "{LONG}',
    ]
)
KEYS = st.sampled_from(["array", "tensor", 'x"array', "x\\", "", "é"]) | STRINGS
DOCUMENTS = st.recursive(
    STRINGS | st.integers() | st.floats(allow_nan=False) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
SEPARATORS = st.sampled_from(
    [(",", ":"), (", ", ": "), (" ,\r\n", "\t\n: "), (",", " " * 70 + ":")]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    document=DOCUMENTS,
    separators=SEPARATORS,
    indent=st.sampled_from([None, 4]),
    ascii_only=st.booleans(),
    block_bytes=st.sampled_from([1, 2, 7, 64, 1000, 1500, 1 << 20]),
)
@example({"array": LONG}, (",", ":"), 4, True, 7)
@example([{'x"array': LONG, "tensor": [LONG]}], (", ", ": "), None, True, 64)
def test_agrees_with_the_json_module(
    folder: Path,
    document: Any,
    separators: tuple[str, str],
    indent: int | None,
    ascii_only: bool,
    block_bytes: int,
) -> None:
    text = json.dumps(document, indent=indent, separators=separators, ensure_ascii=ascii_only)
    if not ascii_only and any("\ud800" <= character <= "\udfff" for character in text):
        return  # Not UTF-8.
    tree = parsed_from(folder, text, block_bytes)
    assert restored(tree) == json.loads(text)
    assert decode_tree(tree) == decode_tree(json.loads(text))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    text=st.text(alphabet='"\\array:tensor{}[],k05VTVBZ \n1é', max_size=60),
    start=st.sampled_from(["", "{", '{"array": "' + LONG]),
    end=st.sampled_from(["", "}", LONG + '"}']),
    block_bytes=st.sampled_from([1, 64, 1 << 20]),
)
def test_agrees_with_the_json_module_about_what_is_damaged(
    folder: Path, text: str, start: str, end: str, block_bytes: int
) -> None:
    try:
        expected = json.loads(start + text + end)
    except ValueError:
        with pytest.raises(ContentError):
            decode_tree(parsed_from(folder, start + text + end, block_bytes))
    else:
        tree = parsed_from(folder, start + text + end, block_bytes)
        assert decode_tree(tree) == decode_tree(expected)


def test_large_arrays_stay_in_the_file(folder: Path) -> None:
    small, large = np.zeros(10), np.arange(10_000.0)
    text = json_io.dumps([{"small": small, "large": large}] * 3)
    tree = parsed_from(folder, text)
    assert deferred_in(tree) == 3
    for feed in decode_tree(tree):
        np.testing.assert_array_equal(feed["small"], small)
        np.testing.assert_array_equal(feed["large"], large)


def test_arrays_are_found_wherever_blocks_end(folder: Path) -> None:
    arrays = {f"array{size}": np.arange(float(size)) for size in (0, 1, 90, 100, 110, 999)}
    text = json_io.dumps(arrays)
    for block_bytes in (*range(1, 300), 1023, 1024, 1025, len(text) - 1, len(text)):
        tree = parsed_from(folder, text, block_bytes)
        assert deferred_in(tree) >= 4  # All that are large, and small ones that were cut.
        loaded = decode_tree(tree)
        assert list(loaded) == list(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(loaded[name], array)


def test_a_file_that_is_replaced_meanwhile_is_read_as_it_was(folder: Path) -> None:
    tree = parsed_from(folder, json_io.dumps({"x": np.arange(1000.0)}))
    (folder / "other.json").write_text("{}")
    (folder / "other.json").replace(folder / "document.json")
    assert decode_tree(tree)["x"][999] == 999


def test_a_file_that_is_cut_meanwhile_is_noticed(folder: Path) -> None:
    tree = parsed_from(folder, json_io.dumps({"x": np.arange(100_000.0)}))
    with (folder / "document.json").open("r+b") as file:
        file.truncate(2000)
    with pytest.raises(ContentError, match="truncated while it was read"):
        decode_tree(tree)


def test_small_arrays_are_not_read_one_by_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = {str(i): np.full(1000, i, np.float32) for i in range(100)}
    tree = parsed_from(folder, json_io.dumps(arrays))
    reads = []

    def read(*place: int) -> bytes:
        reads.append(place)
        return os.pread(*place)

    monkeypatch.setattr(json_io, "_read_at", read)
    loaded = decode_tree(tree)
    assert [loaded[name][-1] for name in arrays] == list(range(100))
    assert 0 < len(reads) < 10
    assert loaded["7"].flags.writeable


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_reads_every_encoding_of_json(folder: Path, encoding: str) -> None:
    document = {"é": ["\U0001f600", 1]}
    text = json.dumps(document, ensure_ascii=False).encode(encoding)
    assert parsed_from(folder, text) == document


def test_slashes_may_be_escaped(folder: Path) -> None:
    array = np.full(1000, 255, np.uint8)
    text = json_io.dumps([array]).replace("/", "\\/")
    assert "\\/" in text
    (loaded,) = decode_tree(parsed_from(folder, text))
    np.testing.assert_array_equal(loaded, array)


def test_numbers_beyond_json_are_read(folder: Path) -> None:
    assert repr(parsed_from(folder, "[NaN, Infinity, -Infinity]")) == "[nan, inf, -inf]"


# Complaints.

TEXT = json.dumps(
    {
        "text": 'a "quote", é, \\, \ud83d\ude00',
        "numbers": [1.5e-05, -12, 1e300, float("nan"), float("inf"), float("-inf")],
        "literals": [True, False, None],
        "nested": {"a": {}, "b": []},
        "array": LONG,
    },
    indent=4,
)


def complaint_about(parse: Callable[[Any], Any], text: str) -> str:
    with pytest.raises(ContentError) as caught:
        parse(text)
    return str(caught.value)


def test_text_that_ends_early_is_truncated_wherever_it_ends(folder: Path) -> None:
    for parse in (parse_text, lambda text: parsed_from(folder, text)):
        complaints = {
            length: complaint_about(parse, TEXT[:length]) for length in range(1, len(TEXT))
        }
        for length, complaint in complaints.items():
            assert complaint.startswith("it is truncated: it ends within a value, in line"), TEXT[
                :length
            ]


def test_the_line_in_which_the_text_ends_is_that_of_the_file(folder: Path) -> None:
    text = json_io.dumps([np.arange(1000.0), np.arange(1000.0)])
    cut = text.rindex("polygraphy_class")
    line = text[:cut].count("\n") + 1
    with pytest.raises(ContentError, match=rf"in line {line}\b"):
        parsed_from(folder, text[:cut])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "it is empty"),
        (" \n ", "it is empty"),
        ("<html></html>", "it is not JSON text"),
        ("polygraphy", "it is not JSON text"),
        (b"\x08\x07\x12\x0cpytorch", "it is not JSON text"),
        (b"\x80\x04\x95", "it is not JSON text"),
        (b'["\xff\xff\xff"]', "it is not JSON text, which is Unicode"),
        ('{"a": 1}}', "it is damaged in line 1: extra data"),
        ('{"a": 1,\n"b" 2}', "it is damaged in line 2: expecting ':' delimiter"),
        ('{"a": "\n"}', "it is damaged in line 1: invalid control character"),
        ('["\\u12"]', "it is damaged in line 1: invalid"),
        ('["\\x"]', "it is damaged in line 1: invalid"),
        ("[" * 100_000, "it is nested too deeply"),
        ("[" + "1" * 10_000 + "]", "it is damaged: Exceeds the limit"),
    ],
)
def test_complaints(folder: Path, text: str | bytes, complaint: str) -> None:
    for parse in (parse_text, lambda text: parsed_from(folder, text)):
        with pytest.raises(ContentError) as caught:
            parse(text)
        assert str(caught.value).startswith(complaint)


def test_of_a_large_file_that_is_not_json_little_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "model.onnx"
    path.write_bytes(b"\x08\x07" + bytes(3_000_000))
    sizes: list[int] = []

    def read(file: int, size: int, start: int) -> bytes:
        sizes.append(size)
        return os.pread(file, size, start)

    monkeypatch.setattr(json_io, "_read_at", read)
    with pytest.raises(ContentError, match="not JSON text"):
        parse_file(path)
    assert 0 < sum(sizes) < 500_000


def test_damaged_text_of_a_large_array_is_reported(folder: Path) -> None:
    text = json_io.dumps({"x": np.arange(1000.0)})
    damaged = text[:3000] + "*" + text[3001:]
    with pytest.raises(ContentError, match=r"base64.*\(at \['x'\]\)"):
        decode_tree(parsed_from(folder, damaged))


@pytest.mark.parametrize("foreign", [b"\n", b"\x00", b"\xff"])
def test_damage_in_long_text_that_is_no_array_is_reported(folder: Path, foreign: bytes) -> None:
    start = ARRAY_START.encode() + b"A" * 2000
    with pytest.raises(ContentError, match=r"it is damaged|it is not JSON text"):
        decode_tree(parsed_from(folder, b'{"array": "' + start + foreign + b'A"}'))
