"""Durations and moments as the library counts them: microseconds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:  # imported for a timedelta alone: with the module math it costs half a MiB
    import datetime

_PART = re.compile(r'(\d+(?:\.\d+)?)(us|ms|s|m|h|d)')
_UNITS = {'us': 1, 'ms': 1_000, 's': 1_000_000, 'm': 60_000_000, 'h': 3_600_000_000, 'd': 86_400_000_000}


Duration = Union[int, float, str, 'datetime.timedelta']


def microseconds(duration: Duration) -> int:
    """Seconds as a number, a timedelta, or text such as "1h30m"."""
    if isinstance(duration, (int, float)) and not isinstance(duration, bool):
        return round(duration * 1e6)
    if isinstance(duration, str):
        parts = _PART.findall(duration)
        if parts and ''.join(number + unit for number, unit in parts) == duration:
            return round(sum(float(number) * _UNITS[unit] for number, unit in parts))
    import datetime

    if isinstance(duration, datetime.timedelta):
        return round(duration.total_seconds() * 1e6)
    raise ValueError(f'{duration!r} is no duration: give seconds, a timedelta, or text such as "10s" or "1h30m"')


def text(duration: Duration) -> str:
    """As a definition spells it."""
    return f'{microseconds(duration) // 1000}ms'


def moment(time: None | datetime.datetime) -> int:
    """Microseconds since 1970; 0 = now."""
    if time is None:
        return 0
    if time.tzinfo is None:
        raise ValueError(f'run_at {time.isoformat()} has no time zone: use datetime.now(timezone.utc) or zoneinfo')
    return round(time.timestamp() * 1e6)
