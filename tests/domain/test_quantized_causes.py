"""The names of wrong parameters."""

from __future__ import annotations

import ast
import re
import tracemalloc
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from polygraphy.domain.diagnosis.words.quantization import set_parameter
from polygraphy.domain.quantization.causes import (
    CLIPPED,
    SCALE,
    SIGN,
    WIDE,
    ZERO_POINT,
    cause_of,
    cuts_on_purpose,
    is_suspect,
)
from polygraphy.domain.quantization.lines import exclusion, halves_another_range
from polygraphy.domain.quantization.losses import (
    SiteLoss,
    activation_loss,
    best_scheme_by_channels,
    weight_loss,
    with_worst_channels,
)
from polygraphy.domain.quantization.schemes import Scheme
from polygraphy.domain.quantization.sites import FloatNode, Site

RNG = np.random.default_rng(5)
LEAKY = np.maximum(RNG.normal(size=4000), -0.4)
TAIL = np.append(RNG.gamma(2.0, 0.5, 4000), [8.4])  # One element of 4001 is far away.


def scheme(dtype: str, scale: float, zero: int) -> Scheme:
    return Scheme(dtype, np.array(scale), np.array(float(zero)))


@pytest.mark.parametrize(
    ("array", "stored", "cause"),
    [
        # The numbers below zero are few, but none of them can be stored.
        (LEAKY, scheme("int8", LEAKY.max() / 127, -128), SIGN),
        # A range that cuts off one element is not too wide.
        (TAIL, scheme("uint8", 4.0 / 255, 0), CLIPPED),
        # Neither does a symmetric range have a wrong zero point, although another one would help.
        (TAIL, scheme("int8", 4.0 / 127, 0), CLIPPED),
        # A range that is narrow because its zero point is far from where the data need it.
        (RNG.normal(size=4000), scheme("int8", 0.02, -85), ZERO_POINT),
    ],
)
def test_the_cause_at_an_activation(array: Any, stored: Scheme, cause: str) -> None:
    site = Site("t", "activation", stored)
    loss = activation_loss(site, array)
    assert cause_of(site, loss) == cause
    assert is_suspect(site, loss) == (cause != CLIPPED)  # Calibration may cut off on purpose.


def test_a_single_range_that_cuts_off_elements_is_wrong() -> None:
    # Heavy tails: 1% of the elements need most of the range.
    draw = np.random.default_rng(3)
    tails = np.append(draw.normal(size=4000), draw.normal(size=40) * 12)
    narrow = Site("narrow", "activation", scheme("int8", 14.0 / 127, 0))
    whole = Site("whole", "activation", scheme("int8", np.abs(tails).max() / 127, 0))
    sites = [narrow, *[whole] * 9]
    losses = {number: activation_loss(site, tails) for number, site in enumerate(sites)}
    assert 0.05 < losses[0].loss < 0.28
    assert not cuts_on_purpose(sites, losses)
    assert is_suspect(narrow, losses[0], cuts=False)
    assert not is_suspect(whole, losses[1], cuts=False)
    few = evolve(losses[0], count=500)  # Of so few elements, this may be chance.
    assert not is_suspect(narrow, few, cuts=False)
    # If the calibration cuts off elements everywhere, it does so on purpose.
    assert cuts_on_purpose([narrow] * 3, dict.fromkeys(range(3), losses[0]))
    assert not is_suspect(narrow, losses[0])


def test_a_range_of_few_calibration_samples_is_not_wrong() -> None:
    array = np.append(RNG.normal(size=510), [-2.7, 3.66])  # hey_jarvis: the range is -3.25 to 2.88.
    site = Site("t", "activation", scheme("uint8", 0.02406, 135))
    loss = activation_loss(site, array)
    assert loss.ratio > 5 and loss.loss > 0.03 and not is_suspect(site, loss)
    scores = np.array([-0.575, 0.378, 0.2, 0.3])  # One score of each input; calibrated without < 0.
    site = Site("t", "activation", scheme("uint8", 0.003475, 0))
    assert cause_of(site, activation_loss(site, scores)) == SIGN
    assert not is_suspect(site, activation_loss(site, scores))
    assert is_suspect(site, activation_loss(site, np.repeat(scores, 8)))


def test_a_range_of_16_bits_that_few_elements_exceed_by_a_little_is_not_wrong() -> None:
    array = np.append(RNG.uniform(-0.9, 4, 230), np.linspace(4.5, 5.5, 10))
    for high, is_wrong in ((4.4, False), (3.5, True)):  # The calibration saw no larger ones.
        step = (high + 1) / 65535
        site = Site("t", "activation", scheme("uint16", step, round(1 / step)))
        loss = activation_loss(site, array)
        assert 0.05 < loss.loss < 0.28 and cause_of(site, loss) == CLIPPED
        assert is_suspect(site, loss) == is_wrong


