"""Deletion vectors as the log spells them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

VECTOR: dict[str, Any] = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "sizeInBytes": 40,
    "cardinality": 3,
}
VECTORS = st.sampled_from([None, {**VECTOR, "offset": 1}, {**VECTOR, "offset": 9}, VECTOR])
