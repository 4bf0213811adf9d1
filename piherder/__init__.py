"""The installation: settings, Celery application, pages, commands."""

from piherder.celery import app as celery_app

__all__ = ("celery_app",)
