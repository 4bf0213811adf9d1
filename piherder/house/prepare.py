"""Makes a machine and a clone ready for `make run`, `make demo` or `make test`: system packages, then `.venv`.

Run by the system's own python3 as a plain script, before `.venv` exists: standard library only, and readable by
older Pythons, so that they can be told in words. Safe to interrupt and to start again.
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

CLONE = Path(__file__).resolve().parents[2]
VENV = CLONE / ".venv"
PLAIN, DEVELOPER = "requirements.txt", "requirements-dev.txt"
REQUIREMENTS = {"run": PLAIN, "demo": PLAIN, "install": PLAIN, "test": DEVELOPER, "lab": DEVELOPER}
OFFLINE = re.compile(
    r"NewConnectionError|NameResolutionError|Temporary failure in name resolution|Network is unreachable"
    r"|Connection refused|Connection timed out|ReadTimeout|ConnectTimeout|from versions: none"
)


def unsupported(version: tuple[int, int], is_64bit: bool, machine: str, has_apt: bool) -> str:
    """Why this machine cannot be used, as one sentence; "" when it can."""
    if not (3, 11) <= version <= (3, 13):
        found = f"{version[0]}.{version[1]}"
        return f"PiHerder needs Python 3.11, 3.12 or 3.13, this is {found}; name another one with PYTHON=python3.12."
    if not is_64bit or machine not in {"x86_64", "aarch64"}:
        bits = 64 if is_64bit else 32
        return f"PiHerder needs a 64-bit system (x86_64 or aarch64); this one is {machine} with {bits}-bit programs."
    if not has_apt:
        return "PiHerder sets itself up with apt on Debian or Ubuntu, and this machine has no apt-get."
    return ""


def with_includes(path: Path) -> str:
    """Text of a requirements file with those it names by `-r` put in place."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(with_includes(path.parent / x[3:].strip()) if x.startswith("-r ") else x for x in lines)


def stamp_of(requirements: Path, python: str) -> str:
    """Digest that changes with the requirements and with the Python below `.venv`."""
    return hashlib.sha256(f"{python}\n{with_includes(requirements)}".encode()).hexdigest()


def stamp_file(requirements: str) -> Path:
    """Where `.venv` remembers that this requirements file was installed completely."""
    return VENV / f".{requirements}.sha256"


def is_stamped(requirements: str) -> bool:
    """True when `.venv` holds exactly what the file asks for (the development file covers the plain one)."""
    python = sys.version.split()[0]
    for name in {requirements, "requirements-dev.txt"}:
        stamp = stamp_file(name)
        if stamp.is_file() and stamp.read_text().strip() == stamp_of(CLONE / name, python):
            return True
    return False


def venv_works() -> bool:
    """True when `.venv` has a Python of our version that starts and has pip: an interrupted run leaves less."""
    python = VENV / "bin" / "python"
    ask = "import pip, sys; print(sys.version.split()[0])"
    if not python.exists():
        return False
    done = subprocess.run([str(python), "-c", ask], capture_output=True, text=True)
    return done.returncode == 0 and done.stdout.strip() == sys.version.split()[0]


def make_venv() -> None:
    """A fresh `.venv`. Raises SystemExit in words."""
    print("Making .venv …", flush=True)
    done = subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"The virtual environment could not be made: {last_line(done.stdout + done.stderr)}")


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def pip_failure(output: str) -> str:
    """One sentence about what pip printed."""
    if OFFLINE.search(output):
        return (
            "The Python packages could not be fetched: no package index answers; "
            "check the network or pip's configuration and start again."
        )
    errors = [line for line in output.splitlines() if line.startswith("ERROR")]
    return f"The Python packages could not be installed: {(errors or [last_line(output)])[0]}"


def run_with_line(command: list[str], log: Path, text: str) -> bool:
    """Runs a command into a log; on a terminal one line counts the seconds. False when it failed."""
    started, tty = time.monotonic(), sys.stdout.isatty()
    print(f"{text} …", end="" if tty else "\n", flush=True)
    with log.open("w") as handle, subprocess.Popen(command, stdout=handle, stderr=subprocess.STDOUT) as child:
        try:
            while child.poll() is None:
                if tty:
                    print(f"\r{text} … {time.monotonic() - started:.0f} s", end="", flush=True)
                wait_a_second(child)
        except KeyboardInterrupt:
            child.terminate()
            raise
    print(f"{chr(13) if tty else ''}{text}: {time.monotonic() - started:.0f} s", flush=True)
    return child.returncode == 0


def wait_a_second(child: subprocess.Popen[bytes]) -> None:
    """Returns when the child ends, at the latest after a second."""
    try:
        child.wait(timeout=1)
    except subprocess.TimeoutExpired:
        return


def fill_venv(requirements: str) -> None:
    """Installs a requirements file with the user's own pip configuration, and stamps it when complete."""
    for old in VENV.glob(".requirements*.sha256"):
        old.unlink()
    log = VENV / "pip.log"
    command = [str(VENV / "bin/python"), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    if not run_with_line([*command, "-r", str(CLONE / requirements)], log, "Installing the Python packages"):
        sys.exit(f"{pip_failure(log.read_text(errors='replace'))} (whole output: {log})")
    stamp_file(requirements).write_text(stamp_of(CLONE / requirements, sys.version.split()[0]) + "\n")


def main() -> int:
    """`--for run|demo|install|test|lab [ARGS of the target]`; of those only `--yes` counts here."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--for", dest="purpose", choices=sorted(REQUIREMENTS), required=True)
    parser.add_argument("--yes", action="store_true")
    options, _ = parser.parse_known_args()
    has_apt = shutil.which("apt-get") is not None
    reason = unsupported((sys.version_info[0], sys.version_info[1]), sys.maxsize > 2**32, platform.machine(), has_apt)
    if reason:
        sys.exit(reason)
    script = [sys.executable, str(Path(__file__).with_name("packages.py")), "--for", options.purpose]
    code = subprocess.run([*script, "--yes"] if options.yes else script).returncode
    if code:
        return code
    requirements = REQUIREMENTS[options.purpose]
    if not venv_works():
        make_venv()
    if not is_stamped(requirements):
        fill_venv(requirements)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nInterrupted; start again to go on.")
