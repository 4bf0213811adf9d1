"""Compose projects on the hosts."""
