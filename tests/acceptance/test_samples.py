"""Folders of samples: which change their answer from one model to another."""

from __future__ import annotations

import json
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("PIL")

ROOT = Path(__file__).parents[2]
DATA = "--load-inputs samples --preprocess scale=1/255 layout=nchw"
COMPARED = f"polygraphy run int8.onnx --onnxrt {DATA} --load-outputs float32.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shapes")
    runpy.run_path(str(ROOT / "examples/shapes/make.py"))["main"](folder)
    for kind in (folder / "samples").iterdir():  # Few of them are enough here.
        for picture in sorted(kind.iterdir())[10:]:
            picture.unlink()
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
           polygraphy: Callable[..., Any]) -> Path:  # fmt: skip
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    assert (
        polygraphy(f"polygraphy run float32.onnx --onnxrt {DATA} --save-outputs float32.json").code
        == 0
    )
    return tmp_path


def samples_in(path: Path) -> dict[str, Any]:
    results = json.loads(path.read_text())["results"]
    [found] = [each for each in results if each["kind"] == "samples"]
    return dict(found)


def test_samples_that_flip_are_named_with_their_labels(
    folder: Path, polygraphy: Callable[..., Any]
) -> None:
    done = polygraphy(f"{COMPARED} --compare top_k --samples --report r.json --report r.html")
    assert done.code == 1
    found = samples_in(folder / "r.json")
    flipped = {each["name"]: each for each in found["changed"]}
    assert (found["total"], found["agreed"]) == (40, 40 - len(flipped))
    assert flipped["circle/000.png"]["answers"] == ["cross", "circle"]
    assert flipped["circle/000.png"]["right"] == [False, True]
    assert f"{40 - len(flipped)} of 40 samples have the same prediction in 'logits'" in done.out
    assert "x circle/000.png" in done.out
    assert "McNemar" in done.out
    page = (folder / "r.html").read_text()
    assert 'id="samples"' in page
    assert "circle/000.<wbr>png" in page


def test_labels_may_lie_beside_the_samples(folder: Path, polygraphy: Callable[..., Any]) -> None:
    flat = folder / "flat"
    flat.mkdir()
    lines = ["file,label"]
    for path in sorted((folder / "samples").rglob("*.png")):
        path.rename(flat / f"{path.parent.name}-{path.name}")
        lines.append(f"{path.parent.name}-{path.name},{path.parent.name}")
    (flat / "labels.csv").write_text("\n".join(lines))
    command = COMPARED.replace("inputs samples", "inputs flat")
    done = polygraphy(f"{command} --samples --report r.json")
    assert done.code == 1  # The numbers differ.
    found = samples_in(folder / "r.json")
    assert found["classes"] == ["circle", "cross", "square", "triangle"]
    assert "circle-000.png" in [each["name"] for each in found["changed"]]


def test_what_postprocessing_says_is_the_answer(
    folder: Path, polygraphy: Callable[..., Any]
) -> None:
    polygraphy(f"{COMPARED} --postprocess top-2 --samples --report r.json")
    found = samples_in(folder / "r.json")
    assert found["metrics"][0]["name"] == "top-2 accuracy"
    assert all(", " in each["answers"][0] for each in found["changed"])


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ("0\n1\n", "labels.txt: there are 2 labels, but 40 samples."),
        ("nowhere.png,0\n", "labels.txt: 40 samples of 40 have no label"),
        (None, "labels.txt does not exist."),
    ],
)
def test_labels_that_do_not_fit_are_one_line(
    folder: Path, polygraphy: Callable[..., Any], labels: str | None, said: str
) -> None:
    if labels is not None:
        (folder / "labels.txt").write_text(labels)
    done = polygraphy(f"{COMPARED} --labels labels.txt")
    assert done.code == 2
    assert said in done.out + done.err
    assert "Traceback" not in done.out + done.err
