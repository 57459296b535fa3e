"""How large the package is: lines of code, files, functions, classes and protocols, by feature.

    python benchmarks/size.py [FOLDER]

Counts what the distribution installs. A line of code is one that holds no blank, comment, import,
`__all__` or string that documents (a docstring, or one after a constant). A function is as long as
it stands in the file, from `def` to its last line, docstring included.
"""

from __future__ import annotations

import ast
import configparser
import io
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Features by prefix of a path. The longest prefix counts, and can end within a name.
FEATURES = {
    "diagnose": (
        "application/diagnose",
        "cli/commands/diagnose",
        "diagnose",
        "domain/diagnosis",
        "ports/diagnosing",
    ),
    "TensorRT": ("adapters/tensorrt", "backend/tensorrt_rtx", "backend/trt"),
    "TensorRT: options and commands": ("cli/backends/trt", "cli/commands/trt"),
    "comparison": (
        "adapters/lpips",
        "adapters/pandas",
        "application/compare",
        "comparator",
        "domain/accuracy",
        "domain/compare",
        "domain/limits",
    ),
    "arithmetic": ("domain/arithmetic",),
    "debug": ("application/debug", "cli/commands/debug", "debug", "domain/search"),
    "processes": ("adapters/processes",),
    "data, tensors, results": ("domain/data", "domain/results", "domain/tensors"),
    "models, described": ("adapters/onnx/describe", "domain/model"),
    "ONNX: storage and graphs": ("adapters/onnx/graph", "adapters/onnx/storage"),
    "ONNX: folding": ("adapters/onnx/fold",),
    "ONNX: edits": ("adapters/onnx/edit", "backend/onnx"),
    "ONNX: casts": ("adapters/onnx/cast",),
    "ONNX: in pieces": ("adapters/onnx/run",),
    "lint and other checks": ("adapters/onnx/lint", "domain/checks"),
    "plugins": (
        "adapters/onnx/plugins",
        "adapters/pluginref",
        "application/plugin_tuning",
        "cli/commands/plugin",
        "plugin",
    ),
    "sharding": (
        "adapters/onnx/shard",
        "application/shard_hint_files",
        "domain/sharding",
        "multi_device",
    ),
    "reference evaluator": ("adapters/onnx_common",),
    "ONNX Runtime": ("adapters/onnxruntime", "backend/onnxrt"),
    "OpenVINO": ("adapters/openvino", "backend/openvino", "cli/backends/openvino"),
    "sweep": (
        "adapters/files/small/sweep",
        "adapters/ray",
        "application/sweep",
        "cli/commands/sweep",
        "domain/sweep",
        "ports/sweeping",
        "sweep",
    ),
    "exporters": (
        "application/diagnose/counterparts",
        "application/diagnose/comparisons/exported_again",
        "application/diagnose/comparisons/program_comparison",
        "application/diagnose/oracles/against_program",
        "application/diagnose/steps/file_of_program",
        "application/diagnose/steps/program_tensors",
        "domain/diagnosis/exported",
    ),
    "pytest plugin": ("adapters/files/small/goldens", "assertions", "pytest_polygraphy"),
    "pictures and samples": (
        "adapters/files/formats/pictures",
        "application/compare/samples",
        "domain/accuracy/samples",
        "domain/data/preprocessing",
    ),
    "TensorFlow": ("adapters/tensorflow", "backend/tf"),
    "PyTorch": ("adapters/torch", "backend/pyt"),
    "CUDA, system, arrays, bases": (
        "adapters/arrays",
        "adapters/base",
        "adapters/cuda",
        "adapters/machine",
        "adapters/os",
        "backend",
        "cuda",
    ),
    "files": ("adapters/files", "json"),
    "console": ("adapters/console",),
    "reports": ("adapters/report", "adapters/web/report", "domain/report"),
    "viewer and pictures": ("adapters/plots", "adapters/web"),
    "run, inspect, models": ("application",),
    "tactics": ("domain/tactics",),
    "rest of the domain": ("domain",),
    "command line: declarations, help": ("cli",),
    "command line: options": ("cli/backends", "cli/shared"),
    "command line: commands": ("cli/commands",),
    "generated programs": ("codegen", "program"),
    "ports": ("ports", "wiring"),
    "fakes and testing": ("adapters/fake", "testing"),
    "ground floor": ("config", "constants", "func", "logger", "mod", "termination"),
    "helpers that scripts import": ("common", "legacy", "util"),
    "other published names": ("",),
}


