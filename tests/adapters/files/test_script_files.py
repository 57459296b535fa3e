"""Which files a user's script reads, as far as its source code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from polygraphy.adapters.files.small.script_files import files_of_script
from polygraphy.adapters.files.small.sweep_files import files_named_by


@pytest.mark.parametrize(
    ("code", "read"),
    [
        ("from pathlib import Path\nPath(__file__).parent / 'data' / 'a.txt'", "s/data/a.txt"),
        ("import os\nopen(os.path.join('other', 'b.txt'))", "other/b.txt"),
        ("number = 3\nopen(f'other/c{number}.txt')", "other/c3.txt"),
        ("import glob\nglob.glob('other/b*')", "other/b.txt"),
        ("from pathlib import Path\nPath('other').glob('c*')", "other/c3.txt"),
        ("import os\nos.listdir('other')", "other/b.txt other/c3.txt"),
        ("import os\nos.walk('other')", "other/b.txt other/c3.txt other/deep/d.txt"),
        ("from importlib import import_module\nimport_module('near')", "s/near.py"),
        ("import far.limits", "lib/far/__init__.py lib/far/limits.py lib/far/numbers.txt"),
        ("import wheel_installed", ""),
        ("import numpy as np\nnp.save('other/b.txt', [])", ""),
        ("from pathlib import Path\nPath('other/b.txt').write_text('')", ""),
        ("from polygraphy import data", ""),
        ("{'other': 1, 's': f'{2}', '/': '**'}", ""),
    ],
)
def test_the_files_that_a_script_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, read: str
) -> None:
    contents = {
        "s/data/a.txt": "", "other/b.txt": "", "other/c3.txt": "", "other/deep/d.txt": "",
        "s/near.py": "", "lib/far/__init__.py": "", "lib/far/limits.py": "open('numbers.txt')",
        "lib/far/numbers.txt": "", "lib/polygraphy.py": "", "s/script.py": code,
        "site/wheel_installed.py": "", "site/any-1.dist-info/RECORD": "",
    }  # fmt: skip
    for name, text in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'lib'}:{tmp_path / 'site'}")
    found = files_of_script(tmp_path / "s" / "script.py", tmp_path)
    assert {path.relative_to(tmp_path).as_posix() for path in found} == {*read.split()}


def test_a_folder_includes_what_its_links_lead_to(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "a.png").touch()
    (tmp_path / "plan" / "images").mkdir(parents=True)
    (tmp_path / "plan" / "images" / "class").symlink_to(tmp_path / "store")
    (tmp_path / "store" / "back").symlink_to(tmp_path / "plan" / "images")
    assert files_named_by(str(tmp_path / "plan"), "images") == ["images/class/a.png"]
