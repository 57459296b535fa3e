"""Names in files control no terminal and forge no line, in any command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from polygraphy.adapters.console.models.engine_text import _profile_lines, layer_lines
from polygraphy.cli.main import main
from polygraphy.domain.model.engine import EngineProfile, Layer, ProfileTensor
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.logger import G_LOGGER
from polygraphy.logger.sinks import escape_controls

EVIL = "\r\x1b[2K\x1b[1A\x1b[2K\n[I] PASSED | forged\u202e\x9b8m\x07"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
FORGED = re.compile(r"^\s*\[I\] PASSED \| forged")


def named(name: str) -> str:
    return name + EVIL


def hostile(last: str = "Exp") -> onnx.ModelProto:
    x, w, t, y = map(named, ("x", "w", "t", "y"))
    float_ = TensorProto.FLOAT
    nodes = [
        helper.make_node("Mul", [x, w], [t], name=named("mul"), doc_string=EVIL),
        helper.make_node(last, [t], [y], name=named("last")),
        helper.make_node("Sqrt", [t], [named("z")], name=named("sqrt")),
    ]
    graph = helper.make_graph(
        nodes,
        named("graph"),
        [helper.make_tensor_value_info(x, float_, [named("batch"), 3])],
        [
            helper.make_tensor_value_info(y, float_, [named("batch"), 3]),
            helper.make_tensor_value_info(named("z"), float_, None),
        ],
        [numpy_helper.from_array(np.array([1, -2, 3], np.float32), w)],
        doc_string=EVIL,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model.producer_name = named("producer")
    model.metadata_props.add(key=named("key"), value=EVIL)
    return model


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(hostile(), "m.onnx")
    onnx.save(hostile("Neg"), "other.onnx")
    onnx.save(hostile(f"Unknown{EVIL}"), "unknown.onnx")


COMMANDS = [
    "run m.onnx --onnxrt --onnx -vv",
    "run m.onnx --onnxrt --onnx --mark-all --rtol 0 --atol 0",
    "run m.onnx --onnxrt --onnx --compare l2 top_k --top-k 1",
    "run m.onnx --onnxrt --validate --save-outputs a.json --save-inputs i.json"
    " && run other.onnx --onnxrt --save-outputs b.json --load-inputs i.json"
    " && run --load-outputs a.json b.json --save-accuracy-results v.json"
    " && inspect data a.json --statistics --show-values && inspect data v.json"
    " && inspect diff a.json b.json && check accuracy v.json --rtol 1",
    "run unknown.onnx --onnxrt",
    "run unknown.onnx --onnx",
    "run m.onnx --onnxrt --input-shapes nothing:[1]",
    "inspect model m.onnx --show layers attrs weights",
    "inspect model m.onnx --stats",
    "inspect model m.onnx unknown.onnx",
    "inspect outputs m.onnx",
    "inspect sparsity m.onnx",
    "inspect diff m.onnx other.onnx",
    "check lint m.onnx",
    "check lint unknown.onnx",
    "surgeon sanitize m.onnx --fold-constants -o s.onnx",
    "surgeon extract m.onnx --outputs nothing:auto -o s.onnx",
    "surgeon weight-strip m.onnx -o s.onnx",
    "surgeon prune m.onnx -o s.onnx",
    "convert m.onnx --fp-to-fp16 -o s.onnx",
    "debug reduce m.onnx -o r.onnx --check false",
]


@pytest.mark.parametrize("commands", COMMANDS)
def test_no_command_lets_a_name_through(commands: str, capfd: pytest.CaptureFixture[str]) -> None:
    for command in commands.split(" && "):
        with pytest.raises(SystemExit), G_LOGGER.preserve():
            main([*shlex.split(command), "--log-file", "log.txt"])
        captured = capfd.readouterr()
        for text in (
            captured.out,
            captured.err,
            *(each.read_text() for each in Path().glob("log.txt")),
        ):
            assert not CONTROLS.findall(text), command
            assert not [line for line in text.split("\n") if FORGED.match(line)], command


@given(st.text())
def test_what_is_logged_controls_nothing(text: str) -> None:
    shown = escape_controls(text)
    assert not CONTROLS.search(shown)
    assert escape_controls(shown) == shown
    if text.isprintable():
        assert shown == text


def test_reports_of_tensorrt_let_nothing_through() -> None:
    tensor = TensorMetadata().add(named("x"), np.float32, (1,))
    layer = Layer(named("conv"), named("Conv"), tensor, tensor, {named("mode"): named("same")})
    profile = EngineProfile((ProfileTensor(named("x"), True, (1,), None, False),))
    text = "\n".join((*layer_lines(0, layer), *_profile_lines(profile.tensors)))
    assert not CONTROLS.search(text)
    assert not any(FORGED.match(line) for line in text.splitlines())


def test_tabs_line_breaks_and_letters_of_all_languages_stay() -> None:
    text = "a\tb\nÄ 漢字 אב 🙂"
    assert escape_controls(text) == text
    assert escape_controls("a\r\nb") == "a\nb"


def test_colors_of_our_own_stay(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout.isatty", _yes, raising=False)
    G_LOGGER.finish("done\x1b[8m")
    out = capsys.readouterr().out
    assert "\\x1b[8m" in out and out.startswith("\x1b[") and out.endswith("\x1b[0m\n")


_yes: Callable[[], bool] = lambda: True  # noqa: E731
