"""Print the version of Stele, of Python and of the libraries it stands on."""

from __future__ import annotations

import platform
from argparse import ArgumentParser, Namespace
from importlib import metadata

from stele import __version__
from stele.cli import exit_codes
from stele.cli.output import Output, columns

LIBRARIES = ("pyarrow", "numba", "numpy", "msgspec", "pyspark")
"""What a report of a problem should name; pyspark only where it is installed."""


def configure(_parser: ArgumentParser) -> None:
    """Nothing to choose."""


def run(_arguments: Namespace, output: Output) -> int:
    """Print the versions, without importing what they belong to."""
    versions = {"stele": __version__, "python": platform.python_version()}
    for library in LIBRARIES:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    output.result(versions, columns(list(versions.items())))
    return exit_codes.DONE
