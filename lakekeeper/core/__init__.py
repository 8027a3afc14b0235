"""The pure core: values in, values out. No clock, no disk, no randomness, no Spark.

simulation   policies on simulated tables
planning     what to merge
cost         what queries read, and what a merge costs
layout       the layout of blocks along the cluster key
workload     what queries filter by
config       options
vacuum       what may be deleted
model        blocks, keys, plans, reports
text         text output

A package imports only packages below it.
"""
