"""Split ONNX models over several devices."""

from polygraphy.adapters.onnx.shard.sharding import (
    ShardModel,
    find_shard_hints,
    save_shards,
    shard_model,
)
from polygraphy.application.shard_hint_files import load_shard_hints, save_shard_hints
from polygraphy.domain.sharding import (
    AttentionLayer,
    Collectives,
    FusedAttention,
    ShardHints,
    ShardTensor,
)

__all__ = [
    "AttentionLayer",
    "Collectives",
    "FusedAttention",
    "ShardHints",
    "ShardModel",
    "ShardTensor",
    "find_shard_hints",
    "load_shard_hints",
    "save_shard_hints",
    "save_shards",
    "shard_model",
]
