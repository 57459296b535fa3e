"""What half precision and quantizing do to a model."""
