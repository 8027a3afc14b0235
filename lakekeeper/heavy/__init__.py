"""Heavy tasks of automatic runs in a Spark application of their own; loaded only if ``heavy.master`` is set.

pass ─► HeavyTasks ─► Lane ─► HeavyProcess ═══ lines of JSON ═══► application ─► api.Table
        (one pass)    (one service)         (one child process)
"""
