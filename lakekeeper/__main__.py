"""``python -m lakekeeper``: the command where its script is not on PATH, and the file that spark-submit runs."""

from __future__ import annotations

import sys
from pathlib import Path

# spark-submit puts the folder of this file first, where Python would find our modules under the names of others.
sys.path[:] = [place for place in sys.path if Path(place) != Path(__file__).parent]

from lakekeeper.cli.app import main  # noqa: E402 - see above

if __name__ == "__main__":
    sys.exit(main())
