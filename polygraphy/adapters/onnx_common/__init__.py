"""The evaluator of ONNX graphs in NumPy, which several backends share."""
