"""The second step of a login: a code of an authenticator app (TOTP, RFC 6238), or one of ten recovery codes.

Between the two steps nobody is logged in: the session only remembers, for ten minutes, whose password was right. So no
door has to ask whether a session is a whole one; `duty` ends those that are not. `Rules.second_step_from` makes the
step a duty from a moment on; the account that a request comes with carries that moment, see `RoleBackend.get_user`.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

from django.contrib import auth
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django_otp import DEVICE_ID_SESSION_KEY

from hosts.vault import seal
from piherder.accounts.models import Authenticator, RecoveryCode, Rules

if TYPE_CHECKING:
    from datetime import datetime

    from django.http import HttpRequest

HALF = "half_logged_in"
PATIENCE = 600  # seconds between the two steps
KEY_BYTES = 20  # as long as the hash of RFC 4226, section 4
CODES = 10
ISSUER = "PiHerder"


def authenticator_of(user: User) -> Authenticator | None:
    """The app that an account's codes come from; None when it has no second step."""
    found: Authenticator | None = Authenticator.objects.filter(user=user, confirmed=True).first()
    return found


def begin(user: User) -> Authenticator:
    """A new key, in the place of one that was begun and never confirmed. Raises SealBroken."""
    key = secrets.token_bytes(KEY_BYTES)
    anew = {"name": "authenticator app", "key_sealed": seal(key.hex()), "last_step": -1}
    begun: tuple[Authenticator, bool] = Authenticator.objects.update_or_create(
        user=user, confirmed=False, defaults=anew
    )
    return begun[0]


def address_for_app(authenticator: Authenticator, place: str) -> str:
    """What the QR code says (otpauth://, "Key Uri Format" of Google Authenticator); `place` tells herders apart."""
    account = quote(f"{authenticator.user.get_username()}@{place}", safe="")
    return f"otpauth://totp/{ISSUER}:{account}?secret={spelled(authenticator).replace(' ', '')}&issuer={ISSUER}"


def spelled(authenticator: Authenticator) -> str:
    """The key in groups of four letters, to be typed into an app. Raises SealBroken."""
    text = base64.b32encode(authenticator.key).decode("ascii")
    return " ".join(text[start : start + 4] for start in range(0, len(text), 4))


def confirm(user: User, code: str) -> list[str] | None:
    """Take the begun authenticator into use, when `code` is from it; its recovery codes, or None.

    One that was in use before goes. Raises SealBroken.
    """
    with transaction.atomic():
        begun = Authenticator.objects.select_for_update().filter(user=user, confirmed=False).first()
        if begun is None or not begun.verify_token(code):
            return None
        Authenticator.objects.filter(user=user, confirmed=True).delete()
        begun.confirmed = True
        begun.save(update_fields=["confirmed"])
        return new_codes(user)


def new_codes(user: User) -> list[str]:
    """Ten recovery codes in the place of those before; only what proves them is kept."""
    codes = [_code() for _ in range(CODES)]
    with transaction.atomic():
        RecoveryCode.objects.filter(user=user).delete()
        RecoveryCode.objects.bulk_create(RecoveryCode(user=user, digest=_digest(code)) for code in codes)
    return codes


def _code() -> str:
    """80 random bits, like "abcd-efgh-ijkl-mnop": too many to be found from their hash."""
    text = base64.b32encode(secrets.token_bytes(10)).decode("ascii").lower()
    return "-".join(text[start : start + 4] for start in range(0, 16, 4))


def _digest(code: str) -> str:
    """How a code is kept, however it was typed."""
    return hashlib.sha256("".join(code.lower().split()).replace("-", "").encode()).hexdigest()


def accepts(user: User, code: str) -> bool:
    """Whether a code is right for this account; it never is a second time. Raises SealBroken."""
    plain = "".join(code.split())
    if len(plain) > 6:
        return RecoveryCode.objects.filter(user=user, digest=_digest(plain)).delete()[0] == 1
    found = authenticator_of(user)
    return found is not None and found.verify_token(plain)


def codes_left(user: User) -> int:
    """How many recovery codes are not used."""
    return RecoveryCode.objects.filter(user=user).count()


def remove(user: User) -> bool:
    """Take the second step off an account; False when it had none."""
    with transaction.atomic():
        RecoveryCode.objects.filter(user=user).delete()
        return bool(Authenticator.objects.filter(user=user).delete()[0])


# --- the duty


def require_in(days: int | None) -> None:
    """Make the second step a duty so many days from now; None ends the duty."""
    moment = None if days is None else timezone.now() + timedelta(days=days)
    Rules.objects.update_or_create(pk=1, defaults={"second_step_from": moment})


def is_duty(moment: datetime | None) -> bool:
    """Whether `Rules.second_step_from` has come."""
    return moment is not None and moment <= timezone.now()


# --- between the steps


def is_done(request: HttpRequest) -> bool:
    """Whether this session went through the second step that its account has now."""
    here = Authenticator(pk=getattr(request.user, "authenticator_id", None))
    return here.pk is not None and request.session.get(DEVICE_ID_SESSION_KEY) == here.persistent_id


def hold_back(request: HttpRequest, user: User) -> None:
    """Remember whose password was right; `user` comes from `authenticate`."""
    request.session.cycle_key()
    request.session[HALF] = {"user": user.pk, "proof": user.get_session_auth_hash(), "at": time.time()}


def held_back(request: HttpRequest) -> User | None:
    """Whose password was right a moment ago; None for nobody, or when it was changed since."""
    half = request.session.get(HALF)
    if not half or abs(time.time() - half["at"]) > PATIENCE:
        return None
    user = User.objects.filter(pk=half["user"], is_active=True).first()
    return user if user and constant_time_compare(user.get_session_auth_hash(), half["proof"]) else None


def log_in(request: HttpRequest, user: User) -> None:
    """The end of the second step."""
    request.session.pop(HALF, None)
    user.otp_device = authenticator_of(user)  # type: ignore[attr-defined]  # django-otp's receiver writes it down
    auth.login(request, user, backend="piherder.accounts.roles.RoleBackend")
