"""The suite that every engine must pass, under the name by which an engine's tests import it: `oncue_conformance`."""

from oncue_conformance import *  # noqa: F403
