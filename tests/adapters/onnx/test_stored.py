"""Weights that stay in their files while a model is edited."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from polygraphy.adapters.onnx.storage import elements, weights
from polygraphy.adapters.onnx.storage import model as mapped
from polygraphy.adapters.onnx.storage.weights import all_tensors, is_stored, load_stored
from polygraphy.backend.onnx import (
    convert_opset,
    convert_to_bf16,
    convert_to_fp16,
    fold_constants,
    infer_shapes,
    modify_outputs,
    onnx_from_path,
    save_onnx,
    set_upper_bound,
)
from polygraphy.common import TensorMetadata
from polygraphy.domain.errors import FileError, ModelError
from polygraphy.surgeon import (
    check_model,
    clean_up,
    copy_nodes,
    extract,
    insert_node,
    override_input_shapes,
    prune_weights,
    reconstruct_weights,
    remove_nodes,
    simplify,
    sort_nodes,
    strip_weights,
    verify,
)
from tests.support import models

Edit = Callable[[onnx.ModelProto], onnx.ModelProto]

_SIDE = 64
"""Each large weight has this many rows and columns."""


@pytest.fixture(autouse=True)
def all_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every file as if it were large."""
    monkeypatch.setattr(mapped, "_SMALL_FILE", 0)


def weighty(layers: int = 3) -> onnx.ModelProto:
    """Return a model of products, one of them in a branch, with one weight that is folded."""
    random = np.random.default_rng(0)

    def weight(name: str) -> onnx.TensorProto:
        values = random.standard_normal((_SIDE, _SIDE), np.float32)
        made: onnx.TensorProto = onnx.numpy_helper.from_array(values, name)
        made.doc_string = f"{name} of the model"
        made.metadata_props.add(key="name", value=name)
        return made

    nodes, tensor = [], "x"
    for index in range(layers):
        nodes += [
            helper.make_node("MatMul", [tensor, f"w{index}"], [f"p{index}"], name=f"mm{index}"),
            helper.make_node("Relu", [f"p{index}"], [f"h{index}"], name=f"relu{index}"),
        ]
        tensor = f"h{index}"
    branches = {}
    for name in ("then", "else"):
        branches[f"{name}_branch"] = helper.make_graph(
            [helper.make_node("MatMul", [tensor, f"{name}_w"], [f"{name}_y"])],
            name,
            [],
            [models.value(f"{name}_y", ["n", _SIDE])],
            [weight(f"{name}_w")],
        )
    nodes += [
        helper.make_node("If", ["chosen"], ["branched"], **branches),
        helper.make_node("Transpose", ["folded"], ["folded_t"], name="fold_me"),
        helper.make_node("MatMul", ["branched", "folded_t"], ["y"], name="last"),
    ]
    weights = [weight(f"w{index}") for index in range(layers)] + [weight("folded")]
    graph = helper.make_graph(
        nodes,
        "weighty",
        [models.value("x", ["n", _SIDE]), models.value("chosen", [], onnx.TensorProto.BOOL)],
        [models.value("y", ["n", _SIDE])],
        weights,
        doc_string="the graph",
    )
    model: onnx.ModelProto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    return model


