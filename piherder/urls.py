"""Addresses of the pages."""

from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import include, path, register_converter
from django.urls.converters import StringConverter

from hosts.views import generation, herd, host
from jobs import views as jobs
from piherder.accounts import step_views as steps
from piherder.accounts import views as accounts
from piherder.archive.views import back_up_herder, herder_backups
from piherder.dashboard.views import dashboard
from piherder.health import health
from piherder.views import Login, SecondStep, SetUp


class HostName(StringConverter):
    """What a host may be called, so that no other text reaches the database."""

    regex = r"[A-Za-z0-9][A-Za-z0-9._-]*"


register_converter(HostName, "host")

jobs_patterns = [
    path("jobs/", jobs.jobs, name="jobs"),
    path("jobs/<int:pk>/", jobs.job, name="job"),
    path("jobs/<int:pk>/log/", jobs.job_log, name="job_log"),
    path("jobs/<int:pk>/cancel/", jobs.cancel_job, name="cancel_job"),
    path("jobs/<int:pk>/again/", jobs.job_again, name="job_again"),
    path("hold/", jobs.hold_herd, name="hold"),
    path("release/", jobs.release_herd, name="release"),
]
generation_patterns = [
    path("", generation.generation, name="generation"),
    path("restore/", generation.restore, name="restore"),
    path("keep/", generation.keep_generation, name="keep_generation"),
    path("let-go/", generation.let_generation_go, name="let_generation_go"),
]
hosts_patterns = [
    path("hosts/", herd.hosts, name="hosts"),
    path("herd/run/", herd.run_on_herd, name="run_on_herd"),
    path("hosts/<host:name>/", host.host, name="host"),
    path("hosts/<host:name>/run/", host.run_on_host, name="run_on_host"),
    path("hosts/<host:name>/pause/", host.pause_host, name="pause_host"),
    path("hosts/<host:name>/resume/", host.resume_host, name="resume_host"),
    path("hosts/<host:name>/generations/<int:pk>/", include(generation_patterns)),
]
account_patterns = [
    path("account/", accounts.account, name="account"),
    path("account/password/", accounts.Password.as_view(), name="password"),
    path("account/second-step/", steps.own_second_step, name="second_step"),
    path("account/log-out-everywhere/", accounts.sign_out_everywhere, name="sign_out_everywhere"),
    path("sessions/<int:pk>/end/", accounts.end_session, name="end_session"),
    path("accounts/", accounts.accounts, name="accounts"),
    path("accounts/second-step/", steps.second_step_duty, name="second_step_duty"),
    path("accounts/<int:pk>/second-step/take-off/", steps.take_off_second_step, name="take_off_second_step"),
    path("accounts/<int:pk>/role/", accounts.change_role, name="change_role"),
    path("accounts/<int:pk>/keep-out/", accounts.keep_out, name="keep_out"),
    path("accounts/<int:pk>/let-in/", accounts.let_in, name="let_in"),
    path("accounts/<int:pk>/log-out/", accounts.sign_out, name="sign_out"),
]
urlpatterns = [
    path("", dashboard, name="start"),
    path("login/", Login.as_view(), name="login"),
    path("login/code/", SecondStep.as_view(), name="second_step_at_login"),
    path("login/set-up/", SetUp.as_view(), name="set_up_at_login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("health/", health, name="health"),
    *jobs_patterns,
    *hosts_patterns,
    *account_patterns,
    path("herder/", herder_backups, name="herder_backups"),
    path("herder/back-up/", back_up_herder, name="back_up_herder"),
    path("admin/", admin.site.urls),
]
