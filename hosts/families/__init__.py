"""The kinds of work on hosts, one file each. A new kind is one file, one import line here, one test file."""

from hosts.families import backup, backup_verify, host_facts, restore, retention

__all__ = ("backup", "backup_verify", "host_facts", "restore", "retention")
