"""The one lock of planning."""

from __future__ import annotations

import os
import threading

PLANNING = threading.RLock()  # isl's context, its operation budget and Numba's compiler are shared by the process
if hasattr(os, "register_at_fork"):  # a fork waits for planning threads, so that the child finds nothing half-made
    os.register_at_fork(before=PLANNING.acquire, after_in_parent=PLANNING.release, after_in_child=PLANNING.release)
