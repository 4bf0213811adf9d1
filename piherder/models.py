"""What the installation itself keeps."""

from piherder.accounts.models import Authenticator as Authenticator
from piherder.accounts.models import RecoveryCode as RecoveryCode
from piherder.accounts.models import Rules as Rules
from piherder.accounts.models import SignIn as SignIn
