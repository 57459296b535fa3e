"""From options to the ranges of input shapes of TensorRT engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, zip_longest

from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.kinds import Shapes
from polygraphy.cli.declare.kinds.base import Repeated
from polygraphy.cli.declare.option import Options, option, option_group

Shape = tuple[int, ...]
InputShapes = Mapping[str, tuple[Shape, ...]]


@option_group
class TrtProfileOptions(Options):
    """TensorRT Profiles: ranges of input shapes; repeat each option once per profile."""

    trt_min_shapes: tuple[InputShapes, ...] = option(
        "--trt-min-shapes",
        feeds="CreateConfig.profiles",
        kind=Repeated(Shapes()),
        help="Smallest shapes of inputs, as in --trt-min-shapes image:1x3x224x224. Used for all"
        " three shapes if given alone. By default, dynamic dimensions are 1.",
    )
    trt_opt_shapes: tuple[InputShapes, ...] = option(
        "--trt-opt-shapes",
        feeds="CreateConfig.profiles",
        kind=Repeated(Shapes()),
        help="Shapes to optimize for.",
        otherwise="the smallest shapes if they are set, else the largest",
    )
    trt_max_shapes: tuple[InputShapes, ...] = option(
        "--trt-max-shapes",
        feeds="CreateConfig.profiles",
        kind=Repeated(Shapes()),
        help="Largest shapes of inputs. --input-shapes sets the profile if no shapes are set here.",
        otherwise="the shapes to optimize for",
    )


Profile = dict[str, dict[str, list[int]]]

_FLAGS = {"min": "--trt-min-shapes", "opt": "--trt-opt-shapes", "max": "--trt-max-shapes"}


def profiles_of(options: TrtProfileOptions, inputs: InputShapes | None) -> tuple[Profile, ...]:
    """Return the profiles as shapes by input and by ``min``, ``opt`` and ``max``.
    A missing ``min`` is taken from the model.

    Args:
        options: the options about profiles; the n-th use of an option is for profile n.
        inputs: the shapes of the data, by input, which are the default profile.

    Raises:
        CommandLineError: the options do not fit together.
    """
    listeds = {
        "min": options.trt_min_shapes,
        "opt": options.trt_opt_shapes,
        "max": options.trt_max_shapes,
    }
    listeds = {end: listed for end, listed in listeds.items() if listed}
    if not listeds:
        return (_profile_around_data(inputs),) if inputs else ()
    if len({len(listed) for listed in listeds.values()}) > 1:
        counts = ", ".join(f"{_FLAGS[end]} {len(listed)} times" for end, listed in listeds.items())
        raise CommandLineError(f"each option must occur once per profile, but there is {counts}.")
    items = []
    for number, shapes in enumerate(zip_longest(*listeds.values())):
        by_end = {end: _single_shapes(listed, _FLAGS[end]) for end, listed in zip(listeds, shapes)}
        _check_names(by_end, number)
        names = next(iter(by_end.values()))
        items.append(
            {
                name: _complete_ranges(
                    {end: listed[name] for end, listed in by_end.items()},
                    (inputs or {}).get(name, ()),
                )
                for name in names
            }
        )
        for name, range_of_shapes in items[-1].items():
            _check_order(name, range_of_shapes, number)
    return tuple(items)


def _single_shapes(shapes: InputShapes, flag: str) -> dict[str, Shape]:
    """Return the shape of each input; raise CommandLineError if an input has several."""
    for name, listed in shapes.items():
        if len(listed) > 1:
            raise CommandLineError(
                f"argument {flag}: {name!r} has {len(listed)} shapes in one profile. Repeat"
                f" {flag} for each profile."
            )
    return {name: listed[0] for name, listed in shapes.items()}


def _check_names(by_end: Mapping[str, Mapping[str, Shape]], number: int) -> None:
    """Raise CommandLineError if the ends of a profile name different inputs, one of which may be
    misspelled."""
    first, *other_names = by_end
    for other_name in other_names:
        if set(by_end[first]) != set(by_end[other_name]):
            raise CommandLineError(
                f"profile {number}: {_FLAGS[first]} has {', '.join(by_end[first])}, but"
                f" {_FLAGS[other_name]} has {', '.join(by_end[other_name])}. Use the same inputs."
            )


def _complete_ranges(ranges: Mapping[str, Shape], data: Sequence[Shape]) -> dict[str, list[int]]:
    """Return minimum, optimum and maximum of a range, by name;
    a missing one equals the one before it.
    """
    optimum = ranges.get("opt", ranges.get("min", ranges.get("max")))
    assert optimum is not None
    largest = ranges.get("max", optimum)
    smallest = ranges.get("min")
    if smallest is None and data and _is_within(_extreme(data, min), optimum):
        smallest = _extreme(data, min)
    ends = {"min": smallest, "opt": optimum, "max": largest}
    return {end: list(shape) for end, shape in ends.items() if shape is not None}


def _check_order(name: str, shapes: Mapping[str, Sequence[int]], number: int) -> None:
    """Raise CommandLineError unless each dimension satisfies min <= opt <= max."""
    ends = list(shapes)
    for low, high in pairwise(ends):
        if not _is_within(shapes[low], shapes[high]):
            raise CommandLineError(
                f"profile {number}: {low} of {name!r} is {shapes[low]}, which is not within"
                f" {high}, {shapes[high]}. Each dimension must satisfy min <= opt <= max."
            )


def _is_within(low: Sequence[int], high: Sequence[int]) -> bool:
    """Return whether a shape has the same rank as the upper bound, and no dimension exceeds it."""
    return len(low) == len(high) and all(a <= b for a, b in zip(low, high))


def _profile_around_data(inputs: InputShapes) -> Profile:
    """Return the profile that covers the data; the first shape of each input is the optimum."""
    for name, shapes in inputs.items():
        if len({len(shape) for shape in shapes}) > 1:
            raise CommandLineError(
                f"argument --input-shapes: a TensorRT profile cannot contain shapes of {name!r}"
                " with different numbers of dimensions. Run them one by one."
            )
    return {
        name: {
            "min": list(_extreme(shapes, min)),
            "opt": list(shapes[0]),
            "max": list(_extreme(shapes, max)),
        }
        for name, shapes in inputs.items()
    }


def _extreme(shapes: Sequence[Shape], choose: object) -> Shape:
    """Return the smallest or the largest size of each dimension; `choose` is `min` or `max`."""
    return tuple(choose(extents) for extents in zip(*shapes))  # type: ignore[operator]
