"""An archive that unpacks to many times its size is refused, and the message says what
the limit is and what lifts it.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from polygraphy import config
from polygraphy.adapters.files.formats.npy import array_from_bytes
from polygraphy.adapters.files.json.json_codec import ContentError
from polygraphy.domain.errors import FileError
from polygraphy.inspect import inspect_data


def packed() -> bytes:
    written = BytesIO()
    np.savez_compressed(written, a=np.zeros(1 << 20), b=np.zeros(1 << 20))
    return written.getvalue()


def test_an_archive_of_zeros_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "zeros.npz"
    path.write_bytes(packed())
    monkeypatch.setattr(config, "EXPANSION_LIMIT_MB", 1)
    with pytest.raises(FileError, match=r"expands from [\d,]+ to 16,777,\d+ bytes") as caught:
        inspect_data(str(path))
    assert "POLYGRAPHY_EXPANSION_LIMIT_MB" in str(caught.value)
    with pytest.raises(ContentError, match="expands from"):
        array_from_bytes(packed())
    for limit in (-1, 256):
        monkeypatch.setattr(config, "EXPANSION_LIMIT_MB", limit)
        inspect_data(str(path))
        assert array_from_bytes(packed()).shape == (1 << 20,)


def test_what_is_really_large_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "noise.npz"
    np.savez_compressed(path, a=np.random.default_rng(0).standard_normal(1 << 18))
    monkeypatch.setattr(config, "EXPANSION_LIMIT_MB", 0)
    inspect_data(str(path))
