"""Pictures of differences, drawn with matplotlib."""
