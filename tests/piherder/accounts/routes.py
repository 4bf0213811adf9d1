"""Who may use which route: the table. A route that is not in it fails the test."""

from __future__ import annotations

# From whom on, for looking (GET) and for sending (POST). NOBODY: refused whoever asks, or no such method.
ANYONE, VIEWER, OPERATOR, ADMIN, NOBODY = range(5)

PAGES = {
    "start": (VIEWER, NOBODY),
    "login": (ANYONE, ANYONE),
    "second_step_at_login": (ANYONE, ANYONE),  # who did not give a password begins with it
    "set_up_at_login": (ANYONE, ANYONE),
    "logout": (NOBODY, VIEWER),
    "health": (ANYONE, NOBODY),
    "jobs": (VIEWER, NOBODY),
    "job": (VIEWER, NOBODY),
    "job_log": (VIEWER, NOBODY),
    "cancel_job": (NOBODY, OPERATOR),
    "job_again": (NOBODY, OPERATOR),
    "hold": (NOBODY, OPERATOR),
    "release": (NOBODY, OPERATOR),
    "hosts": (VIEWER, NOBODY),
    "run_on_herd": (NOBODY, OPERATOR),
    "host": (VIEWER, NOBODY),
    "run_on_host": (NOBODY, OPERATOR),
    "pause_host": (NOBODY, OPERATOR),
    "resume_host": (NOBODY, OPERATOR),
    "generation": (VIEWER, NOBODY),
    "restore": (NOBODY, OPERATOR),
    "keep_generation": (NOBODY, OPERATOR),
    "let_generation_go": (NOBODY, OPERATOR),
    "account": (VIEWER, NOBODY),
    "password": (VIEWER, VIEWER),
    "second_step": (VIEWER, VIEWER),
    "sign_out_everywhere": (NOBODY, VIEWER),
    "end_session": (NOBODY, ADMIN),  # of someone else
    "accounts": (ADMIN, NOBODY),
    "second_step_duty": (NOBODY, ADMIN),
    "take_off_second_step": (NOBODY, ADMIN),
    "change_role": (NOBODY, ADMIN),
    "keep_out": (NOBODY, ADMIN),
    "let_in": (NOBODY, ADMIN),
    "sign_out": (NOBODY, ADMIN),
    "herder_backups": (VIEWER, NOBODY),
    "back_up_herder": (NOBODY, OPERATOR),
}
ADMINISTRATION = {
    "admin:index": (VIEWER, VIEWER),
    "admin:login": (ANYONE, ANYONE),
    "admin:logout": (NOBODY, VIEWER),
    "admin:password_change": (VIEWER, VIEWER),  # leads to one's own page
    "admin:password_change_done": (VIEWER, NOBODY),
    "admin:autocomplete": (NOBODY, NOBODY),  # no form asks for it
    "admin:jsi18n": (VIEWER, NOBODY),
    "admin:view_on_site": (VIEWER, VIEWER),
    "admin:app_list": (VIEWER, VIEWER),
    "admin/(?P<url>.*)$": (VIEWER, VIEWER),  # what is not found
    "admin:auth_user_password_change": (ADMIN, ADMIN),
}
# Who may look at rows of a model, add, change and delete them.
MODELS = {
    "auth_user": (ADMIN, ADMIN, ADMIN, ADMIN),
    "django_celery_beat_clockedschedule": (VIEWER, ADMIN, ADMIN, ADMIN),
    "django_celery_beat_crontabschedule": (VIEWER, ADMIN, ADMIN, ADMIN),
    "django_celery_beat_intervalschedule": (VIEWER, ADMIN, ADMIN, ADMIN),
    "django_celery_beat_periodictask": (VIEWER, ADMIN, ADMIN, ADMIN),
    "django_celery_beat_solarschedule": (VIEWER, ADMIN, ADMIN, ADMIN),
    "django_celery_results_groupresult": (VIEWER, NOBODY, NOBODY, NOBODY),
    "django_celery_results_taskresult": (VIEWER, NOBODY, NOBODY, NOBODY),
    "hosts_backuproot": (VIEWER, ADMIN, ADMIN, NOBODY),
    "hosts_credential": (VIEWER, ADMIN, ADMIN, ADMIN),
    "hosts_generation": (VIEWER, NOBODY, NOBODY, NOBODY),
    "hosts_host": (VIEWER, OPERATOR, OPERATOR, NOBODY),
    "hosts_hostfacts": (VIEWER, NOBODY, NOBODY, NOBODY),
    "hosts_hostkey": (VIEWER, ADMIN, NOBODY, ADMIN),
    "hosts_source": (VIEWER, OPERATOR, OPERATOR, NOBODY),
    "jobs_beatlease": (VIEWER, NOBODY, NOBODY, NOBODY),
    "jobs_enginesettings": (VIEWER, NOBODY, ADMIN, NOBODY),  # its one row is there
    "jobs_job": (VIEWER, NOBODY, NOBODY, NOBODY),
    "jobs_lane": (VIEWER, NOBODY, NOBODY, NOBODY),
    "jobs_schedulefire": (VIEWER, NOBODY, NOBODY, NOBODY),
    "jobs_workernode": (VIEWER, NOBODY, NOBODY, NOBODY),
}


def of_model(name: str, look: int, add: int, change: int, delete: int) -> dict[str, tuple[int, int]]:
    """The routes that the admin makes for a model."""
    app, _, model = name.rpartition("_")
    return {
        f"admin:{name}_changelist": (look, look),
        f"admin:{name}_add": (add, add),
        f"admin:{name}_change": (look, change),
        f"admin:{name}_delete": (delete, delete),
        f"admin:{name}_history": (look, look),
        f"admin/{app}/{model}/<path:object_id>/": (VIEWER, VIEWER),  # leads to the one for changes
    }


TABLE = {**PAGES, **ADMINISTRATION}
for _name, _who in MODELS.items():
    TABLE |= of_model(_name, *_who)
