"""Small things that scripts written for NVIDIA's Polygraphy count on."""

from __future__ import annotations

import inspect
import pickle
import queue
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import polygraphy.util
from polygraphy import config, constants, func, mod, util
from polygraphy.backend.base import BaseLoader, BaseRunner
from polygraphy.backend.base.util import check_inputs
from polygraphy.backend.trt import CreateConfig, NetworkFromOnnxPath, Profile, TacticReplayData
from polygraphy.common import FormattedArray, TensorMetadata
from polygraphy.common.interface import TypedDict, TypedList
from polygraphy.comparator import (
    AccuracyResult,
    AccuracyResults,
    IterationResult,
    L2CompareFunc,
    L2Threshold,
    RunResults,
    SimpleCompareFunc,
    SimpleThreshold,
    Threshold,
)
from polygraphy.datatype import DataType, DataTypeEntry
from polygraphy.domain.tensors.profile import Profile as DomainProfile
from polygraphy.exception import PolygraphyException, PolygraphyInternalException
from polygraphy.json import Decoder, Encoder
from polygraphy.logger import G_LOGGER
from polygraphy.logger import logger as logger_module

PARAMETERS = [
    (RunResults, ["lst"]),
    (RunResults.load, ["src"]),
    (RunResults.from_json, ["src"]),
    (RunResults.append, ["self", "elem"]),
    (RunResults.extend, ["self", "elems"]),
    (AccuracyResult, ["dct", "aggregation"]),
    (AccuracyResults, ["lst"]),
    (AccuracyResults.load, ["src"]),
    (AccuracyResults.from_json, ["src"]),
    (AccuracyResults.append, ["self", "elem"]),
    (AccuracyResults.extend, ["self", "elems"]),
    (TacticReplayData.load, ["src"]),
    (TacticReplayData.from_json, ["src"]),
    (DataTypeEntry, ["name", "itemsize", "type"]),
    (Decoder.register, ["typ", "alias"]),
    (Encoder.register, ["typ", "alias"]),
    (func.constantmethod, ["func"]),
    (mod.version, ["version_str"]),
    (util.volume, ["obj"]),
    (check_inputs, ["feed_dict", "input_metadata"]),
    (logger_module.Logger, ["severity", "colors", "letter", "timestamp", "line_info"]),
]


@pytest.mark.parametrize(("target", "names"), PARAMETERS)
def test_parameters_have_their_names(target: Any, names: list[str]) -> None:
    assert list(inspect.signature(target).parameters)[: len(names)] == names


def test_results_are_made_by_name_or_by_place() -> None:
    entry = ("a", [IterationResult({"y": 1})])
    for results in (RunResults(lst=[entry]), RunResults([entry]), RunResults(None), RunResults()):
        results.append(elem=("b", []))
        results.extend(elems=[("c", [])])
        assert results.keys()[-2:] == ["b", "c"]
    pair = ("a", "b")
    for accuracy in (
        AccuracyResult({pair: [{"y": True}]}, "average"),
        AccuracyResult(dct=[(pair, [{"y": True}])], aggregation="average"),
    ):
        assert accuracy.keys() == [pair] and accuracy.aggregation == "average"
    assert AccuracyResult().aggregation == "per_sample"
    with pytest.raises(PolygraphyException):
        AccuracyResult(aggregation="median")


@pytest.mark.parametrize("kind", [Profile, DomainProfile, TensorMetadata, TacticReplayData])
def test_dictionaries_are_made_of_another_one(kind: Any) -> None:
    for made in (kind(dct={"x": 1}), kind({"x": 1}), kind([("x", 1)]), kind(kind({"x": 1}))):
        assert dict(made) == {"x": 1} and type(made) is kind
    assert dict(kind(dct=None)) == dict(kind()) == {}
    with pytest.raises(TypeError):
        kind(x=1)


@pytest.mark.parametrize("error", [KeyError, PolygraphyException])
def test_an_input_that_a_profile_lacks(error: type[Exception]) -> None:
    profile = Profile().add("x", (1,), (1,), (1,))
    with pytest.raises(error, match=r"Input 'xx' does not exist. Available: 'x'\."):
        profile["xx"]
    assert profile.get("xx") is None and "xx" not in profile and profile["x"].min == (1,)


