"""Finding a Java for Spark, and saying what to do when there is none.

Spark starts ``$JAVA_HOME/bin/java``, or the first ``java`` on the path, and ends with a stack trace
when it is missing or too old. Whoever is about to start Spark asks here first, so that the user
reads one sentence instead.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from stele.errors import NotFound

JAVA_MAJOR_MIN = 17
"""The oldest Java that Spark 4 runs on."""

ANSWER_SECONDS_MAX = 30.0
"""How long a JVM may take to print its version; a cold one on a busy machine needs seconds."""

ADVICE = (
    f"install a JDK {JAVA_MAJOR_MIN} or newer (on Debian or Ubuntu: "
    f"apt install openjdk-{JAVA_MAJOR_MIN}-jre-headless) or point JAVA_HOME at one"
)

_VERSION = re.compile(r'version "(?:1\.)?(\d+)([^"]*)"')


@dataclass(frozen=True)
class Java:
    """A Java that answered: where it is, and what it calls itself."""

    path: str
    version: str
    major: int


def parse_version(banner: str) -> tuple[int, str] | None:
    """The major and full version in what ``java -version`` printed, or None if it is not there."""
    found = _VERSION.search(banner)
    if found is None:
        return None
    return int(found.group(1)), found.group(1) + found.group(2)


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """The Java that Spark would start; ``NotFound`` with one clear sentence if it would not."""
    environ = os.environ if environ is None else environ
    path = _path(environ)
    try:
        answer = subprocess.run(  # noqa: S603 -- the user's own Java, as Spark would start it
            [path, "-version"],
            check=False,
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS_MAX,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotFound(f"Spark needs Java, and {path} does not start: {ADVICE}") from error
    version = parse_version(answer.stderr + answer.stdout)
    if version is None:
        raise NotFound(f"Spark needs Java, and {path} does not tell its version: {ADVICE}")
    if version[0] < JAVA_MAJOR_MIN:
        raise NotFound(f"Spark needs Java {JAVA_MAJOR_MIN}, and {path} is {version[1]}: {ADVICE}")
    return Java(path, version[1], version[0])


def _path(environ: Mapping[str, str]) -> str:
    home = environ.get("JAVA_HOME")
    if home:
        return os.path.join(home, "bin", "java")
    path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if path is None:
        raise NotFound(f"Spark needs Java, and there is none here: {ADVICE}")
    return path
