"""What tools of this kind get wrong, and what must not happen here.

Small and direct: one test for each. What concerns one room alone is tested beside it.
"""

from __future__ import annotations

import copy
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from polygraphy import mod
from polygraphy.adapters.fake import FakeRunner
from polygraphy.adapters.onnxruntime.session import session_options
from polygraphy.backend.common import InvokeFromScript
from polygraphy.backend.onnx import onnx_from_path, save_onnx
from polygraphy.backend.onnxrt import OnnxrtRunner, session_from_onnx
from polygraphy.check import check_accuracy
from polygraphy.common import TensorMetadata
from polygraphy.comparator import (
    AccuracyResults,
    Comparator,
    DataLoader,
    IndicesCompareFunc,
    IterationResult,
    L2CompareFunc,
    RunResults,
    SimpleCompareFunc,
    TopKPostprocessFunc,
)
from polygraphy.data import merge
from polygraphy.exception import PolygraphyException
from polygraphy.json import load_json, save_json
from polygraphy.logger import G_LOGGER, Logger
from polygraphy.surgeon import prune_weights, reconstruct_weights, strip_weights
from tests.acceptance.conftest import Done
from tests.support import models

Run = Callable[..., Done]
INPUTS = TensorMetadata().add("x", np.float32, (2,))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def results(**runs: Any) -> RunResults:
    """Return results with the single output y; each run is a list with a value per iteration."""
    return RunResults(
        (name, [IterationResult({"y": np.asarray(value)}, runner_name=name) for value in values])
        for name, values in runs.items()
    )


def compared(first: Any, second: Any, function: Any = None) -> Any:
    """Compare one output, and return what is found about it."""
    found = Comparator.compare_accuracy(results(a=[first], b=[second]), compare_func=function)
    return found[0]["a", "b"][0]["y"]


def doubling(seconds: float = 0) -> FakeRunner:
    def double(feed: Any) -> dict[str, Any]:
        time.sleep(seconds)
        return {"y": feed["x"] * 2}

    return FakeRunner(double, INPUTS, name="doubling")


# What passes without having been checked.


def test_saved_failures_still_fail_when_nothing_new_is_asked() -> None:
    found = Comparator.compare_accuracy(
        results(a=[[1.0]], b=[[2.0]]), compare_func=[SimpleCompareFunc(), IndicesCompareFunc()]
    )
    found.save("verdicts.json")
    assert not AccuracyResults.load("verdicts.json")
    assert not check_accuracy("verdicts.json")


def test_a_merge_keeps_every_iteration_apart() -> None:
    for name in ("x", "z"):
        save_json([{name: np.full(2, index, np.float32)} for index in range(3)], f"{name}.json")
    merge(["x.json", "z.json"], "both.json")
    feeds = load_json("both.json")
    assert [feed["x"][0] for feed in feeds] == [0, 1, 2]
    assert all(feed.keys() == {"x", "z"} for feed in feeds)


def test_a_slow_runner_in_a_process_of_its_own_is_waited_for() -> None:
    made = Comparator.run(
        [doubling(0.3), doubling()],
        DataLoader(),
        use_subprocess=True,
        subprocess_polling_interval=0.05,
    )
    assert [name for name, _ in made] == ["doubling", "doubling"]
    assert SimpleCompareFunc()(made[0][1][0], made[1][1][0])["y"]


@pytest.mark.parametrize("lacks", ["a", "b"])
def test_an_output_that_one_side_lacks_fails_whichever_that_is(lacks: str) -> None:
    runs = results(a=[1.0], b=[1.0])
    other = "b" if lacks == "a" else "a"
    runs[other][0]["z"] = np.zeros(2)
    assert not Comparator.compare_accuracy(runs)
    assert Comparator.compare_accuracy(runs, allow_missing_outputs=True)


@pytest.mark.parametrize("runs", [{"a": [1.0] * 3, "b": [1.0]}, {"a": [1.0], "b": [1.0] * 3}])
def test_runs_of_different_lengths_do_not_match(runs: dict[str, list[float]]) -> None:
    assert not Comparator.compare_accuracy(results(**runs))


@pytest.mark.cold
def test_perceptual_metrics_that_cannot_be_measured_do_not_pass(polygraphy: Run) -> None:
    if all(map(mod.has_mod, ("lpips", "torch", "torchvision"))):
        pytest.skip("they can be measured")
    models.save(models.identity(), Path("m.onnx"))
    done = polygraphy("polygraphy run m.onnx --onnxrt --onnx --compare perceptual_metrics")
    assert done.code == 3
    assert "perceptual_metrics is not available: it needs LPIPS" in done.err


