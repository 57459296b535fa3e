"""How long the page of a sweep takes to open, and to filter its cells, in headless Chromium.

    python benchmarks/sweep_page.py [--cells 10000] [--rounds 5]

It needs `playwright`, and a Chromium. The cells are made without processes.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Browser, sync_playwright
from sweep_cells import save_model

from polygraphy.adapters.fake import ScriptedEngine
from polygraphy.adapters.report.session import Session
from polygraphy.binding import bind
from polygraphy.domain.report.document import Recorder
from polygraphy.ports.reporting import Findings
from polygraphy.ports.sweeping import SweepEngine
from polygraphy.sweep import sweep

_RUNNERS = 20
_BROWSER = "/usr/bin/chromium"


def page_of(cells: int, folder: Path) -> Path:
    """Return the page of a sweep with a number of cells, 1% of which fail."""
    for number in range(cells // _RUNNERS):
        save_model(folder / f"model_{number}.onnx", f"model {number}")
    runners = {f"runner{n}": f"--onnxrt --atol {n}" for n in range(1, _RUNNERS + 1)}
    plan = {"models": ["*.onnx"], "reference": "onnx", "runners": runners}
    page, recorder = folder / "page.html", Recorder()
    session = Session(recorder, "text", [str(page)])
    engine = ScriptedEngine(lambda job: {"code": int("/cells/00/" in job.stem)})
    with bind(SweepEngine, engine, "local"), bind(Findings, recorder):
        sweep(plan, str(folder / "results"), str(folder))
    session.close(1)
    return page


def time_page(browser: Browser, page: Path, cells: int) -> dict[str, float]:
    """Return the seconds until the page shows its cells, and the results of two filters."""
    tab = browser.new_page()
    took: dict[str, float] = {}

    def timed(what: str, act: Any, selector: str) -> None:
        """Measure an action until a selector matches."""
        start = time.perf_counter()
        act()
        tab.wait_for_selector(selector, state="attached")
        took[what] = time.perf_counter() - start

    words = "#cells .filter"
    timed("open", lambda: tab.goto(page.as_uri()), f"#cells .count:has-text('of {cells}')")
    timed("first filter", lambda: tab.fill(words, "model_7.onnx runner"),
          f"#cells .count:text-is('{_RUNNERS} of {cells}')")  # fmt: skip
    timed("next filter", lambda: tab.fill(words, "model_8.onnx runner7"),
          f"#cells .count:text-is('1 of {cells}')")  # fmt: skip
    tab.close()
    return took


def main() -> None:
    """Print the times of a page with many cells in a browser."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--page", type=Path, help="one that was made before")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        page = args.page or page_of(args.cells, Path(name))
        browser_path = _BROWSER if Path(_BROWSER).exists() else None
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        rounds = [time_page(browser, page, args.cells) for _ in range(args.rounds)]
        browser.close()
        load = os.getloadavg()[0]
        print(f"{args.cells} cells, {page.stat().st_size / 1e6:.1f} MB, load {load:.0f}")
        for what in rounds[0]:
            times = [figures[what] for figures in rounds]
            print(f"{what:14} {median(times):.2f} s (best {min(times):.2f} s)")
        print(json.dumps(rounds))


if __name__ == "__main__":
    main()
