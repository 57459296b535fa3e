"""Uses the domain objects with no backend installed: tolerances, results, profiles, tactics."""

from __future__ import annotations

import numpy as np

from polygraphy.domain.compare import OutputCompareResult, SimpleCompareFunc
from polygraphy.domain.results.results import RunResults
from polygraphy.domain.tactics import Algorithm, TacticReplay, TensorInfo
from polygraphy.domain.tensors.profile import Profile


def judge() -> OutputCompareResult:
    """Compare a half-precision output with its reference."""
    reference = np.linspace(0, 1, 1000, dtype=np.float32).reshape(10, 100)
    candidate = reference.astype(np.float16)
    results = RunResults()
    results.add([{"y": candidate}], runner_name="candidate")
    results.add([{"y": reference}], runner_name="reference")
    [half], [full] = results["candidate"], results["reference"]
    verdict = SimpleCompareFunc(rtol=1e-4, atol=1e-5)(half, full)["y"]
    assert isinstance(verdict, OutputCompareResult)
    return verdict


def differing_layers() -> list[str]:
    """Return the layers for which two builds selected different tactics."""
    linear = TensorInfo("float32", (4, 2, 1), -1, 1)
    good = TacticReplay().add("conv1", Algorithm(1, 10, [linear], [linear]))
    bad = TacticReplay().add("conv1", Algorithm(1, 11, [linear], [linear]))
    return list(good.difference(bad))


def main() -> None:
    verdict = judge()
    found = verdict.mismatches
    print("within tolerance:", bool(verdict))
    assert found is not None and found.worst is not None
    print(f"{found.count} of {found.size} elements exceed {verdict.thresholds}")
    print(
        f"the worst is at {found.worst.index}: {found.worst.value} instead of"
        f" {found.worst.reference}"
    )

    profile = Profile().add("image", min=(1, 3, 64, 64), opt=(4, 3, 224, 224), max=(8, 3, 512, 512))
    print("fits the profile:", not profile.misfits({"image": (2, 3, 224, 224)}))

    print("layers that were built differently:", differing_layers())


if __name__ == "__main__":
    main()
