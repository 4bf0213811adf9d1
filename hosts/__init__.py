"""Machines: credentials, SSH, rsync, the backup store, and the families of work done on a host."""
