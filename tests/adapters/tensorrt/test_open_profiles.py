"""Profiles whose smallest shapes follow from the network."""

from __future__ import annotations

import pytest

from polygraphy.backend.trt import CreateConfig, Profile, create_network
from polygraphy.domain.errors import UsageError
from tests.support.rtx import rtx

__all__ = ["rtx"]

pytestmark = pytest.mark.usefixtures("rtx")


def network_with(shape: tuple[int, ...]) -> tuple[object, object]:
    from polygraphy.adapters.tensorrt.library.module import trt

    builder, network = create_network()
    network.mark_output(
        network.add_identity(network.add_input("x", trt.float32, shape)).get_output(0)
    )
    return builder, network


@pytest.mark.parametrize("name", ["x", "x*"])
def test_dynamic_dimensions_begin_at_one(name: str) -> None:
    builder, network = network_with((-1, 3, -1))
    native = Profile().add(name, max=(4, 3, 8)).to_trt(builder, network)
    assert [tuple(shape) for shape in native.get_shape("x")] == [(1, 3, 1), (4, 3, 8), (4, 3, 8)]


def test_what_is_given_is_kept() -> None:
    profile = Profile().add("x", opt=(2, 3), max=(4, 3))
    _, network = network_with((-1, 3))
    filled = Profile(profile).fill_defaults(network, default_shape_value=2)
    assert tuple(filled["x"]) == ((2, 3), (2, 3), (4, 3))
    again = profile.add("x", (1, 3), (2, 3), (4, 3)).fill_defaults(network)
    assert tuple(again["x"]) == ((1, 3), (2, 3), (4, 3))


def test_a_configuration_takes_open_profiles(capsys: pytest.CaptureFixture[str]) -> None:
    builder, network = network_with((-1, 3))
    config = CreateConfig(profiles=[Profile().add("x", max=(4, 3))])(builder, network)
    assert config.num_optimization_profiles == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "{x [min=[1, 3], opt=[4, 3], max=[4, 3]]}" in shown  # what is used, not what was given


def test_shapes_that_do_not_fit_are_reported_as_usual() -> None:
    builder, network = network_with((-1, 3))
    with pytest.raises(UsageError, match="its shape in the network is"):
        Profile().add("x", max=(4,)).to_trt(builder, network)
    with pytest.raises(UsageError, match="neither opt nor max"):
        Profile().add("x", min=(1, 3))
