"""Names that Polygraphy's documentation lists are there; helpers that are gone say what to write instead."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.support.cases import for_each

NAMES = [
    (module, name)
    for line in (Path(__file__).parents[1] / "data" / "documented_names.tsv")
    .read_text()
    .splitlines()
    for module, names in [line.split("\t")]
    for name in names.split()
]

GONE = {
    "polygraphy.backend.tf.util": "find_nodes_by_ops get_graph_output_names get_input_metadata get_output_metadata"
    " get_tensor_metadata load_graph map_node_outputs str_from_graph",
    "polygraphy.backend.trt.util": "check_profile convert_linear_to_vectorized_format"
    " convert_vectorized_to_linear_format get_chw_shape_from_hwc get_hwc_shape_from_chw get_layer_attribute_names"
    " get_layer_input_names_meta get_layer_output_names_meta get_network_input_names_meta"
    " get_network_output_names_meta get_tensor_format inherit_and_extend_docstring str_from_layer str_from_tensor"
    " try_setup_polygraphy_calibrator",
    "polygraphy.comparator.util": "use_higher_precision",
    "polygraphy.util.array": "dispatch",
}


@for_each("module, name", NAMES)
def test_a_documented_name_is_there(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name)


@for_each(
    "module, name", [(module, name) for module, names in GONE.items() for name in names.split()]
)
def test_a_helper_that_is_gone_says_what_replaces_it(module: str, name: str) -> None:
    found = importlib.import_module(module)
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}' any more\. Instead: \S"):
        getattr(found, name)
    assert name not in dir(found)
