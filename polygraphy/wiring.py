"""Binds ports to adapters, lazily: an adapter is imported when its port is first resolved. Nothing
else happens here.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from polygraphy.binding import UnboundPortError

__all__ = ["resolve"]

_ADAPTERS: dict[str, dict[str, str]] = {
    "polygraphy.domain.accuracy.accuracy": {
        "accuracy_in_words": "polygraphy.domain.accuracy.summarizing:accuracy_in_words",
        "accuracy_records": "polygraphy.domain.accuracy.summarizing:accuracy_records",
        "verdicts_html": "polygraphy.adapters.web.notebook:verdicts_html",
    },
    "polygraphy.domain.compare.measures": {
        "PerceptualDistance": "polygraphy.adapters.lpips:LpipsDistance",
    },
    "polygraphy.domain.diagnosis.culprit": {
        "diagnosis_html": "polygraphy.adapters.web.notebook:diagnosis_html",
    },
    "polygraphy.domain.model.description": {
        "model_html": "polygraphy.adapters.web.notebook:model_html",
    },
    "polygraphy.domain.ports": {
        "blob_writer": "polygraphy.adapters.files.formats.blobs:blob_writer",
        "class_folders": "polygraphy.adapters.files.formats.pictures:class_folders",
        "command_line": "polygraphy.cli.command_line:command_line",
        "data_frame": "polygraphy.adapters.pandas:data_frame",
        "holds_blobs": "polygraphy.adapters.files.formats.blobs:holds_blobs",
        "holds_pictures": "polygraphy.adapters.files.formats.pictures:holds_pictures",
        "iterate_blobs": "polygraphy.adapters.files.formats.blobs:iterate_blobs",
        "iterate_pictures": "polygraphy.adapters.files.formats.pictures:iterate_pictures",
        "Plots": "polygraphy.adapters.plots:MatplotlibPlots",
        "read_config": "polygraphy.adapters.files.small.tokens:read_config",
        "read_tokens": "polygraphy.adapters.files.small.tokens:read_tokens",
        "ResultStore": "polygraphy.adapters.files.store.store:FileResultStore",
        "sample_files": "polygraphy.adapters.files.formats.pictures:sample_files",
        "Tensors/torch": "polygraphy.adapters.torch.arrays:TorchTensors",
    },
    "polygraphy.domain.results.results": {
        "results_html": "polygraphy.adapters.web.notebook:results_html",
    },
    "polygraphy.domain.states.loading": {
        "read_graph": "polygraphy.adapters.onnx.describe.reading:read_graph",
    },
    "polygraphy.domain.tensors.datatype": {
        "DataTypeConverter/onnx": "polygraphy.adapters.onnx.storage.weights:OnnxDataTypes",
        "DataTypeConverter/onnxruntime": "polygraphy.adapters.onnxruntime.session:OnnxrtDataTypes",
        "DataTypeConverter/openvino": "polygraphy.adapters.openvino.datatype:OpenvinoDataTypes",
        "DataTypeConverter/tensorflow": "polygraphy.adapters.tensorflow.module:TensorFlowDataTypes",
        "DataTypeConverter/tensorrt": (
            "polygraphy.adapters.tensorrt.library.datatype:TensorrtDataTypes"
        ),
        "DataTypeConverter/torch": "polygraphy.adapters.torch.arrays:TorchDataTypes",
    },
    "polygraphy.ports.diagnosing": {
        "apply_copies": "polygraphy.adapters.onnx.edit.copying:restore_differences",
        "change_node": "polygraphy.adapters.onnx.edit.copying:alter_node",
        "dequantize_model": "polygraphy.adapters.onnx.edit.quantizing:remove_quantization",
        "describe_with_weights": "polygraphy.adapters.onnx.describe.reading:describe_with_weights",
        "DiagnosisReports": "polygraphy.adapters.console.diagnosis:LogDiagnosisReports",
        "failure_program": "polygraphy.codegen.failure_programs:failure_program",
        "failure_text": "polygraphy.adapters.onnx.run.failure_folders:failure_text",
        "find_code_tensors": "polygraphy.adapters.onnx.edit.code_tensors:find_code_tensors",
        "find_model_violation": "polygraphy.adapters.onnx.lint.model_checks:find_model_violation",
        "find_quantized_operands": "polygraphy.adapters.onnx.edit.quantizing:quantized_operands",
        "find_violations": "polygraphy.adapters.onnx.lint.node_checks:find_violations",
        "NarrowModels": "polygraphy.adapters.onnx.run.half_precision:OnnxNarrowModels",
        "open_node_weights": "polygraphy.adapters.onnx.edit.quantized_model:open_node_weights",
        "open_quantized": "polygraphy.adapters.onnx.edit.quantized_model:open_quantized",
        "quantize_again/modelopt": "polygraphy.adapters.modelopt.quantizing_again:quantize_again",
        "quantize_again/nncf": "polygraphy.adapters.nncf.quantizing_again:quantize_again",
        "quantize_again/onnxruntime": (
            "polygraphy.adapters.onnxruntime.quantizing_again:quantize_again"
        ),
        "requantize_model": "polygraphy.adapters.onnx.edit.quantizing:copy_quantization",
        "sanitize_model": "polygraphy.adapters.onnx.fold.sanitizing:sanitize_model",
        "SuspectedParty/formulas": "polygraphy.adapters.onnx.run.reference:FormulaParty",
        "SuspectedParty/onnx": "polygraphy.adapters.onnx.run.reference:OnnxParty",
        "SuspectedParty/onnxrt": "polygraphy.adapters.onnxruntime.party:OnnxrtParty",
        "SuspectedParty/openvino": "polygraphy.adapters.openvino.party:OpenvinoParty",
        "SuspectedParty/package": "polygraphy.adapters.onnx.run.reference:PackageParty",
        "SuspectedParty/reference": "polygraphy.adapters.onnx.run.reference:OnnxParty",
        "SuspectedParty/trt": "polygraphy.adapters.tensorrt.party:TrtParty",
        "SuspectedParty/usual": "polygraphy.adapters.onnxruntime.party:OnnxrtParty",
        "write_failure": "polygraphy.adapters.onnx.run.failure_folders:write_failure",
    },
    "polygraphy.ports.editing": {
        "adopt_opset": "polygraphy.adapters.onnx.edit.opset:adopt_opset",
        "cast_precision": "polygraphy.adapters.onnx.cast.precision:cast_precision",
        "evaluate_constants": "polygraphy.adapters.onnxruntime.trial:evaluate_constants",
        "evaluate_constants/onnx": "polygraphy.adapters.onnx.run.reference:evaluate_constants",
        "infer_symbolic_shapes": "polygraphy.adapters.onnxruntime.trial:infer_symbolic_shapes",
        "move_weights": "polygraphy.adapters.onnx.edit.moving:move_weights",
        "open_layered": "polygraphy.adapters.onnx.run.opening:open_layered",
        "open_model": "polygraphy.adapters.onnx.run.opening:open_model",
        "open_reducible": "polygraphy.adapters.onnx.run.opening:open_reducible",
        "quantize": "polygraphy.adapters.onnxruntime.quantizer:quantize",
        "replace_nodes": "polygraphy.adapters.onnx.edit.copying:replace_nodes",
        "samples_of": "polygraphy.adapters.onnx.run.opening:samples_of",
        "save_to_file": "polygraphy.adapters.onnx.run.opening:save_to_file",
        "weight_precision": "polygraphy.adapters.onnx.edit.moving:weight_precision",
    },
    "polygraphy.ports.machine": {
        "computes_in_tf32": "polygraphy.adapters.machine:computes_in_tf32",
        "cores": "polygraphy.adapters.machine:cores",
        "Device": "polygraphy.adapters.cuda.device:CudaDevice",
        "DeviceMemory": "polygraphy.adapters.cuda.device:CudaDevice",
        "free_memory": "polygraphy.adapters.machine:free_memory",
        "is_tf32_forced": "polygraphy.adapters.machine:is_tf32_forced",
        "machine_facts": "polygraphy.adapters.machine:machine_facts",
        "release_memory": "polygraphy.adapters.machine:release_memory",
        "sections_of/machine": "polygraphy.adapters.machine:machine_sections",
        "sections_of/openvino": "polygraphy.adapters.openvino.devices:device_sections",
        "sections_of/packages": "polygraphy.adapters.packages:package_sections",
        "sections_of/providers": "polygraphy.adapters.onnxruntime.environments:provider_sections",
        "sections_of/tensorrt": "polygraphy.adapters.tensorrt.describe.support:tensorrt_sections",
    },
    "polygraphy.ports.models": {
        "describe_file/onnx": "polygraphy.adapters.onnx.describe.reading:describe_file",
        "describe_file/tensorflow": "polygraphy.adapters.tensorflow.reading:describe_file",
        "describe_file/tensorrt": "polygraphy.adapters.tensorrt.plan.reader:describe_file",
        "find_quantized_tensors": (
            "polygraphy.adapters.onnx.describe.quantized:find_quantized_tensors"
        ),
        "first_violation": "polygraphy.adapters.onnx.lint.model_checks:first_violation",
        "group_by_support": "polygraphy.adapters.tensorrt.describe.support:group_by_support",
        "load_onnx": "polygraphy.adapters.onnx.storage.model:load_onnx",
        "ModelReports": "polygraphy.adapters.console.models.reports:LogModelReports",
        "ModelTrial": "polygraphy.adapters.onnxruntime.trial:OnnxrtTrial",
        "ModelTrial/onnx": "polygraphy.adapters.onnx.run.reference:ReferenceTrial",
        "ModelTrial/onnxrt": "polygraphy.adapters.onnxruntime.trial:OnnxrtTrial",
        "open_to_lint": "polygraphy.adapters.onnx.lint.linting:open_to_lint",
        "outline_of": "polygraphy.adapters.onnx.describe.reading:outline_of",
        "parse_onnx": "polygraphy.adapters.onnx.storage.model:parse_onnx",
        "place_nodes": "polygraphy.adapters.onnxruntime.placement:place_nodes",
        "read_tensor": "polygraphy.adapters.onnx.storage.model:read_tensor",
        "save_model": "polygraphy.adapters.onnx.storage.saving:save_model",
        "sketch_onnx": "polygraphy.adapters.onnx.storage.model:sketch_onnx",
        "support_problems": "polygraphy.adapters.tensorrt.describe.support:support_problems",
        "support_problems/trt": "polygraphy.adapters.tensorrt.describe.support:support_problems",
        "weight_files": "polygraphy.adapters.onnx.storage.model:weight_files",
    },
    "polygraphy.ports.reporting": {
        "Console": "polygraphy.adapters.console.log:LogConsole",
        "Findings": "polygraphy.adapters.report.unrecorded:UnrecordedFindings",
        "model_page": "polygraphy.adapters.web.page:model_page",
        "Progress": "polygraphy.adapters.console.progress:TerminalProgress",
        "report_page": "polygraphy.adapters.web.report_page:report_page",
        "Reports": "polygraphy.adapters.console.reports:LogReports",
        "serve_page": "polygraphy.adapters.web.page:serve_page",
    },
    "polygraphy.ports.running": {
        "ask": "polygraphy.adapters.console.questions:ask",
        "call_isolated": "polygraphy.adapters.processes.isolated:call_isolated",
        "can_ask": "polygraphy.adapters.console.questions:can_ask",
        "Commands": "polygraphy.adapters.processes.commands:ProcessCommands",
        "crashing_node": "polygraphy.adapters.onnx.describe.crashing_nodes:crashing_node",
        "describe_node_inputs": "polygraphy.adapters.onnx.describe.facts:describe_node_inputs",
        "find_facts": "polygraphy.adapters.onnx.describe.facts:find_facts",
        "input_metadata": "polygraphy.adapters.onnx.graph.shapes:input_metadata",
        "inputs_of_known_rank": "polygraphy.adapters.onnx.storage.parsing:inputs_of_known_rank",
        "is_fork_safe": "polygraphy.adapters.os.forks:is_fork_safe",
        "model_nodes": "polygraphy.adapters.onnx.run.opening:model_nodes",
        "observe_tensors": "polygraphy.adapters.onnx.edit.outputs:observe_tensors",
        "open_environment/onnxrt": "polygraphy.adapters.onnxruntime.environments:open_environment",
        "open_environment/openvino": "polygraphy.adapters.openvino.environments:open_environment",
        "output_names": "polygraphy.adapters.onnx.edit.outputs:output_names",
        "read_backend_profile/onnxrt": "polygraphy.adapters.onnxruntime.trace:read_profile",
        "read_backend_profile/openvino": "polygraphy.adapters.openvino.report:read_profile",
        "read_backend_profile/trt": (
            "polygraphy.adapters.tensorrt.describe.layer_times:read_profile"
        ),
        "warm_process": "polygraphy.adapters.processes.warm_process:warm_process",
    },
    "polygraphy.ports.storage": {
        "check_writable": "polygraphy.adapters.os.paths:check_writable",
        "copy_file": "polygraphy.adapters.files.small.work_files:copy_file",
        "hold_folder": "polygraphy.adapters.os.paths:hold_folder",
        "load_debug_replay": "polygraphy.adapters.files.small.debug_replays:load_debug_replay",
        "load_profiles": "polygraphy.adapters.files.small.profiles:load_profiles",
        "load_tactic_replays": "polygraphy.adapters.files.small.debug_replays:load_tactic_replays",
        "mirror_folder": "polygraphy.adapters.files.small.work_files:mirror_folder",
        "move_into_folder": "polygraphy.adapters.files.small.work_files:move_into_folder",
        "open_spool": "polygraphy.adapters.files.small.spool:open_spool",
        "path_exists": "polygraphy.adapters.files.small.work_files:path_exists",
        "read_matches": "polygraphy.adapters.files.small.match_files:read_matches",
        "read_shard_hints": "polygraphy.adapters.files.small.shard_hints:read_shard_hints",
        "read_text": "polygraphy.adapters.files.small.work_files:read_text",
        "remove_path": "polygraphy.adapters.files.small.work_files:remove_path",
        "save_debug_replay": "polygraphy.adapters.files.small.debug_replays:save_debug_replay",
        "save_profiles": "polygraphy.adapters.files.small.profiles:save_profiles",
        "start_label": "polygraphy.adapters.files.small.work_files:start_label",
        "temporary_path": "polygraphy.adapters.files.small.work_files:temporary_path",
        "write_matches": "polygraphy.adapters.files.small.match_files:write_matches",
        "write_scratch": "polygraphy.adapters.files.small.work_files:write_scratch",
        "write_shard_hints": "polygraphy.adapters.files.small.shard_hints:write_shard_hints",
        "write_text": "polygraphy.adapters.files.small.work_files:write_text",
    },
    "polygraphy.ports.sweeping": {
        "claim_folder": "polygraphy.adapters.files.small.sweep_files:claim_folder",
        "digest_of": "polygraphy.adapters.files.small.sweep_files:digest_of",
        "files_named_by": "polygraphy.adapters.files.small.sweep_files:files_named_by",
        "forget_record": "polygraphy.adapters.files.small.sweep_files:forget_record",
        "holds_sweep": "polygraphy.adapters.files.small.sweep_files:holds_sweep",
        "install_environment": "polygraphy.adapters.processes.environments:install_environment",
        "launch": "polygraphy.adapters.processes.launching:launch",
        "matching_files": "polygraphy.adapters.files.small.sweep_files:matching_files",
        "open_interpreter": "polygraphy.adapters.processes.environments:open_interpreter",
        "read_record": "polygraphy.adapters.files.small.sweep_files:read_record",
        "SweepEngine/local": "polygraphy.adapters.processes.pool:LocalPool",
        "SweepEngine/ray": "polygraphy.adapters.ray.engine:RayEngine",
    },
}
"""By module and name of a port, with a key behind a slash if it has several adapters: the module
and the name of the adapter. Sorted.
"""

_PRELOAD = {"preload": "polygraphy.cli.backends.built_in:modules_for"}
_ARGUMENTS: dict[str, dict[str, Any]] = {"Commands": _PRELOAD, "launch": _PRELOAD}
"""Additional arguments of adapters, by port."""

_DATA_TYPES = "DataTypeConverter"
"""The port that other packages may have adapters of: for their own data types."""


def resolve(port: Any, key: str | None = None) -> Any:
    """Return the adapter or the function of a port; `key` selects one if a port has several.

    Raises:
        UnboundPortError: no adapter is known.
    """
    slot = port.__name__ if key is None else f"{port.__name__}/{key}"
    adapters = _ADAPTERS.get(port.__module__, {})
    if slot not in adapters and port.__name__ == _DATA_TYPES:
        return _plugin_data_types(slot, key)
    if slot not in adapters:
        raise UnboundPortError(f"No adapter is bound to {slot}.")
    module, _, name = adapters[slot].partition(":")
    adapter = getattr(import_module(module), name)
    if slot in _ARGUMENTS:
        adapter = partial(adapter, **_ARGUMENTS[slot])
    return adapter() if isinstance(port, type) else adapter


def _plugin_data_types(slot: str, key: str | None) -> Any:
    """Return the adapter of an installed package for the data types of a library."""
    from polygraphy.mod.plugins import DATA_TYPES, entry_points_of

    for plugin in entry_points_of(DATA_TYPES):
        if plugin.name == key:
            return plugin.load()()
    raise UnboundPortError(f"No adapter is bound to {slot}.")
