"""Binds ports to adapters, lazily: an adapter is imported when its port is first resolved. Nothing
else happens here.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from polygraphy.binding import Unbound

__all__ = ["resolve"]

_ADAPTERS: dict[str, str] = {
    "holds_blobs": "polygraphy.adapters.files.formats.blobs:holds_blobs",
    "iterate_blobs": "polygraphy.adapters.files.formats.blobs:iterate_blobs",
    "read_graph": "polygraphy.adapters.onnx.describe.reading:read_graph",
    "read_config": "polygraphy.adapters.files.small.tokens:read_config",
    "read_tokens": "polygraphy.adapters.files.small.tokens:read_tokens",
    "holds_pictures": "polygraphy.adapters.files.formats.pictures:holds_pictures",
    "class_folders": "polygraphy.adapters.files.formats.pictures:class_folders",
    "sample_files": "polygraphy.adapters.files.formats.pictures:sample_files",
    "iterate_pictures": "polygraphy.adapters.files.formats.pictures:iterate_pictures",
    "blob_writer": "polygraphy.adapters.files.formats.blobs:blob_writer",
    "Commands": "polygraphy.adapters.processes.commands:ProcessCommands",
    "command_line": "polygraphy.cli.command_line:command_line",
    "Console": "polygraphy.adapters.console.log:LogConsole",
    "evaluate_constants": "polygraphy.adapters.onnxruntime.trial:evaluate_constants",
    "NarrowModels": "polygraphy.adapters.onnx.run.half_precision:OnnxNarrowModels",
    "evaluate_constants/onnx": "polygraphy.adapters.onnx.run.reference:evaluate_constants",
    "data_frame": "polygraphy.adapters.pandas:data_frame",
    "DataTypeConverter/onnx": "polygraphy.adapters.onnx.storage.weights:OnnxDataTypes",
    "DataTypeConverter/onnxruntime": "polygraphy.adapters.onnxruntime.session:OnnxrtDataTypes",
    "DataTypeConverter/openvino": "polygraphy.adapters.openvino.datatype:OpenvinoDataTypes",
    "DataTypeConverter/tensorflow": "polygraphy.adapters.tensorflow.module:TensorFlowDataTypes",
    "DataTypeConverter/tensorrt": "polygraphy.adapters.tensorrt.library.datatype:TensorrtDataTypes",
    "DataTypeConverter/torch": "polygraphy.adapters.torch.arrays:TorchDataTypes",
    "load_debug_replay": "polygraphy.adapters.files.small.debug_replays:load_debug_replay",
    "save_debug_replay": "polygraphy.adapters.files.small.debug_replays:save_debug_replay",
    "Device": "polygraphy.adapters.cuda.device:CudaDevice",
    "DiagnosisReports": "polygraphy.adapters.console.diagnosis:LogDiagnosisReports",
    "find_violations": "polygraphy.adapters.onnx.lint.node_checks:find_violations",
    "sanitized": "polygraphy.adapters.onnx.fold.sanitizing:sanitized",
    "graph_with_weights": "polygraphy.adapters.onnx.edit.copying:graph_with_weights",
    "describe_with_weights": "polygraphy.adapters.onnx.edit.copying:describe_with_weights",
    "mended": "polygraphy.adapters.onnx.edit.copying:mended",
    "dequantised": "polygraphy.adapters.onnx.edit.quantising:dequantised",
    "open_quantized": "polygraphy.adapters.onnx.edit.quantized_model:open_quantized",
    "requantised": "polygraphy.adapters.onnx.edit.quantising:requantised",
    "quantised_operands": "polygraphy.adapters.onnx.edit.quantising:quantised_operands",
    "altered": "polygraphy.adapters.onnx.edit.copying:altered",
    "open_model": "polygraphy.adapters.onnx.run.opening:open_model",
    "open_layered": "polygraphy.adapters.onnx.run.opening:open_layered",
    "open_reducible": "polygraphy.adapters.onnx.run.opening:open_reducible",
    "samples_of": "polygraphy.adapters.onnx.run.opening:samples_of",
    "save_to_file": "polygraphy.adapters.onnx.run.opening:save_to_file",
    "DeviceMemory": "polygraphy.adapters.cuda.device:CudaDevice",
    "sections_of/machine": "polygraphy.adapters.machine:machine_sections",
    "sections_of/openvino": "polygraphy.adapters.openvino.devices:device_sections",
    "sections_of/packages": "polygraphy.adapters.packages:package_sections",
    "sections_of/providers": "polygraphy.adapters.onnxruntime.environments:provider_sections",
    "sections_of/tensorrt": "polygraphy.adapters.tensorrt.describe.support:tensorrt_sections",
    "results_html": "polygraphy.adapters.web.notebook:results_html",
    "verdicts_html": "polygraphy.adapters.web.notebook:verdicts_html",
    "model_html": "polygraphy.adapters.web.notebook:model_html",
    "diagnosis_html": "polygraphy.adapters.web.notebook:diagnosis_html",
    "load_onnx": "polygraphy.adapters.onnx.storage.model:load_onnx",
    "weight_files": "polygraphy.adapters.onnx.storage.model:weight_files",
    "parse_onnx": "polygraphy.adapters.onnx.storage.model:parse_onnx",
    "sketch_onnx": "polygraphy.adapters.onnx.storage.model:sketch_onnx",
    "cast_precision": "polygraphy.adapters.onnx.cast.precision:cast_precision",
    "Reports": "polygraphy.adapters.console.reports:LogReports",
    "Findings": "polygraphy.adapters.report.unrecorded:Unrecorded",
    "write_failure": "polygraphy.adapters.onnx.run.failure_folders:write_failure",
    "failure_text": "polygraphy.adapters.onnx.run.failure_folders:failure_text",
    "failure_program": "polygraphy.codegen.failure_programs:failure_program",
    "find_facts": "polygraphy.adapters.onnx.describe.facts:find_facts",
    "node_inputs": "polygraphy.adapters.onnx.describe.facts:node_inputs",
    "ranked_inputs": "polygraphy.adapters.onnx.storage.parsing:ranked_inputs",
    "first_omission": "polygraphy.adapters.onnx.describe.facts:first_omission",
    "call_isolated": "polygraphy.adapters.processes.isolated:call_isolated",
    "warm_process": "polygraphy.adapters.processes.warm_process:warm_process",
    "is_fork_safe": "polygraphy.adapters.os.forks:is_fork_safe",
    "read_matches": "polygraphy.adapters.files.small.match_files:read_matches",
    "write_matches": "polygraphy.adapters.files.small.match_files:write_matches",
    "model_page": "polygraphy.adapters.web.page:model_page",
    "serve_page": "polygraphy.adapters.web.page:serve",
    "computes_in_tf32": "polygraphy.adapters.machine:computes_in_tf32",
    "is_tf32_forced": "polygraphy.adapters.machine:is_tf32_forced",
    "cores": "polygraphy.adapters.machine:cores",
    "free_memory": "polygraphy.adapters.machine:free_memory",
    "release_memory": "polygraphy.adapters.machine:release_memory",
    "machine_facts": "polygraphy.adapters.machine:machine_facts",
    "launch": "polygraphy.adapters.processes.launching:launch",
    "open_to_lint": "polygraphy.adapters.onnx.lint.linting:open_to_lint",
    "outline_of": "polygraphy.adapters.onnx.describe.reading:outline_of",
    "describe_file/onnx": "polygraphy.adapters.onnx.describe.reading:describe_file",
    "describe_file/tensorflow": "polygraphy.adapters.tensorflow.reading:describe_file",
    "describe_file/tensorrt": "polygraphy.adapters.tensorrt.plan.reader:describe_file",
    "ModelReports": "polygraphy.adapters.console.models.reports:LogModelReports",
    "ModelTrial/onnx": "polygraphy.adapters.onnx.run.reference:ReferenceTrial",
    "ModelTrial/onnxrt": "polygraphy.adapters.onnxruntime.trial:OnnxrtTrial",
    "save_model": "polygraphy.adapters.onnx.storage.saving:save_model",
    "open_environment/onnxrt": "polygraphy.adapters.onnxruntime.environments:open_environment",
    "open_environment/openvino": "polygraphy.adapters.openvino.environments:open_environment",
    "PerceptualDistance": "polygraphy.adapters.lpips:LpipsDistance",
    "Plots": "polygraphy.adapters.plots:MatplotlibPlots",
    "Progress": "polygraphy.adapters.console.progress:TerminalProgress",
    "can_ask": "polygraphy.adapters.console.questions:can_ask",
    "ask": "polygraphy.adapters.console.questions:ask",
    "quantize": "polygraphy.adapters.onnxruntime.quantizer:quantize",
    "report_page": "polygraphy.adapters.web.report_page:report_page",
    "load_tactic_replays": "polygraphy.adapters.files.small.debug_replays:load_tactic_replays",
    "ResultStore": "polygraphy.adapters.files.store.store:FileResultStore",
    "read_shard_hints": "polygraphy.adapters.files.small.shard_hints:read_shard_hints",
    "write_shard_hints": "polygraphy.adapters.files.small.shard_hints:write_shard_hints",
    "move_weights": "polygraphy.adapters.onnx.edit.moving:move_weights",
    "stored_precision": "polygraphy.adapters.onnx.edit.moving:stored_precision",
    "infer_symbolic_shapes": "polygraphy.adapters.onnxruntime.trial:infer_symbolic_shapes",
    "open_spool": "polygraphy.adapters.files.small.spool:open_spool",
    "SweepEngine/local": "polygraphy.adapters.processes.pool:LocalPool",
    "SweepEngine/ray": "polygraphy.adapters.ray.engine:RayEngine",
    "open_interpreter": "polygraphy.adapters.processes.environments:open_interpreter",
    "install_environment": "polygraphy.adapters.processes.environments:install_environment",
    "matching_files": "polygraphy.adapters.files.small.sweep_files:matching_files",
    "files_named_by": "polygraphy.adapters.files.small.sweep_files:files_named_by",
    "digest_of": "polygraphy.adapters.files.small.sweep_files:digest_of",
    "read_record": "polygraphy.adapters.files.small.sweep_files:read_record",
    "forget_record": "polygraphy.adapters.files.small.sweep_files:forget_record",
    "holds_sweep": "polygraphy.adapters.files.small.sweep_files:holds_sweep",
    "claim_folder": "polygraphy.adapters.files.small.sweep_files:claim_folder",
    "place_nodes": "polygraphy.adapters.onnxruntime.placement:place_nodes",
    "supported_groups": "polygraphy.adapters.tensorrt.describe.support:supported_groups",
    "support_problems/trt": "polygraphy.adapters.tensorrt.describe.support:support_problems",
    "SuspectedParty/onnx": "polygraphy.adapters.onnx.run.reference:OnnxParty",
    "SuspectedParty/reference": "polygraphy.adapters.onnx.run.reference:OnnxParty",
    "SuspectedParty/formulas": "polygraphy.adapters.onnx.run.reference:FormulaParty",
    "SuspectedParty/package": "polygraphy.adapters.onnx.run.reference:PackageParty",
    "SuspectedParty/trt": "polygraphy.adapters.tensorrt.party:TrtParty",
    "SuspectedParty/onnxrt": "polygraphy.adapters.onnxruntime.party:OnnxrtParty",
    "SuspectedParty/openvino": "polygraphy.adapters.openvino.party:OpenvinoParty",
    "SuspectedParty/usual": "polygraphy.adapters.onnxruntime.party:OnnxrtParty",
    "input_metadata": "polygraphy.adapters.onnx.graph.shapes:input_metadata",
    "output_names": "polygraphy.adapters.onnx.edit.outputs:output_names",
    "observe_tensors": "polygraphy.adapters.onnx.edit.outputs:observe_tensors",
    "Tensors/torch": "polygraphy.adapters.torch.arrays:TorchTensors",
    "read_tensor": "polygraphy.adapters.onnx.storage.model:read_tensor",
    "read_text": "polygraphy.adapters.files.small.work_files:read_text",
    "write_text": "polygraphy.adapters.files.small.work_files:write_text",
    "path_exists": "polygraphy.adapters.files.small.work_files:path_exists",
    "check_writable": "polygraphy.adapters.os.paths:check_writable",
    "remove_path": "polygraphy.adapters.files.small.work_files:remove_path",
    "copy_file": "polygraphy.adapters.files.small.work_files:copy_file",
    "sort_away": "polygraphy.adapters.files.small.work_files:sort_away",
    "write_scratch": "polygraphy.adapters.files.small.work_files:write_scratch",
    "temporary_path": "polygraphy.adapters.files.small.work_files:temporary_path",
    "mirror_folder": "polygraphy.adapters.files.small.work_files:mirror_folder",
    "start_label": "polygraphy.adapters.files.small.work_files:start_label",
}

_PRELOAD = {"preload": "polygraphy.cli.backends.built_in:modules_for"}
_ARGUMENTS: dict[str, dict[str, Any]] = {"Commands": _PRELOAD, "launch": _PRELOAD}
"""What adapters are made, or called, with besides, by port."""

_DATA_TYPES = "DataTypeConverter"
"""The port that other packages may have adapters of: for their own data types."""


def resolve(port: Any, key: str | None = None) -> Any:
    """Make the adapter of a port, or find the function; `key` chooses where a port has several.

    Raises:
        Unbound: no adapter is known.
    """
    slot = port.__name__ if key is None else f"{port.__name__}/{key}"
    if slot not in _ADAPTERS and port.__name__ == _DATA_TYPES:
        return _of_a_package(slot, key)
    if slot not in _ADAPTERS:
        raise Unbound(f"No adapter is bound to {slot}.")
    module, _, name = _ADAPTERS[slot].partition(":")
    adapter = getattr(import_module(module), name)
    if slot in _ARGUMENTS:
        adapter = partial(adapter, **_ARGUMENTS[slot])
    return adapter() if isinstance(port, type) else adapter


def _of_a_package(slot: str, key: str | None) -> Any:
    """Make the adapter that an installed package has for the data types of a library."""
    from polygraphy.mod.plugins import DATA_TYPES, installed

    for plugin in installed(DATA_TYPES):
        if plugin.name == key:
            return plugin.load()()
    raise Unbound(f"No adapter is bound to {slot}.")
