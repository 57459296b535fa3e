"""ONNX Runtime: sessions, the runner over them, and the evaluation of constants."""
