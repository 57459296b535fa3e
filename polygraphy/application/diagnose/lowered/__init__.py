"""What half precision and quantising do to a model."""
