"""Why saved outputs differ from those of a model, or do not prove a fault."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.domain.diagnosis.facts import statement
from polygraphy.domain.tensors.naming import list_some

_SAVE_ALL = (
    "Save all tensors of the correct model (--onnx-outputs mark all), or pass it with --reference."
)


@statement
def node_unknown(only_node: str = "") -> str:
    """Return the sentence that outputs do not show the node, and how to find it;
    if the model has only one node, what may differ."""
    if only_node:
        return (
            f"If the model changed, it is its only node, {only_node!r}. To see what changed, pass"
            " the original model with --reference."
        )
    return f"Outputs alone cannot show which node differs. {_SAVE_ALL}"


@statement
def candidates(nodes: Sequence[str], count: int, left_out: Sequence[str]) -> str:
    """Return the sentence with the nodes whose change explains the saved outputs."""
    text = f" {' and '.join(left_out).capitalize()} were not tried." if left_out else ""
    where = ", ".join(map(repr, nodes))
    several = f"Several changes, in {where}, explain"
    if count <= 1:
        several = f"One change, in {where}, explains"
    return (
        f"{several} the saved outputs.{text} Outputs alone cannot show which node is at fault."
        f" {_SAVE_ALL}"
    )


@statement
def unread_inputs(names: Sequence[str]) -> str:
    """Return the sentence that the model ignores inputs, which can explain wrong outputs."""
    noun = "input" if len(names) == 1 else "inputs"
    return f"No node reads the {noun} {list_some(names)}: the model may lack what the data needs."


@statement
def model_or_data_changed(is_related: bool, only_node: str = "") -> str:
    """Return the sentence that the model or the data changed since the results were saved.

    Args:
        is_related: whether the saved outputs may be of the same data.
        only_node: the node, if the model has no other.
    """
    addition = (
        ""
        if is_related
        else " The saved outputs hardly correlate with the outputs on this data. If the data"
        " differs, pass the original data (--load-inputs)."
    )
    return (
        "All backends agree, so either the model or the data changed since the results were saved."
        f" {node_unknown(only_node)}{addition}"
    )


@statement
def different_shape(output: str, own: str, saved: str) -> str:
    """Return the sentence that an output has the saved values in a different shape."""
    return (
        f"Output {output!r} has the saved values, but a different shape: {own} instead of {saved}."
        " Reshape the output or the saved array."
    )


@statement
def other_shape(output: str, own: str, saved: str) -> str:
    """Return the sentence that an output has a different shape than the saved one."""
    return (
        f"Output {output!r} is {own}, but {saved} was saved, and no changed node explains that."
        " Pass the original data (--load-inputs) or shapes (--input-shapes)."
    )


@statement
def party_differs_from_saved(right: str, party: str) -> str:
    """Return the sentence that only one backend matches the saved results."""
    return f"{right} matches the saved results, but {party} does not."


@statement
def constant_saved(names: Sequence[str]) -> str:
    """Return the sentence that saved outputs match but are constant, which proves nothing."""
    return (
        f"The saved {', '.join(map(repr, names))} match, but are constant, which proves nothing."
        " Save results of other data, or all tensors (--onnx-outputs mark all)."
    )


@statement
def never_saved(names: Sequence[str]) -> str:
    """Return the clause that outputs were not saved."""
    return f"{', '.join(map(repr, names))} {'were' if len(names) > 1 else 'was'} not saved"


@statement
def sometimes_saved(name: str, count: int, data: str) -> str:
    """Return the clause that an output was saved for some input sets only."""
    return f"{name!r} was saved for {count} of {data}"
