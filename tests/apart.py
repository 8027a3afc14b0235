"""Values of each type, as SQL, that must not be confused when rows are compared."""

from __future__ import annotations

APART = {
    "double": ("0.0D", "-0.0D"),
    "float": ("cast('NaN' as float)", "cast('Infinity' as float)"),
    "double null": ("cast(null as double)", "cast('NaN' as double)"),
    "string": ("''", "cast(null as string)"),
    "string length": ("'a'", "'a '"),
    "binary": ("X'00'", "X'0000'"),
    "decimal": ("cast(1.10 as decimal(38,18))", "cast(1.100000000000000001 as decimal(38,18))"),
    "timestamp": ("timestamp_micros(1)", "timestamp_micros(2)"),
    "timestamp_ntz": ("timestamp_ntz'2026-01-01 00:00:00.000001'", "timestamp_ntz'2026-01-01 00:00:00'"),
    "date": ("date'1582-10-04'", "date'1582-10-15'"),
    "boolean": ("true", "cast(null as boolean)"),
    "array": ("array('a', 'b')", "array('ab')"),
    "array of null": ("array(cast(null as int))", "cast(array() as array<int>)"),
    "struct": ("named_struct('a', 'x', 'b', 'yz')", "named_struct('a', 'xy', 'b', 'z')"),
    "struct of null": ("named_struct('a', cast(null as int))", "cast(null as struct<a: int>)"),
    "map": ("map('a', 1, 'b', cast(null as int))", "map('a', 1)"),
    # Not literals: Spark confuses two literal maps of zeros.
    "map of floats": ("map(1, -(0.0D * id))", "map(1, 0.0D * id)"),
    "nested": ("array(map('k', array(1)))", "array(map('k', array(1), 'l', array()))"),
}
"""Type → two of its values."""
