"""Settings of an installation; every value that differs between installations comes from `env.py`."""

from __future__ import annotations

import logging.config
from datetime import timedelta
from pathlib import Path
from typing import Any

from piherder import addresses, env
from piherder.key_file import KeyFile

BASE_DIR = Path(__file__).resolve().parent.parent
DATA = env.data_folder()
SECRET_KEY = env.text("PIHERDER_SECRET_KEY") or env.secret_file("django.key")
# The first seals, all open: the newest stands first while keys are rotated. The file is made by `keys.require`.
PIHERDER_MASTER_KEYS = env.words("PIHERDER_MASTER_KEYS") or KeyFile(DATA / "master.key")
DEBUG = env.flag("PIHERDER_DEBUG")
# The address that people open: names, origins, cookies and links follow from it.
PIHERDER_URL = addresses.origin(env.text("PIHERDER_URL"))
PIHERDER_TRUSTED_PROXIES = addresses.proxies(env.words("PIHERDER_TRUSTED_PROXIES"))
IS_TLS = PIHERDER_URL.startswith("https:")
ALLOWED_HOSTS = [*addresses.LOOPBACK, *map(addresses.allowed, env.words("PIHERDER_HOSTS"))]
CSRF_TRUSTED_ORIGINS = []
CSRF_FAILURE_VIEW = "piherder.front.csrf_failure"
if PIHERDER_URL:
    ALLOWED_HOSTS.append(addresses.name_of(PIHERDER_URL))
    CSRF_TRUSTED_ORIGINS.append(PIHERDER_URL)

INSTALLED_APPS = [
    "piherder.accounts.apps.HerderAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "django_celery_beat",
    "django_celery_results",
    "axes",
    "django_otp",
    "jobs",
    "hosts",
    "stacks",
    "piherder",
]

MIDDLEWARE = [
    "piherder.front.TrustedProxies",
    "django.middleware.security.SecurityMiddleware",
    "piherder.csp.ContentSecurityPolicy",
    "piherder.front.KnownHost",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "piherder.accounts.login_required.LoginRequired",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "piherder.accounts.duty.SecondStepDuty",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "piherder.urls"
WSGI_APPLICATION = "piherder.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "piherder" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "jobs.pages.engine",
                "piherder.front.encryption",
            ],
        },
    },
]

SQLITE_OPTIONS: dict[str, Any] = {
    # IMMEDIATE takes the write lock when a transaction begins: a read snapshot that is upgraded later fails at once
    # with "database is locked", whatever the time-out. FULL, because a job's claim must survive a power cut (P4).
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL;",
}
POSTGRESQL_OPTIONS: dict[str, Any] = {"connect_timeout": 5, "tcp_user_timeout": 10_000}


def _database() -> dict[str, Any]:
    found = env.database()
    # A connection lives on between jobs and requests, and is tried before it is used again.
    shared = {"NAME": found.name, "CONN_HEALTH_CHECKS": True, "CONN_MAX_AGE": 600}
    if found.engine == "sqlite3":
        return {**shared, "ENGINE": "django.db.backends.sqlite3", "OPTIONS": SQLITE_OPTIONS}
    return {
        **shared,
        "ENGINE": "django.db.backends.postgresql",
        "USER": found.user,
        "PASSWORD": found.password,
        "HOST": found.host,
        "PORT": found.port,
        "OPTIONS": {**POSTGRESQL_OPTIONS, **dict(found.options)},
    }


