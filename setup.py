"""Builds what is shipped beside the sources: compiled templates, the texts of help, and stubs of
modules that have another address.

The metadata is in setup.cfg. A working tree (an editable installation) goes without: templates are
then compiled when they are rendered, and help is made from the declarations of the options.
"""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent


class BuildWithCompiled(build_py):
    """Copies the modules, then compiles templates and help texts beside them, and the man page."""

    def run(self) -> None:
        """Build."""
        super().run()
        if not self.editable_mode:
            sys.path.insert(0, str(ROOT))
            from polygraphy import __version__, addresses
            from polygraphy.cli import help as help_texts
            from polygraphy.cli.reference import man
            from polygraphy.codegen import render

            for name in addresses.ADDRESSES:
                stub = Path(self.build_lib, *name.split(".")).with_suffix(".pyi")
                stub.write_text(addresses.stub_of(name), encoding="utf-8")
            render.write_compiled(Path(self.build_lib) / "polygraphy")
            help_texts.write_descriptions(Path(self.build_lib) / "polygraphy" / "cli")
            page = Path(self.build_lib).parent / "polygraphy.1"
            descriptions = list(help_texts.describe_all().values())
            page.write_text(man(descriptions, __version__), encoding="utf-8")
            self.distribution.data_files = [("share/man/man1", [str(page)])]


setup(cmdclass={"build_py": BuildWithCompiled})
