"""``python -m lakekeeper``: the command where its script is not on PATH, and the file that spark-submit runs."""

from __future__ import annotations

import sys
from pathlib import Path

# spark-submit puts the folder of this file first in sys.path, where our modules would shadow others of the same name.
sys.path[:] = [place for place in sys.path if Path(place) != Path(__file__).parent]

from lakekeeper.cli.app import main  # noqa: E402 - sys.path has to be changed before

if __name__ == "__main__":
    sys.exit(main())
