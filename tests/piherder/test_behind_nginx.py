"""The pages behind a real nginx that speaks TLS, with the example's own configuration."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.sessions.models import Session

from piherder import env
from piherder.accounts.models import SignIn
from piherder.accounts.roles import Role
from piherder.house import ports, stack
from piherder.house.packages import find_command
from piherder.house.processes import wait_until
from tests import people
from tests.faults.process import Process
from tests.jobs.test_race import database_url

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME, RIGHT, SECONDS = "herder.example.org", "correct horse", 60.0
BROWSER = "127.0.0.2"  # not where nginx itself comes from
EXAMPLE = Path(__file__).resolve().parents[2] / "docker/examples/nginx.conf"
NGINX = find_command("nginx")
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(NGINX is None, reason="there is no nginx; make test installs it"),
]


class Proxied:
    """gunicorn as we start it, and nginx before it; a browser that speaks to nginx alone."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.inside, self.outside, self.plain = folder, *(ports.free_port() for _ in range(3))
        there = env.child_environment(
            DATABASE_URL=database_url(),
            PIHERDER_URL=f"https://{NAME}",
            PIHERDER_TRUSTED_PROXIES="127.0.0.1",
            DJANGO_SETTINGS_MODULE="piherder.settings",
        )
        self.web = Process("web", stack.web_command(stack.Options(folder, port=self.inside)), there, folder)
        argv = (str(NGINX), "-c", str(self.configured()), "-p", str(folder), "-g", "daemon off;")
        self.nginx = Process("nginx", argv, env.child_environment(), folder)
        self.cookies: dict[str, str] = {}

    def configured(self) -> Path:
        """The example, with a certificate and ports of this test."""
        key, certificate = self.folder / "key.pem", self.folder / "certificate.pem"
        subject = ("-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}")
        made = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject)
        subprocess.run((*made, "-keyout", str(key), "-out", str(certificate)), check=True, capture_output=True)
        server = re.sub(r"listen \[::\].*\n", "", EXAMPLE.read_text())
        server = server.replace("listen 443", f"listen 127.0.0.1:{self.outside}").replace(":8000", f":{self.inside}")
        server = server.replace("listen 80;", f"listen 127.0.0.1:{self.plain};")
        server = re.sub(r"/etc/ssl\S+\.pem", str(certificate), server)
        server = re.sub(r"/etc/ssl\S+\.key", str(key), server)
        temporary = "".join(
            f"{name}_temp_path {self.folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        user = "user root;" if os.geteuid() == 0 else ""
        whole = f"{user} pid {self.folder}/nginx.pid; error_log {self.folder}/error.log; events {{}}\n"
        path = self.folder / "nginx.conf"
        path.write_text(f"{whole}http {{ access_log off; {temporary}\n{server}\n}}")
        return path

    def begin(self) -> None:
        """Start both, and wait until the pages answer through both."""
        self.web.start()
        self.nginx.start()
        assert wait_until(lambda: self.is_up(), SECONDS), (self.web.output, self.nginx.output)

    def is_up(self) -> bool:
        """Whether the pages answer."""
        try:
            return self.ask("GET", "/health/")[0].status == 200
        except OSError:
            return False

    def close(self) -> None:
        """Stop both."""
        self.nginx.close()
        self.web.close()

    def ask(
        self, method: str, path: str, data: dict[str, str] | None = None, **headers: str
    ) -> tuple[HTTPResponse, str]:
        """An answer and its text; cookies are kept as a browser does."""
        context = ssl.create_default_context(cafile=str(self.folder / "certificate.pem"))
        connection = HTTPSConnection(NAME, timeout=SECONDS, context=context)
        plain = socket.create_connection(("127.0.0.1", self.outside), SECONDS, (BROWSER, 0))
        connection.sock = context.wrap_socket(plain, server_hostname=NAME)
        jar = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        sent = {"Cookie": jar, "Content-Type": "application/x-www-form-urlencoded", "Host": NAME, **headers}
        try:
            connection.request(method, path, urlencode(data or {}), sent)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        for cookie in answer.headers.get_all("Set-Cookie") or []:
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        return answer, text

    def log_in(self, **headers: str) -> HTTPResponse:
        """The answer to the login form, sent as the page has it."""
        page = self.ask("GET", "/login/")[1]
        token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page)[0]
        given = {"username": "someone", "password": RIGHT, "csrfmiddlewaretoken": token}
        return self.ask("POST", "/login/", given, **{"Origin": f"https://{NAME}", **headers})[0]


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[Proxied]:
    """Both of them up, and someone who can log in."""
    user = people.make_user("someone", Role.VIEWER)
    user.password = PBKDF2PasswordHasher().encode(RIGHT, "salt")  # gunicorn has the settings of an installation
    user.save()
    found = Proxied(tmp_path)
    try:
        found.begin()
        yield found
    finally:
        found.close()


def test_a_login_through_tls_is_safe_and_knows_its_sender(proxied: Proxied) -> None:
    answer, page = proxied.ask("GET", "/login/")
    assert "Not encrypted" not in page
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
    assert "Secure" in answer.headers["Set-Cookie"]
    # What the browser claims to be forwarded for is not believed: nginx says who spoke to it.
    answer = proxied.log_in(**{"X-Forwarded-For": "198.51.100.7", "X-Forwarded-Host": "elsewhere.example"})
    assert (answer.status, answer.headers["Location"]) == (302, "/jobs/")
    assert all("Secure" in cookie for cookie in answer.headers.get_all("Set-Cookie") or [])
    assert SignIn.objects.get().address == BROWSER
    assert Session.objects.count() == 1
    assert "not encrypted" not in proxied.ask("GET", "/jobs/")[1]


def test_a_form_from_elsewhere_and_another_name_are_told(proxied: Proxied) -> None:
    assert proxied.log_in(Origin="https://elsewhere.example").status == 403
    answer, page = proxied.ask("GET", "/login/", Host="other.example")
    assert answer.status == 400
    assert "PIHERDER_URL=https://other.example" in page


def test_who_comes_without_tls_is_led_to_the_pages_own_name(proxied: Proxied) -> None:
    connection = HTTPConnection("127.0.0.1", proxied.plain, timeout=SECONDS)
    try:
        connection.request("GET", "/jobs/?page=2", headers={"Host": "elsewhere.example"})
        answer = connection.getresponse()
    finally:
        connection.close()
    assert (answer.status, answer.headers["Location"]) == (301, f"https://{NAME}/jobs/?page=2")


def test_no_other_program_of_this_machine_renames_the_pages(proxied: Proxied) -> None:
    connection = HTTPConnection("127.0.0.1", proxied.inside, timeout=SECONDS)
    try:
        connection.request("GET", "/login/", headers={"SCRIPT_NAME": "/elsewhere"})
        page = connection.getresponse().read().decode()
    finally:
        connection.close()
    assert "PiHerder" in page
    assert "/elsewhere" not in page


def test_the_example_is_read_whole_by_nginx(tmp_path: Path) -> None:
    whole = Proxied(tmp_path).configured()
    done = subprocess.run([str(NGINX), "-t", "-c", str(whole), "-p", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
