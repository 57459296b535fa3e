"""What published functions, classes and methods take; written by ``make signatures``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Signature(NamedTuple):
    """Where a name is published, and its arguments in order with their defaults; ``...`` stands for
    an argument that has none, or none that is a literal.
    """

    module: str
    arguments: Mapping[str, Any]


SIGNATURES = {
    "AskUser": Signature("polygraphy.debug", {"otherwise": None}),
    "CheckCommand": Signature(
        "polygraphy.debug",
        {
            "command": ...,
            "fail_codes": (),
            "ignored_codes": (),
            "fail_regex": (),
            "skip_codes": (125,),
            "show_output": False,
            "hide_fail_output": False,
            "timeout": None,
        },
    ),
    "DataLoader": Signature(
        "polygraphy.comparator",
        {
            "seed": None,
            "iterations": None,
            "input_metadata": None,
            "val_range": None,
            "data_loader_backend_module": None,
        },
    ),
    "InvokeFromScript": Signature("polygraphy.backend.common", {"path": ..., "name": ...}),
    "Iterations": Signature(
        "polygraphy.debug",
        {
            "check": ...,
            "artifact": None,
            "keep_artifact": False,
            "artifacts": (),
            "artifacts_dir": "polygraphy_artifacts",
            "numbered": (),
            "results": (),
            "iter_info": None,
            "load_replay": None,
            "save_replay": None,
        },
    ),
    "OnnxFromPath": Signature(
        "polygraphy.backend.onnx",
        {"path": ..., "external_data_dir": None, "ignore_external_data": None, "map_weights": None},
    ),
    "PluginRefRunner": Signature(
        "polygraphy.backend.pluginref", {"graph": ..., "name": None, "references": None}
    ),
    "PytRunner": Signature(
        "polygraphy.backend.pyt",
        {
            "model": ...,
            "input_metadata": None,
            "output_names": None,
            "name": None,
            "compiled": False,
            "device": None,
        },
    ),
    "SimpleCompareFunc": Signature(
        "polygraphy.comparator",
        {
            "check_shapes": None,
            "rtol": None,
            "atol": None,
            "fail_fast": None,
            "find_output_func": None,
            "check_error_stat": None,
            "infinities_compare_equal": None,
            "save_heatmaps": None,
            "show_heatmaps": None,
            "save_error_metrics_plot": None,
            "show_error_metrics_plot": None,
            "error_quantile": None,
        },
    ),
    "StreamingDataLoader": Signature("polygraphy.comparator", {"paths": ..., "allow_dirs": True}),
    "TorchFromPath": Signature("polygraphy.backend.pyt", {"path": ...}),
    "autotune_plugins": Signature(
        "polygraphy.plugin",
        {
            "make_runner": ...,
            "matches": ...,
            "data_loader": None,
            "mode": "greedy",
            "max_combinations": 1000,
            "threshold": 0.1,
            "compare_func": None,
            "report": None,
        },
    ),
    "check_accuracy": Signature(
        "polygraphy.check",
        {"path": ..., "rtol": None, "atol": None, "check_error_stat": None, "thresholds": None},
    ),
    "check_compatibility": Signature(
        "polygraphy.check", {"model": ..., "runners": ..., "data_loader": None}
    ),
    "check_lint": Signature(
        "polygraphy.check",
        {
            "path": ...,
            "output": None,
            "data_loader": None,
            "external_data_dir": None,
            "ignore_external_data": False,
            "providers": None,
            "graph_optimization_level": None,
        },
    ),
    "clean_up": Signature("polygraphy.surgeon", {"model": ...}),
    "compare_models": Signature("polygraphy.inspect", {"reference": ..., "candidate": ...}),
    "compare_tactics": Signature("polygraphy.inspect", {"path0": ..., "path1": ...}),
    "concat": Signature("polygraphy.data", {"paths": ..., "output": ...}),
    "convert": Signature("polygraphy.data", {"path": ..., "output": ...}),
    "convert_to_bf16": Signature(
        "polygraphy.backend.onnx",
        {
            "model": ...,
            "copy": None,
            "keep_ops": (),
            "keep_nodes": (),
            "only_ops": (),
            "only_nodes": (),
            "cast_io": None,
        },
    ),
    "convert_to_fp16": Signature(
        "polygraphy.backend.onnx",
        {
            "model": ...,
            "copy": None,
            "keep_ops": (),
            "keep_nodes": (),
            "only_ops": (),
            "only_nodes": (),
            "cast_io": None,
        },
    ),
    "doctor": Signature("polygraphy.doctor", {}),
    "draw_model": Signature(
        "polygraphy.inspect",
        {
            "path": ...,
            "output": None,
            "port": 8000,
            "weights": False,
            "model_type": None,
            "display_as": None,
            "external_data_dir": None,
            "ignore_external_data": False,
            "infer_shapes": False,
            "allow_onnxruntime": None,
            "network_func": None,
            "checkpoint": None,
            "tf_outputs": (),
            "optimize_graph": False,
        },
    ),
    "extract": Signature(
        "polygraphy.surgeon", {"model": ..., "inputs": None, "outputs": None, "data_loader": None}
    ),
    "find_bad_tactics": Signature("polygraphy.inspect", {"dir": None, "good": None, "bad": None}),
    "find_shard_hints": Signature(
        "polygraphy.multi_device",
        {
            "model": ...,
            "parallelism": "CP",
            "nb_rank": 1,
            "root": -1,
            "gpus": 0,
            "groups": (),
            "cp_type": "native",
            "suggest_io": True,
            "i_idx": 0,
            "o_idx": 0,
            "k_idx": 0,
            "v_idx": 0,
            "i_rank": None,
            "o_rank": None,
            "kv_rank": None,
            "reduce_op": "max",
            "attention_pattern": 0,
            "q_shuffle": None,
            "k_shuffle": None,
            "v_shuffle": None,
            "is_causal": False,
        },
    ),
    "fold_constants": Signature(
        "polygraphy.backend.onnx",
        {
            "model": ...,
            "num_passes": None,
            "do_shape_inference": None,
            "partitioning": None,
            "fold_shapes": None,
            "copy": None,
            "error_ok": None,
            "size_threshold": None,
            "allow_onnxruntime_shape_inference": None,
        },
    ),
    "infer_shapes": Signature(
        "polygraphy.backend.onnx",
        {
            "model": ...,
            "error_ok": None,
            "external_data_dir": None,
            "save_to_disk_threshold_bytes": None,
            "allow_onnxruntime": None,
        },
    ),
    "insert_node": Signature(
        "polygraphy.surgeon",
        {
            "model": ...,
            "op": ...,
            "inputs": ...,
            "outputs": ...,
            "name": None,
            "attrs": None,
            "domain": None,
        },
    ),
    "inspect_capability": Signature(
        "polygraphy.inspect",
        {
            "model": ...,
            "output": None,
            "with_partitioning": False,
            "external_data_suffix": None,
            "size_threshold": None,
            "all_tensors_to_one_file": None,
        },
    ),
    "inspect_data": Signature(
        "polygraphy.inspect",
        {
            "paths": ...,
            "all_iterations": False,
            "show_values": False,
            "histogram": False,
            "statistics": False,
            "num_items": 3,
            "line_width": 75,
        },
    ),
    "inspect_model": Signature(
        "polygraphy.inspect",
        {
            "models": ...,
            "show": (),
            "format": "text",
            "stats": False,
            "list_unbounded_dds": False,
            "model_type": None,
            "display_as": None,
            "external_data_dir": None,
            "ignore_external_data": False,
            "infer_shapes": False,
            "allow_onnxruntime": None,
            "network_func": None,
            "tensor_info": None,
            "checkpoint": None,
            "tf_outputs": (),
            "optimize_graph": False,
        },
    ),
    "inspect_outputs": Signature(
        "polygraphy.inspect", {"path": ..., "names": None, "format": "text"}
    ),
    "inspect_sparsity": Signature(
        "polygraphy.inspect",
        {"path": ..., "external_data_dir": None, "ignore_external_data": False},
    ),
    "inspect_tactics": Signature("polygraphy.inspect", {"path": ...}),
    "match_plugins": Signature(
        "polygraphy.plugin", {"model": ..., "plugin_dir": ..., "include": None, "exclude": None}
    ),
    "merge": Signature("polygraphy.data", {"paths": ..., "output": ...}),
    "modify_outputs": Signature(
        "polygraphy.backend.onnx",
        {"model": ..., "outputs": None, "exclude_outputs": None, "copy": None, "mark_types": None},
    ),
    "observe_shapes": Signature("polygraphy.surgeon", {"model": ..., "data_loader": None}),
    "onnx_from_path": Signature(
        "polygraphy.backend.onnx",
        {"path": ..., "external_data_dir": None, "ignore_external_data": None, "map_weights": None},
    ),
    "override_input_shapes": Signature("polygraphy.surgeon", {"model": ..., "shapes": ...}),
    "prune_weights": Signature("polygraphy.surgeon", {"model": ...}),
    "reconstruct_weights": Signature("polygraphy.surgeon", {"model": ..., "map_weights": None}),
    "reduce_model": Signature(
        "polygraphy.debug",
        {
            "model": ...,
            "iterations": ...,
            "mode": "bisect",
            "reduce_outputs": True,
            "reduce_inputs": True,
            "data_loader": None,
            "save_inputs": None,
        },
    ),
    "remove_nodes": Signature("polygraphy.surgeon", {"model": ..., "types": ...}),
    "restore_weights": Signature("polygraphy.surgeon", {"model": ..., "original": ...}),
    "save_onnx": Signature(
        "polygraphy.backend.onnx",
        {
            "model": ...,
            "path": ...,
            "external_data_path": None,
            "size_threshold": None,
            "all_tensors_to_one_file": None,
        },
    ),
    "save_shards": Signature(
        "polygraphy.multi_device",
        {
            "models": ...,
            "path": ...,
            "external_data_path": None,
            "size_threshold": None,
            "all_tensors_to_one_file": None,
        },
    ),
    "set_upper_bound": Signature(
        "polygraphy.backend.onnx", {"model": ..., "upper_bounds": ..., "copy": None}
    ),
    "sort_nodes": Signature("polygraphy.surgeon", {"model": ...}),
    "strip_weights": Signature(
        "polygraphy.surgeon", {"model": ..., "exclude": (), "exclude_list": None}
    ),
    "verify": Signature(
        "polygraphy.surgeon",
        {"original": ..., "edited": ..., "data_loader": None, "compare_func": None},
    ),
    "verify_runs": Signature("polygraphy.surgeon", {"model": ..., "data_loader": None}),
}
