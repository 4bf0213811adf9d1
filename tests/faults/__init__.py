"""Faults provoked for real, over one harness.

`herd.py` runs real workers, beats and web processes on a database, a Redis and a folder of their own; `points.py` kills
or halts them at named points of the engine; `matter.py` lists the kinds that go through the matrix (a later kind is one
more entry there). After every test `conftest.py` checks that nothing is left and that the same request works.
"""
