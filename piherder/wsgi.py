"""WSGI entry for gunicorn."""

from django.core.wsgi import get_wsgi_application

from piherder.env import use_settings

use_settings()
application = get_wsgi_application()
