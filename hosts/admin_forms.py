"""Forms of the admin: secrets go in and never come out, paths and keys are checked as at every other door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms

from hosts.enrol import EnrolRefused, new_login_key, read_login_key, refuse_overlap
from hosts.host_key import BadKey, parse_public_line
from hosts.models import BackupRoot, Credential, Host, HostKey, Source
from hosts.store.layout import source_folder_name
from hosts.store.paths import PathRefused, check_source, encode_name, normalise
from hosts.vault import seal

if TYPE_CHECKING:
    from hosts.enrol import LoginKey
    from hosts.host_key import HostKey as Pin

    ModelForm = forms.ModelForm[Any]
else:
    ModelForm = forms.ModelForm

KEEPS = "Leave it empty to keep what is stored; it is never shown."


class SecretInput(forms.PasswordInput):
    """A field that a browser neither fills in nor keeps, and that a refused form does not send back."""

    def __init__(self) -> None:
        super().__init__(attrs={"autocomplete": "new-password"}, render_value=False)


class KeyInput(forms.Textarea):
    """A text area that never sends back what was pasted."""

    def format_value(self, value: Any) -> str | None:
        """Nothing."""
        return None


class HostForm(ModelForm):
    """A host; its sudo password is sealed at once."""

    sudo_password = forms.CharField(required=False, strip=False, widget=SecretInput, help_text=KEEPS)
    forget_sudo = forms.BooleanField(required=False, label="Forget the stored sudo password")

    class Meta:
        model = Host
        fields = (
            "name", "address", "port", "user", "credential", "jump", "backup_root", "bandwidth_kib", "backup_limit",
            "before_hook", "after_hook", "hooks_touch_stacks", "keep_last", "keep_daily", "keep_weekly", "keep_monthly",
            "copy_lock",
        )  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "copy_lock" in self.fields:  # who may only look gets a form without fields
            self.fields["copy_lock"].required = False

    def clean_copy_lock(self) -> str:
        """Emptied, it stays as it was."""
        return str(self.cleaned_data["copy_lock"] or self.instance.copy_lock)

    def clean_jump(self) -> Host | None:
        """No way in a circle."""
        jump: Host | None = self.cleaned_data["jump"]
        way = jump
        while way is not None:
            if way.pk == self.instance.pk:
                raise forms.ValidationError("This host cannot be reached through itself: choose another jump host.")
            way = way.jump
        return jump

    def save(self, commit: bool = True) -> Host:
        """Store, with the new password sealed."""
        if self.cleaned_data["forget_sudo"]:
            self.instance.sudo_password_sealed = ""
        elif self.cleaned_data["sudo_password"]:
            self.instance.sudo_password_sealed = seal(self.cleaned_data["sudo_password"])
        host: Host = super().save(commit)
        return host


class CredentialForm(ModelForm):
    """A login key: pasted, or made here when a new one is left empty."""

    private_key = forms.CharField(
        required=False,
        strip=False,
        widget=KeyInput(attrs={"rows": 6, "autocomplete": "off", "spellcheck": "false"}),
        help_text=f"An OpenSSH private key. A new key pair is made when a new row leaves it empty. {KEEPS}",
    )

    class Meta:
        model = Credential
        fields = ("name",)

    def clean_private_key(self) -> LoginKey | None:
        """The pair, None when the stored one stays."""
        text = self.cleaned_data["private_key"]
        if not text.strip():
            return None if self.instance.pk else new_login_key("herder")
        try:
            key = read_login_key(text)
        except EnrolRefused as refusal:
            raise forms.ValidationError(str(refusal)) from None
        if Credential.objects.filter(fingerprint=key.fingerprint).exclude(pk=self.instance.pk).exists():
            raise forms.ValidationError("This key is stored already under another name: use that one.")
        return key

    def save(self, commit: bool = True) -> Credential:
        """Store, with the private half sealed."""
        key: LoginKey | None = self.cleaned_data["private_key"]
        if key is not None:
            self.instance.public_key, self.instance.fingerprint = key.public, key.fingerprint
            self.instance.private_key_sealed = seal(key.private)
        credential: Credential = super().save(commit)
        return credential


class HostKeyForm(ModelForm):
    """A pin from one line of `ssh-keyscan` or of a host's /etc/ssh/*.pub."""

    line = forms.CharField(
        label="Public host key", help_text="One line, such as “ssh-ed25519 AAAA…”, compared with the host's own screen."
    )

    class Meta:
        model = HostKey
        fields = ("host",)

    def clean_line(self) -> Pin:
        """The key of the line."""
        try:
            return parse_public_line(self.cleaned_data["line"])
        except BadKey as error:
            raise forms.ValidationError(str(error)) from None

    def clean(self) -> dict[str, Any]:
        """One pin of a kind per host."""
        cleaned = super().clean() or {}
        key, host = cleaned.get("line"), cleaned.get("host")
        if key and host and host.keys.filter(key_type=key.key_type).exists():
            raise forms.ValidationError(f"{host} has a pinned {key.key_type} key: delete that one first.")
        return cleaned

    def save(self, commit: bool = True) -> HostKey:
        """Store what the line says."""
        key: Pin = self.cleaned_data["line"]
        self.instance.key_type, self.instance.public = key.key_type, key.public_base64
        self.instance.fingerprint = key.fingerprint
        pin: HostKey = super().save(commit)
        return pin


