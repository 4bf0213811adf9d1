"""The engine: job rows, lanes, claim, run, wait, cancel, sweep. It knows no SSH, no Docker and no kind by name."""
