"""Automatic runs as values: what a pass did with each table.

Pure, as all of ``lakekeeper.core``.
"""
