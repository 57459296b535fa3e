"""Parts of an output: elements that were computed together.

A `Layout` says it as the graph does, for any shape: operands that are joined along an axis, a
constant that fills what a mask shuts out, padding, and the steps behind that move elements. It is
data, and can be saved. `label_parts` applies it to an output of known shape: by element the number
of the part that it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, Literal, get_args

from attrs import evolve, frozen

from polygraphy.domain.tensors import lazy_numpy as np
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.shapes import Dim

Kind = Literal[
    "leaf", "join", "transpose", "reshape", "unsqueeze", "squeeze", "take", "choose", "pad",
    "repeat", "combine",
]  # fmt: skip
Shape = tuple[int, ...]

_MOST_PARTS = 255
"""Most parts, which fit into a byte for each element; an output with more is judged as one."""
_SHOWN_INDICES = 4
"""Most indices of slices that are not next to each other, which a part's name lists."""


@frozen
class Layout:
    """The parts that a tensor is assembled from.

    Attributes:
        kind: ``leaf`` for elements that are computed together, else what combines or moves the
            elements of `operands`: ``join`` along axis `numbers[0]`; ``transpose`` by the
            permutation `numbers`; ``reshape``; ``unsqueeze`` and ``squeeze`` of the axes `numbers`;
            ``take`` of the slice `numbers[1:]` (start, stop, step) of axis `numbers[0]`;
            ``choose`` of elements along axis `numbers[0]`, which only the data tell; ``pad`` by
            `numbers`, which are those of ONNX; ``repeat`` along each axis, which broadcasts;
            ``combine`` of each element of the operands, which have one shape.
        name: the tensor of a leaf, or of an operand of a join.
        origin: the tensor that a leaf is a piece of; pieces of one tensor are one part.
        operands: the parts that it consists of.
        numbers: see `kind`.
        shape: the dimensions of the first operand, or the lengths of all along the axis of a join;
            a name for each that depends on the data, the same for the same lengths, and None for
            each that is not known.
        is_bounded: whether the elements of a leaf lie between -1 and 1 by nature.
        fills: constants that fill elements of a leaf.
        step: the size of a quantization step behind the join; 0 if there is none.
        is_mixed: whether the elements of a leaf come from several tensors, at places that only the
            data tell.
        is_pure: whether all elements of a leaf are known to be computed alike, so that none can be
            filled in, as those of a product of matrices, but not those of a sum with a mask.
        has_unknown_parts: whether the graph joins parts before a leaf, and does not show where
            their elements are.
    """

    kind: Kind = "leaf"
    name: str = ""
    origin: str = ""
    operands: tuple[Layout, ...] = ()
    numbers: tuple[int, ...] = ()
    shape: tuple[Dim, ...] | None = None
    is_bounded: bool = False
    fills: tuple[float, ...] = ()
    step: float = 0.0
    is_mixed: bool = False
    is_pure: bool = False
    has_unknown_parts: bool = False

    @property
    def is_plain(self) -> bool:
        """Return whether all elements are computed together and none is a fill value."""
        is_one = not (self.fills or self.is_mixed or self.has_unknown_parts)
        return self.kind == "leaf" and is_one

    @property
    def is_padding(self) -> bool:
        """Return whether the elements of a leaf are those that Pad adds."""
        return self.origin.startswith(PADDING)

    def with_leaves(self, change: Callable[[Layout], Layout]) -> Layout:
        """Return the same layout with `change` applied to each leaf."""
        if self.kind == "leaf":
            return change(self)
        return evolve(
            self, operands=tuple(operand.with_leaves(change) for operand in self.operands)
        )

    def leaves(self) -> Iterator[Layout]:
        """Yield the layouts without operands that this one consists of."""
        if self.kind == "leaf":
            yield self
        for operand in self.operands:
            yield from operand.leaves()

    def as_fields(self) -> dict[str, Any]:
        """Return the fields to save: those that differ from their defaults."""
        fields: dict[str, Any] = {"kind": self.kind}
        for name in ("name", "origin", "is_bounded", "step", *_FLAGS):
            if value := getattr(self, name):
                fields[name] = value
        for name in ("numbers", "fills"):
            if value := getattr(self, name):
                fields[name] = list(value)
        if self.shape is not None:
            fields["shape"] = list(self.shape)
        if self.operands:
            fields["operands"] = [operand.as_fields() for operand in self.operands]
        return fields

    @staticmethod
    def from_fields(fields: Any, depth: int = 0) -> Layout:
        """Return the layout that was saved as these fields.

        Raises:
            ValueError: it is not a layout.
        """
        if not isinstance(fields, Mapping) or fields.get("kind") not in get_args(Kind):
            raise ValueError("not a layout")
        if depth > DEEPEST:
            raise ValueError("too deep for a layout")
        shape = fields.get("shape")
        return Layout(
            fields["kind"],
            str(fields.get("name", "")),
            str(fields.get("origin", "")),
            tuple(Layout.from_fields(value, depth + 1) for value in fields.get("operands", ())),
            tuple(int(value) for value in fields.get("numbers", ())),
            None if shape is None else tuple(_dimension(value) for value in shape),
            bool(fields.get("is_bounded", False)),
            tuple(float(value) for value in fields.get("fills", ())),
            float(fields.get("step", 0.0)),
            *(bool(fields.get(name, False)) for name in _FLAGS),
        )


