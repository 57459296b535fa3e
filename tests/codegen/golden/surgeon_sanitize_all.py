#!/usr/bin/env python3
"""Simplify model.onnx.

polygraphy surgeon sanitize model.onnx --fold-constants --num-passes 3 --partitioning recursive --no-fold-shapes --no-per-pass-shape-inference --fold-size-threshold 1M --cleanup --simplify --toposort --override-input-shapes 'x:[1,N]' --outputs a 'b*' --exclude-outputs b2 --outputs-by-type Conv --set-unbounded-dds-upper-bound 1000 a:5 --no-onnxruntime-shape-inference --save-external-data weights.bin --external-data-size-threshold 16K --no-save-all-tensors-to-one-file --external-data-dir w --verify --val-range '[0,5]' --to-bf16
"""

from polygraphy import program
from polygraphy.backend.onnx import (
    convert_to_bf16,
    fold_constants,
    infer_shapes,
    modify_outputs,
    onnx_from_path,
    save_onnx,
    set_upper_bound,
)
from polygraphy.comparator import DataLoader, SimpleCompareFunc
from polygraphy.surgeon import (
    check_model,
    clean_up,
    override_input_shapes,
    show_edited,
    show_original,
    simplify,
    sort_nodes,
    verify,
)

MODEL = "model.onnx"


def main() -> bool:
    data_loader = DataLoader(val_range=(0, 5))
    model = onnx_from_path(MODEL, external_data_dir="w", map_weights=True)
    original = show_original(model)
    model = modify_outputs(model, outputs=["a", "b*"], exclude_outputs=["b2"], mark_types=["Conv"])
    model = convert_to_bf16(model)
    model = override_input_shapes(model, shapes={"x": [1, "N"]})
    model = infer_shapes(model, allow_onnxruntime=False)
    model = clean_up(model)
    model = sort_nodes(model)
    model = fold_constants(
        model,
        num_passes=3,
        do_shape_inference=False,
        partitioning="recursive",
        fold_shapes=False,
        size_threshold=1 << 20,
    )
    model = simplify(model)
    model = set_upper_bound(
        model,
        upper_bounds={
            "": 1000,  # All others.
            "a": 5,
        },
    )
    check_model(model)
    if not verify(
        onnx_from_path(MODEL, external_data_dir="w", map_weights=True),
        model,
        data_loader=data_loader,
        compare_func=SimpleCompareFunc(rtol="auto", atol="auto"),
    ):
        return False
    save_onnx(
        model,
        path="model_sanitized.onnx",
        external_data_path="weights.bin",
        size_threshold=16384,
        all_tensors_to_one_file=False,
    )
    show_edited(original, model, checks_nodes=True)
    return True


if __name__ == "__main__":
    program.run(main)
