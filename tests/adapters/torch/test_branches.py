"""A line of a module that is computed only if Python says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from polygraphy.adapters.torch.branches import describe_condition, place_of_number

MODULE = """\
class Net:
    def forward(self, x, mask=None):
        x = x * 2
        if mask is not None:
            x = x + mask
        if self.training:
            x = x - 1
        if x.sum() > 0:
            x = x.abs()
        else:
            x = x.neg()
        for step in range(3):
            while x.max() > step:
                x = x / 2
        if isinstance(x, tuple):
            return x[0]
        y = x + 4
        if torch.onnx.is_in_onnx_export():
            return y
        return y + 5
"""
SUM, EXPORT = "line 8 tests `x.sum() > 0`", "line 18 tests `torch.onnx.is_in_onnx_export()`"


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        (3, ""),
        (5, ""),  # An argument that is left out is so for all data.
        (7, ""),
        (8, ""),  # What is asked is always computed.
        (9, SUM),
        (11, SUM),
        (14, "line 13 tests `x.max() > step`"),
        (17, ""),
        (19, EXPORT),
        (20, EXPORT),  # What comes after a return is the other branch.
    ],
)
def test_what_decides_whether_a_line_is_computed(tmp_path: Path, line: int, asked: str) -> None:
    path = tmp_path / "net.py"
    path.write_text(MODULE)
    assert describe_condition(str(path), line) == asked


@pytest.mark.parametrize("text", [None, "def broken(:", "x = 1\0"])
def test_of_a_file_that_is_none_nothing_is_known(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "net.py"
    if text is not None:
        path.write_text(text)
    assert describe_condition(str(path), 1) == ""


NUMBERS = """\
class Net:
    def forward(self, x, lengths):
        batch, seq = int(x.shape[0]), int(x.shape[1])
        half = seq // 2
        size = x.shape[-1]
        y = self.layer(x, half)
        y = y.view(batch, -1)
        z = y[:, :half]
        for row, length in enumerate(lengths.tolist()):
            z = z + y[row, :length]
        w = x * size
        return self.head(w) + w[: int(z.max())]
"""


@pytest.mark.parametrize(
    ("line", "computed"),
    [(7, 3), (8, 3), (10, 9), (11, 5), (12, 0), (3, 0), (99, 0)],
)
def test_the_line_that_computes_a_number_is_found(tmp_path: Path, line: int, computed: int) -> None:
    path = tmp_path / "net.py"
    path.write_text(NUMBERS)
    assert place_of_number(str(path), line) == ((str(path), computed) if computed else None)


HELPERS = """\
import sizes as s
from sizes import pool as pooled
def largest(values):
    top = int(values.max())
    return top + 1
class Net:
    def forward(self, x):
        n = largest(x)
        y = x * n
        a = self.scaled(y)
        b = pooled(a)
        return s.area(b) + self.layer(b)
    def scaled(self, y):
        return y * largest(y)
"""
SIZES = """\
def pool(y):
    size = (int(y.shape[2]), 3)
    return avg_pool2d(y, size)
def area(y):
    return pool(y) / 7
"""


@pytest.mark.parametrize(
    ("line", "name", "computed"),
    [(9, "net.py", 4), (10, "net.py", 4), (11, "sizes.py", 2), (12, "sizes.py", 2)],
)
def test_the_line_in_a_helper_function_that_computes_a_number_is_found(
    tmp_path: Path, line: int, name: str, computed: int
) -> None:
    (tmp_path / "net.py").write_text(HELPERS)
    (tmp_path / "sizes.py").write_text(SIZES)
    place = place_of_number(str(tmp_path / "net.py"), line)
    assert place == (str(tmp_path / name), computed)


CAST = """\
def grid_of(n):
    m = int(n)
    return torch.arange(m).float() / m

class Net:
    def forward(self, x):
        size = len(x)
        y = x.float() * size
        g = grid_of(x.shape[1])
        return y * g
"""


@pytest.mark.parametrize(("line", "computed"), [(8, 7), (9, 2), (10, 2)])
def test_a_method_that_casts_a_tensor_computes_no_number(
    tmp_path: Path, line: int, computed: int
) -> None:
    path = tmp_path / "net.py"
    path.write_text(CAST)
    assert place_of_number(str(path), line) == (str(path), computed)
