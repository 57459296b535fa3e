"""Going through the bytes of a model file."""

from __future__ import annotations

import mmap
import re
from pathlib import Path

import numpy as np
import pytest

from polygraphy.adapters.onnx.storage.parsing import encode_varint, message_fields

KB = 1 << 10
LARGE, COUNT = 1280 * KB, 80


def resident(path: Path) -> int:
    """Return how many bytes of a file are mapped into this process."""
    maps = Path("/proc/self/smaps").read_text(encoding="utf-8")
    found = re.search(rf"{re.escape(str(path))}\n(?:.*\n)*?Rss: +(\d+) kB", maps)
    return int(found[1]) * KB if found else 0


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells")
def test_what_is_passed_over_does_not_stay_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    noise = np.random.default_rng(0).bytes(LARGE)
    path.write_bytes((encode_varint(1 << 3 | 2) + encode_varint(LARGE) + noise) * COUNT)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert len(list(message_fields(mapped, 0, len(mapped)))) == COUNT
        assert resident(path) <= LARGE
