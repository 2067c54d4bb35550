"""Every engine of ours does what engines must do."""

from oncue.testing.conformance import *  # noqa: F403