def test_the_logger_in_contexts() -> None:
    before = G_LOGGER.module_severity
    with G_LOGGER.verbosity(G_LOGGER.VERBOSE) as scope:
        assert scope is not None and G_LOGGER.module_severity.get() == G_LOGGER.VERBOSE
    assert G_LOGGER.module_severity == before
    with logger_module.LoggerVerbosity(G_LOGGER, G_LOGGER.ERROR) as scope:
        assert scope is not None and G_LOGGER.module_severity.get() == G_LOGGER.ERROR
    with G_LOGGER.indent() as scope:
        assert scope is not None


def test_indentation(capsys: pytest.CaptureFixture[str]) -> None:
    with logger_module.LoggerIndent(G_LOGGER, 2):
        G_LOGGER.info("deep")
    G_LOGGER.info("flat")
    assert capsys.readouterr().out == "[I]         deep\n[I] flat\n"


def test_constants_of_the_logger() -> None:
    letters = {-20: "[U]", -10: "[S]", 0: "[X]", 10: "[V]", 20: "[I]", 22: "[I]", 28: "[I]"}
    letters |= {30: "[W]", 40: "[E]", 50: "[!]"}
    assert letters == G_LOGGER.SEVERITY_LETTER_MAPPING
    assert G_LOGGER.SEVERITY_COLOR_MAPPING.keys() == letters.keys()
    assert G_LOGGER.SEVERITY_COLOR_MAPPING[20] is None
    assert logger_module.G_LOGGER is G_LOGGER is mod.G_LOGGER
    table = logger_module.SeverityTrie({"a/b": 10, "": 20})
    assert (table.get("a/b/c"), table.get("x"), table.get()) == (10, 20, 20)
    assert logger_module.has_colors() is False
    own = logger_module.Logger(G_LOGGER.ERROR, colors=False, letter=False)
    assert not own.colors and not own.letter and own.module_severity.get() == G_LOGGER.ERROR


def test_to_dtype_can_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    given = DataType.to_dtype

    def replacement(dtype: Any, target_module: str) -> Any:
        if dtype == DataType.FLOAT8E4M3FN and target_module == "torch":
            return "torch.float8_e4m3fn"
        return given(dtype, target_module)

    monkeypatch.setattr(DataType, "to_dtype", replacement)
    assert DataType.to_dtype(DataType.FLOAT8E4M3FN, "torch") == "torch.float8_e4m3fn"
    assert DataType.FLOAT8E4M3FN.torch() == "torch.float8_e4m3fn"
    assert DataType.to_dtype(DataType.FLOAT32, "numpy") == np.float32


@pytest.mark.parametrize("function", [SimpleCompareFunc(), L2CompareFunc()])
@pytest.mark.parametrize("passes", [True, False])
def test_an_answer_equals_its_verdict(function: Any, passes: bool) -> None:
    first, second = np.ones(3), np.ones(3) if passes else np.zeros(3)
    answer = function(IterationResult({"y": first}), IterationResult({"y": second}))["y"]
    assert bool(answer) is passes
    for verdict in (True, np.bool_(True)):
        assert (answer == verdict) is passes and (answer != verdict) is not passes
    assert (answer == False) is not passes  # noqa: E712
    assert answer != "y" and answer in [answer] and len({answer, answer}) == 1


def test_what_is_registered_for_json() -> None:
    class Registered:
        pass

    @Encoder.register(Registered)
    def encode(_: Any) -> dict[str, Any]:
        return {}

    @Decoder.register(typ=Registered, alias="WasRegistered")
    def decode(_: Any) -> Any:
        return Registered()

    assert Encoder.polygraphy_registered[Registered] is encode
    assert Decoder.polygraphy_registered["Registered"] is decode
    assert Decoder.polygraphy_registered["WasRegistered"] is decode
    assert "RunResults" in Decoder.polygraphy_registered


CHECKED = """
from polygraphy.backend.base import BaseLoader
class Counting(BaseLoader):
    count = 0
    def call_impl(self):
        self.count += 1
Counting()()
"""


@pytest.mark.parametrize(("value", "fails"), [("1", True), ("0", False)])
def test_internal_checks_look_at_loaders(value: str, fails: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHECKED],
        check=False,
        capture_output=True,
        text=True,
        env={"POLYGRAPHY_INTERNAL_CORRECTNESS_CHECKS": value},
    )
    assert (done.returncode != 0) is fails, done.stderr
    assert ("PolygraphyInternalException: Counting.__call__" in done.stderr) is fails