@dataclass
class Size:
    code: int = 0
    files: int = 0
    functions: int = 0
    classes: int = 0
    protocols: int = 0
    lengths: list[int] = field(default_factory=list)

    def add(self, other: Size) -> None:
        """Add the counts of another file."""
        self.code += other.code
        self.files += other.files
        self.functions += other.functions
        self.classes += other.classes
        self.protocols += other.protocols
        self.lengths += other.lengths


def size_of(text: str) -> Size:
    """Return the counts of a Python file."""
    tree = ast.parse(text)
    size = Size(code=len(_lines_of_code(text) - set(_lines_not_counted(tree))), files=1)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size.functions += 1
            size.lengths.append(_last(node) - node.lineno + 1)
        elif isinstance(node, ast.ClassDef):
            size.classes += 1
            size.protocols += any("Protocol" in ast.unparse(base) for base in node.bases)
    return size


def _lines_of_code(text: str) -> set[int]:
    """Return the numbers of the lines of code, without blanks and comments."""
    nothing = {
        *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
        *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
    }
    return {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in nothing
        for line in range(token.start[0], token.end[0] + 1)
    }


def _lines_not_counted(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of imports, of `__all__` and of docstrings."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.Import()
                | ast.ImportFrom()
                | ast.Expr(value=ast.Constant(value=str()))
                | ast.Assign(targets=[ast.Name(id="__all__")])
                | ast.AnnAssign(target=ast.Name(id="__all__"))
                | ast.AugAssign(target=ast.Name(id="__all__"))
            ):
                yield from range(node.lineno, _last(node) + 1)


def _last(node: ast.stmt) -> int:
    """Return the number of the last line of a statement."""
    assert node.end_lineno is not None
    return node.end_lineno


def feature_of(path: str) -> str:
    """Return the feature of a file, by its path in the package, without `.py`."""
    named = {prefix: name for name, prefixes in FEATURES.items() for prefix in prefixes}
    fits = [prefix for prefix in named if _within(path, prefix)]
    return named[max(fits, key=len)]


def _within(path: str, prefix: str) -> bool:
    """Return whether a path is in a folder or file, or starts with its name and `_`."""
    return not prefix or path == prefix or path.startswith((f"{prefix}/", f"{prefix}_"))


def distributed_files(root: Path) -> dict[str, Path]:
    """Return the paths of the distributed files by name without `.py`."""
    metadata = configparser.ConfigParser()
    metadata.read(root / "setup.cfg")
    modules = metadata.get("options", "py_modules", fallback="").split()
    package = root / "polygraphy"
    paths = {str(path.relative_to(package).with_suffix("")): path for path in package.rglob("*.py")}
    return paths | {module: root / f"{module}.py" for module in modules}


def percentile(lengths: list[int], share: float) -> int:
    """Return the length that a share of functions does not exceed."""
    return sorted(lengths)[int(len(lengths) * share)]


def main() -> None:
    """Print the table of features."""
    root = Path(sys.argv[1]) if sys.argv[1:] else ROOT
    total, ports = Size(), Size()
    features: dict[str, Size] = defaultdict(Size)
    for name, path in distributed_files(root).items():
        size = size_of(path.read_text(encoding="utf-8"))
        total.add(size)
        features[feature_of(name)].add(size)
        if name.startswith("ports/"):
            ports.add(size)
    print("| feature | lines of code | files | functions | classes | protocols |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    rows = sorted(features.items(), key=lambda item: -item[1].code)
    for name, size in [*rows, ("**all**", total)]:
        print(
            f"| {name} | {size.code:,} | {size.files} | {size.functions:,} |"
            f" {size.classes:,} | {size.protocols} |"
        )
    long = sum(length > 60 for length in total.lengths)
    print(f"\nProtocols in ports/: {ports.protocols}, in the whole package: {total.protocols}.")
    print(
        f"Lines of a function: median {percentile(total.lengths, 0.5)}, "
        f"90th percentile {percentile(total.lengths, 0.9)}, "
        f"99th {percentile(total.lengths, 0.99)}, longest {max(total.lengths)}; "
        f"{long} above 60."
    )


if __name__ == "__main__":
    main()
