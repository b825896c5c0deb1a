"""``python -m stele`` is the ``stele`` command."""

from __future__ import annotations

import sys

from stele.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
