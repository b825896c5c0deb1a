"""What this package needs of Spark and Java, checked before either prints a stack trace."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stele.env.java import find_java
from stele.errors import InvalidArgument, NotFound

SPARK_MIN = (4, 0)
"""The first version with Arrow batches in Python data sources."""

_VERSION = re.compile(r"(\d+)\.(\d+)")


def parse_version(text: str) -> tuple[int, int]:
    """The first two numbers of a version of Spark."""
    found = _VERSION.match(text)
    if found is None:
        raise InvalidArgument(f"Spark calls its version {text!r}, which this program cannot read")
    return int(found[1]), int(found[2])


def check_spark(version: str, where: str) -> tuple[int, int]:
    """The version, or one sentence that says which one is needed."""
    parsed = parse_version(version)
    if parsed < SPARK_MIN:
        raise InvalidArgument(
            f"{where} is Spark {version}, and Stele needs {SPARK_MIN[0]}.{SPARK_MIN[1]} or newer: "
            f"pip install 'steledb[spark]' there"
        )
    return parsed


def installed_spark() -> str:
    """The version of the PySpark that is installed here, fit for use."""
    try:
        import pyspark
    except ImportError:
        raise NotFound("PySpark is not installed here: pip install 'steledb[spark]'") from None
    version = str(pyspark.__version__)
    check_spark(version, "PySpark here")
    return version


def check_java(environ: Mapping[str, str] | None = None) -> None:
    """``NotFound`` with one clear sentence unless Spark would find a Java that it runs on."""
    find_java(environ)
