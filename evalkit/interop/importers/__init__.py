"""One module for each layout: `sniff` tells a file of it, `read` makes records of one."""

from __future__ import annotations
