"""Rewrites that ONNX Runtime leaves out."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import parser

from polygraphy.adapters.onnxruntime import session as module
from polygraphy.adapters.onnxruntime.session import REWRITES, match_rewrites
from polygraphy.backend.onnxrt import session_from_onnx

ALWAYS = {"FreeDimensionOverrideTransformer", "MemcpyTransformer", "RocmBlasAltImpl"}
"""What releases try on every model and changes no number on a CPU."""

CHAIN = (
    '<ir_version: 8, opset_import: ["": 13]> g (float[4] x) => (float[4] y)'
    " { a = Neg (x) b = Identity (a) y = Exp (b) }"
)


GELU = (
    '<ir_version: 8, opset_import: ["": 13]> g (float[4] x) => (float[4] y)'
    " <float r = {1.4142135}, float one = {1}, float half = {0.5}>"
    " { a = Div (x, r) b = Erf (a) c = Add (b, one) d = Mul (x, c) y = Mul (d, half) }"
)


@pytest.mark.parametrize(
    ("text", "without", "fewer", "all_of_them"),
    [
        (CHAIN, "eliminateidentity", ["Neg", "Exp"], ["Neg", "Identity", "Exp"]),
        (GELU, "gelufusion", ["Gelu"], ["Div", "Erf", "Add", "Mul", "Mul"]),
    ],
)
def test_a_session_is_made_without_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    without: str,
    fewer: list[str],
    all_of_them: list[str],
) -> None:
    saved = tmp_path / "optimized.onnx"
    plain = module.session_options

    def saving(level: str | None) -> object:
        options = plain(level)
        options.optimized_model_filepath = str(saved)
        return options

    monkeypatch.setattr(module, "session_options", saving)
    for names, kept in (([], fewer), ([without], all_of_them)):
        session_from_onnx(parser.parse_model(text), disabled_optimizers=names)
        assert [node.op_type for node in onnx.load(str(saved)).graph.node] == kept


def test_names_are_written_as_onnx_runtime_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["FASTGELUFUSION", "Level2_RuleBasedTransformer", "transposeoptimizer"]
    names = ["FastGeluFusion", "Level2_RuleBasedTransformer", "TransposeOptimizer"]
    assert match_rewrites(given) == names
    assert "no rewrite" not in "".join(capsys.readouterr())


def test_every_rewrite_that_this_release_tries_is_known(capfd: pytest.CaptureFixture[str]) -> None:
    options = module.session_options(None)
    options.log_severity_level = 0
    onnxruntime.InferenceSession(
        parser.parse_model(CHAIN).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    tried = set(re.findall(r"GraphTransformer (\w+) modified", capfd.readouterr().err))
    groups = {name for name in tried if name.endswith("_RuleBasedTransformer")}
    assert len(tried) > 40
    assert tried - groups - set(REWRITES) <= ALWAYS


def test_one_that_would_be_ignored_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert match_rewrites(["CastElimnation"]) == ["CastElimnation"]
    said = "".join(capsys.readouterr())
    assert "'CastElimnation'" in said and "did you mean CastElimination" in said
