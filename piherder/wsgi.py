"""WSGI entry for gunicorn."""

import sys

from django.core.wsgi import get_wsgi_application

from piherder.env import BadEnvironment, use_settings

BOOT_ERROR = 3  # gunicorn ends at this exit code of a worker, and starts it anew for ever at any other (arbiter.py)

use_settings()
try:
    application = get_wsgi_application()
except BadEnvironment as refusal:
    print(refusal, file=sys.stderr, flush=True)
    sys.exit(BOOT_ERROR)
