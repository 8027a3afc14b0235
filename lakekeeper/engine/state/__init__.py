"""Notes that runs keep beside a table: leases of active writers, and the slots that they are written to.

May import ``engine.events``, ``engine.clock`` and ``engine.retries``.
"""