def test_our_own_loaders_stay_as_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    from polygraphy.backend.common import InvokeFromScript
    from polygraphy.backend.onnx import FoldConstants, InferShapes, ModifyOutputs
    from tests.support import models

    monkeypatch.setattr("polygraphy.config.INTERNAL_CORRECTNESS_CHECKS", True)
    monkeypatch.setattr(G_LOGGER, "warning", lambda *_: None)
    script = tmp_path / "s.py"
    script.write_text("def load():\n    return 1\n")
    loader = InvokeFromScript(str(script), "load")
    assert loader() == loader() == 1
    folding = FoldConstants(InferShapes(ModifyOutputs(models.mlp(), outputs=["h"])))
    assert folding() == folding()

    class Own(BaseLoader):
        def call_impl(self) -> None:
            self.more = 1

    with pytest.raises(PolygraphyInternalException, match=r"changed more"):
        Own()()


def test_constants_follow_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polygraphy.config.AUTOINSTALL_DEPS", True)
    assert constants.AUTOINSTALL_DEPS is True
    with pytest.raises(AttributeError):
        _ = constants.NOTHING  # type: ignore[attr-defined]


def test_older_arguments_of_configurations(capsys: pytest.CaptureFixture[str]) -> None:
    made = CreateConfig(max_workspace_size=1 << 30, strict_types=True)
    now = CreateConfig(memory_pool_limits={"WORKSPACE": 1 << 30}, precision_constraints="obey")
    assert vars(made) == vars(now)
    logged = capsys.readouterr().out
    assert "max_workspace_size is deprecated" in logged and "Use memory_pool_limits" in logged
    assert "strict_types is deprecated" in logged
    obeying = CreateConfig(obey_precision_constraints=True)
    assert vars(obeying) == vars(CreateConfig(precision_constraints="obey"))
    assert vars(CreateConfig(strict_types=False)) == vars(CreateConfig())
    both = CreateConfig(max_workspace_size=1, memory_pool_limits={"WORKSPACE": 2})
    assert vars(both) == vars(CreateConfig(memory_pool_limits={"WORKSPACE": 2}))
    with pytest.raises(TypeError, match="max_workspace_sizes"):
        CreateConfig(max_workspace_sizes=1)


def test_explicit_precision(capsys: pytest.CaptureFixture[str]) -> None:
    made = NetworkFromOnnxPath("m.onnx", explicit_precision=True)
    assert vars(made) == vars(NetworkFromOnnxPath("m.onnx"))
    assert "explicit_precision is deprecated" in capsys.readouterr().out


def test_typed_containers() -> None:
    class Counts(TypedDict(lambda: str, lambda: int)):  # type: ignore[misc]
        pass

    class Numbers(TypedList(lambda: int)):  # type: ignore[misc]
        pass

    counts, numbers = Counts({"a": 1}), Numbers([1, 2])
    counts.update({"b": 2})
    numbers += [3]
    assert counts == {"a": 1, "b": 2} and numbers == [1, 2, 3]
    for wrong in (
        lambda: counts.__setitem__(1, 2),
        lambda: counts.update({"c": "3"}),
        lambda: Counts({"a": "b"}),
        lambda: numbers.append("x"),
        lambda: numbers.extend(["x"]),
        lambda: numbers.__setitem__(0, "x"),
    ):
        with pytest.raises(PolygraphyException, match=r"is a (str|int), not a"):
            wrong()


def test_helpers_of_util(capsys: pytest.CaptureFixture[str]) -> None:
    owner = SimpleNamespace(a=1, b=SimpleNamespace(c=5))
    with util.TempAttrChange(owner, {"a": 2}):
        assert owner.a == 2
    assert owner.a == 1
    with pytest.raises(AttributeError), util.TempAttrChange(owner, {"zz": 2}):
        pass
    assert util.getattr_nested(owner, "b.c") == 5 and util.try_getattr(owner, "b.c") is None
    assert util.try_getattr(owner, "zz", 7) == 7
    assert (
        util.indent_block("a\nb", 2) == "        a\n        b" and util.indent_block(5) == "    5"
    )
    assert (
        util.is_nan(float("nan")) and not util.is_nan(np.array([np.nan])) and util.is_inf(-np.inf)
    )
    assert util.make_repr("T", 1, "a", None, x=3, y=None) == ("T(1, 'a', None, x=3)", False, False)
    assert util.make_repr("T", None) == ("T(None)", True, True)
    made = util.make_repr("T", float("nan"), [float("inf"), -np.inf])[0]
    assert made == "T(float('nan'), [float('inf'), float('-inf')])"
    known = (
        TensorMetadata().add("x", np.float32, (1, 2)).add("y", None, None).add("w", None, ("N",))
    )
    text = util.str_from_layer("Node", 3, "nm", "Op", ["x", "w"], known, ["y"], known)
    assert text == (
        "Node 3    | nm [Op: Op]\n    {x [dtype=float32, shape=(1, 2)],\n"
        "     w [shape=('N',)]}\n     -> {y}\n"
    )
    line = queue.Queue()  # type: ignore[var-annotated]
    util.try_send_on_queue(line, {"a": 1})
    assert util.try_receive_on_queue(line, timeout=1) == {"a": 1}
    assert util.try_receive_on_queue(line, timeout=0.01) is None
    assert "Could not receive on the queue: Empty" in capsys.readouterr().out

    @util.check_called_by("outer")
    def inner() -> int:
        return 5

    def outer() -> int:
        return inner()

    assert outer() == 5 and capsys.readouterr().out == ""
    assert inner() == 5 and "Use 'outer()' instead" in capsys.readouterr().out


