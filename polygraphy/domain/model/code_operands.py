"""Which inputs of an operator are the scales and zero points of the codes that it reads and
computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen


@frozen
class Operand:
    """The positions of a quantized input or output of an operator."""

    kind: str
    scale: int
    zero_point: int
    codes: int | None = None
    """None if the operator computes the codes: they are its output."""


_X, _W = Operand("activation", 1, 2, 0), Operand("weight", 4, 5, 3)
OPERANDS: Mapping[str, Sequence[Operand]] = {
    "QLinearConv": (_X, _W, Operand("activation", 6, 7)),
    "QLinearMatMul": (_X, _W, Operand("activation", 6, 7)),
    "QGemm": (_X, _W, Operand("activation", 7, 8)),
    "QLinearAdd": (_X, _W, Operand("activation", 6, 7)),
    "QLinearMul": (_X, _W, Operand("activation", 6, 7)),
    "QLinearWhere": (
        Operand("activation", 2, 3, 1),
        Operand("activation", 5, 6, 4),
        Operand("activation", 7, 8),
    ),
    "QLinearConcat": (Operand("activation", 0, 1),),
    **{
        f"QLinear{name}": (_X, Operand("activation", 3, 4))
        for name in ("Sigmoid", "LeakyRelu", "Softmax", "AveragePool", "GlobalAveragePool")
    },
}
"""Operators on codes: what they read and compute."""


@frozen
class CodeOperand:
    """Codes that a node reads or computes.

    Attributes:
        tensor: the tensor.
        scale: the position of its scale among the inputs of the node.
        zero_point: the position of its zero point there.
    """

    tensor: str
    scale: int
    zero_point: int


def operands_of(op: str, inputs: Sequence[str], outputs: Sequence[str]) -> list[CodeOperand]:
    """Return the codes that a node reads and computes, as far as it also reads their scales;
    none for other operators."""
    operands = [*OPERANDS.get(op, ())]
    if op in ("QuantizeLinear", "DequantizeLinear"):
        operands = [Operand("activation", 1, 2, None if op == "QuantizeLinear" else 0)]
    elif op == "QLinearConcat":
        operands += [
            Operand("activation", at, at + 1, at - 1) for at in range(3, len(inputs) - 1, 3)
        ]
    return [
        CodeOperand(
            outputs[0] if operand.codes is None else inputs[operand.codes],
            operand.scale,
            operand.zero_point,
        )
        for operand in operands
        if (outputs if operand.codes is None else operand.codes < len(inputs))
    ]


def scales_codes(op: str, inputs: Sequence[str], position: int) -> bool:
    """Return whether the input of a node at a position is a scale or zero point."""
    return any(
        position in (operand.scale, operand.zero_point)
        for operand in operands_of(op, inputs, ("",))
    )
