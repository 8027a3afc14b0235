"""All that touches Spark and no format: sessions, the merge, where clauses, names."""
