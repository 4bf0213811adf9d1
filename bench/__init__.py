"""Benchmarks: PiHerder beside raw Celery, plain rsync and ansible, each pair measured in one run."""
