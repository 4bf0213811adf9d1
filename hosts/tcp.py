"""Whether TCP ports answer, for hundreds of hosts at once."""

import errno
import ipaddress
import selectors
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack

Endpoint = tuple[str, int]


def tcp_open(endpoints: Sequence[Endpoint], timeout: float = 2.0) -> list[bool]:
    """Which of the endpoints (address or name, port) accept a connection, in their order.

    All are tried at the same time; names are looked up first, and each of the two steps takes at most ``timeout``
    seconds.
    """
    wanted = list(dict.fromkeys(endpoints))
    addresses = _resolve(wanted, timeout)
    answered = _connect_all(addresses, timeout)
    return [endpoint in answered for endpoint in endpoints]


def _resolve(endpoints: Sequence[Endpoint], timeout: float) -> dict[Endpoint, str]:
    """An IP address for each endpoint that has one; a slow name service is not waited for beyond ``timeout``."""
    found = {endpoint: endpoint[0] for endpoint in endpoints if _is_ip(endpoint[0])}
    names = [endpoint for endpoint in endpoints if endpoint not in found]
    if not names:
        return found
    pool = ThreadPoolExecutor(min(32, len(names)), thread_name_prefix="resolve")
    futures = {pool.submit(_first_address, *endpoint): endpoint for endpoint in names}
    done, _ = wait(futures, timeout)
    pool.shutdown(wait=False, cancel_futures=True)
    return found | {futures[future]: address for future in done if (address := future.result())}


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _first_address(name: str, port: int) -> str:
    try:
        return str(socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0][4][0])
    except (OSError, UnicodeError):
        return ""


def _connect_all(addresses: dict[Endpoint, str], timeout: float) -> set[Endpoint]:
    answered: set[Endpoint] = set()
    deadline = time.monotonic() + timeout
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for endpoint, address in addresses.items():
            link = stack.enter_context(socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET))
            link.setblocking(False)
            if link.connect_ex((address, endpoint[1])) in (0, errno.EINPROGRESS):
                selector.register(link, selectors.EVENT_WRITE, endpoint)
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                answered |= _verdict(key)
                selector.unregister(key.fileobj)
    return answered


def _verdict(key: selectors.SelectorKey) -> set[Endpoint]:
    assert isinstance(key.fileobj, socket.socket)
    failed = key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return set() if failed else {key.data}
