"""What a node may have computed with, solved from what is expected of it."""
