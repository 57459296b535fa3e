"""How backends compute float32 operators: what the judge, runs and facts make of it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper, parser

from polygraphy.adapters.onnxruntime import session as sessions
from polygraphy.adapters.os.forks import OneProcess
from polygraphy.adapters.processes.forked import call_isolated
from polygraphy.backend.onnxrt import OnnxrtParty, OnnxrtRunner, SessionFromOnnx
from polygraphy.binding import bind
from polygraphy.comparator import Comparator, SimpleCompareFunc
from polygraphy.domain.catalog.compute import TF32_OPERATORS, ComputePrecision
from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.facts import DeferredFacts, ModelFacts
from polygraphy.domain.tensors.precision import with_digits
from polygraphy.ports.machine import computes_in_tf32
from polygraphy.ports.running import find_facts

TEXT = """<ir_version: 8, opset_import: ["": 17]> m (float[8,16] x) => (float[8,16] y, float[8,16] z)
{ p = MatMul(x, w)  y = Relu(p)  z = Exp(x) }"""
LOWERED = ComputePrecision("tf32", TF32_OPERATORS, "onnxrt", "--providers cuda:use_tf32=0")


def model() -> Any:
    made = parser.parse_model(TEXT)
    weights = np.random.default_rng(3).standard_normal((16, 16), np.float32)
    made.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return made


def test_outputs_behind_a_product_are_computed_in_tf32_and_others_are_not() -> None:
    facts = find_facts(model(), LOWERED)
    assert facts.compute_dtypes == {"y": "tf32", "z": "float32"}
    assert facts.lowered is not None
    assert facts.lowered.describe() == "onnxrt computes MatMul in TF32"
    assert find_facts(model()).compute_dtypes == {"y": "float32", "z": "float32"}


@pytest.mark.parametrize(("level", "dtype"), [(0, "float32"), (1, "float32"), (4, "int8")])
def test_the_accuracy_level_of_blocks_is_a_precision(level: int, dtype: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        m (float[1,32] x, uint8[4,1,16] b, float[4] s) => (float[1,4] y)
        {{ y = com.microsoft.MatMulNBits<K: int = 32, N: int = 4, bits: int = 4,
               block_size: int = 32, accuracy_level: int = {level}>(x, b, s) }}"""
    made = parser.parse_model(text)
    made.graph.value_info.extend(made.graph.output)
    assert find_facts(made).compute_dtypes["y"] == dtype


class _Cuda:
    """A session that says that it runs with CUDA, and rounds operands as TF32 does."""

    def __init__(self, real: Any, tf32: str) -> None:
        self._real, self._tf32 = real, tf32

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def get_providers(self) -> list[str]:
        return ["CPUExecutionProvider", "CUDAExecutionProvider"]

    def get_provider_options(self) -> dict[str, Any]:
        return {"CUDAExecutionProvider": {"device_id": "0", "use_tf32": self._tf32}}

    def run(self, names: Any, feed: Any, options: Any = None) -> Any:
        rounded = {name: with_digits(array, 2.0**-10) for name, array in feed.items()}
        y, _ = self._real.run(names, rounded, options)
        return [y, self._real.run(names, feed, options)[1]]


@pytest.mark.parametrize("override", ["", "0"])
def test_run_says_that_tf32_explains_a_difference_and_which_option_is_float32(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], override: str
) -> None:
    """Only if the session really computes in TF32: neither with the option, nor the variable."""
    real = sessions.load_session
    tf32 = "1"
    monkeypatch.setattr(
        sessions, "load_session", lambda *args, **more: _Cuda(real(*args, **more), tf32)
    )
    feed = {"x": np.random.default_rng(5).standard_normal((8, 16), np.float32)}

    def passed(**tolerance: Any) -> Any:
        runners = [OnnxrtRunner(SessionFromOnnx(model()), name="cuda")]
        with monkeypatch.context() as patch:
            patch.setattr(sessions, "load_session", real)
            plain = OnnxrtRunner(SessionFromOnnx(model())(), name="cpu")
        results = Comparator.run([*runners, plain], [feed])
        return Comparator.compare_accuracy(results, compare_func=SimpleCompareFunc(**tolerance))

    with bind(computes_in_tf32, lambda gpu=0: override != "0"):
        assert bool(passed(rtol="auto", atol="auto")) is (override != "0")
        assert not passed(rtol=1e-5, atol=1e-5)
    reason = "Is it rounding? Yes: onnxrt computes MatMul in TF32, which explains"
    said = capsys.readouterr().out
    assert (reason in said) is (override != "0")
    assert ("For float32: --providers cuda:use_tf32=0" in said) is (override != "0")


def test_facts_go_to_another_process_even_if_what_finds_them_does_not() -> None:
    """As those of an engine, which a function inside another finds."""
    facts = DeferredFacts(lambda: ModelFacts({"y": "tf32"}))
    assert pickle.loads(pickle.dumps(facts)).compute_dtypes == {"y": "tf32"}
    found = pickle.loads(pickle.dumps(DeferredFacts(ModelFacts)))
    assert isinstance(found, DeferredFacts)


def test_a_device_is_not_used_in_a_process_forked_from_one_that_used_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CUDA fails there, and ONNX Runtime computes on the CPU."""
    used = OneProcess("ONNX Runtime on a device")
    monkeypatch.setattr(sessions, "DEVICE", used)
    used.enter()
    with pytest.raises(UsageError, match="was forked"):
        call_isolated(
            lambda: sessions.load_session(
                b"", sessions.session_options(None), ["CUDAExecutionProvider"]
            ),
            what="onnxrt",
        )


def test_the_environment_wins_over_the_options_of_the_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with bind(computes_in_tf32, lambda gpu=0: True):
        for override, option, expected in (
            ("", 1, "--providers cuda:use_tf32=0"),
            ("", 0, None),
            ("1", 0, "NVIDIA_TF32_OVERRIDE=0"),
        ):
            monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", override)
            found = sessions.cuda_precision({"use_tf32": option})
            assert (found and found.option) == expected
        party = OnnxrtParty(["cpu", "cuda"])
        with pytest.raises(UsageError, match="Unset NVIDIA_TF32_OVERRIDE"):
            party.in_float32()


@pytest.mark.parametrize("has_started", [True, False])
def test_cuda_that_another_library_started_does_not_survive_a_fork_either(
    monkeypatch: pytest.MonkeyPatch, has_started: bool
) -> None:
    """As PyTorch does where it exports a program."""
    monkeypatch.setattr(sessions, "DEVICE", OneProcess("ONNX Runtime on a device"))
    monkeypatch.setattr(sessions, "has_started_cuda", lambda: has_started)

    def is_refused() -> bool:
        try:
            sessions.DEVICE.check()
        except UsageError:
            return True
        return False

    assert call_isolated(is_refused, what="onnxrt") is has_started
    assert not is_refused()
