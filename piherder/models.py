"""What the installation itself keeps. Django tells an app of a migrate only when it has this module."""
