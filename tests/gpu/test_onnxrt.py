"""ONNX Runtime's CUDA provider on a real GPU: TF32, isolation, and no silent fallback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

onnxruntime = pytest.importorskip("onnxruntime")

from polygraphy.adapters.onnxruntime.starting import starts  # noqa: E402
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx  # noqa: E402
from polygraphy.comparator import Comparator  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        "CUDAExecutionProvider" not in onnxruntime.get_available_providers(),
        reason="ONNX Runtime has no CUDA",
    ),
]


def network(offset: float = 0.5, seed: int = 7) -> onnx.ModelProto:
    """Two products with an offset between them that the weights of the second cancel."""
    made: onnx.ModelProto = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        m (float[4,64] x) => (float[4,8] y)
        { a = MatMul(x, w0)  b = Tanh(a)  c = Add(b, offset)  d = MatMul(c, w1)  y = Relu(d) }""")
    rng = np.random.default_rng(seed)
    w1 = rng.standard_normal((64, 8))
    w1 -= w1.mean(axis=0)
    weights = {"w0": rng.standard_normal((64, 64)) / 8, "w1": w1 / 8, "offset": np.array(offset)}
    for name, value in weights.items():
        made.graph.initializer.append(numpy_helper.from_array(value.astype(np.float32), name))
    return made


@pytest.fixture
def path(tmp_path: Path) -> str:
    onnx.save(network(), str(tmp_path / "m.onnx"))
    return str(tmp_path / "m.onnx")


def command(*words: str, folder: Path, code: int, **variables: str) -> str:
    """Run a command; return what it writes to standard output."""
    import os

    done = subprocess.run(
        [sys.executable, "-m", "polygraphy", *words],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "EP Error" not in done.stdout + done.stderr
    return done.stdout


CUDA = ("--onnxrt", "--providers", "cuda")


def test_cuda_starts_with_a_model_of_one_node() -> None:
    assert starts("CUDAExecutionProvider")
    assert not starts(("CUDAExecutionProvider", {"device_id": 99}))


@pytest.mark.parametrize("override", ["", "0", "1"])
def test_tf32_is_known_as_it_is_used(path: str, tmp_path: Path, override: str) -> None:
    """What the session does differs from float32 exactly if its facts say TF32."""
    program = f"""
import json, numpy as np
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
feed = {{"x": np.random.default_rng(1).standard_normal((4, 64), np.float32)}}
found = []
for providers in (["cuda"], [("cuda", {{"use_tf32": 0}})]):
    with OnnxrtRunner(SessionFromOnnx({path!r}, providers=providers)) as runner:
        found.append((runner.infer(feed)["y"], runner.get_model_facts().compute_dtypes["y"]))
print(json.dumps([bool(np.array_equal(found[0][0], found[1][0])), found[0][1], found[1][1]]))
"""
    (tmp_path / "program.py").write_text(program)
    import os

    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env={**os.environ, **({"NVIDIA_TF32_OVERRIDE": override} if override else {})},
        capture_output=True,
        text=True,
        check=True,
    )
    is_equal, first, second = json.loads(done.stdout.splitlines()[-1])
    assert second == ("tf32" if override == "1" else "float32")
    assert first == ("float32" if override == "0" else "tf32")
    assert is_equal is (override != "")


def test_run_explains_tf32_and_passes_what_it_explains(path: str, tmp_path: Path) -> None:
    saved = ("--load-inputs", "i.json", "--load-outputs", "o.json")
    command("run", path, "--onnxrt", "--save-inputs", "i.json", "--save-outputs", "o.json",
            folder=tmp_path, code=0)  # fmt: skip
    said = command("run", path, *CUDA, *saved, folder=tmp_path, code=1)
    assert "onnxrt computes MatMul in TF32, which explains" in said
    command("run", path, *CUDA, *saved, "--rtol", "auto", "--atol", "auto", folder=tmp_path, code=0)
    command("run", path, "--onnxrt", "--providers", "cuda:use_tf32=0", *saved,
            folder=tmp_path, code=0)  # fmt: skip


def test_a_healthy_model_has_no_fault_in_any_mode(path: str, tmp_path: Path) -> None:
    command("run", path, "--onnxrt", "--onnx-outputs", "mark", "all", "--save-inputs", "i.json",
            "--save-outputs", "all.json", folder=tmp_path, code=0)  # fmt: skip
    golden = ("--golden", "all.json", "--load-inputs", "i.json")
    for mode in (("--onnx",), ("--reference", path), golden):
        said = command("diagnose", path, *CUDA, *mode, folder=tmp_path, code=0)
        assert "TF32" in said


def test_a_product_that_fails_in_tf32_alone_is_named_and_its_fix_passes(tmp_path: Path) -> None:
    import shlex

    onnx.save(network(500.0), str(tmp_path / "m.onnx"))
    said = command("diagnose", "m.onnx", *CUDA, "--onnx", folder=tmp_path, code=1)
    assert "precision (onnxrt)" in said
    fix = next(line for line in said.splitlines() if line.startswith("FIX"))
    words = shlex.split(fix.removeprefix("FIX"))
    assert words[0] == "polygraphy"
    command(*words[1:], folder=tmp_path, code=0)


