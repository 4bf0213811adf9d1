"""What the installation itself keeps."""

from piherder.accounts.models import SignIn as SignIn
