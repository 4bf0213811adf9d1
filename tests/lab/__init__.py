"""A lab of real hosts: an engine of our own, Debian with systemd in it. `python -m tests.lab up|down` by hand."""