def _other_weight(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy in which one weight is another, and one is transposed."""
    made = onnx.ModelProto.FromString(model.SerializeToString())
    made.graph.initializer[1].CopyFrom(model.graph.initializer[2])
    made.graph.initializer[1].name = "w1"
    made.graph.node[0].op_type = "Gemm"
    return made


EDITS: dict[str, Edit] = {
    "save": lambda model: model,
    "fold": fold_constants,
    "infer": infer_shapes,
    "clean": clean_up,
    "opset": lambda model: convert_opset(model, 18),
    "extract": lambda model: extract(
        model, TensorMetadata().add("h0", None, None), TensorMetadata().add("h1", None, None)
    ),
    "copy": lambda model: copy_nodes(model, _other_weight(model)),
    "copy one": lambda model: copy_nodes(model, _other_weight(model), ["mm1"]),
    "insert": lambda model: insert_node(model, op="Identity", inputs=["h0"], outputs=["h0"]),
    "fp16": convert_to_fp16,
    "fp16 of a copy": lambda model: convert_to_fp16(model, copy=True),
    "bf16": convert_to_bf16,
    "simplify": simplify,
    "remove": lambda model: remove_nodes(model, ["Relu"]),
    "override": lambda model: override_input_shapes(model, {"x": [2, _SIDE], "chosen": []}),
    "bound": lambda model: set_upper_bound(model, {"": 10}),
    "sort": sort_nodes,
    "mark": lambda model: modify_outputs(model, outputs=["h0", "y"]),
    "prune": prune_weights,
    "strip": strip_weights,
    "strip, reconstruct": lambda model: reconstruct_weights(strip_weights(model)),
    "strip, reconstruct in a file": lambda model: reconstruct_weights(
        strip_weights(model), map_weights=True
    ),
}


@pytest.mark.parametrize("is_external", [False, True])
@pytest.mark.parametrize("name", EDITS)
def test_edits_give_the_same_model(tmp_path: Path, name: str, is_external: bool) -> None:
    path, loaded, kept = (str(tmp_path / f"{each}.onnx") for each in ("m", "loaded", "mapped"))
    save_onnx(weighty(), path, "m.data" if is_external else None)
    save_onnx(EDITS[name](onnx_from_path(path)), loaded)
    model = onnx_from_path(path, map_weights=True)
    assert all(map(is_stored, model.graph.initializer))
    model = EDITS[name](model)
    check_model(model)
    save_onnx(model, kept)
    assert Path(kept).read_bytes() == Path(loaded).read_bytes()
    save_onnx(model, kept, "mapped.data", size_threshold=1 << 13)
    save_onnx(EDITS[name](onnx_from_path(path)), loaded, "loaded.data", size_threshold=1 << 13)
    assert (tmp_path / "mapped.data").exists() == (tmp_path / "loaded.data").exists()
    if (tmp_path / "loaded.data").exists():
        assert (tmp_path / "mapped.data").read_bytes() == (tmp_path / "loaded.data").read_bytes()
    assert onnx_from_path(kept) == onnx_from_path(loaded)


@pytest.mark.parametrize("make", [models.every_dtype, models.conv_net, models.bfloat16_output])
def test_weights_of_every_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[], onnx.ModelProto]
) -> None:
    monkeypatch.setattr(mapped, "_SMALL", 0)
    monkeypatch.setattr(elements, "_LARGE", 0)
    path, again = tmp_path / "m.onnx", str(tmp_path / "again.onnx")
    models.save(make(), path)
    model = onnx_from_path(str(path), map_weights=True)
    assert any(map(is_stored, all_tensors(model))) == any(
        tensor.raw_data for tensor in make().graph.initializer
    )
    save_onnx(model, again)
    assert Path(again).read_bytes() == path.read_bytes()


def test_small_weights_and_constants_are_loaded(tmp_path: Path) -> None:
    model = weighty()
    constant = onnx.numpy_helper.from_array(np.ones(5000, np.float32))
    model.graph.node.append(helper.make_node("Constant", [], ["c"], value=constant))
    small = onnx.numpy_helper.from_array(np.ones(1000, np.float32), "small")
    model.graph.initializer.append(small)
    path = str(tmp_path / "m.onnx")
    save_onnx(model, path, "m.data", size_threshold=0)
    read = onnx_from_path(path, map_weights=True)
    assert {tensor.name for tensor in all_tensors(read) if not is_stored(tensor)} == {"", "small"}
    assert read.graph.node[-1].attribute[0].t.raw_data == constant.raw_data
    assert read.graph.initializer[-1].raw_data == small.raw_data


def test_files_that_the_system_cannot_copy_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.copy_file_range, []

    def part(source: int, target: int, count: int, offset: int) -> int:
        calls.append(count)
        if len(calls) > 1:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return real(source, target, 100, offset)

    monkeypatch.setattr(os, "copy_file_range", part)
    path, again = str(tmp_path / "m.onnx"), str(tmp_path / "again.onnx")
    save_onnx(weighty(), path)
    save_onnx(onnx_from_path(path, map_weights=True), again)
    assert len(calls) > 2
    assert onnx.load(again) == weighty()


@pytest.mark.parametrize("is_external", [False, True])
def test_a_model_takes_its_own_place(tmp_path: Path, is_external: bool) -> None:
    path, data = str(tmp_path / "m.onnx"), "m.data" if is_external else None
    save_onnx(weighty(), path, data)
    save_onnx(prune_weights(onnx_from_path(path, map_weights=True)), path, data)
    assert onnx_from_path(path) == prune_weights(weighty())


@pytest.mark.parametrize("is_external", [False, True])
def test_a_file_that_changes_meanwhile(tmp_path: Path, is_external: bool) -> None:
    path, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    out.write_bytes(b"before")
    save_onnx(weighty(), str(path), "m.data" if is_external else None)
    changed = tmp_path / "m.data" if is_external else path
    model = onnx_from_path(str(path), map_weights=True)
    content = changed.read_bytes()
    changed.unlink()
    with pytest.raises(FileError, match="No such file"):
        save_onnx(model, str(out))
    changed.write_bytes(content)
    with pytest.raises(FileError, match=f"{changed.name}, which contains weights of the model"):
        save_onnx(model, str(out))
    assert out.read_bytes() == b"before"
    assert {each.name for each in tmp_path.iterdir()} == {"m.onnx", changed.name, "out.onnx"}


def test_no_model_can_hold_a_reference(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    save_onnx(weighty(), str(path), "m.data")
    model = onnx_from_path(str(path), map_weights=True)
    onnx.save(model, str(tmp_path / "theirs.onnx"))  # It writes down what this process calls it.
    script = (
        "from polygraphy.backend.onnx import onnx_from_path;"
        f"onnx_from_path({str(tmp_path / 'theirs.onnx')!r}, map_weights=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True
    )
    assert "kept-by-polygraphy-" in done.stderr
    assert "missing files" in done.stderr


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    save_onnx(weighty(), str(path), "m.data")
    data = tmp_path / "m.data"
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(ModelError, match="does not fit its file"):
        onnx_from_path(str(path), map_weights=True)
    data.unlink()
    with pytest.raises(FileError, match="missing files"):
        onnx_from_path(str(path), map_weights=True)
    bare = onnx_from_path(str(path), map_weights=True, ignore_external_data=True)
    assert not any(map(is_stored, bare.graph.initializer))


def test_a_mapped_model_can_be_run_before_and_after(tmp_path: Path) -> None:
    path = str(tmp_path / "m.onnx")
    save_onnx(weighty(), path)
    edited = fold_constants(onnx_from_path(path, map_weights=True))
    assert verify(onnx_from_path(path, map_weights=True), edited)
    assert not verify(
        onnx_from_path(path, map_weights=True),
        prune_weights(onnx_from_path(path, map_weights=True)),
    )


def test_too_large_for_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from polygraphy.adapters.onnx.storage import saving
    from polygraphy.adapters.onnx.storage import saving as writing

    path, out = str(tmp_path / "m.onnx"), tmp_path / "out.onnx"
    save_onnx(weighty(), path)
    monkeypatch.setattr(writing, "_LARGEST", 10_000)
    out.write_bytes(b"before")
    with pytest.raises(ModelError, match="external weights"):
        save_onnx(onnx_from_path(path, map_weights=True), str(out))
    assert out.read_bytes() == b"before"
    monkeypatch.setattr(saving, "_LIMIT", 10_000)
    save_onnx(onnx_from_path(path, map_weights=True), str(out))
    assert (tmp_path / "out.onnx.data").stat().st_size == 6 * 4 * _SIDE**2
    assert onnx_from_path(str(out)) == weighty()


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "m.onnx")
    save_onnx(weighty(), path)

    class Full:
        def open(self) -> None:
            raise AssertionError

        def append(self, _: object) -> int:
            with weights.translate_os_errors("/tmp", "store weights in the temporary folder"):
                raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(weights, "_TemporaryFile", Full)
    monkeypatch.setattr(weights, "_temporary", [])
    with pytest.raises(FileError, match="No space left"):
        prune_weights(onnx_from_path(path, map_weights=True))


def test_weights_that_are_made_up_go_to_a_file_when_asked() -> None:
    kept = reconstruct_weights(strip_weights(weighty()), map_weights=True)
    assert all(map(is_stored, kept.graph.initializer))
    for tensor in all_tensors(kept):
        load_stored(tensor)
    assert kept == reconstruct_weights(strip_weights(weighty()))
