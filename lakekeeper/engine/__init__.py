"""Imperative, format-free, Spark-free: plans are carried out, committed and reported here."""
