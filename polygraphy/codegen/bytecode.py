"""Keeps what templates were compiled to, where they were not when the package was built."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha1
from pathlib import Path

import jinja2
from jinja2 import FileSystemBytecodeCache
from jinja2.bccache import Bucket


class BytecodeBeside(FileSystemBytecodeCache):
    """Keeps it in the folder in which Python keeps that of modules, under the same conditions.

    What is kept names the versions of Python and Jinja2, and the texts that it was made from: it is
    never used for others.
    """

    def __init__(self, package: Path, modules: Iterable[Path]) -> None:
        """Set which package the templates belong to.

        Args:
            package: its folder.
            modules: what has a say in how templates are compiled.
        """
        super().__init__(str(package / "__pycache__"))
        digest = sha1(jinja2.__version__.encode(), usedforsecurity=False)
        for path in modules:
            digest.update(path.read_bytes())
        self._compiler = digest.hexdigest()

    def get_source_checksum(self, source: str) -> str:
        """Return what tells a template, and how it is compiled, from others."""
        return super().get_source_checksum(self._compiler + source)

    def load_bytecode(self, bucket: Bucket) -> None:
        """Load the code of a template, if it is there and can be used."""
        try:
            super().load_bytecode(bucket)
        except Exception:  # A damaged file may raise anything.
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the code of a template, if files may be written."""
        if sys.dont_write_bytecode:
            return
        with suppress(OSError):
            Path(self.directory).mkdir(exist_ok=True)
            super().dump_bytecode(bucket)
