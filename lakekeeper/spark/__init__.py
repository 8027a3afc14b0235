"""Spark code that is independent of table formats: sessions, the merge, predicates, names."""