def test_a_moved_or_clipped_range_is_wrong_although_little_is_lost() -> None:
    array = np.append(RNG.normal(scale=1.2, size=4000).clip(-4.2, 2.1), [-4.2, 2.1])
    site = Site("t", "activation", scheme("uint8", 0.0326, 95))  # The range is -3.1 to 5.2.
    loss = activation_loss(site, array)
    assert loss.loss < 0.1 and cause_of(site, loss) == ZERO_POINT and is_suspect(site, loss)
    site = Site("t", "activation", scheme("int16", 2.5 / 32767, 0))
    loss = activation_loss(site, np.abs(array))
    assert loss.loss < 0.28 and cause_of(site, loss) == CLIPPED and is_suspect(site, loss)


def test_a_much_too_wide_range_is_wrong_although_a_large_channel_hides_the_loss() -> None:
    draw = np.random.default_rng(11)
    small = np.abs(draw.normal(size=3000))
    array = np.append(small, 100 * np.abs(draw.normal(size=200)))  # One channel is much larger.
    for factor, is_wrong in ((11.5, True), (1.5, False)):
        site = Site("t", "activation", scheme("uint8", factor * array.max() / 255, 0))
        loss = activation_loss(site, array)
        assert loss.ratio < 5 and cause_of(site, loss) == WIDE
        assert is_suspect(site, loss) == is_wrong


@pytest.mark.parametrize(
    ("exact", "stored", "is_stored_here", "cause"),
    [
        (np.ones(1), scheme("uint8", 1 / 255, 74), True, ZERO_POINT),
        (RNG.normal(size=64), scheme("uint8", 0.03, 90), False, ZERO_POINT),
        # All elements are nearly equal: another zero point would explain a wrong scale, too.
        (1 + 0.01 * RNG.normal(size=64), scheme("int8", 3 / 127, 0), False, SCALE),
    ],
)
def test_the_cause_at_a_weight(
    exact: Any, stored: Scheme, is_stored_here: bool, cause: str
) -> None:
    if is_stored_here:
        codes = stored.codes(exact)
    elif cause == SCALE:
        codes = scheme("int8", 1 / 127, 0).codes(exact)
    else:
        codes = scheme("uint8", 0.03, 128).codes(exact)
    site = Site("w", "weight", stored, None, stored.values(codes), exact, codes)
    loss = weight_loss(site)
    assert loss is not None and cause_of(site, loss) == cause


def test_the_line_for_the_genai_builder_has_the_option_that_it_reads() -> None:
    # Release 0.18 ignores int4_nodes_to_exclude without a word.
    line = exclusion("genai", ["/lm_head/MatMul", "/model/MatMul"])
    assert line.startswith("--extra_options nodes_to_exclude=/lm_head/MatMul,/model/MatMul (")
    assert "'nodes_to_exclude=/a b'" in exclusion("genai", ["/a b"])
    # The command line separates names by commas; the function takes a list.
    for name in ("a,b", "a\nb", "\x1b[31mred"):
        assert exclusion("genai", [name]) == f"create_model(..., nodes_to_exclude=[{name!r}])"


NAMES = ["/a/b/Conv 1", "x[0].conv+(2)", 'it\'s "q"', "a,b=c\\*", "größe→ü", "{n}|^m$", "tab\tx"]


@pytest.mark.parametrize(
    "producer",
    ["static", "dynamic", "nbits", "nncf", "nncf-weights", "neural-compressor", "quark"],
)
def test_a_line_in_python_contains_exactly_the_names(producer: str) -> None:
    line = exclusion(producer, NAMES, keeps_full_range=producer == "nncf")
    found = []
    for node in ast.walk(ast.parse(line)):
        if isinstance(node, ast.keyword) and node.arg in ("names", "nodes_to_exclude", "exclude"):
            found += ast.literal_eval(node.value)
    assert found == NAMES
    assert ("compress_weights" in line, "overflow_fix" in line) == (
        producer == "nncf-weights",
        producer == "nncf",
    )


def test_patterns_for_modelopt_match_these_names_and_no_others() -> None:
    [keyword] = [
        node
        for node in ast.walk(ast.parse(exclusion("modelopt", NAMES)))
        if isinstance(node, ast.keyword)
    ]
    for pattern, name in zip(ast.literal_eval(keyword.value), NAMES):
        matching = [one for one in (*NAMES, f"{name}0", f"0{name}") if re.match(pattern, one)]
        assert matching == [name]


def test_nncf_halves_the_range_of_the_next_weights_if_those_of_the_first_are_left_out() -> None:
    nodes = [FloatNode(f"conv{n}", "Conv", (f"x{n}", f"w{n}"), (f"x{n + 1}",)) for n in (0, 1)]
    weights = [
        Site(
            f"w{n}", "weight", scheme("int8", 1, 0), None, None, None, np.array([-most, most - 1.0])
        )
        for n, most in ((0, 64), (1, 128))
    ]
    for producer, without, expected in (
        ("nncf", ["conv0"], True),
        ("nncf", ["conv1"], False),
        ("static", ["conv0"], False),
    ):
        assert halves_another_range(producer, nodes, weights, without) == expected