_FLAGS = ("is_mixed", "is_pure", "has_unknown_parts")


def _dimension(saved: Any) -> Dim:
    """Return a saved dimension: an integer, a name, or None if it is unknown."""
    return saved if saved is None or isinstance(saved, str) else int(saved)


PADDING = "//padding of "
"""Start of the origin of padding, before the name of the padded tensor."""
DEEPEST = 64
"""Most nodes between an output and the parts that are found."""


_MISLEADING = (IndexError, ValueError, TypeError, OverflowError)
"""The errors of shapes that the graph does not lead to."""


class UnresolvedError(Exception):
    """Raised if the shape of an output does not determine its parts."""


def label_parts(layout: Layout, shape: Sequence[int]) -> tuple[Array, list[Layout]]:
    """Return the part number of each element, and the layout of each part.
    Labels have the rank of `shape`, and length 1 along axes without a change of parts.

    Raises:
        UnresolvedError: the shape does not tell where the parts are.
    """
    labels_by_name: dict[str, tuple[int, Layout]] = {}

    def number(leaf: Layout) -> int:
        """Return the number of the part that a leaf belongs to."""
        key = leaf.origin or leaf.name
        indices = labels_by_name.setdefault(key, (len(labels_by_name), leaf))
        if indices[1] != leaf:
            # This leaf is another piece of a known tensor, so use the name of the tensor for both.
            changed = evolve(
                indices[1],
                name=key,
                is_bounded=indices[1].is_bounded and leaf.is_bounded,
                is_mixed=indices[1].is_mixed or leaf.is_mixed,
                is_pure=indices[1].is_pure and leaf.is_pure,
                has_unknown_parts=indices[1].has_unknown_parts or leaf.has_unknown_parts,
                step=max(indices[1].step, leaf.step),
                fills=tuple(dict.fromkeys((*indices[1].fills, *leaf.fills))),
            )
            labels_by_name[key] = indices[0], changed
        if len(labels_by_name) > _MOST_PARTS:
            raise UnresolvedError
        return indices[0]

    try:
        labels = _labels(layout, tuple(shape), number)
    except _MISLEADING as error:
        raise UnresolvedError from error
    leaves = [leaf for _, leaf in labels_by_name.values()]
    present = np.unique(labels) if len(leaves) > 1 else range(len(leaves))
    if len(present) == len(leaves):
        return labels, leaves
    # A slice after the join removed some parts completely.
    if len(present) == 1:
        return np.zeros((1,) * labels.ndim, np.uint8), [leaves[present[0]]]
    order = np.zeros(len(leaves), np.uint8)
    order[present] = np.arange(len(present))
    return order[labels], [leaves[index] for index in present]


