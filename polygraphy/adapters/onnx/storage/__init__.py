"""Models as bytes and files: reading, writing, weights that stay in files.

Uses no other room of `adapters.onnx`.
"""
