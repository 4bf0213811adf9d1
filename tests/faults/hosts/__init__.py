"""Faults of hosts, of rsync and of the backup disk, met by the real kinds over the real way to a host.

`machine.py` is one throw-away host with a source and a last good generation; after every test `conftest.py` checks both
sides of it, that this generation is as it was, and that the next backup is good.
"""
