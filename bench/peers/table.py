"""From measurements to the printed tables. Pure: no process, no file, no clock. table_test.py tests it.

A measurement is a dictionary: `key` of the queue, and either `rate` (lifecycles per second), `jobs` and `seconds`, or
`error`. Measurements come in the order in which they were made, and weir is measured before and after every other queue. So
the ratio of one measurement divides by the mean of the two neighbouring runs of weir, which the machine served in the same
minute.
"""

from statistics import median

SECONDS_MIN, SECONDS_MAX = 3, 30  # a drain outside of this range is too short to trust or needlessly long
GOAL_KEY, GOAL_RATIO = 'graphile-worker-batched', 1.1


def pairs(measurements, base):
    """Key -> list of (value, mean of the runs of `base` directly before and after it), for each measurement with one."""
    found = {}
    for at, one in enumerate(measurements):
        if one['key'] == base or 'rate' not in one:
            continue
        before = next((m['rate'] for m in reversed(measurements[:at]) if m['key'] == base and 'rate' in m), None)
        after = next((m['rate'] for m in measurements[at + 1:] if m['key'] == base and 'rate' in m), None)
        bases = [rate for rate in (before, after) if rate is not None]
        if bases:
            found.setdefault(one['key'], []).append((one['rate'], sum(bases) / len(bases)))
    return found


def ratios(measurements, base):
    """Key -> list of ratios to `base`."""
    return {key: [value / other for value, other in found] for key, found in pairs(measurements, base).items()}


def summarise(measurements, base):
    """Key -> {'rate', 'rate_min', 'rate_max', 'ratio', 'runs', 'errors', 'seconds'}; medians. None = not measured."""
    by_ratio = ratios(measurements, base)
    rows = {}
    for key in dict.fromkeys(one['key'] for one in measurements):
        own = [one for one in measurements if one['key'] == key]
        rates = [one['rate'] for one in own if 'rate' in one]
        ratio = 1.0 if key == base and rates else median(by_ratio[key]) if key in by_ratio else None
        rows[key] = {
            'rate': median(rates) if rates else None, 'rate_min': min(rates, default=None),
            'rate_max': max(rates, default=None), 'ratio': ratio, 'runs': len(rates),
            'errors': [one['error'] for one in own if 'error' in one],
            'seconds': median(one['seconds'] for one in own if 'seconds' in one) if rates else None}
    return rows


def number(value):
    """Three or more digits that count, thousands separated; '-' for None."""
    if value is None:
        return '-'
    return f'{value:,.0f}' if value >= 100 else f'{value:.1f}' if value >= 10 else f'{value:.2f}'


def layout(heads, rows):
    """Lines of text. The columns of numbers (all cells begin with a digit or are '-') are aligned right."""
    columns = list(zip(heads, *rows))
    is_number = [all(cell[:1].isdigit() or cell == '-' for cell in column[1:]) for column in columns]
    widths = [max(len(cell) for cell in column) for column in columns]
    return ['  '.join(cell.rjust(width) if right else cell.ljust(width)
                      for cell, width, right in zip(line, widths, is_number)).rstrip() for line in [heads, *rows]]


def speed_cells(row):
    """`row`: an entry of the JSON report (run.py)."""
    spread = '-' if row['rate'] is None else f"{number(row['rate_min'])} to {number(row['rate_max'])}"
    start = [row['starts_ten_instead']] * 2 if row['starts_ten_instead'] else \
        [number(row['claim_alone_ms']), number(row['claim_behind_full_ms'])]
    return [row['name'], row['version'] or '-', number(row['jobs']), number(row['rate']), spread,
            '-' if row['ratio'] is None else f"{row['ratio']:.3f}", *start]


def render(rows, full_rows):
    """The lines of both tables and of the notes."""
    heads = ['queue', 'version', 'jobs', 'lifecycles/s', 'runs', 'to weir', 'ten start, ms',
             f'behind {full_rows:,} of a full one']
    lines = layout(heads, [speed_cells(row) for row in rows])
    lines += ['', *layout(['queue', 'cap of a tenant', 'fairness', 'history', 'fencing'],
                          [[row['name'], *row['guarantees'].values()] for row in rows]), '']
    for row in rows:
        starts = row['start_settings']
        settings = row['settings'] or 'not measured'
        settings += f'; starts: {starts}' if starts not in (None, settings) else ''
        lines.append(f"{row['name']}: {settings}. {row['notes']}")
    return lines


def goal(rows, quick):
    """The goal of weir against the fastest documented setting of the fastest queue; nothing if that was not measured."""
    rival = next((row for row in rows if row['key'] == GOAL_KEY and row['ratio']), None)
    if rival is None:
        return []
    against = 1 / rival['ratio']
    met = '(quick)' if quick else 'yes' if against >= GOAL_RATIO else 'NO'
    return [f"goal: weir at least {GOAL_RATIO} of {rival['name']}: {against:.3f}: {met}"]


def remarks(rows, quick):
    """What a reader of the table must know of single rows."""
    found = []
    for row in rows:
        found += [f"{row['name']}: failed: {error}" for error in dict.fromkeys(row['errors'])]
        seconds = row['seconds']
        if seconds is not None and not quick and not SECONDS_MIN <= seconds <= SECONDS_MAX:
            found.append(f"{row['name']}: a drain took {seconds:.1f} s; choose its number of jobs for {SECONDS_MIN} to "
                         f"{SECONDS_MAX} s: --jobs {row['key']}=N")
        if row['full_tenant_running'] not in (None, 1):
            found.append(f"{row['name']}: {row['full_tenant_running']} jobs of the full tenant ran although its limit is 1")
    return found
