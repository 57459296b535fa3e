"""The shapes of a model's inputs over its steps, for backends that build for ranges of shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from polygraphy.domain.states.pairs import GROWS
from polygraphy.domain.states.plan import StatePlan
from polygraphy.domain.states.uses import CHUNK, CONSTANT, TOKENS
from polygraphy.domain.tensors.profile import Profile

Shapes = Mapping[str, Sequence[int]]


def step_shapes(
    plan: StatePlan, lengths: Sequence[int], chosen: Shapes, loaded: Sequence[Shapes] = ()
) -> Iterator[dict[str, list[int]]]:
    """Yield the shapes of all inputs in each step, states included.

    Args:
        plan: the model with its states.
        lengths: the number of positions in each step.
        chosen: shapes that the user chose for generated inputs.
        loaded: shapes of the inputs that the user loads, for each step.
    """
    initial = {pair.input: list(plan.initial(pair).shape) for pair in plan.pairs}
    initial.update(
        {name: list(loaded[0][name]) for name in initial if loaded and name in loaded[0]}
    )
    growing = {pair.input: pair.axis for pair in plan.pairs if pair.kind == GROWS}
    past = 0
    for index, expected in enumerate(lengths):
        own_values = loaded[index] if index < len(loaded) else {}
        current = plan.for_step(index)
        length = next(
            (
                int(own_values[name][current.roles.axis])
                for name in (*current.roles.inputs_of(TOKENS), *current.roles.inputs_of(CHUNK))
                if name in own_values and current.roles.axis < len(own_values[name])
            ),
            expected,
        )
        shapes = {}
        for name, role in current.roles.by_input.items():
            is_chosen = role in (CHUNK, CONSTANT) and name in chosen
            shapes[name] = list(chosen[name]) if is_chosen else current.shape(name, length, past)
        for name, shape in initial.items():
            if name in current.inputs:
                axis = growing.get(name)
                shapes[name] = [
                    dim + past if axis is not None and at == axis % len(shape) else dim
                    for at, dim in enumerate(shape)
                ]
        states = {*initial} if index else set()
        shapes.update(
            {
                name: list(own_values[name])
                for name in shapes
                if name in own_values and name not in states
            }
        )
        yield shapes
        past += length


def shape_ranges(steps: Sequence[Mapping[str, Sequence[int]]]) -> list[Profile]:
    """Return the ranges of shapes of the first step, and those of all later steps together;
    one profile if both are equal.
    """
    profiles: list[Profile] = []
    for group in (steps[:1], steps[1:]):
        profile = Profile()
        usual = group[len(group) // 2] if group else {}
        for name, shape in usual.items():
            sizes = [*zip(*(step[name] for step in group))]
            profile.add(name, [min(size) for size in sizes], shape, [max(size) for size in sizes])
        if group and profile not in profiles:
            profiles.append(profile)
    return profiles
