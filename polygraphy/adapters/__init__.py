"""One folder per foreign technology.

An adapter may use ports, the domain, the ground floor, its own technology, and the four rooms
that all adapters share: `base`, `os`, `arrays` and `onnx_common`.
"""
