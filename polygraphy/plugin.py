"""Replace parts of ONNX models with plugins."""

from polygraphy.adapters.onnx.plugins.plugins import ReplacePlugins, match_plugins, replace_plugins
from polygraphy.application.plugin_tuning import autotune_plugins, load_matches, save_matches
from polygraphy.domain.model.plugins import PluginInstance, PluginMatch

__all__ = [
    "PluginInstance",
    "PluginMatch",
    "ReplacePlugins",
    "autotune_plugins",
    "load_matches",
    "match_plugins",
    "replace_plugins",
    "save_matches",
]