def test_zero_points_of_channels_are_named() -> None:
    exact = RNG.normal(size=(4, 60)) * np.array([[1.0], [0.1], [3.0], [0.5]])
    size = 2 * np.abs(exact).max(1) / 255
    stored = Scheme("uint8", size, np.full(4, 128.0), 0)
    codes = stored.codes(exact)
    wrong = Scheme("uint8", size, np.full(4, 188.0), 0)
    site = Site("w", "weight", wrong, None, wrong.values(codes), exact, codes)
    loss = weight_loss(site)
    assert loss is not None and cause_of(site, loss) == ZERO_POINT
    smaller = Scheme("uint8", 0.2 * size, np.full(4, 128.0), 0)
    site = Site("w", "weight", smaller, None, smaller.values(codes), exact, codes)
    loss = weight_loss(site)
    assert loss is not None and cause_of(site, loss) == SCALE


@pytest.mark.parametrize("block", [0, 8])
def test_a_large_weight_is_judged_by_the_channels_that_lose_most(block: int) -> None:
    exact = np.random.default_rng(4).normal(size=(64, 32))
    size = np.full((64, 32 // block) if block else 64, 0.03)
    stored = Scheme("int8", size, np.zeros(size.shape), 1 if block else 0, block)
    codes = stored.codes(exact)
    size[37] *= 1.5
    wrong = evolve(stored, scale=size)
    site = Site("w", "weight", wrong, None, wrong.values(codes), exact, codes)
    few = with_worst_channels(site, 256)
    assert few.exact is not None and few.exact.size < exact.size // 3
    whole_loss, loss = weight_loss(site), weight_loss(few)
    assert whole_loss is not None and loss is not None
    assert loss.loss == pytest.approx(whole_loss.loss) and loss.loss > 0.3
    assert with_worst_channels(few, 1024) is few


def test_a_weight_is_judged_as_a_whole_or_by_the_channels_that_have_a_scale() -> None:
    exact = np.random.default_rng(3).normal(size=(3, 64))
    right, wrong = np.full(3, 0.03), np.array([0.03, 0.4, 0.03])
    scales = {None: np.array(0.03), 0: wrong, 1: right}
    losses = {}
    for axis in (None, 0):
        stored = Scheme("int8", scales[axis], np.zeros(np.shape(scales[axis])), axis or 0)
        values = stored.values(stored.codes(exact))
        losses[axis] = weight_loss(Site("w", "weight", stored, None, values, exact))
    whole, by_channel = losses[None], losses[0]
    assert whole is not None and whole.channel is None and whole.loss < 0.02
    assert by_channel is not None and by_channel.channel == 1 and by_channel.loss > 0.1


def test_the_best_scheme_in_parts_is_the_one_of_the_whole_weight() -> None:
    exact = np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32)
    blocks = Scheme("uint4", np.ones((32, 4)), np.full((32, 4), 8.0), 1, 16)
    site = Site("w", "weight", blocks, None, exact + 0.1, exact)
    loss, best = weight_loss(site), best_scheme_by_channels(site, 256)
    assert loss is not None and loss.best is not None and best is not None
    np.testing.assert_array_equal(best.codes(exact), loss.best.codes(exact))


def test_the_best_scheme_of_a_large_weight_takes_little_memory() -> None:
    exact = np.random.default_rng(3).standard_normal((256, 256))
    stored = Scheme("int8", np.ones(256), np.zeros(256), 0)
    site = Site("w", "weight", stored, None, stored.values(stored.codes(exact)), exact, exact)
    best_scheme_by_channels(site, 1024)  # What is imported or cached does not count.
    tracemalloc.start()
    best_scheme_by_channels(site, 1024)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < exact.nbytes


@pytest.mark.parametrize("axis", [0, 1])
def test_wrong_zero_points_of_blocks_are_named_along_each_axis(axis: int) -> None:
    exact = np.random.default_rng(0).standard_normal((64, 48)).astype(np.float32)
    shape = (4, 48) if axis == 0 else (64, 3)
    right = Scheme("uint4", np.full(shape, 0.4), np.full(shape, 8.0), axis, 16)
    codes = right.codes(exact)
    wrong = Scheme("uint4", right.scale, right.zero_point + 2, axis, 16)
    site = Site("w", "weight", wrong, None, wrong.values(codes), exact, codes)
    loss = weight_loss(site)
    assert loss is not None and cause_of(site, loss) == "block zero point"


def test_a_parameter_is_shown_by_the_name_of_a_tensor_of_the_model() -> None:
    right = Scheme("uint8", np.float64(0.1), np.float64(0))
    site = Site("y_quantized//float", "activation", right)
    note = set_parameter(site, SiteLoss(1.0, 0.1, 0.5, (0.0, 9.0), None, right), is_saved=True)
    assert "for 'y_quantized':" in note
