#!/usr/bin/env python3
"""Cron expressions and time zones against other implementations: 10,000 random expressions in UTC against croniter, and the
offsets of all zones of the system at random times against the module zoneinfo of Python.

usage: cron_test.py CRON_TIMES

CRON_TIMES is the program cron_times. WEIR_TEST_SEED replays the random choices.
"""

import datetime
import os
import random
import subprocess
import sys
import zoneinfo

from croniter import croniter

SEED = int(os.environ.get('WEIR_TEST_SEED') or random.SystemRandom().randrange(1 << 31))
EXPRESSIONS, TIMES, TIMES_OF_ZONE = 10000, 4, 50
YEARS_MOST = 12  # until a 29 February of a missing leap year
FIELDS = [(0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, 'jan feb mar apr may jun jul aug sep oct nov dec'.split()),
          (0, 6, 'sun mon tue wed thu fri sat'.split())]
UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)


def _element(chance, least, most, names):
    kind = chance.random()
    first, last = sorted((chance.randint(least, most), chance.randint(least, most)))
    if kind < 0.3:
        return str(first)
    if kind < 0.5:
        return f'{first}-{last}' + (f'/{chance.randint(1, most)}' if first < last and chance.random() < 0.3 else '')
    if kind < 0.7:
        return f'*/{chance.randint(1, most)}'
    return chance.choice(names) if names else str(last)


def _expression(chance):
    return ' '.join('*' if chance.random() < 0.4 else
                    ','.join(_element(chance, *field) for _ in range(chance.choice([1, 1, 1, 2, 3]))) for field in FIELDS)


def _answers(program, lines):
    told = subprocess.run([program], input=''.join(lines), capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(told) == len(lines), (len(told), len(lines))
    return told


def _of_croniter(expression, after):
    try:
        times = croniter(expression, EPOCH + datetime.timedelta(seconds=after), max_years_between_matches=YEARS_MOST)
        return ' '.join(str(int(times.get_next(float))) for _ in range(TIMES))
    except ValueError:
        return 'refused'


# --- the judge where both differ ---

def _values(text, least, most, names):
    values = set()
    for item in text.split(','):
        part, _, step = item.partition('/')
        first, _, last = part.partition('-')
        ends = [least + names.index(end) if end in names else int(end) for end in (first, last) if end not in ('', '*')]
        first, last = (least, most) if part == '*' else (ends[0], ends[-1])
        values.update(range(first, last + 1, int(step or 1)))
    return values


def _of_the_rule(expression, after):
    """Day by day, as the manual says it."""
    minutes, hours, days, months, weekdays = (_values(text, *field) for text, field in zip(expression.split(), FIELDS))
    any_day, any_weekday = len(days) == 31, len(weekdays) == 7
    day = (EPOCH + datetime.timedelta(seconds=after)).date()
    times = []
    for number in range(YEARS_MOST * 366):
        date = day + datetime.timedelta(days=number)
        by_day, by_weekday = date.day in days, date.isoweekday() % 7 in weekdays
        if date.month in months and (by_day and by_weekday if any_day or any_weekday else by_day or by_weekday):
            begin = int((datetime.datetime(date.year, date.month, date.day, tzinfo=UTC) - EPOCH).total_seconds())
            of_day = sorted(begin + hour * 3600 + minute * 60 for hour in hours for minute in minutes)
            times += [time for time in of_day if time > after]
        if len(times) >= TIMES:
            return ' '.join(map(str, times[:TIMES]))
    return 'refused'


def expressions_fire_when_those_of_croniter_do(program, chance):
    asked = [(_expression(chance), chance.randrange(4 * 10**9)) for _ in range(EXPRESSIONS)]
    told = _answers(program, [f'UTC {after} {TIMES} {expression}\n' for expression, after in asked])
    # croniter refuses a day that no month has also where a weekday is enough, and overlooks */31 in a list.
    differ = [(*question, answer) for question, answer in zip(asked, told) if answer != _of_croniter(*question)]
    for expression, after, answer in differ:
        assert answer == _of_the_rule(expression, after), (expression, after, answer)
    assert len(differ) < EXPRESSIONS / 100, f'{len(differ)} differ: the comparison proves nothing'
    print(f'{EXPRESSIONS} expressions; {len(differ)} differ from croniter and follow the rule')


def offsets_of_zones_are_those_of_zoneinfo(program, chance):
    zones = sorted(zoneinfo.available_timezones() - {'Factory', 'localtime'})
    asked = [(zone, chance.randrange(-3 * 10**9, 8 * 10**9)) for zone in zones
             for _ in range(TIMES_OF_ZONE)]
    told = _answers(program, [f'{zone} {time}\n' for zone, time in asked])
    for (zone, time), answer in zip(asked, told):
        there = (EPOCH + datetime.timedelta(seconds=time)).astimezone(zoneinfo.ZoneInfo(zone))
        assert answer == str(int(there.utcoffset().total_seconds())), (zone, time, answer)
    print(f'{len(asked)} offsets of {len(asked) // TIMES_OF_ZONE} zones')


def main():
    print(f'seed {SEED}')
    expressions_fire_when_those_of_croniter_do(sys.argv[1], random.Random(SEED))
    offsets_of_zones_are_those_of_zoneinfo(sys.argv[1], random.Random(SEED))


if __name__ == '__main__':
    main()