def test_results_are_equal_only_if_all_of_them_are() -> None:
    assert results(a=[1.0], b=[1.0]) != results(a=[1.0])
    assert RunResults() != results(a=[1.0])
    small = IterationResult({"y": np.ones(1)})
    large = IterationResult({"y": np.ones(1), "z": np.ones(1)})
    assert small != large
    assert large != small
    updated = results(a=[1.0])
    updated.update(results(b=[2.0]))
    assert updated.keys() == ["a", "b"]


# Arithmetic.


def test_whole_numbers_do_not_wrap() -> None:
    found = compared(np.array([1], np.uint64), np.array([2], np.uint64))
    assert found.max_absdiff == 1
    wide = compared(np.array([2**63], np.uint64), np.array([2**63 + 1], np.uint64))
    assert wide.max_absdiff == 1


@pytest.mark.parametrize("dtype", [np.uint8, np.uint64, np.int8, np.float16, ml_dtypes.bfloat16])
def test_the_largest_elements_are_found_in_every_type(dtype: Any) -> None:
    outputs = IterationResult({"y": np.array([[3, 0, 9, 1]], dtype)})
    assert TopKPostprocessFunc(k=2)(outputs)["y"].tolist() == [[2, 0]]


def test_indices_of_the_largest_elements_are_exact() -> None:
    scores = np.zeros((1, 5000), np.float16)
    scores[0, 4999] = 1
    assert TopKPostprocessFunc(k=1)(IterationResult({"y": scores}))["y"].tolist() == [[4999]]


def test_means_are_not_of_single_precision() -> None:
    found = compared(np.full(3, 1e300), np.zeros(3))
    assert found.mean_absdiff == pytest.approx(1e300)
    assert compared(np.full(2, 2**53 + 1), np.zeros(2, np.int64)).mean_absdiff >= 2**53


def test_zeros_that_are_equal_differ_by_nothing() -> None:
    zeros = np.zeros(3, np.int32)
    found = compared(zeros, zeros)
    assert found
    assert (found.max_reldiff, found.mean_reldiff) == (0, 0)
    empty = compared(np.zeros(0), np.zeros(0))
    assert empty
    assert not any(math.isnan(value or 0) for value in empty.metric_values().values())


def test_a_range_without_a_whole_number_is_refused() -> None:
    loader = DataLoader(val_range=(0.2, 0.9))
    loader.input_metadata = TensorMetadata().add("x", np.int32, (4,))
    with pytest.raises(PolygraphyException, match=r"0\.2"):
        loader[0]


@pytest.mark.parametrize("shape", [(2000, 3), (3, 3000), (1, 1)])
def test_large_and_plain_images_can_be_drawn(shape: tuple[int, int]) -> None:
    pytest.importorskip("matplotlib")
    zeros = np.zeros(shape, np.float32)
    compared(zeros, zeros, SimpleCompareFunc(save_heatmaps="maps"))
    assert list(Path("maps").glob("*.svg"))


def test_an_average_over_iterations_is_a_number() -> None:
    found = Comparator.compare_accuracy(
        results(a=[np.zeros(3, np.int32)] * 2, b=[np.zeros(3, np.int32)] * 2),
        compare_func=SimpleCompareFunc(check_error_stat="mean"),
        check_average=True,
    )
    assert found
    assert found[0].average_results()["y"].mean_reldiff == 0


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_range_holds_in_every_library(library: str) -> None:
    if library == "torch":
        pytest.importorskip("torch")
    loader = DataLoader(val_range=(5, 6), data_loader_backend_module=library)
    loader.input_metadata = INPUTS
    data = np.asarray(loader[0]["x"])
    assert ((data >= 5) & (data <= 6)).all()


# Models.


def test_an_edited_model_keeps_what_is_not_edited() -> None:
    model = models.mlp()
    model.opset_import.add(domain="custom", version=3)
    model.metadata_props.add(key="author", value="me")
    pruned = prune_weights(copy.deepcopy(model))
    assert pruned.opset_import == model.opset_import
    assert pruned.metadata_props == model.metadata_props
    assert [node.name for node in pruned.graph.node] == [node.name for node in model.graph.node]


def test_a_weight_that_two_nodes_share_stays_where_that_is_asked_for() -> None:
    model = models.mlp()
    shared = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data)).name
    for node in list(model.graph.node):
        if shared in node.input:
            twin = model.graph.node.add()
            twin.CopyFrom(node)
            twin.output[0] += "_twin"
    stripped = strip_weights(copy.deepcopy(model), exclude=[shared])
    before, after = ({t.name: t for t in each.graph.initializer} for each in (model, stripped))
    assert after[shared] == before[shared]
    assert any(after[name] != before[name] for name in before)


