"""Files that ``torch.save`` wrote, as input data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygraphy.comparator import StreamingDataLoader
from polygraphy.exception import PolygraphyException

torch: Any = pytest.importorskip("torch")


def test_a_tensor_is_called_after_its_file_and_others_by_their_names(tmp_path: Path) -> None:
    torch.save(torch.arange(6.0).reshape(2, 3), tmp_path / "x.pt")
    torch.save({"a": torch.ones(2), "b": torch.zeros(1)}, tmp_path / "two.pt")
    one, two = StreamingDataLoader([tmp_path / "x.pt", tmp_path / "two.pt"])
    assert np.array_equal(one["x"], np.arange(6.0, dtype=np.float32).reshape(2, 3))
    assert [*two] == ["a", "b"]


class Code:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("ran"),)


def test_code_in_a_file_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(Code(), "code.pt")
    with pytest.raises(
        PolygraphyException,
        match=r"code\.pt: it is damaged, or contains objects other than tensors",
    ):
        list(StreamingDataLoader("code.pt"))
    assert not Path("ran").exists()
