"""The runner: contexts, inputs, outputs, memory, CUDA graphs and weight streaming.

May use `library` and `describe`.
"""
