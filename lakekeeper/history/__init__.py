"""The history of maintenance: which operation did what to which table, when, and at what cost.

operation    one call of a verb on a table as a value, and how a report becomes one
store        operations in one SQLite file, shared by processes
recorder     writes an operation when it ends; a failure of the store is logged and never the operation's
history      what ``history`` and ``lakekeeper history`` show
status       what ``lakekeeper status`` shows
costs        what ``cost`` and ``lakekeeper cost`` show

May import ``lakekeeper.spi``, ``lakekeeper.core`` and ``lakekeeper.errors``.
"""
