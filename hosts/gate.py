"""The engine's way to a host."""


def install() -> None: ...