def _labels(layout: Layout, shape: Shape, number: Callable[[Layout], int]) -> Array:
    """Return the labels of an output, by the rule for the kind of its layout."""
    if layout.kind == "leaf":
        return np.full((1,) * len(shape), number(layout), np.uint8)
    return _RULES[layout.kind](layout, shape, number)


def _label_join(layout: Layout, shape: Shape, number: Callable[[Layout], int]) -> Array:
    """Return the labels of an output that a Concat joins from its operands."""
    axis = _axis(layout.numbers[0], len(shape))
    lengths = list(layout.shape or (None,) * len(layout.operands))
    missing = shape[axis] - sum(length for length in lengths if isinstance(length, int))
    unknown = [length for length in lengths if not isinstance(length, int)]
    are_alike = len(set(unknown)) == 1 and None not in unknown
    if missing < 0 or (missing and not unknown) or (len(unknown) > 1 and not are_alike):
        raise UnresolvedError
    if unknown and missing % len(unknown):
        raise UnresolvedError
    pieces = []
    for length, operand in zip(lengths, layout.operands, strict=True):
        own_length = length if isinstance(length, int) else missing // len(unknown)
        if own_length:
            labels = _operand_labels(
                operand, (*shape[:axis], own_length, *shape[axis + 1 :]), number
            )
            pieces.append(
                np.repeat(labels, own_length, axis) if labels.shape[axis] == 1 else labels
            )
    if not pieces:
        raise UnresolvedError
    piece = np.max([[*piece.shape[:axis], 1, *piece.shape[axis + 1 :]] for piece in pieces], axis=0)
    wide = [
        np.broadcast_to(array, (*piece[:axis], array.shape[axis], *piece[axis + 1 :]))
        for array in pieces
    ]
    return np.concatenate(wide, axis)


def _operand_labels(operand: Layout, shape: Shape, number: Callable[[Layout], int]) -> Array:
    """Return the labels of an operand of a join, which is one part if its parts are unknown."""
    try:
        return _labels(operand, shape, number)
    except (UnresolvedError, *_MISLEADING):
        if not operand.name:
            raise
        leaves = [*operand.leaves()]
        part = Layout(
            name=operand.name,
            origin=operand.name,
            is_bounded=all(leaf.is_bounded for leaf in leaves),
            fills=tuple(dict.fromkeys(fill for leaf in leaves for fill in leaf.fills)),
            step=max(leaf.step for leaf in leaves),
            is_mixed=True,
        )
        return _labels(part, shape, number)


def _label_transpose(layout: Layout, shape: Shape, number: Callable[[Layout], int]) -> Array:
    """Return the labels of an output whose axes were permuted."""
    order = layout.numbers or tuple(range(len(shape)))[::-1]
    before = [0] * len(shape)
    for position, axis in enumerate(order):
        before[axis] = shape[position]
    transpose: Array = _labels(layout.operands[0], tuple(before), number).transpose(order)
    return transpose


def _label_reshape(layout: Layout, shape: Shape, number: Callable[[Layout], int]) -> Array:
    """Return the labels of an output that was reshaped."""
    dims = list(layout.shape or ())
    known_dims = [dim for dim in dims if isinstance(dim, int)]
    if layout.shape is None or len(known_dims) < len(dims) - 1:
        raise UnresolvedError
    size = prod(shape)
    rest_index = size // max(prod(known_dims), 1)
    before = tuple(dim if isinstance(dim, int) else rest_index for dim in dims)
    if prod(before) != size:
        raise UnresolvedError
    labels = _labels(layout.operands[0], before, number)
    array: Array = np.broadcast_to(labels, before).reshape(shape)
    return array


