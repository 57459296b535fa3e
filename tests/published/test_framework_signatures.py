"""The frameworks' classes take what scripts for NVIDIA's Polygraphy give them, by place or by name."""

from __future__ import annotations

import importlib
import inspect

import pytest

REQUIRED = inspect.Parameter.empty

SIGNATURES: dict[str, dict[str, dict[str, object]]] = {
    "polygraphy.backend.tf": {
        "CreateConfig": {"gpu_memory_fraction": None, "allow_growth": None, "use_xla": None},
        "GraphFromCkpt": {"dir": REQUIRED, "name": None},
        "GraphFromFrozen": {"path": REQUIRED},
        "GraphFromKeras": {"path": REQUIRED},
        "ModifyGraphOutputs": {"graph": REQUIRED, "outputs": None},
        "OptimizeGraph": {"graph": REQUIRED},
        "SaveGraph": {
            "graph": REQUIRED,
            "path": None,
            "tensorboard_dir": None,
            "engine_dir": None,
        },
        "SessionFromGraph": {"graph": REQUIRED, "config": None},
        "TfRunner": {"sess": REQUIRED, "timeline_dir": None, "name": None},
        "UseTfTrt": {
            "graph": REQUIRED,
            "max_workspace_size": None,
            "fp16": None,
            "int8": None,
            "max_batch_size": None,
            "is_dynamic_op": False,
            "minimum_segment_size": None,
        },
    },
    "polygraphy.backend.onnx": {
        "OnnxFromTfGraph": {"graph": REQUIRED, "opset": None, "optimize": None},
    },
    "polygraphy.backend.pluginref": {"PluginRefRunner": {"graph": REQUIRED, "name": None}},
    "polygraphy.backend.pluginref.references": {"register": {"op": REQUIRED}},
    "polygraphy.backend.pyt": {
        # Theirs needs all of them; here a model may tell them.
        "PytRunner": {"model": REQUIRED, "input_metadata": None, "output_names": None, "name": None}
    },
}


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in SIGNATURES.items() for name in names]
)
def test_parameters_come_first_in_the_order_of_the_api(module: str, name: str) -> None:
    published = getattr(importlib.import_module(module), name)
    expected = SIGNATURES[module][name]
    found = {
        parameter.name: parameter.default
        for parameter in inspect.signature(published).parameters.values()
    }
    assert list(found.items())[: len(expected)] == list(expected.items())
    assert all(default is not REQUIRED for default in list(found.values())[len(expected) :])


@pytest.mark.parametrize(
    "operator", ["Identity", "InstanceNormalization", "MeanVarianceNormalization"]
)
def test_references_that_come_with_it(operator: str) -> None:
    from polygraphy.backend.pluginref import OP_REGISTRY

    assert callable(OP_REGISTRY[operator])
