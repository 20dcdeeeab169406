"""The warning of an enqueue that no worker serves.

The first enqueue of a workflow asks the store why the new execution does not run, and later ones ask again after a minute.
If the store names handlers without a worker, or a group without a node, the logger `weir` has one warning for the workflow.
It is a record of logging and no Python warning, because a filter can make an error of the latter, and the execution exists.
An enqueue inside the caller's own transaction asks nothing: its row is not there yet, and the question costs a round trip.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any, Callable, Optional

log = logging.getLogger('weir')
CHECK_EACH_SECONDS = 60.0
#: Of workflows that are watched; beyond it none is added.
_WATCHED_MAX = 1000
_Subject = tuple[str, str, Optional[str]]  # the URL of the store, the workflow, and the group of the request
_next_check: dict[_Subject, float] = {}
_NEVER = float('inf')


def watch(subject: _Subject, why: Callable[[], str]) -> None:
    """Called after each enqueue. `why` returns the answer of the store for the new execution."""
    now = time.monotonic()
    due = _next_check.get(subject)
    if due is None and len(_next_check) >= _WATCHED_MAX:
        return
    if due is not None and now < due:
        return
    _next_check[subject] = now + CHECK_EACH_SECONDS  # before the read: other threads do not repeat it
    try:
        text = _lack(json.loads(why()))
    except Exception:  # the execution is enqueued, whether the store answers or not
        return
    if text is not None:
        _next_check[subject] = _NEVER
        log.warning('workflow %s: %s', subject[1], text)


def _lack(why: dict[str, Any]) -> str | None:
    group = why.get('executor_group')
    missing = why.get('handlers_missing') or []
    if missing:
        names = ', '.join(missing[:5]) + (' and others' if len(missing) > 5 else '')
        handlers = 'handler' if len(missing) == 1 else 'handlers'
        return (
            f'no live worker of the group {group} has the {handlers} {names}: execution {why.get("id")} waits for one; '
            'start it with: weir worker APP'
        )
    if why.get('pending_reason') == 'no_node_in_group':
        return f'no live node serves the group {group}: execution {why.get("id")} waits for one'
    return None
