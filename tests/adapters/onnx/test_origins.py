"""Where a node comes from, as exporters record it."""

from __future__ import annotations

from onnx import NodeProto, helper

from polygraphy.adapters.onnx.describe.reading import origin_of

TRACE = """File "/home/me/model.py", line 14, in forward
    x = b(x)
  File "/home/me/blocks.py", line 8, in forward
    return x + s.f(y)
  File "/usr/lib/python3.11/site-packages/torch/nn/modules/container.py", line 259, in forward
    input = module(input)"""
DOCUMENTATION = r"""C:\lib\site-packages\torch\nn\modules\linear.py(116): forward
C:\Users\me\model.py(15): forward
C:\lib\site-packages\torch\nn\modules\module.py(1777): _slow_forward"""


def exported(name: str = "", doc: str = "", **records: str) -> NodeProto:
    node = helper.make_node("Gemm", ["x", "w"], ["y"], name=name, doc_string=doc)
    for key, value in records.items():
        node.metadata_props.add(key=f"pkg.torch.onnx.{key}", value=value)
    return node


def test_the_innermost_line_of_the_program_is_named_rather_than_one_of_torch() -> None:
    scopes = "['', 'blocks.0', 'blocks.0.f', 'linear']"
    assert str(origin_of(exported(stack_trace=TRACE, name_scopes=scopes))) == (
        "blocks.py:8 (blocks.0.f)"
    )


def test_tracing_leaves_the_lines_in_the_documentation_and_modules_in_the_name() -> None:
    found = origin_of(exported("/blocks.0/f/f.0/Gemm", DOCUMENTATION))
    assert str(found) == "model.py:15 (blocks.0/f/f.0)"
    assert found is not None
    assert found.path == r"C:\Users\me\model.py"


def test_where_all_lines_are_those_of_torch_the_innermost_is_better_than_none() -> None:
    trace = '  File "/x/torch/nn/a.py", line 1, in f\n  File "/x/torch/nn/b.py", line 2, in g\n'
    assert str(origin_of(exported(stack_trace=trace))) == "b.py:2"


def test_what_is_no_record_is_no_origin() -> None:
    assert origin_of(exported("/a/Gemm", "what the node is for")) is None
    odd = exported(stack_trace=TRACE, name_scopes="__import__('os').getcwd()")
    assert str(origin_of(odd)) == "blocks.py:8"
    assert str(origin_of(exported(stack_trace=TRACE, name_scopes="3"))) == "blocks.py:8"