@pytest.mark.parametrize("mode", ["reference", "golden"])
def test_a_changed_weight_is_named(tmp_path: Path, mode: str) -> None:
    right = network()
    onnx.save(right, str(tmp_path / "right.onnx"))
    weight = numpy_helper.to_array(right.graph.initializer[0]).copy()
    weight[:, 3] *= 1.5
    right.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, "w0"))
    onnx.save(right, str(tmp_path / "wrong.onnx"))
    more: tuple[str, ...] = ("--reference", "right.onnx")
    if mode == "golden":
        command("run", "right.onnx", "--onnxrt", "--onnx-outputs", "mark", "all", "--save-inputs",
                "i.json", "--save-outputs", "all.json", folder=tmp_path, code=0)  # fmt: skip
        more = ("--golden", "all.json", "--load-inputs", "i.json")
    said = command("diagnose", "wrong.onnx", *CUDA, *more, folder=tmp_path, code=1)
    assert "weight (model)" in said


@pytest.mark.parametrize(
    ("providers", "reason"),
    [
        (["cuda:device_id=99"], "device_id"),
        (["tensorrt"], "TensorrtExecutionProvider"),
    ],
)
def test_a_provider_that_does_not_start_is_a_failure(
    path: str, tmp_path: Path, providers: list[str], reason: str
) -> None:
    said = command("run", path, "--onnxrt", "--providers", *providers, "--format", "json",
                   folder=tmp_path, code=3)  # fmt: skip
    document: dict[str, Any] = json.loads(said)
    assert document["exit_code"] == 3
    assert reason in json.dumps(document["errors"])
    command("run", path, "--onnxrt", "--providers", *providers, "cpu", folder=tmp_path, code=0)


def test_no_device_is_a_failure(path: str, tmp_path: Path) -> None:
    command("run", path, *CUDA, folder=tmp_path, code=3, CUDA_VISIBLE_DEVICES="")


def test_a_runner_works_in_a_process_of_its_own_after_cuda_was_used_here(path: str) -> None:
    feed = {"x": np.ones((4, 64), np.float32)}
    with OnnxrtRunner(SessionFromOnnx(path, providers=["cuda"])) as runner:
        expected = runner.infer(feed)
    again = OnnxrtRunner(SessionFromOnnx(path, providers=["cuda"]))
    results = Comparator.run([again], [feed], use_subprocess=True)
    np.testing.assert_array_equal(results[0][1][0]["y"], expected["y"])


def test_forked_processes_refuse_a_device_that_their_parent_used(path: str) -> None:
    feed = {"x": np.ones((4, 64), np.float32)}

    def session() -> Any:  # Cannot be pickled, so the runner works in a fork.
        return SessionFromOnnx(path, providers=["cuda"])()

    again = OnnxrtRunner(session)
    with OnnxrtRunner(SessionFromOnnx(path, providers=["cuda"])) as runner:
        runner.infer(feed)
        with pytest.raises(Exception, match="was forked"):
            Comparator.run([again], [feed], use_subprocess=True)


def settings(tf32: str = "") -> tuple[str, ...]:
    return ("--runner", "cpu=--onnxrt", "--runner", f"cuda=--onnxrt --providers cuda{tf32}")


def test_one_command_compares_named_settings(path: str, tmp_path: Path) -> None:
    auto = ("--rtol", "auto", "--atol", "auto")
    said = command("run", path, *settings(), *auto, folder=tmp_path, code=0)
    assert "cpu vs. cuda" in said
    tf32 = ("--runner", "fast=--onnxrt --providers cuda", "--runner",
            "exact=--onnxrt --providers cuda:use_tf32=0")  # fmt: skip
    said = command("run", path, *tf32, "--mark-all", *auto, folder=tmp_path, code=0)
    assert "fast vs. exact" in said
    for words in (settings(), settings(":use_tf32=0"), tf32):
        command("diagnose", path, *words, folder=tmp_path, code=0)


def test_a_named_setting_is_blamed_by_its_name(tmp_path: Path) -> None:
    onnx.save(network(500.0), str(tmp_path / "m.onnx"))
    said = command("diagnose", "m.onnx", *settings(), folder=tmp_path, code=1)
    assert "precision (cuda)" in said


