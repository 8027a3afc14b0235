"""Primitives for text output: aligned tables, units, bars, charts and a small HTML wrapper.

Imports nothing else from the core.
"""