def _label_unsqueeze(layout: Layout, shape: Shape, number: Callable[[Layout], int]) -> Array:
    """Return the labels of an output to which axes of length 1 were added."""
    axes = {_axis(number, len(shape)) for number in layout.numbers}
    before = tuple(length for axis, length in enumerate(shape) if axis not in axes)
    return np.expand_dims(_labels(layout.operands[0], before, number), tuple(axes))


def _label_squeeze(layout: Layout, shape: Shape, number: Callable[[Layout], int]) -> Array:
    """Return the labels of an output from which axes of length 1 were removed."""
    rank = len(shape) + len(layout.numbers)
    axes = {_axis(number, rank) for number in layout.numbers}
    remaining_shape = iter(shape)
    before = tuple(1 if axis in axes else next(remaining_shape) for axis in range(rank))
    return _labels(layout.operands[0], before, number).squeeze(tuple(axes))


def _label_slice(layout: Layout, shape: Shape, number: Callable[[Layout], int]) -> Array:
    """Return the labels of an output that is a slice along one axis."""
    axis, start, stop, step = layout.numbers
    axis = _axis(axis, len(shape))
    length = None if layout.shape is None else layout.shape[axis]
    if not isinstance(length, int):
        raise UnresolvedError
    before = (*shape[:axis], length, *shape[axis + 1 :])
    labels = _labels(layout.operands[0], before, number)
    if labels.shape[axis] == 1:
        return labels
    at = np.arange(length)[start:stop:step]
    if len(at) != shape[axis]:
        raise UnresolvedError
    return labels.take(at, axis)


def _label_selection(layout: Layout, shape: Shape, number: Callable[[Layout], int]) -> Array:
    """Return the labels of an output whose elements data select along one axis.
    Raise UnresolvedError if parts differ along that axis.
    """
    axis = _axis(layout.numbers[0], len(shape))
    length = None if layout.shape is None else layout.shape[axis]
    before = (*shape[:axis], length if isinstance(length, int) else 1, *shape[axis + 1 :])
    labels = _labels(layout.operands[0], before, number)
    if labels.shape[axis] != 1:
        # Parts differ along the axis, so only the data shows which part an element belongs to.
        raise UnresolvedError
    return labels


def _label_repetition(layout: Layout, shape: Shape, number: Callable[[Layout], int]) -> Array:
    """Return the labels of an output that repeats a tensor along its axes."""
    before = layout.shape
    if before is None or len(before) > len(shape):
        raise UnresolvedError
    added = len(shape) - len(before)
    lengths = []
    for length, part_length in zip(shape[added:], before):
        if (
            length == 0
            or not isinstance(part_length, int)
            or part_length < 1
            or length % part_length
        ):
            raise UnresolvedError
        lengths.append(part_length)
    labels = _labels(layout.operands[0], tuple(lengths), number)
    labels = labels.reshape((1,) * added + labels.shape)
    repeats = [
        1 if label_length == 1 else length // own_length
        for length, own_length, label_length in zip(shape, [1] * added + lengths, labels.shape)
    ]
    return np.tile(labels, repeats)


def _label_combination(layout: Layout, shape: Shape, number: Callable[[Layout], int]) -> Array:
    """Return the labels of an output whose elements are computed from operands' elements;
    elements with the same parts of all operands are one part. All shapes are equal."""
    leaves: list[Layout] = []

    def number_locally(leaf: Layout) -> int:
        """Return the position of a layout in `leaves`, to which it is added if it is new."""
        if leaf not in leaves:
            leaves.append(leaf)
        return leaves.index(leaf)

    operand_labels = [_labels(operand, shape, number_locally) for operand in layout.operands]
    wide = np.broadcast_arrays(*operand_labels)
    labels = np.zeros(wide[0].shape, np.uint8)
    combined = np.stack([array.reshape(-1) for array in wide], axis=1)
    for members in np.unique(combined, axis=0):
        combined_leaves = [leaves[int(member)] for member in members]
        names = [leaf.name or leaf.origin for leaf in combined_leaves]
        named = next((leaf for leaf in combined_leaves if not leaf.is_padding), combined_leaves[0])
        part = evolve(named, origin="+".join(names), fills=(), step=0.0, is_pure=False)
        mask = (combined == members).all(axis=1).reshape(labels.shape)
        labels[mask] = number(evolve(part, is_bounded=layout.is_bounded))
    return labels


