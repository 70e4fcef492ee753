"""Opening hours as half-open intervals of minutes since Monday 00:00.

A week has 10,080 minutes. Intervals are pairs (start, end) with
0 <= start < end <= WEEK. A shop that closes after Sunday midnight is stored as
two intervals, one at each end of the week.
"""

from __future__ import annotations

import re

DAY = 24 * 60
WEEK = 7 * DAY
DAY_NAMES = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]

Interval = tuple[int, int]

_TIME = re.compile(r"^(\d{1,2}):(\d{2})$")


class HoursError(ValueError):
    """Raised for text or intervals that are not opening hours."""


def parse_time(text: str) -> int:
    """Return the minutes since midnight of "8:30" or "24:00"."""
    match = _TIME.match(text.strip())
    if match is None:
        raise HoursError(f"not a time: {text!r}")
    hours, minutes = int(match[1]), int(match[2])
    if minutes > 59 or hours * 60 + minutes > DAY:
        raise HoursError(f"no such time: {text!r}")
    return hours * 60 + minutes


def parse_days(text: str) -> list[int]:
    """Return the day numbers of "Mon", "Mon-Fri" or "Sat,Sun"."""
    days = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        try:
            start = DAY_NAMES.index(first)
            end = DAY_NAMES.index(last) if last else start
        except ValueError:
            raise HoursError(f"not a day: {part!r}") from None
        if end < start:
            end += 7
        days.extend(day % 7 for day in range(start, end + 1))
    return days


def parse_line(line: str) -> list[Interval]:
    """Parse one line such as "Mon-Fri 9:00-18:30"."""
    days, _, times = line.strip().partition(" ")
    opens, _, closes = times.partition("-")
    start, end = parse_time(opens), parse_time(closes)
    if end <= start:
        end += DAY
    intervals = []
    for day in parse_days(days):
        a, b = day * DAY + start, day * DAY + end
        if b > WEEK:
            intervals.append((0, b - WEEK))
            b = WEEK
        intervals.append((a, b))
    return intervals


def is_open(intervals: list[Interval], minute: int) -> bool:
    """Tell whether the shop is open at a minute of the week."""
    return any(start <= minute < end for start, end in intervals)


def format_minute(minute: int) -> str:
    """Return "Tue 14:05" for a minute of the week."""
    day, rest = divmod(minute % WEEK, DAY)
    return f"{DAY_NAMES[day]} {rest // 60}:{rest % 60:02}"


def total_minutes(intervals: list[Interval]) -> int:
    """Return how long the shop is open in a week, overlaps counted once."""
    return sum(end - start for start, end in merge(intervals))


def merge(intervals: list[Interval]) -> list[Interval]:
    """Return the same opening hours as sorted intervals that do not overlap.

    Intervals that touch are joined: [(60, 120), (120, 180)] becomes
    [(60, 180)]. Raises HoursError for an interval with end <= start or outside
    the week. The argument is not changed.
    """
