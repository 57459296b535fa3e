"""Forms of arrays in files: npy, safetensors, PyTorch, bare bytes, data sets of ONNX.

May use `json`.
"""
