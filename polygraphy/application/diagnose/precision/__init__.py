"""Effects of half precision and quantization on a model."""
