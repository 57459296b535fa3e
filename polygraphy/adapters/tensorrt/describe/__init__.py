"""Networks and engines for people, and what TensorRT supports of a model.

May use `library` and `network`.
"""
