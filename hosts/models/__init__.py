"""Machines, how they are reached, and what is kept of them."""

from hosts.models.backup import BackupRoot, Generation, GenerationStatus, Source
from hosts.models.host import Credential, FactsSample, Host, HostFacts, HostKey

__all__ = (
    "BackupRoot",
    "Credential",
    "FactsSample",
    "Generation",
    "GenerationStatus",
    "Host",
    "HostFacts",
    "HostKey",
    "Source",
)
