"""Django's admin with our site in the place of the default one."""

from django.contrib.admin.apps import AdminConfig


class HerderAdminConfig(AdminConfig):
    """Named in INSTALLED_APPS where others name django.contrib.admin."""

    default_site = "piherder.accounts.site.HerderAdmin"
