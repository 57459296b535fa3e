"""TensorRT 8.6 to 11 and TensorRT-RTX: networks, builds, engines and the runner over them.

Rooms use only those before them: library, precision, network, describe, plan, build, runtime.
"""
