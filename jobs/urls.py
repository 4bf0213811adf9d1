"""Addresses of jobs and of the herd's switch."""

from django.urls import path

from jobs import views

urlpatterns = [
    path("jobs/", views.jobs, name="jobs"),
    path("jobs/<int:pk>/", views.job, name="job"),
    path("jobs/<int:pk>/log/", views.job_log, name="job_log"),
    path("jobs/<int:pk>/cancel/", views.cancel_job, name="cancel_job"),
    path("jobs/<int:pk>/again/", views.job_again, name="job_again"),
    path("hold/", views.hold_herd, name="hold"),
    path("release/", views.release_herd, name="release"),
]
