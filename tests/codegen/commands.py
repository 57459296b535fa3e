"""Command lines whose programs are kept as golden files, and run."""

from __future__ import annotations

import shlex

from polygraphy.cli.commands.listing import load_command, split_command
from polygraphy.cli.main import _without_save_option
from polygraphy.cli.parser import parse
from polygraphy.codegen.source import quote_command

__all__ = ["COMMANDS", "RENDERED", "rendered"]

# In this order, because later ones read what earlier ones write. The number is the exit code of the program.
COMMANDS: dict[str, tuple[str, int]] = {
    "run_onnxrt": ("run identity.onnx --onnxrt", 0),
    "run_onnx": ("run identity.onnx --onnx", 0),
    "run_onnxrt_onnx": ("run identity.onnx --onnxrt --onnx", 0),
    "run_onnxrt_twice": ("run identity.onnx --onnxrt --onnxrt", 0),
    "run_named": (
        "run identity.onnx --runner plain='--onnxrt --graph-optimization-level DISABLE_ALL'"
        " --runner usual=--onnxrt --onnx --intra-op-threads 1",
        0,
    ),
    "run_tolerance": ("run identity.onnx --onnxrt --onnx --rtol 1e-3", 0),
    "run_report": (
        "run identity.onnx --onnxrt --onnx --format json --report report.xml --report report.md",
        0,
    ),
    "run_save": (
        "run --onnxrt identity.onnx --save-inputs inputs.json --save-outputs outputs_fp32.json",
        0,
    ),
    "run_save_folders": (
        "run --onnxrt identity.onnx --save-inputs inputs --save-outputs outputs --iterations 2",
        0,
    ),
    "run_golden_outputs": ("run identity.onnx --onnxrt --save-outputs golden.json", 0),
    "run_input_blob": ("run identity.onnx --onnxrt --save-input-blob blobs", 0),
    "run_load_blob": ("run identity.onnx --onnxrt --load-inputs blobs", 0),
    "run_plots": (
        "run identity.onnx --onnxrt --onnx --save-heatmaps maps --save-error-metrics-plot plots",
        0,
    ),
    "run_compare_loaded": (
        "run --onnxrt identity_fp16.onnx --load-inputs inputs.json --load-outputs outputs_fp32.json"
        " --atol 0.001 --rtol 0.001",
        0,
    ),
    "run_compare_fails": (
        "run --onnxrt identity_fp16.onnx --load-inputs inputs.json --load-outputs outputs_fp32.json",
        1,
    ),
    "run_loaded_only": ("run --load-outputs outputs_fp32.json golden.json --rtol 1e-2", 0),
    "run_loaded_folder": (
        "run identity.onnx --onnxrt --load-inputs inputs --load-outputs outputs",
        0,
    ),
    "run_validate": ("run --onnxrt identity_fp16.onnx --validate", 0),
    "run_data": (
        "run identity.onnx --onnxrt --onnx --seed 7 --iterations 3 --val-range [-1,1] x:[0,5]"
        " --input-shapes x:[1,1,2,2]",
        0,
    ),
    "run_shapes_in_turn": (
        "run identity.onnx --onnxrt --input-shapes x:[1,1,2,2] x:[1,1,2,2] --iterations 3",
        0,
    ),
    "run_data_script": ("run identity.onnx --onnxrt --onnx --data-loader-script data_loader.py", 0),
    "run_sequential": ("run identity.onnx --onnxrt --onnx --sequential-runners --validate", 0),
    "run_validate_saved": (
        "run identity.onnx --onnxrt --onnx --validate --save-accuracy-results valid.json",
        0,
    ),
    "run_warm_up": ("run identity.onnx --onnxrt --onnx --warm-up-runs 10 --iterations 20", 0),
    "run_subprocess": ("run identity.onnx --onnxrt --onnx --use-subprocess", 0),
    "run_subprocess_timeout": (
        "run identity.onnx --onnxrt --onnx --use-subprocess --subprocess-timeout 600",
        0,
    ),
    "run_warm_up_alone": ("run identity.onnx --onnxrt --warm-up 2", 0),
    "run_statistics": (
        "run identity.onnx --onnxrt --onnx --check-error-stat max mean --rtol 1e-5 y:1e-3 --atol y:1e-2",
        0,
    ),
    "run_auto_tolerance": ("run identity.onnx --onnxrt --onnx --rtol auto --atol 1e-4 y:auto", 0),
    "run_detailed_functions": (
        "run identity.onnx --onnxrt --onnx --compare ulp top_k bias non_finite error_distribution"
        " --ulp-threshold 2 --top-k 1 y:1 --top-k-margin y:1e-3 --top-k-threshold 0.9"
        " --bias-threshold 1e-3 --non-finite-threshold 0 --error-distribution-threshold y:1e-3",
        0,
    ),
    "run_normalized_l2": (
        "run identity.onnx --onnxrt --onnx --compare normalized_l2"
        " --normalized-l2-threshold 1e-4 y:1e-3",
        0,
    ),
    "run_quantile": (
        "run identity.onnx --onnxrt --onnx --check-error-stat quantile --error-quantile 0.9"
        " --infinities-compare-equal --no-shape-check",
        0,
    ),
    "run_l2": (
        "run identity_fp16.onnx --onnxrt --load-inputs inputs.json --load-outputs outputs_fp32.json"
        " --compare l2 --l2-threshold 1e-3",
        0,
    ),
    "run_compare_several": (
        "run identity.onnx --onnxrt --onnx --compare simple distance_metrics quality_metrics l2"
        " --rtol 1e-3 --l2-threshold 1e-4 y:1e-3 --psnr-threshold 40 --no-shape-check"
        " --save-accuracy-results several.json",
        0,
    ),
    "run_top_k": (
        "run identity.onnx --onnxrt --onnx --postprocess top-3 y:top-2,axis=-2 --compare indices"
        " --index-tolerance 1 --fail-fast --validate",
        0,
    ),
    "run_check_average": (
        "run identity.onnx --onnxrt --onnx --iterations 3 --check-average --compare simple sqnr"
        " --check-error-stat max --allow-missing-outputs",
        0,
    ),
    "run_compare_func_script": (
        "run identity.onnx --onnxrt --onnx --compare-func-script compare.py"
        " --postprocess-func-script compare.py:double --iterations 2",
        0,
    ),
    "run_perceptual_metrics": ("run identity.onnx --onnxrt --onnx --compare perceptual_metrics", 3),
    "run_fail_fast": ("run identity.onnx --onnxrt --onnx --fail-fast --validate", 0),
    "run_providers": ("run identity.onnx --onnxrt --providers CPUExecutionProvider", 0),
    "run_provider_options": (
        "run identity.onnx --onnxrt --providers cpu:use_arena=1,note=a --intra-op-threads 1",
        0,
    ),
    "run_provider_library": (
        "run identity.onnx --onnxrt --provider-library new=libnew.so --provider-library"
        " other=a_module --providers new:device=GPU cpu",
        3,
    ),
    "run_onnx_outputs": (
        "run identity_fp16.onnx --onnxrt --onnx-outputs x_* y --onnx-exclude-outputs y"
        " --graph-optimization-level DISABLE_ALL",
        0,
    ),
    "run_onnx_outputs_all": ("run identity_fp16.onnx --onnxrt --onnx --onnx-outputs *", 0),
    "run_mark_all": (
        "run identity_fp16.onnx --onnxrt --onnx --mark-all --exclude-outputs x_fp16 --validate",
        0,
    ),
    "run_shape_inference": ("run identity_fp16.onnx --onnx --shape-inference", 0),
    "run_save_onnx": (
        "run identity_fp16.onnx --onnxrt --onnx-outputs-by-type Cast --shape-inference"
        " --no-onnxruntime-shape-inference --save-onnx casts.onnx --save-external-data"
        " --external-data-size-threshold 1K --no-save-all-tensors-to-one-file",
        0,
    ),
    "run_layerwise": (
        "run identity_fp16.onnx --onnxrt --onnx --onnx-outputs * --memory-budget 1K --iterations 2"
        " --save-worst 2 worst_layers.safetensors --save-inputs layer_inputs.json",
        0,
    ),
    "run_layerwise_changed": (
        "run identity.onnx --onnxrt --onnxrt --mark-all --memory-budget 2G --fp-to-fp16"
        " --save-error-by-depth layers.svg --save-worst 1",
        0,
    ),
    "run_verbose": ("run identity.onnx --onnxrt -vv", 0),
    "run_logging": (
        "run identity.onnx --onnxrt --verbosity INFO adapters/onnxruntime:VERBOSE"
        " --log-format timestamp line-info no-colors --log-file run.log",
        0,
    ),
    "run_silent_to_file": ("run identity.onnx --onnxrt --silent --log-file log.txt", 0),
    "run_silent": ("run identity.onnx --onnxrt --silent", 0),
    "convert_fp16": ("convert identity.onnx --fp-to-fp16 -o converted_fp16.onnx", 0),
    "convert_verified": (
        "convert identity.onnx -o verified.onnx --opset 13 --fp-to-fp16 --cast-keep-ops Softmax"
        " --verify --load-inputs inputs.json --save-external-data",
        0,
    ),
    "convert_bf16": ("convert identity.onnx --to-bf16 --convert-to onnx", 3),
    "convert_outputs": (
        "convert identity_fp16.onnx -o all.onnx --mark-all --exclude-outputs x_fp16"
        " --shape-inference --no-onnxruntime-shape-inference --save-external-data weights.data",
        0,
    ),
    "inspect_data": ("inspect data inputs.json", 0),
    "inspect_data_detailed": (
        "inspect data outputs_fp32.json outputs --all --show-values --histogram --statistics -n 2"
        " --line-width 60",
        0,
    ),
    "inspect_diff": ("inspect diff golden.json outputs_fp32.json", 0),
    "inspect_diff_tolerance": (
        "inspect diff inputs.json inputs --rtol 1e-3 x:1e-2 --atol 1e-3 --fail-fast",
        1,
    ),
    "inspect_model": ("inspect model identity_fp16.onnx", 0),
    "inspect_model_quantization": (
        "inspect model identity.onnx --show quantization",
        0,
    ),
    "inspect_model_page": ("inspect model identity.onnx --save-visual page.html --show weights", 0),
    "inspect_model_providers": (
        "inspect model identity.onnx --providers cpu --show layers",
        0,
    ),
    "inspect_model_full": ("inspect model identity.onnx --show-weights --mode=full", 0),
    "inspect_model_json": (
        "inspect model identity.onnx identity_fp16.onnx --format json --stats --list-unbounded-dds"
        " --shape-inference --no-onnxruntime-shape-inference --model-type onnx",
        0,
    ),
    "inspect_outputs": ("inspect outputs identity_fp16.onnx --names x_* --format json", 0),
    "inspect_sparsity": ("inspect sparsity identity.onnx --ignore-external-data", 0),
    "inspect_diff_functions": (
        "inspect diff golden.json outputs_fp32.json --compare l2 top_k --l2-threshold 1e-3 y:1e-2"
        " --top-k 1 --allow-missing-outputs",
        0,
    ),
    "inspect_diff_script": (
        "inspect diff golden.json outputs_fp32.json --compare-func-script compare.py",
        0,
    ),
    "inspect_diff_models": ("inspect diff identity.onnx identity_fp16.onnx", 1),
    "inspect_tactics": ("inspect tactics replays/good/0.json", 0),
    "inspect_diff_tactics": ("inspect diff-tactics --dir replays", 0),
    "inspect_diff_tactics_apart": (
        "inspect diff-tactics --good replays/good --bad replays/bad/0.json --log-file tactics.log",
        0,
    ),
    "debug_repeat": (
        "debug repeat --until 2 --iter-info iteration.json --artifacts repeated.json"
        " --check-timeout 60 --check polygraphy run identity.onnx --onnxrt --save-outputs"
        " repeated.json",
        0,
    ),
    "debug_reduce": (
        "debug reduce identity_fp16.onnx --mode linear -o reduced.onnx --min-good good.onnx"
        " --load-inputs inputs.json --save-inputs reduced_inputs.json --artifacts"
        " polygraphy_debug.onnx --art-dir reduced --fail-code 0 --check polygraphy run"
        " polygraphy_debug.onnx --onnxrt --load-inputs reduced_inputs.json",
        0,
    ),
    "debug_reduce_shapes": (
        "debug reduce identity.onnx --model-inputs x:[1,1,2,2] --no-reduce-inputs --fp-to-fp16"
        " --force-fallback-shape-inference --save-external-data --check true",
        4,
    ),
    "debug_reduce_asked": ("debug reduce identity.onnx", 1),
    "debug_diff_tactics": ("debug diff-tactics replays/good/0.json replays/bad/0.json", 0),
    "check_lint": ("check lint identity.onnx", 0),
    "check_lint_report": (
        "check lint identity.onnx -o lint.json --seed 3 --providers cpu --input-shapes x:[1,1,2,2]",
        0,
    ),
    "check_compatibility": ("check compatibility identity.onnx --onnxrt", 0),
    "check_compatibility_several": (
        "check compatibility identity.onnx --onnx --onnxrt --val-range [-1,1]",
        0,
    ),
    "check_accuracy": ("check accuracy accuracy.json", 1),
    "check_accuracy_anew": (
        "check accuracy accuracy.json --rtol 1e-4 y:1e-2 --atol 0 --check-error-stat max mean",
        0,
    ),
    "check_accuracy_thresholds": (
        "check accuracy accuracy.json --psnr-threshold 40 y:30",
        2,
    ),
    "check_accuracy_selected": (
        "check accuracy accuracy.json --compare simple --check-average --check-error-stat max",
        1,
    ),
    "data_concat": ("data concat inputs.json inputs -o more_inputs.json", 0),
    "data_merge": ("data merge inputs.json golden.json -o merged.json", 0),
    "data_to_input": ("data to-input golden.json -o input.json", 0),
    "data_convert": ("data convert inputs.json converted", 0),
    "doctor": ("doctor --log-file doctor.log", 0),
    "surgeon_sanitize": (
        "surgeon sanitize identity.onnx --fold-constants --output clean.onnx",
        0,
    ),
    "surgeon_extract": (
        "surgeon extract identity.onnx --inputs x:auto:auto --outputs y:auto --verify --seed 2"
        " -o part.onnx",
        0,
    ),
    "surgeon_insert": (
        "surgeon insert identity.onnx --inputs x --outputs y --op Elu --name elu --attrs alpha=0.5"
        " --shape-inference -o inserted.onnx",
        0,
    ),
}


