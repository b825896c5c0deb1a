"""Stop with one sentence when there is no Java that Spark could start."""

from __future__ import annotations

import sys

from stele.env.java import find_java
from stele.errors import SteleError


def main() -> int:
    """0 when Spark can start; 1, and what to do about it, when it cannot."""
    try:
        find_java()
    except SteleError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
