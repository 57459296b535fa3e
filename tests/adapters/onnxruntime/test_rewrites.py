"""Rewrites that ONNX Runtime leaves out."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import parser

from polygraphy.adapters.onnxruntime import session as module
from polygraphy.adapters.onnxruntime.rewrites import matched_rewrites
from polygraphy.backend.onnxrt import session_from_onnx

CHAIN = (
    '<ir_version: 8, opset_import: ["": 13]> g (float[4] x) => (float[4] y)'
    " { a = Neg (x) b = Identity (a) y = Exp (b) }"
)


def test_a_session_is_made_without_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = tmp_path / "optimised.onnx"
    plain = module.session_options

    def saving(level: str | None) -> object:
        options = plain(level)
        options.optimized_model_filepath = str(saved)
        return options

    monkeypatch.setattr(module, "session_options", saving)
    kept = {}
    for names in ([], ["eliminateidentity"]):
        session_from_onnx(parser.parse_model(CHAIN), disabled_optimizers=names)
        kept[bool(names)] = [node.op_type for node in onnx.load(str(saved)).graph.node]
    assert kept == {False: ["Neg", "Exp"], True: ["Neg", "Identity", "Exp"]}


def test_names_are_written_as_onnx_runtime_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert matched_rewrites(["GELUFUSION", "Level2_RuleBasedTransformer"]) == [
        "GeluFusion",
        "Level2_RuleBasedTransformer",
    ]
    assert "no rewrite" not in "".join(capsys.readouterr())


def test_one_that_would_be_ignored_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert matched_rewrites(["CastElimnation"]) == ["CastElimnation"]
    said = "".join(capsys.readouterr())
    assert "'CastElimnation'" in said and "did you mean CastElimination" in said