# These need TensorRT, TensorFlow or a GPU, so that their programs are only read.
RENDERED: dict[str, str] = {
    "run_trt": "run model.onnx --onnxrt --trt --fp16 --rtol 1e-3",
    "run_trt_alone": "run model.onnx --trt",
    "run_trt_engine": "run models/a.onnx --onnxrt --trt-engine engines/a.engine",
    "run_trt_engine_alone": "run --trt-engine a.engine --optimization-profile 1",
    "run_trt_model_is_engine": "run a.engine --trt --load-outputs golden.json",
    "run_trt_profile": (
        "run model.onnx --onnxrt --trt --trt-min-shapes input:[1,3,224,224] --trt-opt-shapes"
        " input:[4,3,224,224] --trt-max-shapes input:[8,3,224,224] --input-shapes"
        " input:[2,3,224,224] input:[6,3,224,224] --iterations 10"
    ),
    "run_trt_calibrated": (
        "run model.onnx --onnxrt --trt --int8 --data-loader-script calibration_data.py"
        " --calibration-cache int8.cache --calib-base-cls IInt8MinMaxCalibrator --rtol 5e-2"
    ),
    "run_trt_calibrated_by_default": "run model.onnx --onnxrt --trt --int8",
    "run_trt_saved": (
        "run model.onnx --onnxrt --trt --fp16 --builder-optimization-level 5 --save-engine"
        " optimized_fp16.engine --save-timing-cache timing.cache --tactic-sources cublas cudnn"
    ),
    "run_trt_weight_streaming": (
        "run huge_model.onnx --trt --weight-streaming --weight-streaming-budget 50%"
        " --strongly-typed --refittable --pool-limit workspace:4G dla_local_dram:1G"
    ),
    "run_trt_mark_all": "run model.onnx --onnxrt --trt --mark-all",
    "run_trt_mark_all_in_steps": "run model.onnx --onnxrt --trt --mark-all --input-shapes x:[2,16]",
    "run_trt_layerwise": ("run model.onnx --onnxrt --trt --tf32 --mark-all --memory-budget 512M"),
    "run_trt_onnx_outputs": "run model.onnx --trt --onnx-outputs a b --fp-to-fp16",
    "run_trt_network_script": "run example.py:load_network --trt --plugins a.so --cuda-graph off",
    "run_trt_network_edits": (
        "run model.onnx --trt --trt-npps edit.py --trt-outputs a b --layer-precisions c:fp32"
        " --tensor-dtypes x:fp16 --tensor-formats x:[linear,chw4] --mark-debug d"
        " --decomposable-attentions"
    ),
    "run_trt_config_script": (
        "run model.onnx --trt --trt-config-script config.py --trt-cpps config.py:change"
        " --load-runtime libnvinfer_lean.so"
    ),
    "run_trt_twice": "run model.onnx --trt --trt --save-tactics tactics.json",
    "run_named_trt": "run model.onnx --runner fp32='--trt --trt-outputs out' --runner"
    " int8='--trt --int8 --save-engine int8.plan' --runner a-b='--torch net.py:load'",
    "run_tf": "run model.pb --tf --onnxrt --tf-outputs a b --allow-growth --opset 13",
    "run_tf_ckpt": "run folder --model-type ckpt --ckpt name --tf --freeze-graph --save-pb a.pb",
    "run_tf_flags": (
        "run model.keras --tf --mark-all --xla --gpu-memory-fraction 0.5 --allow-growth"
        " --save-tensorboard board --save-timeline traces --tftrt --minimum-segment-size 3"
        " --dynamic-op"
    ),
    "run_tf_session": (
        "run saved --model-type saved-model --tf --tf-outputs * --freeze-graph --xla"
        " --gpu-memory-fraction 0.5 --allow-growth --save-pb frozen.pb --save-tensorboard board"
        " --save-timeline traces"
    ),
    "run_tf_tftrt": (
        "run model.pb --tf --tftrt --minimum-segment-size 2 --dynamic-op --fp16 --workspace 1G"
    ),
    "check_compatibility_tf": "check compatibility saved --model-type saved-model --tf --onnxrt",
    "run_openvino": (
        "run identity.onnx --openvino --onnxrt --openvino-precision f32 --openvino-threads 1"
        " --openvino-properties PERFORMANCE_HINT=LATENCY --openvino-float32 y"
        " --no-openvino-fusion"
    ),
    "run_pluginref": "run model.onnx --pluginref --onnxrt",
    "run_pluginref_script": "run model.onnx --pluginref --plugin-references references.py",
    "run_torch": (
        "run model.onnx --onnxrt --torch script.py:make --torch script.py --torch-device cuda:1"
        " --torch-compile"
    ),
    "run_steps": (
        "run model.onnx --onnxrt --onnx --steps 12 --prompt 3 --state hn:h0 --tokens tokens.txt"
    ),
    "run_first_model": (
        "run model.onnx --onnxrt --trt --fp16 --steps 12 --first-model prompt.onnx"
    ),
    "diagnose_steps": "diagnose model.onnx --onnxrt --steps --state none",
    "run_torch_alone": "run --torch model.pt2 --mark-all",
    "run_torch_program": "run model.onnx --onnxrt --torch model.pt2 --mark-all",
    "inspect_model_visual": (
        "inspect model a.onnx --visual --visual-port 0 --shape-inference --display-as trt"
    ),
    "inspect_model_tf": (
        "inspect model folder --model-type ckpt --ckpt name --freeze-graph --tf-outputs a b"
    ),
    "inspect_model_engine": (
        "inspect model a.engine --plugins a.so --load-runtime libnvinfer_lean.so --show layers"
    ),
    "inspect_model_network": (
        "inspect model m.onnx --convert-to trt --trt-outputs a b --trt-npps edit.py --plugins a.so"
        " --onnx-flags native_instancenorm --format json"
    ),
    "inspect_model_network_script": (
        "inspect model net.py:make --all-tensor-formats linear --show layers attrs"
    ),
    "inspect_capability": "inspect capability model.onnx",
    "inspect_capability_provider": "inspect capability model.onnx --providers cuda:device_id=1 cpu",
    "inspect_capability_parts": (
        "inspect capability model.onnx --with-partitioning -o parts --save-external-data _weights"
        " --external-data-size-threshold 1M --no-save-all-tensors-to-one-file --shape-inference"
        " --no-onnxruntime-shape-inference --external-data-dir weights"
    ),
    "debug_build": "debug build model.onnx --num-iterations 10 --save-tactics multiple.json",
    "debug_build_sorted": (
        "debug build identity.onnx --fp16 --save-tactics replay.json --artifacts-dir replays"
        " --artifacts replay.json --until=10 --check polygraphy run polygraphy_debug.engine --trt"
        " --load-outputs golden.json"
    ),
    "debug_build_script": (
        "debug build network.py:make --until bad --plugins a.so --int8 --data-loader-script data.py"
        " --iter-artifact a.plan --no-remove-intermediate --fail-regex mismatch 'a b' --skip-code 3"
        " 4 --show-output --check ./check.sh -v"
    ),
    "debug_precision": (
        "debug precision reduced.onnx --golden-outputs onnxrt_outputs.json --mark-all"
        " --save-layer-outputs analysis.json"
    ),
    "sweep": "sweep tests/data/sweep/plan.toml",
    "sweep_all": (
        "sweep tests/data/sweep/plan.toml --known tests/data/sweep/known.toml --strict --jobs 4"
        " --shard 1/2 --times old.json --only identity --timeout 60 --memory 2G --repeat-failed 2"
        " --baseline old.json --diagnose --profile 20 --folder results --report report.html"
    ),
    "diagnose_quantized": (
        "diagnose identity.onnx --reference r.onnx --onnxrt --within 0.1 --metric metric.py:drop"
        " --save mixed.onnx --budget 30"
    ),
    "diagnose_program": "diagnose identity.onnx --torch net.pt2 --onnxrt",
    "diagnose_script": "diagnose identity.onnx --torch net.py:load_model --onnx",
    "diagnose_named": "diagnose identity.onnx --runner cpu=--onnxrt --runner"
    " cuda='--onnxrt --providers cuda:use_tf32=0' --runner f32='--openvino --openvino-precision f32'",
    "diagnose_provider": "diagnose identity.onnx --onnxrt --providers cuda:use_tf32=0 --intra-op-threads 1",
    "diagnose_half": "diagnose identity.onnx --fp-to-fp16",
    "diagnose_half_data": (
        "diagnose identity.onnx --to-bf16 --rtol 0.05 --atol 1e-3 --input-shapes x:[1,1,2,2]"
    ),
    "debug_precision_onnx": (
        "debug precision identity.onnx --onnxrt --bf16 --rtol 0.05 --atol 1e-3 --seed 7"
    ),
    "debug_precision_onnx_checked": (
        "debug precision identity.onnx --onnxrt --no-remove-intermediate --check polygraphy run"
        " polygraphy_debug.onnx --onnx"
    ),
    "debug_precision_minimal": (
        "debug precision model.onnx --shape-inference --fp16 --int8 --mode minimal --dir reverse"
        " -p float16 --load-debug-replay replay.json --save-debug-replay replay.json --check false"
    ),
    "template_trt_network": "template trt-network -o -",
    "template_trt_network_model": "template trt-network model.onnx --strongly-typed -o -",
    "template_trt_network_edited": (
        "template trt-network model.onnx --trt-outputs a b --onnx-outputs * -o -"
    ),
    "template_onnx_gs": (
        "template onnx-gs folder/model.onnx --shape-inference --onnx-outputs a b --fp-to-fp16 -o -"
    ),
    "plugin_autotune": "plugin autotune model.onnx --plugin-dir plugins -o tuned.onnx",
    "plugin_autotune_all": (
        "plugin autotune model.onnx --plugin-dir plugins --load-config-yaml chosen.yaml"
        " --plugin-libraries a.so --python-plugins register.py --input-shapes x:[2,8] --seed 3"
        " --autotune-mode exhaustive --max-combinations 9 --threshold 0.5 --rtol 1e-2"
        " --timing-cache t.cache --report report.json --save-external-data weights.bin"
        " --tactic-sources --pool-limit workspace:1G --int8 --layer-precisions a:fp16"
    ),
    "plugin_autotune_skipped": (
        "plugin autotune model.onnx --plugin-dir plugins --skip-autotuning --save-config-yaml"
        " --include a"
    ),
    "template_shard_hints": (
        "template shard-hints model.onnx -o hints.json --i-idx 1 --o-idx 1 --k-idx 3 --v-idx 2"
        " --nb-rank 4 --no-suggest-io --groups 0 1 --ignore-external-data"
    ),
    "multi_device_shard": "multi-device shard model.onnx -s hints.json -o sharded.onnx",
    "multi_device_shard_one_shot": (
        "multi-device shard model.onnx --one-shot --cp-type fused --is-causal --k-shuffle 0 2 1 3"
        " --shape-inference --save-external-data -o sharded.onnx"
    ),
    "multi_device_shard_tensors": (
        "multi-device shard model.onnx --one-shot --parallelism TP --nb-rank 2 -o sharded.onnx"
    ),
    "plugin_list": "plugin list model.onnx --plugin-dir plugins --exclude slow",
    "plugin_match": (
        "plugin match folder/model.onnx --plugin-dir plugins --include a b --shape-inference"
    ),
    "plugin_replace": (
        "plugin replace model.onnx --plugin-dir plugins --config chosen.yaml -o fused.onnx"
    ),
    "template_trt_config": "template trt-config --fp16 --workspace 1G -o -",
    "template_trt_config_model": (
        "template trt-config model.onnx --int8 --calibration-cache c.cache --load-inputs in.json"
        " --trt-min-shapes x:[1,3] --trt-opt-shapes x:[2,3] --trt-max-shapes x:[4,3] -o -"
    ),
    "convert_trt": "convert model.onnx --convert-to trt --fp16 --workspace 2G",
    "convert_trt_int8": (
        "convert identity.onnx --int8 --data-loader-script ./data_loader.py --calibration-cache"
        " identity_calib.cache -o identity.engine"
    ),
    "convert_trt_max_shapes": (
        "convert model.onnx --convert-to trt --trt-max-shapes input:[4,3,224,224]"
    ),
    "convert_trt_layer": (
        "convert model.onnx --convert-to trt --int8 --precision-constraints sensitive_layer:fp16"
    ),
    "convert_trt_profiles": (
        "convert dynamic_identity.onnx -o dynamic_identity.engine"
        " --trt-min-shapes X:[1,3,28,28] --trt-opt-shapes X:[1,3,28,28]"
        " --trt-max-shapes X:[1,3,28,28] --trt-min-shapes X:[1,3,28,28]"
        " --trt-opt-shapes X:[4,3,28,28] --trt-max-shapes X:[32,3,28,28]"
    ),
    "convert_trt_exclude_tactics": "convert model.onnx -o m.plan --exclude-tactics bad.json",
    "convert_trt_rtx": "convert model.onnx -o m.plan --compute-capabilities 8.9 12.0",
    "convert_chosen": (
        "convert model.onnx -o m.onnx --to-bf16 --cast-only-ops MatMul Gemm --cast-only-nodes a"
        " --cast-keep-nodes b --cast-io"
    ),
    "convert_onnx_like": "convert model.onnx --convert-to onnx-like-trt-network -o seen.onnx",
    "convert_tf": "convert model.pb -o model.onnx --opset 13 --fp-to-fp16",
    "surgeon_extract_typed": (
        "surgeon extract model.onnx --inputs a:[1,N,-1]:float16 --outputs b:float32 c"
        " --force-fallback-shape-inference --model-input-shapes input:[1,3,224,224] --fp-to-fp16"
    ),
    "surgeon_copy": "surgeon copy model.onnx --reference right.onnx --nodes conv1 'a b'",
    "surgeon_extract_bare": "surgeon extract model.onnx --inputs input --outputs intermediate",
    "surgeon_sanitize_all": (
        "surgeon sanitize model.onnx --fold-constants --num-passes 3 --partitioning recursive"
        " --no-fold-shapes --no-per-pass-shape-inference --fold-size-threshold 1M --cleanup --simplify"
        " --toposort --override-input-shapes x:[1,N] --outputs a b* --exclude-outputs b2"
        " --outputs-by-type Conv --set-unbounded-dds-upper-bound 1000 a:5"
        " --no-onnxruntime-shape-inference --save-external-data weights.bin"
        " --external-data-size-threshold 16K --no-save-all-tensors-to-one-file --external-data-dir w"
        " --verify --val-range [0,5] --to-bf16"
    ),
    "surgeon_sanitize_observed": (
        "surgeon sanitize model.onnx --force-fallback-shape-inference --load-inputs inputs.json"
        " --outputs * -o clean.onnx"
    ),
    "surgeon_prune": "surgeon prune model.onnx --ignore-external-data",
    "surgeon_prune_nodes": "surgeon prune model.onnx --remove-node-types CustomOp Dropout",
    "surgeon_weight_strip": "surgeon weight-strip model.onnx --exclude-list names.txt",
    "surgeon_weight_reconstruct": "surgeon weight-reconstruct model.onnx -o full.onnx",
    "surgeon_weight_strip_verified": (
        "surgeon weight-strip model.onnx --fp-to-fp16 --verify --model-input-shapes input:[1,3,8,8]"
    ),
    "surgeon_weight_reconstruct_verified": (
        "surgeon weight-reconstruct model.onnx -o full.onnx --verify --load-inputs inputs.json"
    ),
    "surgeon_prune_verified": "surgeon prune model.onnx --remove-node-types Identity --verify",
}


def rendered(command: str) -> str:
    """Return the program of a command line, as it is run."""
    name, words = split_command(shlex.split(command))
    chosen = load_command(name)
    parsed = parse(chosen, words)
    return chosen.render(
        parsed, quote_command(["polygraphy", *name.split(), *_without_save_option(words)])
    )