class SourceForm(ModelForm):
    """A source; its folder on the backup disk follows from its path."""

    excludes = forms.CharField(
        required=False, widget=forms.Textarea(attrs={"rows": 2}), help_text="rsync patterns, one per line."
    )

    allow_system = forms.BooleanField(
        required=False, label="Allow a folder of the operating system", help_text="Such as / or /usr/share; when added."
    )
    field_order = ("allow_system",)  # known when the path is looked at

    class Meta:
        model = Source
        fields = ("host", "path", "excludes", "one_file_system", "shrink_percent", "accept_shrink", "enabled")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["excludes"] = "\n".join(self.instance.excludes)
        if self.instance.pk and "path" in self.fields:  # generations stand on it
            self.fields["path"].disabled = True

    def clean_path(self) -> str:
        """A path that may be backed up; that of a stored source was looked at when it was added."""
        if self.instance.pk:
            return str(self.instance.path)
        try:
            return encode_name(
                check_source(self.cleaned_data["path"], allow_system=bool(self.cleaned_data.get("allow_system")))
            )
        except PathRefused as refusal:
            raise forms.ValidationError(str(refusal)) from None

    def clean_one_file_system(self) -> bool:
        """Always so for /."""
        return bool(self.cleaned_data["one_file_system"]) or self.cleaned_data.get("path", self.instance.path) == "/"

    def clean_excludes(self) -> list[str]:
        """One pattern per line."""
        return [line.strip() for line in self.cleaned_data["excludes"].splitlines() if line.strip()]

    def clean(self) -> dict[str, Any]:
        """A new source gets its folder."""
        cleaned = super().clean() or {}
        if not self.instance.pk and cleaned.get("path"):
            self.instance.folder = source_folder_name(cleaned["path"])
            self._refuse_overlap(cleaned.get("host"), cleaned["path"])
        elif self.instance.pk and cleaned.get("enabled") and not self.initial["enabled"]:
            self._refuse_overlap(self.instance.host, self.instance.path)
        return cleaned

    def _refuse_overlap(self, host: Host | None, path: str) -> None:
        if host is None or not host.pk:
            return
        try:
            refuse_overlap(host, path)
        except EnrolRefused as refusal:
            raise forms.ValidationError(str(refusal)) from None


class RootForm(ModelForm):
    """A folder on a backup disk. One is the default: that is given to another, never taken away."""

    make_default = forms.BooleanField(required=False, label="Use it for hosts that name no backup root")

    class Meta:
        model = BackupRoot
        fields = ("path",)

    def clean_path(self) -> str:
        """Absolute, without `..`."""
        try:
            return normalise(self.cleaned_data["path"])
        except PathRefused as refusal:
            raise forms.ValidationError(str(refusal)) from None
