#!/usr/bin/env python3
"""Find plugins that make model.onnx faster.

polygraphy plugin autotune model.onnx --plugin-dir plugins --load-config-yaml chosen.yaml --plugin-libraries a.so --python-plugins register.py --input-shapes 'x:[2,8]' --seed 3 --autotune-mode exhaustive --max-combinations 9 --threshold 0.5 --rtol 1e-2 --timing-cache t.cache --report report.json --save-external-data weights.bin --tactic-sources --pool-limit workspace:1G --int8 --layer-precisions a:fp16
"""

from runpy import run_path

from polygraphy import program
from polygraphy.backend.onnx import OnnxFromPath, save_onnx
from polygraphy.backend.trt import (
    Calibrator,
    CreateConfig,
    EngineFromNetwork,
    LoadPlugins,
    NetworkFromOnnxModel,
    Profile,
    SetLayerPrecisions,
    TrtRunner,
)
from polygraphy.common import TensorMetadata
from polygraphy.comparator import DataLoader, SimpleCompareFunc
from polygraphy.plugin import (
    PluginMatch,
    ReplacePlugins,
    autotune_plugins,
    load_matches,
    replace_plugins,
)

MODEL = "model.onnx"
PLUGINS = "plugins"


def make_runner(chosen: list[PluginMatch]) -> TrtRunner:
    # Random numbers. For accurate int8, calibrate on real inputs: --load-inputs.
    data_loader = DataLoader(
        seed=3, input_metadata=TensorMetadata().add("x", dtype=None, shape=[2, 8])
    )
    calibrator = Calibrator(data_loader)
    parse_network = LoadPlugins(
        plugins=["a.so"],
        obj=NetworkFromOnnxModel(ReplacePlugins(OnnxFromPath(MODEL), PLUGINS, chosen)),
    )
    load_network = SetLayerPrecisions(parse_network, layer_precisions={"a": "float16"})
    create_config = CreateConfig(
        int8=True,
        calibrator=calibrator,
        profiles=[Profile().add("x", min=[2, 8], opt=[2, 8], max=[2, 8])],
        load_timing_cache="t.cache",
        tactic_sources=[],
        memory_pool_limits={"workspace": 1 << 30},
    )
    build_engine = EngineFromNetwork(
        load_network, config=create_config, save_timing_cache="t.cache"
    )
    return TrtRunner(build_engine, device_times=True)


def main() -> None:
    run_path("register.py")
    matches = load_matches("chosen.yaml")
    chosen = autotune_plugins(
        make_runner,
        matches,
        DataLoader(seed=3, input_metadata=TensorMetadata().add("x", dtype=None, shape=[2, 8])),
        mode="exhaustive",
        max_combinations=9,
        threshold=0.5,
        compare_func=SimpleCompareFunc(rtol=0.01, atol=1e-3),
    )
    model = replace_plugins(OnnxFromPath(MODEL), PLUGINS, chosen)
    save_onnx(model, path="model_tuned.onnx", external_data_path="weights.bin")


if __name__ == "__main__":
    program.run(
        main,
        report="report.json",
        sources=["model.onnx", "plugins", "a.so", "register.py", "chosen.yaml"],
    )