def _label_pad(layout: Layout, shape: Shape, number: Callable[[Layout], int]) -> Array:
    """Return the labels of an output that was padded; the padding is a part of its own."""
    inside, padding = layout.operands
    begins, ends = layout.numbers[: len(shape)], layout.numbers[len(shape) :]
    before = tuple(index - a - b for index, a, b in zip(shape, begins, ends, strict=True))
    if min(before, default=0) < 0 or min(layout.numbers, default=0) < 0:
        raise UnresolvedError
    labels = _labels(inside, before, number)
    pairs = [(a, b) if a or b else (0, 0) for a, b in zip(begins, ends)]
    wide = tuple(
        length if any(pair) else own_value
        for length, pair, own_value in zip(before, pairs, labels.shape)
    )
    return np.pad(np.broadcast_to(labels, wide), pairs, constant_values=number(padding))


def _axis(axis: int, rank: int) -> int:
    """Return an axis counted from the start; raise UnresolvedError if it is outside the rank."""
    if not -rank <= axis < rank:
        raise UnresolvedError
    return axis % rank


_RULES: Mapping[str, Callable[[Layout, Shape, Callable[[Layout], int]], Array]] = {
    "join": _label_join,
    "transpose": _label_transpose,
    "reshape": _label_reshape,
    "unsqueeze": _label_unsqueeze,
    "squeeze": _label_squeeze,
    "take": _label_slice,
    "choose": _label_selection,
    "pad": _label_pad,
    "repeat": _label_repetition,
    "combine": _label_combination,
}


def index_text(output: str, labels: Array, number: int, shape: Sequence[int]) -> str:
    """Return the index expression of a part of an output, such as ``output[:, 4:6]``;
    "" if no slices along its axes are the part.

    Args:
        output: the name of the output.
        labels: the result of `label_parts`, with any axes of length 1.
        number: that of the part.
        shape: that of the output.
    """
    mask = labels == number
    slices, count, lists = [], 1, 0
    for axis, length in enumerate(shape):
        if mask.shape[axis] == 1:
            slices.append(":")
            continue
        other_indices = tuple(index for index in range(mask.ndim) if index != axis)
        at = np.flatnonzero(mask.any(axis=other_indices))
        if not len(at):
            return ""
        count *= len(at)
        text = ":" if len(at) == length else _indices_in_words([int(index) for index in at])
        lists += text.startswith("[")
        slices.append(text)
    if count != np.count_nonzero(mask) or lists > 1:
        return ""
    while len(slices) > 1 and slices[-1] == ":":
        slices.pop()
    return f"{output}[{', '.join(slices)}]"


def _indices_in_words(indices: Sequence[int]) -> str:
    """Return indices along an axis as a number, a slice, or a list of which the first are shown."""
    first, last = indices[0], indices[-1]
    if len(indices) == 1:
        return f"{first}"
    step = indices[1] - first
    is_regular = list(indices) == [*range(first, last + 1, step)]
    if is_regular and (step == 1 or len(indices) > 2):
        return f"{first}:{last + 1}" if step == 1 else f"{first}:{last + 1}:{step}"
    more = len(indices) - _SHOWN_INDICES
    shown = ", ".join(map(str, indices[:_SHOWN_INDICES]))
    return f"[{shown}]" if more <= 0 else f"[{shown} and {more} more]"
