"""TensorFlow 2: graphs from every format, sessions, the runner, and the way to ONNX."""
