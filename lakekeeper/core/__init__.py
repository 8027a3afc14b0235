"""The pure core: values in, values out. No clock, no disk, no randomness, no Spark.

simulation   policies on simulated tables
planning     what to merge
cost         what queries read, and what a merge costs
layout       how blocks lie along the cluster key
workload     what queries ask for
config       options
vacuum       what may be deleted
model        blocks, keys, plans, reports
text         text output

A package imports only packages below it.
"""
