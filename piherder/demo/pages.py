"""A look at the pages as a browser has it: the login form, the printed password, the page behind it."""

from __future__ import annotations

import re
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

from piherder.demo.proof import Disproved

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

SECONDS = 20.0  # for one page; the first one after a start is slow
TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


def sign_in(address: str, user: str, password: str) -> str:
    """The jobs page of a person who signed in with this password, asked for without any proxy.

    Raises Disproved in words. `address` ends with a slash.
    """
    opener = build_opener(ProxyHandler({}), HTTPCookieProcessor(CookieJar()))
    form = _fetch(opener, f"{address}login/")
    token = TOKEN.search(form)
    if token is None:
        raise Disproved(f"{address}login/ shows no login form")
    words = {"username": user, "password": password, "csrfmiddlewaretoken": token[1]}
    _fetch(opener, f"{address}login/", urlencode(words).encode())
    page = _fetch(opener, f"{address}jobs/")
    if 'name="password"' in page:
        raise Disproved(f"the printed password does not open {address}")
    return page


def _fetch(opener: OpenerDirector, address: str, data: bytes | None = None) -> str:
    try:
        with opener.open(address, data, timeout=SECONDS) as page:
            found: bytes = page.read()
    except OSError as error:
        reason = str(error).splitlines()[0].rstrip(". :")
        raise Disproved(f"the page {address} does not answer: {reason}") from None
    return found.decode(errors="replace")
