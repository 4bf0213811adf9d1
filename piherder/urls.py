"""Addresses of the pages."""

from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import include, path
from django.views.generic import RedirectView

from piherder.views import Login

admin.site.site_header = admin.site.site_title = "PiHerder"
admin.site.index_title = "Administration"

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="jobs"), name="start"),
    path("login/", Login.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("", include("jobs.urls")),
    path("", include("hosts.urls")),
    path("admin/", admin.site.urls),
]
