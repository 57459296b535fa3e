"""ModelOpt, which quantizes again in a process of its own: it changes ONNX Runtime's quantizer."""
