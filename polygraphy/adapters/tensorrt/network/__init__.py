"""Networks: parsed from ONNX, and edited.

May use `library` and `precision`.
"""
