"""Addresses of hosts and of what is kept of them."""

from django.urls import path

from hosts.views import generation, herd, host

urlpatterns = [
    path("hosts/", herd.hosts, name="hosts"),
    path("herd/run/", herd.run_on_herd, name="run_on_herd"),
    path("hosts/<str:name>/", host.host, name="host"),
    path("hosts/<str:name>/run/", host.run_on_host, name="run_on_host"),
    path("hosts/<str:name>/pause/", host.pause_host, name="pause_host"),
    path("hosts/<str:name>/resume/", host.resume_host, name="resume_host"),
    path("hosts/<str:name>/generations/<int:pk>/", generation.generation, name="generation"),
    path("hosts/<str:name>/generations/<int:pk>/restore/", generation.restore, name="restore"),
    path("hosts/<str:name>/generations/<int:pk>/keep/", generation.keep_generation, name="keep_generation"),
    path("hosts/<str:name>/generations/<int:pk>/let-go/", generation.let_generation_go, name="let_generation_go"),
]
