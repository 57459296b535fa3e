"""ONNX models: loading them, and running them in the reference evaluator."""