def test_random_weights_are_the_same_every_time() -> None:
    stripped = strip_weights(models.mlp())
    first, second = (reconstruct_weights(copy.deepcopy(stripped)) for _ in range(2))
    assert first == second
    assert first.doc_string == ""


# Running.


@pytest.mark.parametrize("streaming", [True, False])
def test_an_empty_data_loader_is_named(streaming: bool) -> None:
    with pytest.raises(PolygraphyException, match="the data loader is empty"):
        list(Comparator.run([doubling()], [], streaming=streaming))


def test_a_runner_that_measures_nothing_can_be_run() -> None:
    runner = FakeRunner(lambda feed: {"y": feed["x"]}, INPUTS, runtime=None)
    made = Comparator.run([runner], DataLoader())
    assert made[0][1][0].runtime is None


def test_versions_before_a_release_can_be_compared_with_it() -> None:
    assert mod.version("1.0.0rc1") < mod.version("1.0.0")
    assert mod.version("1.0.0.dev0") < mod.version("1.0.0rc1")


def test_a_script_is_imported_once() -> None:
    Path("counting.py").write_text(
        "calls = []\nprint('imported')\ndef count():\n    calls.append(1)\n    return len(calls)\n",
        encoding="utf-8",
    )
    loader = InvokeFromScript("counting.py", "count")
    assert [loader(), loader(), loader()] == [1, 2, 3]


def test_a_script_of_a_name_that_is_taken_does_not_take_its_place() -> None:
    Path("json.py").write_text("def own():\n    return 'mine'\n", encoding="utf-8")
    path = list(sys.path)
    assert mod.import_from_script("json.py", "own")() == "mine"
    assert not hasattr(sys.modules.get("json"), "own")
    assert sys.path == path


def test_a_provider_with_options_that_does_not_exist_is_named() -> None:
    models.save(models.identity(), Path("m.onnx"))
    with pytest.raises(PolygraphyException, match="nonesuch"):
        session_from_onnx("m.onnx", providers=[("nonesuch", {"device_id": 0})])


def test_threads_are_those_of_the_cores_at_hand_and_nodes_take_turns() -> None:
    options = session_options(None)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert options.intra_op_num_threads == cores
    assert options.inter_op_num_threads == 0
    assert options.execution_mode.name == "ORT_SEQUENTIAL"


def test_outputs_of_earlier_iterations_stay_as_they_were() -> None:
    models.save(models.identity(), Path("m.onnx"))
    with OnnxrtRunner(session_from_onnx("m.onnx")) as runner:
        (name,) = runner.get_input_metadata(use_numpy_dtypes=False)
        shape = runner.get_input_metadata(use_numpy_dtypes=False)[name].shape
        first = runner.infer({name: np.zeros(shape, np.float32)})["y"]
        runner.infer({name: np.ones(shape, np.float32)})
    assert not first.any()


# What is said.


def test_a_level_for_all_outranks_more_and_less(polygraphy: Run) -> None:
    models.save(models.identity(), Path("m.onnx"))
    quiet = polygraphy("polygraphy run m.onnx --onnxrt -vvv --verbosity ERROR")
    assert quiet.code == 0
    assert quiet.out == ""


def test_the_nearest_folder_with_a_level_counts() -> None:
    logger = Logger({"": 30, "backend": 10, "backend/trt/loader.py": 50})
    severities = logger.module_severity
    assert severities.get("backend/trt/runner.py") == 10
    assert severities.get("backend/trt/loader.py") == 50
    assert severities.get("comparator.py") == 30


def test_what_nobody_reads_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    from polygraphy.domain.arithmetic import difference

    def never(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a median was computed")

    monkeypatch.setattr(difference.Difference, "median_abs", never)
    with G_LOGGER.verbosity(G_LOGGER.CRITICAL):
        assert compared(np.ones(3), np.ones(3), SimpleCompareFunc(check_error_stat="max"))


def test_a_log_file_holds_no_colors(polygraphy: Run) -> None:
    models.save(models.identity(), Path("m.onnx"))
    command = "polygraphy run m.onnx --onnxrt --log-file run.log"
    assert polygraphy(command, env={"FORCE_COLOR": "1", "TERM": "xterm"}).code == 0
    assert "\x1b" not in Path("run.log").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["missing.onnx", "text.onnx", "empty.onnx"])
