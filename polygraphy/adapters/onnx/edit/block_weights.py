"""Weights that operators read in few bits: in blocks, as MatMulNBits and GatherBlockQuantized do,
or as integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from polygraphy import mod
from polygraphy.adapters.onnx.edit.quantized_nodes import convert_codes
from polygraphy.adapters.onnx.graph.graph import add_weight
from polygraphy.domain.quantization.listing import INTEGER_WEIGHTS
from polygraphy.domain.quantization.schemes import STORED, Scheme
from polygraphy.domain.quantization.sites import Site
from polygraphy.domain.tensors.precision import is_float

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto, NodeProto

    Array = np.ndarray[Any, Any]

onnx = mod.lazy_import("onnx")
numpy = mod.lazy_import("numpy")


@frozen
class Packing:
    """The packing of codes into bytes.

    Attributes:
        bits: the number of bits of a code.
        has_zero_points: whether zero points are stored.
        is_transposed: whether the weight of the reference is the transpose of the codes.
        is_in_bytes: whether a byte holds several codes; else each code has its own type.
    """

    bits: int
    has_zero_points: bool
    is_transposed: bool
    is_in_bytes: bool = True


@frozen
class RecurrentStorage:
    """The storage of a weight of an LSTM: a matrix with a row for each scale.

    Attributes:
        names: the weight, its scales and its zero points.
    """

    names: tuple[str, str, str]


def block_weight(
    region: Sequence[NodeProto],
    constant: Callable[[str], Array | None],
    operands: Sequence[Array | None],
) -> tuple[Scheme, Array, Array | None, Packing | RecurrentStorage | None] | None:
    """Return scheme, codes, exact weight (None if unknown) and storage of an operator's weight.
    The result is None if the operator is not supported.

    Args:
        region: the nodes that compute the operator.
        constant: returns a weight by name; None if there is none.
        operands: the inputs of the operator in floating point; None for those that are not weights.
    """
    exact = next((array for array in operands[:2] if array is not None), None)
    for node in region:
        if node.op_type == "MatMulNBits":
            return _block_weight(node, constant, exact)
        if node.op_type == "GatherBlockQuantized":
            return _read_gather_of_blocks(node, constant, exact)
        if node.op_type == "DynamicQuantizeLSTM":
            return _worst_recurrent_weight(node, constant, operands)
        if node.op_type in INTEGER_WEIGHTS and len(node.input) > 1:
            return _integer_weight(node, constant, exact)
    if [node.op_type for node in region] == ["Gather", "DequantizeLinear"]:
        return _read_gather_of_integers(region[0], region[1], constant, exact)
    return None


def _read_gather_of_integers(
    gather: NodeProto,
    dequantize: NodeProto,
    constant: Callable[[str], Array | None],
    exact: Array | None,
) -> tuple[Scheme, Array, Array | None, None] | None:
    """Return scheme, codes, exact weight and None (not packed) of a Gather with dequantized rows.
    The result is None if unknown.
    """
    codes = constant(gather.input[0])
    scale = constant(dequantize.input[1])
    zero_point = dequantize.input[2] if len(dequantize.input) > 2 else ""
    zero = constant(zero_point) if zero_point else numpy.zeros(())
    if codes is None or scale is None or scale.size != 1 or zero is None:
        return None
    zero = zero.astype(numpy.float64).reshape(scale.shape)
    scheme = Scheme(codes.dtype.name, scale.astype(numpy.float64), zero)
    exact = exact if exact is not None and exact.shape == codes.shape else None
    return scheme, codes.astype(numpy.float64), exact, None


def _read_gather_of_blocks(
    node: NodeProto, constant: Callable[[str], Array | None], exact: Array | None
) -> tuple[Scheme, Array, Array | None, Packing] | None:
    """Return scheme, codes, exact weight and packing of GatherBlockQuantized; None if unknown."""
    options = {
        attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute
    }
    stored, scale = constant(node.input[0]), constant(node.input[2])
    zero_point = node.input[3] if len(node.input) > 3 else ""
    zeros = constant(zero_point) if zero_point else None
    if stored is None or scale is None or (zero_point and zeros is None):
        return None
    bits, dtype = 4, stored.dtype.name
    is_in_bytes = dtype == "uint8"
    if is_in_bytes:
        bits = options.get("bits", 4)
        dtype = f"uint{bits}"
        stored = _unpack_last(stored, bits)
        zeros = None if zeros is None else _unpack_last(zeros, bits)
    axis = options.get("quantize_axis", 1) % stored.ndim
    if zeros is None:
        # The default zero point: 0 for int4 and uint4, and the middle value for bytes.
        zeros = numpy.full(scale.shape, float(2 ** (bits - 1) if is_in_bytes else 0))
    zeros = zeros.astype(numpy.float64)[..., : scale.shape[-1]]
    if dtype not in STORED or zeros.shape != scale.shape:
        return None
    block = options.get("block_size", 128)
    scheme = Scheme(dtype, scale.astype(numpy.float64), zeros, axis, block)
    codes = stored.astype(numpy.float64)
    if exact is not None and exact.shape != codes.shape:
        codes = codes[..., : exact.shape[-1]]
    exact = exact if exact is not None and exact.shape == codes.shape else None
    packing = Packing(bits, bool(zero_point), is_transposed=False, is_in_bytes=is_in_bytes)
    return scheme, codes, exact, packing


def _unpack_last(array: Array, bits: int) -> Array:
    """Return the codes in bytes along the last axis, the low bits first."""
    return _unpack_codes(array.reshape(-1, array.shape[-1]), bits).reshape(*array.shape[:-1], -1)


def _integer_weight(
    node: NodeProto, constant: Callable[[str], Array | None], exact: Array | None
) -> tuple[Scheme, Array, Array | None, None] | None:
    """Return scheme, codes, exact weight and None (it is not packed) of an integer operator.
    The result is None if unknown.
    """
    name, scale_name, zero_name = _names_of_integers(node)
    codes, scale = constant(name), constant(scale_name)
    zero = constant(zero_name) if zero_name else None
    if codes is None or scale is None:
        return None
    axis = 0 if node.op_type == "ConvInteger" else codes.ndim - 1
    zeros = numpy.zeros(scale.shape) if zero is None else zero.astype(numpy.float64)
    zeros = numpy.broadcast_to(zeros.reshape(-1) if scale.ndim else zeros.reshape(()), scale.shape)
    scheme = Scheme(codes.dtype.name, scale.astype(numpy.float64), zeros, axis)
    if exact is not None and exact.ndim == 2:
        # ONNX Runtime converts Gemm to MatMul, which can transpose the weight.
        is_turned = "_Transposed" in name or exact.shape != codes.shape
        exact = exact.T if is_turned and exact.T.shape == codes.shape else exact
    return scheme, codes.astype(numpy.float64), exact, None


def _names_of_integers(node: NodeProto) -> tuple[str, str, str]:
    """Return the names of the integer weight of an operator, and of its scale and zero point.
    The last is empty if there is none."""
    weight, *positions = INTEGER_WEIGHTS[node.op_type][0]
    names = [*node.input, *[""] * 10]
    scale, zero = (names[position] if position else "" for position in positions)
    return names[weight], scale or f"{names[weight].removesuffix('_quantized')}_scale", zero


def _worst_recurrent_weight(
    node: NodeProto,
    constant: Callable[[str], Array | None],
    operands: Sequence[Array | None],
) -> tuple[Scheme, Array, Array | None, RecurrentStorage] | None:
    """Return scheme, codes, exact weight and storage of an LSTM's weight, or None.

    Of the weights for inputs and states, it is the one that loses more.
    """
    candidates = []
    for at, (weight, scale_at, zero_at) in enumerate(INTEGER_WEIGHTS[node.op_type]):
        names = node.input[weight], node.input[scale_at], node.input[zero_at]
        codes, scale, zero = (constant(name) for name in names)
        exact = operands[weight] if weight < len(operands) else None
        if codes is None or scale is None or zero is None:
            return None
        rows = codes.astype(numpy.float64).transpose(0, 2, 1).reshape(max(scale.size, 1), -1)
        zeros = numpy.broadcast_to(zero, scale.shape).astype(numpy.float64).reshape(-1)
        scales = scale.astype(numpy.float64).reshape(-1)
        scheme = Scheme(codes.dtype.name, scales, zeros, 0)
        flat = None if exact is None or exact.size != rows.size else exact.reshape(rows.shape)
        error = 0.0 if flat is None else _relative_error(scheme.values(rows), flat)
        candidates.append((error, -at, scheme, rows, flat, RecurrentStorage(names)))
    _, _, scheme, rows, flat, packing = max(candidates, key=lambda candidate: candidate[:2])
    return scheme, rows, flat, packing


def _relative_error(values: Array, exact: Array) -> float:
    """Return the RMS of the difference of a weight, relative to its size."""
    size = float(numpy.mean(numpy.square(exact, dtype=numpy.float64)))
    error = float(numpy.mean(numpy.square(values - exact)))
    return error / size if size else float(error > 0)


def _block_weight(
    node: NodeProto, constant: Callable[[str], Array | None], exact: Array | None
) -> tuple[Scheme, Array, Array | None, Packing] | None:
    """Return scheme, codes, exact weight and packing of an operator that reads blocks, or None.
    The result is None if unknown.
    """
    options = {
        attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute
    }
    bits, block = options.get("bits", 4), options["block_size"]
    rows, columns = options["N"], options["K"]
    packed, scale = constant(node.input[1]), constant(node.input[2])
    zero_point = node.input[3] if len(node.input) > 3 else ""
    stored = constant(zero_point) if zero_point else None
    if packed is None or scale is None or (zero_point and stored is None):
        return None
    count = -(-columns // block)
    if scale.size != rows * count or packed.size * 8 < rows * columns * bits or packed.size % rows:
        return None  # Such nodes are invalid. NNCF 3.4 writes them for a Gather.
    codes = _unpack_codes(packed.reshape(rows, -1), bits)[:, : count * block][:, :columns]
    scales = scale.astype(numpy.float64).reshape(rows, count)
    if stored is None:
        zeros = numpy.full(scales.shape, float(2 ** (bits - 1)))
    elif is_float(stored):
        zeros = stored.astype(numpy.float64).reshape(rows, count)
    else:
        zeros = _unpack_codes(stored.reshape(rows, -1), bits)[:, :count]
    scheme = Scheme(f"uint{bits}", scales, zeros, 1, block)
    turned = None if exact is None or exact.ndim != 2 else exact.T
    matches = turned is not None and turned.shape == codes.shape
    packing = Packing(bits, stored is not None and not is_float(stored), is_transposed=True)
    return scheme, codes, turned if matches else None, packing


def _unpack_codes(rows: Array, bits: int) -> Array:
    """Return the codes in bytes, the low bits first."""
    parts = [(rows >> shift) & (2**bits - 1) for shift in range(0, 8, bits)]
    codes: Array = numpy.stack(parts, -1).reshape(len(rows), -1).astype(numpy.float64)
    return codes


def _pack_codes(codes: Array, bits: int) -> Array:
    """Return codes packed into bytes, the low bits first."""
    per_byte = 8 // bits
    short = -codes.shape[1] % per_byte
    padded = numpy.pad(codes.astype(numpy.uint8), ((0, 0), (0, short)))
    parts = padded.reshape(len(codes), -1, per_byte)
    array: Array = numpy.zeros(parts.shape[:2], numpy.uint8)
    for at in range(per_byte):
        array |= parts[:, :, at] << numpy.uint8(at * bits)
    return array


def store_integers(
    model: ModelProto, region: Sequence[NodeProto], site: Site, scheme: Scheme
) -> None:
    """Replace the weight of an operator that reads integers with one in another scheme."""
    weights = {weight.name: weight for weight in model.graph.initializer}
    for node in region:
        if site.exact is None:
            continue
        exact = site.exact
        if isinstance(site.packing, RecurrentStorage) and node.op_type == "DynamicQuantizeLSTM":
            names = [*site.packing.names]
        elif node.op_type in INTEGER_WEIGHTS:
            names = [*filter(None, _names_of_integers(node))]
        elif node.op_type == "Gather" and region[-1].op_type == "DequantizeLinear":
            names = [node.input[0], *region[-1].input[1:]]
        else:
            continue
        codes, scale = (weights.get(name) for name in names[:2])
        if codes is None or scale is None:
            continue
        kind = onnx.numpy_helper.to_array(codes).dtype
        stored_codes = scheme.codes(exact).astype(kind)
        scales, zeros = scheme.scale.astype(numpy.float32), scheme.zero_point.astype(kind)
        if isinstance(site.packing, RecurrentStorage):
            directions, inputs, gates = codes.dims
            stored_codes = stored_codes.reshape(directions, gates, inputs).transpose(0, 2, 1)
        arrays = {
            codes.name: numpy.ascontiguousarray(stored_codes),
            scale.name: scales.reshape(tuple(scale.dims)),
        }
        zero = weights.get(names[2]) if len(names) > 2 else None
        if zero is not None:
            arrays[zero.name] = zeros.reshape(tuple(zero.dims))
        for name, array in arrays.items():
            weights[name].CopyFrom(onnx.numpy_helper.from_array(array, name))


def repack_blocks(
    model: ModelProto, region: Sequence[NodeProto], site: Site, scheme: Scheme
) -> None:
    """Replace a weight in blocks with one in another scheme."""
    packing = site.packing
    operators = ("MatMulNBits", "GatherBlockQuantized")
    node = next((node for node in region if node.op_type in operators), None)
    if not isinstance(packing, Packing) or site.exact is None or node is None:
        return
    codes = scheme.codes(site.exact)
    if node.op_type == "GatherBlockQuantized":
        _repack_gathered(model, node, site, scheme, codes)
        return
    rows, columns = codes.shape
    count = -(-columns // scheme.block)
    padded = numpy.pad(codes, ((0, 0), (0, count * scheme.block - columns)))
    weights = {weight.name: weight for weight in model.graph.initializer}
    kind = onnx.numpy_helper.to_array(weights[node.input[2]]).dtype
    shape = tuple(weights[node.input[2]].dims)
    prefix = f"{site.name}//repaired"
    arrays = {
        f"{prefix}_codes": _pack_codes(padded, packing.bits).reshape(rows, count, -1),
        f"{prefix}_scale": scheme.scale.astype(kind).reshape(shape),
    }
    middle = float(2 ** (packing.bits - 1))
    if packing.has_zero_points or numpy.any(scheme.zero_point != middle):
        arrays[f"{prefix}_zero"] = _pack_codes(scheme.zero_point, packing.bits).reshape(-1)
    for name, array in arrays.items():
        add_weight(model, onnx.numpy_helper.from_array(array), name)
    attributes = [*node.input][4:]
    if attributes and len(arrays) == 2:
        attributes = ["", *attributes]
    node.input[:] = [node.input[0], *arrays, *attributes]


def _repack_gathered(
    model: ModelProto, node: NodeProto, site: Site, scheme: Scheme, codes: Array
) -> None:
    """Replace the weight of GatherBlockQuantized with one in another scheme."""
    packing: Packing = site.packing
    weights = {weight.name: weight for weight in model.graph.initializer}
    kind = onnx.numpy_helper.to_array(weights[node.input[2]]).dtype

    def pack(array: Array) -> Array:
        """Return codes of a weight, packed into bytes if the operator packs them."""
        if not packing.is_in_bytes:
            return convert_codes(array, scheme.dtype)
        rows = _pack_codes(array.reshape(-1, array.shape[-1]), packing.bits)
        return rows.reshape(*array.shape[:-1], -1)

    prefix = f"{site.name}//repaired"
    arrays = {
        f"{prefix}_codes": pack(codes),
        f"{prefix}_scale": scheme.scale.astype(kind),
        f"{prefix}_zero": pack(scheme.zero_point),
    }
    for name, array in arrays.items():
        add_weight(model, onnx.numpy_helper.from_array(array), name)
    data, scale, zero = arrays
    node.input[:] = [data, node.input[1], scale, zero]
