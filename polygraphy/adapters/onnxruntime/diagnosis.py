"""Which execution providers this installation of ONNX Runtime has."""

from __future__ import annotations

from polygraphy.domain.environment import Section


class OnnxrtDiagnosis:
    """Implements the port `Diagnosis`. The package is imported, because it alone knows, and because
    one that does not load is what a diagnosis is for; it is never installed here.
    """

    def sections(self) -> list[Section]:
        """Return the execution providers, in the package's order of priority."""
        title = "ONNX Runtime Execution Providers"
        try:
            import onnxruntime

            providers = onnxruntime.get_available_providers()
        except ModuleNotFoundError:
            return [Section(title, (), ("None: ONNX Runtime is not installed.",))]
        except Exception as error:  # A shared library that does not load, say.
            message = f"None: ONNX Runtime does not load: {type(error).__name__}: {error}"
            return [Section(title, (), (message,))]
        return [Section(title, tuple((name, "available") for name in providers))]