def test_a_wrong_model_gets_one_line(name: str, polygraphy: Run) -> None:
    Path("text.onnx").write_text("no model", encoding="utf-8")
    Path("empty.onnx").touch()
    done = polygraphy(f"polygraphy run {name} --onnxrt")
    assert done.code == (2 if name == "missing.onnx" else 3)
    assert len(done.err.splitlines()) == 1
    assert name in done.err


# Files.


def test_numbers_take_little_room_and_no_text() -> None:
    array = np.random.default_rng(1).normal(size=250_000)
    runs = RunResults([("a", [IterationResult({"y": array}, runner_name="a")])])
    runs.save("runs.safetensors")
    assert Path("runs.safetensors").stat().st_size < array.nbytes * 1.01
    assert np.array_equal(RunResults.load("runs.safetensors")[0][1][0]["y"], array)


class Broken:
    """Something that cannot be saved."""


def test_what_was_saved_before_survives_a_failure() -> None:
    save_json({"a": 1}, "file.json")
    with pytest.raises(PolygraphyException):
        save_json({"a": Broken()}, "file.json")
    assert load_json("file.json") == {"a": 1}
    assert [path.name for path in Path().iterdir()] == ["file.json"]


def test_a_wrong_command_line_leaves_the_old_program(polygraphy: Run) -> None:
    Path("old.py").write_text("old", encoding="utf-8")
    for words in ("m.onnx", "m.onnx --onnxrt --rtol x", "m.onnx --onnxrt --nonesuch"):
        assert polygraphy(f"polygraphy run {words} --gen-script old.py").code == 2
    assert Path("old.py").read_text(encoding="utf-8") == "old"


def test_old_weights_survive_a_model_that_cannot_be_saved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = models.mlp()
    save_onnx(model, "m.onnx", external_data_path="m.data", size_threshold=0)
    before = Path("m.data").read_bytes()

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(PolygraphyException, match="No space left"):
            save_onnx(models.mlp(), "m.onnx", external_data_path="m.data", size_threshold=0)
    assert Path("m.data").read_bytes() == before
    assert onnx_from_path("m.onnx").graph.node


def test_no_temporary_file_stays_behind(
    polygraphy: Run, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    models.save(models.identity(), Path("m.onnx"))
    temporary = tmp_path_factory.mktemp("temporary")
    command = (
        "polygraphy run m.onnx --onnxrt --shape-inference --iterations 3 --save-outputs o.json"
    )
    env = {"TMPDIR": str(temporary), "POLYGRAPHY_ARRAY_SWAP_THRESHOLD_MB": "0"}
    assert polygraphy(command, env=env).code == 0
    left = [path.name for path in temporary.iterdir() if path.name != ".ses"]
    assert left == []  # ONNX Runtime keeps the other one.
    assert sorted(path.name for path in folder.iterdir()) == ["m.onnx", "o.json"]


def test_an_engine_is_not_converted_to_an_engine(polygraphy: Run) -> None:
    Path("m.engine").write_bytes(b"engine")
    done = polygraphy("polygraphy convert m.engine -o n.engine")
    assert done.code in (2, 3)
    assert len(done.err.splitlines()) <= 2
    assert not Path("n.engine").exists()


def test_lists_of_indices_are_compared_quickly() -> None:
    rng = np.random.default_rng(1)
    lists = np.stack([rng.permutation(2000) for _ in range(100)])
    start = time.perf_counter()
    assert not compared(lists, lists[:, ::-1].copy(), IndicesCompareFunc(index_tolerance=3))
    assert time.perf_counter() - start < 2


def test_threads_may_import_scripts_at_once() -> None:
    found: dict[int, int] = {}
    for index in range(8):
        Path(f"script{index}.py").write_text(f"value = {index}\n", encoding="utf-8")

    def read(index: int) -> None:
        found[index] = mod.import_from_script(f"script{index}.py", "value")

    threads = [threading.Thread(target=read, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {index: index for index in range(8)}


def test_a_stream_is_read_one_iteration_at_a_time() -> None:
    alive: list[int] = []

    def feeds() -> Iterator[dict[str, Any]]:
        for index in range(5):
            alive.append(index)
            yield {"x": np.zeros(2, np.float32)}

    for step, _ in enumerate(Comparator.run([doubling()], feeds(), streaming=True)):
        assert len(alive) <= step + 2


def test_several_metrics_are_judged_at_once() -> None:
    found = Comparator.compare_accuracy(
        results(a=[[1.0]], b=[[1.5]]), compare_func=[SimpleCompareFunc(atol=1), L2CompareFunc()]
    )
    assert [bool(each) for each in found] == [True, False]
    assert not found
