"""Networks from models, scripts and the API, built for real with TensorRT-RTX."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from polygraphy import constants, func
from polygraphy.backend.trt import (
    CreateConfig,
    CreateNetwork,
    LoadPlugins,
    MarkDebug,
    ModifyNetworkOutputs,
    NetworkFromOnnxBytes,
    NetworkFromOnnxModel,
    NetworkFromOnnxPath,
    PostprocessNetwork,
    SetDecomposableAttentions,
    SetTensorDatatypes,
    SetTensorFormats,
    create_network,
    engine_bytes_from_network,
    modify_network_outputs,
    network_from_onnx_bytes,
    network_from_onnx_model,
    network_from_onnx_path,
    onnx_like_from_network,
    set_tensor_datatypes,
)
from polygraphy.binding import bind
from polygraphy.cli.backends.trt.names import NAMES
from polygraphy.domain.errors import (
    BackendError,
    FileError,
    ModelError,
    UnknownNameError,
    UsageError,
)
from polygraphy.logger import G_LOGGER
from polygraphy.ports.models import save_model
from tests.support import models
from tests.support.rtx import dtypes, output_names

pytestmark = pytest.mark.usefixtures("rtx")


def test_a_path_gives_builder_network_and_parser(rtx: Any, mlp_path: str) -> None:
    builder, network, parser = network_from_onnx_path(mlp_path)
    assert isinstance(builder, rtx.Builder)
    assert isinstance(parser, rtx.OnnxParser)
    assert output_names(network) == ["y"]


def test_bytes_and_loaders_of_them_give_the_same_network() -> None:
    content = models.mlp().SerializeToString()
    first = dtypes(network_from_onnx_bytes(content)[1])
    assert dtypes(NetworkFromOnnxBytes(lambda: content)()[1]) == first


def test_a_model_in_memory_and_a_loader_of_it_give_the_same_network() -> None:
    model = models.mlp()
    wanted = dtypes(network_from_onnx_bytes(model.SerializeToString())[1])
    assert dtypes(network_from_onnx_model(model)[1]) == wanted
    assert dtypes(NetworkFromOnnxModel(lambda: model, cast="fp16")()[1])["h_relu"] == "HALF"
    assert dtypes(network_from_onnx_model(model)[1]) == wanted  # It is still the same.


def test_a_model_too_large_to_be_serialized_goes_through_a_file_that_is_gone_afterwards() -> None:
    class Model:
        """A model whose serialization fails as that of more than 2 GiB does."""

        def SerializeToString(self) -> bytes:
            raise ValueError("Message onnx.ModelProto exceeds maximum protobuf size of 2GB")

    written: list[Path] = []

    def saving(model: Any, path: str) -> None:
        assert isinstance(model, Model)
        written.append(Path(path))
        models.save(models.mlp(), Path(path))

    with bind(save_model, saving):
        assert output_names(network_from_onnx_model(Model())[1]) == ["y"]
    assert len(written) == 1
    assert not written[0].parent.exists()


def test_weights_in_a_file_beside_the_model_are_found(tmp_path: Path) -> None:
    model = models.mlp()
    path = tmp_path / "model.onnx"
    onnx.save(model, str(path), save_as_external_data=True, location="weights", size_threshold=0)
    assert (tmp_path / "weights").exists()
    network = network_from_onnx_path(str(path))[1]
    assert output_names(network) == ["y"]
    cast = network_from_onnx_path(str(path), cast="fp16")[1]
    assert dtypes(cast)["h_relu"] == "HALF"


def test_a_damaged_model_is_an_error_of_the_model(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"no model")
    with pytest.raises(ModelError, match=r"ONNX model is invalid: .*model\.onnx"):
        network_from_onnx_path(str(path))
    with pytest.raises(FileError, match="does not exist"):
        network_from_onnx_path(str(tmp_path / "modle.onnx"))


def test_an_unsupported_operator_is_named(tmp_path: Path) -> None:
    with pytest.raises(BackendError) as caught:
        network_from_onnx_bytes(models.custom_op().SerializeToString())
    assert "node 0 'custom' (CustomOp)" in str(caught.value)
    assert "Unsupported operator" in str(caught.value)


def test_parser_flags_are_set_by_name_or_member(rtx: Any, mlp_path: str) -> None:
    native = rtx.OnnxParserFlag.NATIVE_INSTANCENORM
    override = rtx.OnnxParserFlag.ENABLE_PLUGIN_OVERRIDE
    plain = network_from_onnx_path(mlp_path)[2]
    assert plain.get_flag(native)
    assert not plain.get_flag(override)
    for flag in ("enable_plugin_override", override):
        assert network_from_onnx_path(mlp_path, flags=[flag])[2].get_flag(override)
    assert not network_from_onnx_path(mlp_path, plugin_instancenorm=True)[2].get_flag(native)
    with pytest.raises(BackendError, match=r"Available: .*NATIVE_INSTANCENORM"):
        network_from_onnx_path(mlp_path, flags=["nonsense"])


def test_the_uint8_flag_of_the_dla(rtx: Any, mlp_path: str) -> None:
    flag = rtx.OnnxParserFlag.ENABLE_UINT8_AND_ASYMMETRIC_QUANTIZATION_DLA
    parser = network_from_onnx_path(mlp_path, enable_uint8_asymmetric_quantization_dla=True)[2]
    assert parser.get_flag(flag)


def test_the_parser_may_know_the_configuration(mlp_path: str) -> None:
    seen: list[Any] = []

    def config(builder: Any, network: Any) -> Any:
        seen.append(network)
        return builder.create_builder_config()

    network_from_onnx_path(mlp_path, config=config)
    assert seen == [None]


def test_an_empty_network_is_filled_through_the_api(rtx: Any) -> None:
    @func.extend(CreateNetwork())
    def load(builder: Any, network: Any) -> None:
        tensor = network.add_input("x", rtx.float32, (2, 3))
        made = network.add_identity(tensor).get_output(0)
        made.name = "y"
        network.mark_output(made)

    assert engine_bytes_from_network(load).nbytes > 0


def test_networks_are_strongly_typed_here(rtx: Any) -> None:
    flag = rtx.NetworkDefinitionCreationFlag.STRONGLY_TYPED
    for network in (create_network()[1], create_network(strongly_typed=True)[1]):
        assert network.get_flag(flag)


def test_a_network_without_outputs_is_not_built() -> None:
    with pytest.raises(UsageError, match="no outputs"):
        engine_bytes_from_network(create_network())


def test_something_else_than_a_network_is_refused(mlp_path: str) -> None:
    network = network_from_onnx_path(mlp_path)[1]
    with pytest.raises(UsageError, match=r"\(builder, network\)"):
        modify_network_outputs(network)


@pytest.mark.parametrize("outputs", [["*"], constants.MARK_ALL])
def test_all_tensors_become_outputs_but_constants_and_shapes(outputs: Any, tmp_path: Path) -> None:
    path = tmp_path / "conv.onnx"
    models.save(models.conv_net(), path)
    parts = modify_network_outputs(network_from_onnx_path(str(path)), outputs=outputs)
    names = [name for name in output_names(parts[1]) if "Broadcast" not in name]
    computed = ["conv_output", "relu_output", "pool_output", "features", "fc_output", "y"]
    assert names == computed
    assert engine_bytes_from_network(parts).nbytes > 0


def test_truth_values_and_shapes_are_left_out() -> None:
    nodes = [
        helper.make_node("Greater", ["x", "zero"], ["mask"]),
        helper.make_node("Cast", ["mask"], ["y"], to=TensorProto.FLOAT),
        helper.make_node("Shape", ["x"], ["extent"]),
    ]
    model = models.make(
        "mask",
        nodes,
        [models.value("x", ["n", 4])],
        [models.value("y", ["n", 4]), models.value("extent", [2], TensorProto.INT64)],
        weights={"zero": np.zeros((), np.float32)},
    )
    network = network_from_onnx_bytes(model.SerializeToString())
    modify_network_outputs(network, outputs=["*"])
    names = output_names(network[1])
    assert "y" in names
    assert "mask" not in names


def test_outputs_by_name_type_and_exclusion(mlp_path: str) -> None:
    def names(**chosen: Any) -> list[str]:
        return output_names(ModifyNetworkOutputs(NetworkFromOnnxPath(mlp_path), **chosen)()[1])

    assert names() == ["y"]
    assert names(outputs=["h_relu"]) == ["h_relu"]
    assert sorted(names(outputs=["h_*", "y"])) == ["h_relu", "y"]
    assert names(mark_layer_types=["activation"]) == ["h_relu"]
    assert sorted(names(outputs=["y"], mark_layer_types=["ACTIVATION"])) == ["h_relu", "y"]
    assert names(outputs=["h_relu", "y"], exclude_outputs=["y"]) == ["h_relu"]
    with pytest.raises(UnknownNameError, match="Did you mean 'h_relu'"):
        names(outputs=["h_rleu"])
    with pytest.raises(UnknownNameError, match="Layer type 'ACTIVATE'"):
        names(mark_layer_types=["activate"])
    with pytest.raises(UsageError, match="No output"):
        names(exclude_outputs=["y"])


def test_a_function_of_the_user_edits_the_network(mlp_path: str) -> None:
    def rename(network: Any) -> None:
        network.name = "mine"

    parts = PostprocessNetwork(NetworkFromOnnxPath(mlp_path), rename)()
    assert parts[1].name == "mine"
    assert len(parts) == 3
    with pytest.raises(UsageError, match="Name its parameter `network`"):
        PostprocessNetwork(NetworkFromOnnxPath(mlp_path), lambda net: None, name="edit")()


def test_what_is_no_function_edits_nothing(mlp_path: str) -> None:
    with pytest.raises(UsageError, match="None is not a function that edits a network"):
        PostprocessNetwork(NetworkFromOnnxPath(mlp_path), None)


def test_errors_inside_of_that_function_are_its_own(mlp_path: str) -> None:
    def broken(network: Any) -> None:
        raise TypeError("network: of mine")

    with pytest.raises(TypeError, match="of mine"):
        PostprocessNetwork(NetworkFromOnnxPath(mlp_path), broken)()


def test_formats_of_inputs_and_outputs(rtx: Any, mlp_path: str) -> None:
    linear = 1 << int(rtx.TensorFormat.LINEAR)
    network = SetTensorFormats(NetworkFromOnnxPath(mlp_path), {"x": ["linear"]})()[1]
    assert network.get_input(0).allowed_formats == linear
    assert network.get_output(0).allowed_formats != linear
    both = linear | 1 << int(rtx.TensorFormat.CHW4)
    network = SetTensorFormats(NetworkFromOnnxPath(mlp_path), [rtx.TensorFormat.LINEAR, "CHW4"])()[
        1
    ]
    assert network.get_input(0).allowed_formats == both
    assert network.get_output(0).allowed_formats == both
    with pytest.raises(UnknownNameError, match="'z' does not exist"):
        SetTensorFormats(NetworkFromOnnxPath(mlp_path), {"z": ["linear"]})()


def test_data_types_of_outputs_are_cast_and_of_inputs_refused(mlp_path: str) -> None:
    parts = set_tensor_datatypes(network_from_onnx_path(mlp_path), {"y": "fp16", "x": "float32"})
    output = parts[1].get_output(0)
    assert (output.name, output.dtype.name) == ("y", "HALF")
    assert engine_bytes_from_network(parts).nbytes > 0
    with pytest.raises(
        BackendError, match=r"input 'x' \(--tensor-dtypes\) requires data types of tensors"
    ):
        SetTensorDatatypes(NetworkFromOnnxPath(mlp_path), "fp16")()


def test_debug_tensors(mlp_path: str) -> None:
    network = MarkDebug(NetworkFromOnnxPath(mlp_path), ["h_relu"])()[1]
    debugged = [
        layer.get_output(0).name
        for layer in (network.get_layer(index) for index in range(network.num_layers))
        if network.is_debug_tensor(layer.get_output(0))
    ]
    assert debugged == ["h_relu"]
    with pytest.raises(UnknownNameError):
        MarkDebug(NetworkFromOnnxPath(mlp_path), ["nope"])()


def test_attentions_become_decomposable(rtx: Any) -> None:
    builder, network = create_network()
    tensors = [network.add_input(name, rtx.float16, (1, 2, 4, 8)) for name in "qkv"]
    attention = network.add_attention(*tensors, rtx.AttentionNormalizationOp.SOFTMAX, False)
    attention.decomposable = False
    SetDecomposableAttentions((builder, network))()
    assert attention.decomposable


def test_a_drawing_shows_layers_and_tensors(mlp_path: str) -> None:
    model = onnx_like_from_network(NetworkFromOnnxPath(mlp_path))
    relu = next(node for node in model.graph.node if node.name == "relu")
    assert (relu.op_type, list(relu.input), list(relu.output)) == ("ACTIVATION", ["h"], ["h_relu"])
    assert [value.name for value in model.graph.input] == ["x"]
    attributes = {each.name: helper.get_attribute_value(each) for each in relu.attribute}
    assert attributes["alpha"] == 0.0


def test_plugin_libraries(tmp_path: Path) -> None:
    assert LoadPlugins(obj=lambda name: f"called {name}")("it") == "called it"
    assert LoadPlugins(plugins=[], obj="passed on")() == "passed on"
    missing = os.fspath(tmp_path / "libnone.so")
    with pytest.raises(BackendError, match=r"libnone\.so cannot be loaded"):
        LoadPlugins([missing])()


def test_lines_of_the_log_have_our_severities(rtx: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from polygraphy.backend.trt import get_trt_logger

    logger = get_trt_logger()
    assert logger is get_trt_logger()
    with G_LOGGER.verbosity(G_LOGGER.VERBOSE):
        for name in ("ERROR", "WARNING", "WARNING", "INFO", "VERBOSE"):
            logger.log(getattr(rtx.ILogger.Severity, name), f"a {name.lower()} of a test")
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["[E] a error of a test", "[W] a warning of a test", "[V] a info of a test"]


def test_weights_in_a_file_that_is_missing_are_reported(rtx: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(
        models.mlp(), path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(FileError, match=r"weights\.bin.*--external-data-dir"):
        NetworkFromOnnxPath(str(path))()


@pytest.mark.parametrize("flag", NAMES["OnnxParserFlag"])
def test_every_flag_of_the_parser_can_be_set(rtx: Any, flag: str) -> None:
    loader = NetworkFromOnnxBytes(
        models.mlp().SerializeToString(), flags=[flag], config=CreateConfig()
    )
    if flag == "report_capability_dla":  # There is no DLA here, so it supports no node.
        with pytest.raises(
            BackendError,
            match=r"DLA validation failed for layer.*\n.*rejects every node that DLA cannot run",
        ):
            loader()
    else:
        assert loader()[1].num_outputs == 1


def test_a_flag_that_needs_a_configuration_says_so(rtx: Any) -> None:
    content = models.mlp().SerializeToString()
    with pytest.raises(UsageError, match=r"report_capability_dla.*config=CreateConfig"):
        NetworkFromOnnxBytes(content, flags=["report_capability_dla"])()


def test_types_that_no_layer_is_of_leave_no_output(rtx: Any) -> None:
    network = NetworkFromOnnxBytes(models.mlp().SerializeToString())
    with pytest.raises(UsageError, match="Choose tensors, or different types"):
        ModifyNetworkOutputs(network, mark_layer_types=["convolution"])()
