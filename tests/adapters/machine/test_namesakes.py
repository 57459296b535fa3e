"""Another package of this one's name in the same environment is reported, however it got there."""

from __future__ import annotations

from pathlib import Path

import pytest

from polygraphy import __version__
from polygraphy.adapters.packages import namesakes


def installed(
    site: Path, version: str, files: tuple[str, ...] = (), *, author: str = "Somebody"
) -> Path:
    """Install a package as pip does: its files, and the list of them."""
    info = site / f"polygraphy-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Name: polygraphy\nVersion: {version}\nAuthor-email: {author}\n"
    )
    for file in files:
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).touch()
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    return site / "polygraphy"


OWN = ("polygraphy/__init__.py", "polygraphy/cli/main.py")


def warned(site: Path, *more: Path) -> list[str]:
    return list(namesakes([str(site), *map(str, more)], site / "polygraphy"))


def test_one_package_alone_is_nothing_to_tell(tmp_path: Path) -> None:
    package = installed(tmp_path, __version__, OWN)
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "main.pyc").touch()
    assert warned(tmp_path) == []
    assert warned(tmp_path, tmp_path) == []


def test_nothing_is_reported_of_the_environment_of_these_tests() -> None:
    assert list(namesakes()) == []


@pytest.mark.parametrize(
    ("author", "owner"),
    [("NVIDIA <svc@example.com>", "NVIDIA's polygraphy"), ("Me <m@e>", "Another polygraphy")],
)
def test_metadata_that_were_left_are_reported(tmp_path: Path, author: str, owner: str) -> None:
    installed(tmp_path, __version__, OWN)
    installed(tmp_path, "0.53.6", ("polygraphy/tools/run.py",), author=author)
    [sentence] = warned(tmp_path)
    assert sentence.startswith(f"{owner} 0.53.6 is also installed")
    assert str(tmp_path / "polygraphy-0.53.6.dist-info") in sentence
    assert "pip uninstall polygraphy" in sentence


def test_modules_that_were_left_are_reported(tmp_path: Path) -> None:
    package = installed(tmp_path, __version__, OWN)
    for name in ("a", "b", "c", "d"):
        (package / "tools").mkdir(exist_ok=True)
        (package / "tools" / f"{name}.py").touch()
    [sentence] = warned(tmp_path)
    assert sentence.startswith(f"4 modules in {package} belong to a different")
    assert "tools/a.py, tools/b.py, tools/c.py, ..." in sentence


def test_another_folder_on_the_path_is_reported(tmp_path: Path) -> None:
    installed(tmp_path / "own", __version__, OWN)
    (tmp_path / "other" / "polygraphy").mkdir(parents=True)
    assert warned(tmp_path / "own", tmp_path / "other") == []  # A folder of models, say.
    (tmp_path / "other" / "polygraphy" / "__init__.py").touch()
    [sentence] = warned(tmp_path / "own", tmp_path / "other")
    assert sentence.startswith(f"{tmp_path / 'other' / 'polygraphy'} is a different package")


def test_a_clone_has_no_list_of_files(tmp_path: Path) -> None:
    installed(tmp_path / "site", __version__)
    (tmp_path / "clone" / "polygraphy").mkdir(parents=True)
    (tmp_path / "clone" / "polygraphy" / "__init__.py").touch()
    assert list(namesakes([str(tmp_path / "site")], tmp_path / "clone" / "polygraphy")) == []
