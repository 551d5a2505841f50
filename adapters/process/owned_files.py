"""Looks at who may read a file that holds a secret."""

from __future__ import annotations

import os
import stat


def exposed(status: os.stat_result) -> str:
    """Returns why a file's secret is not safe from others; '' where it is.

    A file of root's may be readable for its group, as those are that a Kubernetes Secret is mounted as.
    """
    if not stat.S_ISREG(status.st_mode):
        return "it is no file"
    if status.st_uid not in (os.geteuid(), 0):
        return "it is another user's"
    if status.st_mode & (0o027 if status.st_uid == 0 else 0o077):
        return "others than its owner can read it, or its group can write it"
    return ""
