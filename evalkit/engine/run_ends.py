"""Why a run or a call ends before its answer."""

from __future__ import annotations


class RunStopped(Exception):  # noqa: N818
    """Raised if the run is stopping: nothing new is sent."""


class RunAborted(Exception):  # noqa: N818
    """Raised if the run is given up: nothing more is sent, and answers that are not
    stored are missing.
    """


class ClaimLost(Exception):  # noqa: N818
    """Raised if a claim ended before its request was sent: another process may be
    making the call.
    """
