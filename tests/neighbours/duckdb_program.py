"""A query for the Python that has DuckDB: prints its rows as JSON.

    python duckdb_program.py parquet,avro,delta "SELECT …"

Imports nothing of this project: it runs in an environment of its own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb
import duckdb_ext


def main() -> None:
    connection = duckdb.connect()
    packaged = Path(next(iter(duckdb_ext.__path__)))
    for name in sys.argv[1].split(","):
        (extension,) = packaged.rglob(f"{name}.duckdb_extension")
        connection.load_extension(str(extension))
    print(json.dumps(connection.execute(sys.argv[2]).fetchall()))


if __name__ == "__main__":
    main()
