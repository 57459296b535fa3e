"""The module of TensorRT: which version, what it can do, its logger, data types and GPU.

Uses no other room of `adapters.tensorrt`.
"""
