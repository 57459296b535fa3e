"""Titles of the attempts that a diagnosis lists, and names of what outputs were compared with."""

from __future__ import annotations

# References of comparisons.
EACH_OTHER = "each other"
SAVED_RESULTS = "saved results"
PROGRAM = "the program"
NOT_SET = "not set"
REFERENCE = "the reference"
REFERENCE_MODEL = "a reference model"
ANOTHER_BACKEND = "another backend"
ALL_INPUTS_AT_ONCE = "all inputs at once"
DECLARED_SHAPE = "declared shape"
OTHER_VERSIONS = "other versions"
FORMULAS = "formulas in float64"
REFERENCE_EVALUATOR = "the onnx reference evaluator"
FLOAT32_MODEL = "The float32 model"

# Searches that check tensors, nodes or layers one after another.
ALL_TENSORS = "all tensors"
LAYER_BY_LAYER = "layer by layer"
NODE_BY_NODE = "node by node"
THIRD_OPINION = "third opinion"
EQUAL_TENSORS = "equal tensors"
OPSET = "opset"
EXCHANGED_NAMES = "exchanged names"
CHANGED_NODES = "changed nodes"
EXCHANGED_INPUTS = "exchanged inputs"
THRESHOLDS = "thresholds of trees"
CHANGED_WEIGHTS = "changed weights"
CULPRIT_BY_ITSELF = "culprit by itself"
SKIPPED_ENVIRONMENT = "skipped environment"

# Other exports of the program.
SAME_EXPORTER = "same exporter"
OTHER_EXAMPLE = "other example input"
OTHER_BRANCH = "other branch"
OTHER_EXPORTER = "other exporter"
PROGRAM_ON_CPU = "the program on the CPU"

# Precision and quantization.
WEIGHTS = "weights"
IN_FLOAT32 = "in fp32"
IN_FLOAT32_BY_NODE = "in fp32, node by node"
FEWEST_IN_FLOAT32 = "fewest nodes in fp32"
NODES_IN_FLOAT32 = "nodes that stay in fp32"
ELEMENT_BY_ELEMENT = "element by element"
CAST_REFERENCE = "reference in half precision"
QUANTIZED_REFERENCE = "quantized reference"
FEWEST_UNQUANTIZED = "fewest nodes without quantization"
WITHOUT_QUANTIZATION = "without quantization"
LOSS_BY_SITE = "loss of each site"
WRONG_PARAMETERS = "wrong parameters"
FEWEST_IN_FLOAT = "fewest nodes in float"
QUANTIZED_AGAIN = "quantized again"
SAVED = "saved"
WITHOUT_REWRITES = "without rewrites"
QUANTIZATION_STEPS = "quantization steps"

# Steps of a model with states.
OWN_STATES = "own states"
EQUAL_STATES = "equal states"
FIX_OVER_ALL_STEPS = "fix over all steps"
STATES_EXCHANGED = "states exchanged"
NOT_COMPARED = "Not compared"
NOT_COUNTED = "not counted"
HIDDEN_POSITIONS = "positions that the mask hides"
COARSE_ACTIVATIONS = "8-bit activations (accuracy_level 4)"


def integer_cache(dtype: str) -> str:
    """Return the description of a cache that holds integers."""
    return f"a cache quantized to {dtype}"


def half_cache(dtype: str) -> str:
    """Return the description of a cache that holds numbers in half precision."""
    return f"a {dtype} cache"


def rounded_weights(dtype: str) -> str:
    """Return the description of weights that are rounded to a data type."""
    return f"weights rounded to {dtype}"


def node_by_node(party: str) -> str:
    """Return the title of running a backend node by node."""
    return f"{NODE_BY_NODE}, {party}"


def rewritten_graph(party: str) -> str:
    """Return the title of the graph that a backend rewrites."""
    return f"rewritten graph, {party}"


def rewrites(party: str) -> str:
    """Return the title of the search for the rewrites of a backend that cause an error."""
    return f"rewrites, {party}"


def marked_tensors(party: str) -> str:
    """Return the title of running a backend with all tensors marked as outputs."""
    return f"marked, {party}"


def in_float32(party: str) -> str:
    """Return the title of running a backend in float32."""
    return f"float32, {party}"


def other_versions(party: str) -> str:
    """Return the title of comparing other versions of a backend."""
    return f"{OTHER_VERSIONS}, {party}"


def all_nodes_in(dtype: str) -> str:
    """Return the title of all nodes in a data type."""
    return f"all nodes in {dtype}"


def limited_to(dtype: str) -> str:
    """Return the title of numbers limited to the range of a data type."""
    return f"numbers limited to {dtype}"


def of_program(operation: str) -> str:
    """Return the display name of a tensor that only the program has."""
    return f"{operation} of the program"


def near_line(line: str, op: str) -> str:
    """Return the place of an operator, near a source line of the program."""
    return f"near {line}, of {op}"


def array_of(dtype: object, shape: object) -> str:
    """Return the description of an array by its data type and shape."""
    return f"{dtype} of shape {shape}"