DATABASES = {"default": _database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTHENTICATION_BACKENDS = ["piherder.accounts.limits.Limits", "piherder.accounts.roles.RoleBackend"]
AXES_HANDLER = "piherder.accounts.limits.Handler"
AXES_CLIENT_IP_CALLABLE = "piherder.accounts.limits.address_of"
AXES_LOCKOUT_CALLABLE = "piherder.accounts.limits.locked_page"
AXES_ENABLE_ADMIN = AXES_VERBOSE = False
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "jobs"
LOGOUT_REDIRECT_URL = "login"

LANGUAGE_CODE = "en-gb"
TIME_ZONE = env.zone("TZ", "UTC")
USE_I18N = False
USE_TZ = True

STATIC_URL = "static/"
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

# Browsers keep cookies by a machine's name whatever the port, where other Django programs have theirs, and let no page
# without TLS replace one that came with it.
SESSION_COOKIE_NAME = "piherder_session_tls" if IS_TLS else "piherder_session"
CSRF_COOKIE_NAME = "piherder_csrf_tls" if IS_TLS else "piherder_csrf"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = IS_TLS
SECURE_SSL_REDIRECT = False
SECURE_HSTS_SECONDS = 31_536_000 if IS_TLS else 0
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SILENCED_SYSTEM_CHECKS = [
    # Plain http on a LAN or through `ssh -L` is a supported way in; PIHERDER_URL turns these on.
    *("security.W004", "security.W008", "security.W012", "security.W016"),
    # HSTS for subdomains and preload lists are the owner's decision about a domain, not ours.
    *("security.W005", "security.W021"),
]

# --- the engine -------------------------------------------------------------------------------------------------

PIHERDER_INSTALL_ID = env.text("PIHERDER_INSTALL_ID") or env.secret_file("install.id")
PIHERDER_BACKUPS = Path(env.text("PIHERDER_BACKUPS", str(DATA / "backups")))
# The herder's own backup: where its archives lie, how many stay, and whose first line encrypts them.
PIHERDER_ARCHIVES = Path(env.text("PIHERDER_ARCHIVES", str(DATA / "herder-backups"))).expanduser()
PIHERDER_ARCHIVES_KEEP = env.number("PIHERDER_ARCHIVES_KEEP", 14, 1, 1000)
PIHERDER_ARCHIVE_PASSPHRASE_FILE = (
    Path(env.text("PIHERDER_ARCHIVE_PASSPHRASE_FILE")).expanduser()
    if env.text("PIHERDER_ARCHIVE_PASSPHRASE_FILE")
    else None
)
PIHERDER_LOGS = DATA / "job-logs"
PIHERDER_RUNTIME = Path(env.text("PIHERDER_RUNTIME", str(DATA / "run")))
PIHERDER_REDIS_URL = env.redis_url()
PIHERDER_SERVER_LOCK_TTL = env.number("PIHERDER_SERVER_LOCK_TTL", 60, 6, 86_400)
PIHERDER_LOCK_WAIT_SEC = env.number("PIHERDER_LOCK_WAIT_SEC", 10_800, 30, 604_800)
PIHERDER_EXCLUSIVE_HOST_WAIT_SEC = (
    env.number("PIHERDER_EXCLUSIVE_HOST_WAIT_SEC", 1800, 30, 86_400)
    if env.text("PIHERDER_EXCLUSIVE_HOST_WAIT_SEC")
    else None
)
PIHERDER_RESERVED_SLOTS = env.number("PIHERDER_RESERVED_SLOTS", 1, 0, 64)
PIHERDER_DRAIN_GRACE_SEC = env.number("PIHERDER_DRAIN_GRACE_SEC", 20, 0, 7200)
PIHERDER_BEAT_SEC = env.number("PIHERDER_BEAT_SEC", 5, 1, 30)  # a worker's heartbeat
# A worker that has not beaten for so long is dead.
PIHERDER_SILENCE_SEC = env.number("PIHERDER_SILENCE_SEC", 4 * PIHERDER_BEAT_SEC, 3 * PIHERDER_BEAT_SEC, 600)
PIHERDER_PROBE_SEC = env.number("PIHERDER_PROBE_SEC", 30, 1, 600)  # between two looks at a host that was down
# A clock that is right although nothing on this machine says so (a virtual machine, say): retention asks nothing then.
PIHERDER_CLOCK_TRUSTED = env.flag("PIHERDER_CLOCK_TRUSTED")
PIHERDER_TEST_KINDS = env.flag("PIHERDER_TEST_KINDS")  # registers `noop` and `sleep`

CELERY_BROKER_URL = env.broker_url()
CELERY_RESULT_BACKEND = "django-db"
CELERY_RESULT_EXPIRES = timedelta(days=7)
CELERY_TASK_SERIALIZER = CELERY_RESULT_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_DEFAULT_QUEUE = "celery"
CELERY_TIMEZONE = TIME_ZONE
CELERY_ENABLE_UTC = True
CELERY_TASK_IGNORE_RESULT = True  # the job row holds the truth; beat's chores ask for a result themselves
CELERY_TASK_TRACK_STARTED = True
CELERY_TASK_ACKS_LATE = True
# A poison task would be started again without end; the row is failed instead.
CELERY_TASK_REJECT_ON_WORKER_LOST = False
CELERY_TASK_TIME_LIMIT = 7200
CELERY_TASK_SOFT_TIME_LIMIT = 7140
CELERY_WORKER_CONCURRENCY = env.number("CELERY_CONCURRENCY", 2, 1, 64)
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# A reserved message ages towards its visibility time-out while it waits for a slot, and is then delivered twice.
CELERY_WORKER_DISABLE_PREFETCH = True
CELERY_WORKER_MAX_TASKS_PER_CHILD = 500
# Without it Celery closes the database after every task, and each job pays for a new connection.
CELERY_DB_REUSE_MAX = 500
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
VISIBILITY = env.number("PIHERDER_VISIBILITY_SEC", 10_800, 5, 604_800)
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": VISIBILITY,
    # Looks for messages past their time-out every 10 s times this. Each look is a write, which an SD card pays for.
    "unacked_restore_throttle": 1 if VISIBILITY < 600 else 10,
    "socket_timeout": 5,
    "socket_connect_timeout": 5,
    "max_retries": 1,
}
CELERY_BEAT_SCHEDULER = "jobs.beat:LeaderScheduler"
CELERY_BEAT_MAX_LOOP_INTERVAL = 2
DJANGO_CELERY_BEAT_TZ_AWARE = True

LOGGING_CONFIG = None
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    # What it cannot do reaches us as an exception and is told once, in our words.
    "loggers": {"paramiko": {"level": "CRITICAL"}},
    "root": {"handlers": ["stderr"], "level": env.log_level("PIHERDER_LOG_LEVEL", "INFO")},
}
logging.config.dictConfig(LOGGING)