def test_each_node_is_listed_with_its_provider(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
        m (float[4,64] x) => (float[4,64] y, string[2] z)
        { y = Relu(x)  z = Identity(words) }"""
    model = parser.parse_model(text)
    words = onnx.helper.make_tensor("words", onnx.TensorProto.STRING, [2], [b"a", b"b"])
    model.graph.initializer.append(words)
    onnx.save(model, str(tmp_path / "m.onnx"))
    said = command("inspect", "model", "m.onnx", "--providers", "cuda", "cpu", "--show", "layers",
                   folder=tmp_path, code=0)  # fmt: skip
    assert "CUDAExecutionProvider" in said
    assert "CPUExecutionProvider" in said or "Identity" not in said
    command("inspect", "capability", "m.onnx", "--providers", "cuda", folder=tmp_path, code=1)


def stateful(shift: float = 0.0) -> onnx.ModelProto:
    """Return a running sum through a product; its state goes wrong by a shift."""
    model: onnx.ModelProto = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        m (float[1,64] x, float[1,64] past) => (float[1,8] y, float[1,64] present)
        { a = MatMul(x, w0)  b = Add(a, past)  present = Tanh(b)  c = Add(present, shift)
          y = MatMul(c, w1) }""")
    rng = np.random.default_rng(5)
    weights = {"w0": rng.standard_normal((64, 64)) / 8, "w1": rng.standard_normal((64, 8)) / 8}
    for name, value in {**weights, "shift": np.array(shift)}.items():
        model.graph.initializer.append(numpy_helper.from_array(value.astype(np.float32), name))
    for node in model.graph.node:
        node.name = f"node_{node.output[0]}"
    return model


def test_steps_feed_states_back_on_the_device(tmp_path: Path) -> None:
    onnx.save(stateful(), str(tmp_path / "m.onnx"))
    onnx.save(stateful(0.7), str(tmp_path / "wrong.onnx"))
    state = ("--steps", "5", "--state", "present:past")
    command("run", "m.onnx", *settings(), *state, "--rtol", "auto", "--atol", "auto",
            folder=tmp_path, code=0)  # fmt: skip
    said = command("diagnose", "wrong.onnx", *CUDA, "--reference", "m.onnx", *state,
                   folder=tmp_path, code=1)  # fmt: skip
    assert "node_c" in said


DRIVER = 1 << 20
"""Bytes that the driver itself may keep after a process has ended: 64 KiB were seen."""


def used_memory(program: str, folder: Path) -> list[int]:
    """Return what a program prints as JSON: the bytes of the device that are taken."""
    pytest.importorskip("torch")
    head = """
import json, torch
def used():
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return total - free
torch.ones(1).cuda()  # Starts CUDA.
"""
    (folder / "program.py").write_text(head + program)
    done = subprocess.run([sys.executable, "program.py"], cwd=folder, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    figures: list[int] = json.loads(done.stdout.splitlines()[-1])
    return figures


def test_a_runner_and_a_diagnosis_return_the_memory_of_the_device(
    path: str, tmp_path: Path
) -> None:
    program = f"""
import numpy as np
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.diagnose import diagnose

def infer(times):
    feed = {{"x": np.ones((4, 64), np.float32)}}
    with OnnxrtRunner(SessionFromOnnx({path!r}, providers=["cuda"])) as runner:
        for _ in range(times):
            runner.infer(feed)

infer(1)  # What stays until the program ends: libraries, and their workspaces.
figures = [used()]
infer(1000)
figures.append(used())
assert diagnose({path!r}, [OnnxrtParty(providers=["cuda"])], reference={path!r})
figures.append(used())
print(json.dumps(figures))
"""
    before, inferred, diagnosed = used_memory(program, tmp_path)
    assert inferred <= before + DRIVER
    assert diagnosed <= before + DRIVER


def test_each_command_may_use_a_process_of_its_own(path: str, tmp_path: Path) -> None:
    command("run", path, *CUDA, "--onnx", "--use-subprocess", "--rtol", "auto", "--atol", "auto",
            folder=tmp_path, code=0)  # fmt: skip


def test_a_gpu_without_free_memory_is_no_refusal_of_the_model(path: str, tmp_path: Path) -> None:
    words = ("--onnxrt", "--providers", "cuda:gpu_mem_limit=1000")
    for name in ("run", "diagnose"):
        command(name, path, *words, folder=tmp_path, code=3)


@pytest.mark.parametrize(
    ("nodes", "kind"),
    [
        ("c = Constant<value_float = 200.0>()  q = Mul(x, c)  y = Cast<to = 2>(q)", "uint8"),
        (
            "c = Constant<value_int = 0>()  i = Cast<to = 6>(x)  z = Cast<to = 6>(c)"
            "  y = Div(i, z)",
            "int32",
        ),
    ],
)
def test_cuda_is_not_accused_for_results_that_are_undefined(
    nodes: str, kind: str, tmp_path: Path
) -> None:
    text = f'<ir_version: 8, opset_import: ["": 17]> m (float[4,50] x) => ({kind}[4,50] y)'
    onnx.save(parser.parse_model(f"{text} {{ {nodes} }}"), str(tmp_path / "m.onnx"))
    words = ("diagnose", "m.onnx", "--onnxrt", "--providers", "cuda", "--val-range", "[-2,2]")
    document = json.loads(command(*words, "--format", "json", folder=tmp_path, code=1))
    [culprit] = document["culprits"]
    assert (culprit["nodes"], culprit["party"]) == (["y"], "model")