def test_older_helpers_of_util(capsys: pytest.CaptureFixture[str]) -> None:
    from polygraphy.util import misc
    from polygraphy.util import util as inner

    assert misc.default_value(None, 3) == 3 and misc.default_value(0, 3) == 0
    assert misc.find_in_dict("b", {"aa": 1, "bb": 2}) == "bb"
    assert inner.find_in_dict("zz", {"aa": 1, "bb": 2}, index=0) == "aa"
    assert "default_value is deprecated" in capsys.readouterr().out
    assert misc.is_shape_dynamic is polygraphy.util.is_shape_dynamic
    assert inner.num_dynamic_dimensions((1, -1, "N", None)) == 3


def test_formatted_arrays_are_saved_and_loaded(tmp_path: Path) -> None:
    formatted = FormattedArray(np.arange(8.0, dtype=np.float32), (1, 3, 2))
    path = str(tmp_path / "formatted.json")
    formatted.save(path)
    for loaded in (FormattedArray.load(path), FormattedArray.from_json(formatted.to_json())):
        assert loaded.shape == (1, 3, 2) and loaded.dtype == np.float32
        np.testing.assert_array_equal(loaded.array, formatted.array)
    with pytest.raises(PolygraphyException):
        FormattedArray.from_json("[1]")


def test_thresholds_name_the_metrics_that_they_choose_from() -> None:
    statistics = ("max", "mean", "median", "quantile")
    assert [
        f"{each}_{kind}" for each in statistics for kind in ("absdiff", "reldiff")
    ] == SimpleThreshold.METRIC_FIELDS
    assert L2Threshold.METRIC_FIELDS == Threshold.METRIC_FIELDS == []
    assert pickle.loads(pickle.dumps(SimpleThreshold(["max"]))) == SimpleThreshold(["max"])


def test_parts_of_the_package_are_attributes_without_an_import_of_their_own() -> None:
    parts = "backend common comparator config constants cuda datatype exception func json logger"
    program = f"""
import sys, polygraphy
assert not {{"numpy", "polygraphy.comparator", "polygraphy.json"}} & set(sys.modules)
import polygraphy.backend.onnxrt
assert "numpy" not in sys.modules, "NumPy takes longer to import than all the rest"
import polygraphy.backend.trt
for part in "{parts} mod util".split():
    assert getattr(polygraphy, part).__name__ == "polygraphy." + part
assert not hasattr(polygraphy, "nothing")
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("checks", [False, True])
@pytest.mark.parametrize("resets", [False, True])
def test_with_internal_checks_a_runner_resets_itself(
    checks: bool, resets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Runner(BaseRunner):
        def activate_impl(self) -> None:
            self.session = object()

        def deactivate_impl(self) -> None:
            if resets:
                del self.session

    monkeypatch.setattr(config, "INTERNAL_CORRECTNESS_CHECKS", checks)
    runner = Runner("mine")
    runner.activate()
    if checks and not resets:
        with pytest.raises(PolygraphyInternalException, match="session"):
            runner.deactivate()
    else:
        runner.deactivate()
    assert not runner.is_active


def test_setting_the_severity_is_deprecated(capsys: pytest.CaptureFixture[str]) -> None:
    before = G_LOGGER.module_severity
    try:
        G_LOGGER.severity = G_LOGGER.INFO
    finally:
        G_LOGGER.module_severity = before
    said = capsys.readouterr()
    assert "severity is deprecated" in (said.out + said.err).replace("'", "").replace("`", "")
