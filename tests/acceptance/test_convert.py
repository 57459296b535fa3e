"""Models that are converted from the command line, and run."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import onnx
import pytest

has_rtx = pytest.mark.skipif(
    importlib.util.find_spec("tensorrt_rtx") is None, reason="needs TensorRT-RTX"
)
RTX = {"POLYGRAPHY_USE_TENSORRT_RTX": "1"}


def test_a_model_in_fp16_matches_the_original(polygraphy: Any, identity_dir: Path) -> None:
    done = polygraphy("polygraphy convert --fp-to-fp16 -o halved.onnx identity.onnx")
    assert (done.code, done.err) == (0, "")
    assert len(onnx.load("halved.onnx").graph.node) == 3
    saved = polygraphy("polygraphy run identity.onnx --onnxrt --save-outputs outputs.json")
    assert saved.code == 0
    command = "polygraphy run halved.onnx --onnxrt --load-outputs outputs.json"
    assert polygraphy(f"{command} --atol 0.001 --rtol 0.001").code == 0
    assert polygraphy(command).code == 1


def test_an_output_is_named_after_the_model(polygraphy: Any, identity_dir: Path) -> None:
    (identity_dir / "deeper").mkdir()
    (identity_dir / "identity_fp16.onnx").replace(identity_dir / "deeper" / "identity_fp16.onnx")
    done = polygraphy("polygraphy convert deeper/identity_fp16.onnx --convert-to onnx --mark-all")
    assert done.code == 0
    assert "Saving to identity_fp16_converted.onnx" in done.err
    outputs = onnx.load("identity_fp16_converted.onnx").graph.output
    assert len(outputs) > len(onnx.load("deeper/identity_fp16.onnx").graph.output)


def test_nothing_is_harmed_when_the_model_cannot_be_read(
    polygraphy: Any, identity_dir: Path
) -> None:
    (identity_dir / "kept.onnx").write_bytes(b"before")
    (identity_dir / "broken.onnx").write_bytes(b"\xff\xff\xff")
    done = polygraphy("polygraphy convert broken.onnx -o kept.onnx")
    assert done.code == 3
    assert (identity_dir / "kept.onnx").read_bytes() == b"before"


@pytest.mark.parametrize(
    "words", ["trt -o kept.onnx", "onnx -o kept.engine", "onnx-like-trt-network -o kept.plan"]
)
def test_a_name_that_says_something_else_is_refused(
    polygraphy: Any, identity_dir: Path, words: str
) -> None:
    kept = identity_dir / words.rsplit(maxsplit=1)[-1]
    kept.write_bytes(b"before")
    done = polygraphy(f"polygraphy convert identity.onnx --convert-to {words}")
    assert (done.code, "contradicts --output" in done.err) == (2, True)
    assert kept.read_bytes() == b"before"


def test_what_is_against_the_standard_is_not_saved(polygraphy: Any, identity_dir: Path) -> None:
    model = onnx.load("identity.onnx")
    model.graph.node[0].input[0] = "nowhere"
    (identity_dir / "wrong.onnx").write_bytes(model.SerializeToString())
    (identity_dir / "kept.onnx").write_bytes(b"before")
    for words in ("", "--fp-to-fp16", "--verify"):
        done = polygraphy(f"polygraphy convert wrong.onnx -o kept.onnx {words}")
        assert (done.code, "'nowhere'" in done.err) == (3, True), done
    assert (identity_dir / "kept.onnx").read_bytes() == b"before"


def test_what_is_cast_can_be_chosen(polygraphy: Any, identity_dir: Path) -> None:
    kept = polygraphy(
        "polygraphy convert identity.onnx -o a.onnx --fp-to-fp16 --cast-keep-ops Identity"
    )
    assert kept.code == 0
    assert [node.op_type for node in onnx.load("a.onnx").graph.node] == ["Identity"]
    done = polygraphy("polygraphy convert identity.onnx -o b.onnx --fp-to-fp16 --cast-io")
    assert done.code == 0
    model = onnx.load("b.onnx")
    assert [node.op_type for node in model.graph.node] == ["Identity"]
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    done = polygraphy(
        "polygraphy convert identity.onnx -o c.onnx --fp-to-fp16 --cast-only-ops Conv"
    )
    assert done.code == 2
    assert "'Conv'" in done.out + done.err
    done = polygraphy("polygraphy convert identity.onnx -o c.onnx --cast-io")
    assert "--cast-io: has no effect without --fp-to-fp16 or --to-bf16" in done.err


def test_the_opset_of_a_model_is_changed(polygraphy: Any, identity_dir: Path) -> None:
    assert polygraphy("polygraphy convert identity.onnx -o new.onnx --opset 17").code == 0
    assert onnx.load("new.onnx").opset_import[0].version == 17
    done = polygraphy("polygraphy convert identity.onnx -o other.onnx --opset 1000")
    assert done.code == 2
    assert not (identity_dir / "other.onnx").exists()


def test_only_what_computes_the_same_is_saved(polygraphy: Any, identity_dir: Path) -> None:
    done = polygraphy("polygraphy convert identity.onnx -o same.onnx --fp-to-fp16 --verify")
    assert done.code == 0
    assert "PASSED" in done.out
    assert (identity_dir / "same.onnx").exists()
    for words in ("--fp-to-fp16 --cast-io", "--to-bf16"):
        command = f"polygraphy convert identity.onnx -o same.onnx {words} --verify"
        if words != "--to-bf16":  # Which opset 8 does not have.
            assert polygraphy(command).code == 0
        else:
            assert polygraphy(f"{command} --opset 17").code == 0
    (identity_dir / "same.onnx").write_bytes(b"before")
    # 1e5 does not fit, and becomes 65504.
    done = polygraphy(
        "polygraphy convert identity.onnx -o same.onnx --fp-to-fp16 --verify --val-range [1e5,2e5]"
    )
    assert done.code == 1
    advice = "polygraphy diagnose identity.onnx --val-range '[100000,200000]' --fp-to-fp16"
    assert advice in done.out
    assert polygraphy(advice).code == 1
    assert (identity_dir / "same.onnx").read_bytes() == b"before"
    done = polygraphy("polygraphy convert identity.onnx -o a.engine --verify")
    assert done.code == 2
    done = polygraphy("polygraphy convert identity.onnx -o a.onnx --seed 3")
    assert "--seed: has no effect" in done.err


@pytest.mark.parametrize("command", ["convert identity.onnx -o a.plan", "run identity.onnx --trt"])
def test_without_tensorrt_or_a_gpu_one_line_says_what_is_missing(
    polygraphy: Any, identity_dir: Path, command: str
) -> None:
    if importlib.util.find_spec("tensorrt") is not None:
        pytest.skip("TensorRT is installed")
    done = polygraphy(f"polygraphy {command}")
    assert done.code == 3
    [line] = [line for line in (done.out + done.err).splitlines() if line.startswith("[!]")]
    assert "install" in line.lower() or "GPU" in line
    assert not (identity_dir / "a.plan").exists()


@has_rtx
@pytest.mark.parametrize(
    "words",
    [
        "identity.onnx --fp16 --timing-cache timing.cache --workspace 64M -o made/a.plan",
        "identity_fp16.onnx --mark-all --strongly-typed --tensor-formats y:[linear] -o made/a.plan",
        "example.py --trt-network-func load_network --max-aux-streams 0 -o made/a.plan",
        "identity.onnx --compute-capabilities 8.9 -o made/a.plan",
    ],
)
def test_engines_are_built_without_a_gpu(polygraphy: Any, identity_dir: Path, words: str) -> None:
    done = polygraphy(f"polygraphy convert {words}", env=RTX)
    assert done.code == 0, done.out + done.err
    assert (identity_dir / "made" / "a.plan").stat().st_size > 1000
    assert (identity_dir / "timing.cache").exists() == ("--timing-cache" in words)


@has_rtx
def test_a_network_is_shown_as_an_onnx_file(polygraphy: Any, identity_dir: Path) -> None:
    words = "identity.onnx --convert-to onnx-like-trt-network -o seen.onnx"
    assert polygraphy(f"polygraphy convert {words}", env=RTX).code == 0
    assert [node.op_type for node in onnx.load("seen.onnx").graph.node]
