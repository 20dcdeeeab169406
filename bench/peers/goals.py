"""From the measurements of `./dev bench languages` to the rows of its table, each with its goal. Pure: no process, no file,
no clock. goals_test.py tests it.

Each group of measurements is a list in the order in which they were made, as table.py has them: `key` of the program and
`rate`, the value (functions per second, milliseconds, microseconds), or `error`. The base of the group is measured before
and after each other program, so that a comparison uses values of the same minute.
"""

from statistics import median

from table import number, pairs

WEIR_KEYS = {'weir-threads': 'weir, 8 threads', 'weir-async': 'weir, async', 'weir-node': 'weir'}
NAMES = {**WEIR_KEYS, 'procrastinate': 'Procrastinate', 'celery': 'Celery, Redis always',
         'celery-everysec': 'Celery, Redis everysec', 'handler': 'weir, C handler',
         'graphile-worker-batched': 'graphile-worker, batched', 'pg-boss': 'pg-boss', 'bullmq': 'BullMQ, Redis always',
         'bullmq-everysec': 'BullMQ, Redis everysec',
         'python-native': 'Python, C and C API alone', 'python': 'Python, with the interpreter',
         'node': 'Node, with the interpreter'}
LANGUAGES = {'python': 'Python', 'node': 'Node'}


class Row:
    def __init__(self, what, value, unit, other='', other_value=None, measure='', measured=None, goal=None, is_most=False):
        """`measured`: the number that the goal is about, `measure` in words; None = it could not be measured. `goal` None =
        for information. `is_most`: the goal is the most that is allowed, else the least."""
        self.what, self.value, self.unit, self.other, self.other_value = what, value, unit, other, other_value
        self.measure, self.measured, self.goal, self.is_most = measure, measured, goal, is_most

    @property
    def is_met(self):
        """None = there is no goal."""
        if self.goal is None:
            return None
        if self.measured is None:
            return False
        return self.measured <= self.goal if self.is_most else self.measured >= self.goal

    def cells(self, quick):
        met = {None: '', True: 'yes', False: 'NO'}[self.is_met]
        if self.goal is not None and (quick or self.measured is None):
            met = '(quick)' if self.measured is not None else 'not measured'
        goal = '' if self.goal is None else f"{'at most' if self.is_most else 'at least'} {self.goal:g}"
        return [self.what, f'{number(self.value)} {self.unit}', self.other,
                '' if self.other_value is None else f'{number(self.other_value)} {self.unit}',
                '-' if self.measured is None else f'{self.measured:.2f} {self.measure}'.strip(), goal, met]


HEADS = ['figure', 'weir', 'beside', 'its value', 'measured', 'goal', 'met']


def values(group, key):
    return [one['rate'] for one in group if one['key'] == key and 'rate' in one]


def middle(group, key):
    found = values(group, key)
    return median(found) if found else None


def ratio(group, base, mine, other):
    """Of `mine` to `other`, through the runs of `base` beside each; None = not measured."""
    found = pairs(group, base)

    def to_base(key):
        if key == base:
            return 1 if values(group, base) else None
        return median(a / b for a, b in found[key]) if key in found else None
    left, right = to_base(mine), to_base(other)
    return None if left is None or right is None else left / right


def difference(group, base, key):
    """The value of `key` less that of `base` beside it; None = not measured."""
    found = pairs(group, base).get(key)
    return median(a - b for a, b in found) if found else None


def rest(group, base, key, other):
    """The value of `key` less that of `other`, through the runs of `base` beside each; None = not measured."""
    mine, its = difference(group, base, key), difference(group, base, other)
    return None if mine is None or its is None else mine - its


def compare(what, group, base, mine, other, unit, goal=None, is_most=False):
    return Row(what, middle(group, mine), unit, NAMES[other], middle(group, other), 'of it',
               ratio(group, base, mine, other), goal, is_most)


def single(what, group, key, unit, goal):
    value = middle(group, key)
    return Row(what, value, unit, '', None, '', value, goal, True)


def rows(groups):
    """Of the groups that were measured."""
    def of(name):
        return groups.get(name, [])
    found = []
    if 'python-latency' in groups:
        group = of('python-latency')
        found += [compare(f'Python, PostgreSQL: enqueue to end on record, p50, {WEIR_KEYS[mode]}', group, 'weir-threads',
                          mode, 'procrastinate', 'ms', 1.2, True) for mode in ('weir-threads', 'weir-async')]
        found.append(compare('the same beside Celery', group, 'weir-threads', 'weir-threads', 'celery', 'ms'))
        functions = of('python-latency-functions')
        found.append(compare('Python, PostgreSQL: enqueue to end of the function, p50', functions, 'weir-threads',
                             'weir-threads', 'procrastinate', 'ms'))
    if 'sqlite-latency' in groups:
        group = of('sqlite-latency')
        found.append(Row('Python, SQLite: enqueue to end on record, p50', middle(group, 'weir-threads'), 'ms',
                         NAMES['handler'], middle(group, 'handler'), 'ms more',
                         difference(group, 'handler', 'weir-threads'), 3, True))
    if 'python-drain' in groups:
        group = of('python-drain')
        for mode in ('weir-threads', 'weir-async'):
            what = f'Python, PostgreSQL: functions/s, {WEIR_KEYS[mode]}'
            found += [compare(what, group, 'weir-threads', mode, other, '/s', 2)
                      for other in ('procrastinate', 'celery', 'celery-everysec')]
    if 'sqlite-drain' in groups:
        group = of('sqlite-drain')
        found += [compare(f'Python, SQLite: functions/s, {WEIR_KEYS[mode]}', group, 'handler', mode, 'handler', '/s')
                  for mode in ('weir-threads', 'weir-async')]
    if 'node-drain' in groups:
        group = of('node-drain')
        found += [compare('Node, PostgreSQL: functions/s', group, 'weir-node', 'weir-node', other, '/s', goal)
                  for other, goal in (('graphile-worker-batched', 1), ('pg-boss', 2), ('bullmq', 2), ('bullmq-everysec', 2),
                                    ('handler', None))]
    if 'processor' in groups:
        group = of('processor')
        found += [Row(f'{NAMES[key]}: processor of the binding for each call', middle(group, key), 'us', NAMES['handler'],
                      middle(group, 'handler'), 'us more', difference(group, 'handler', key), goal, True)
                  for key, goal in (('python-native', 20), ('python', None), ('node', 20))]
    for key in ('python', 'node'):
        for store in ('PostgreSQL', 'SQLite'):
            name = f'{key}-start-{store}'
            if name in groups:
                found.append(single(f'{LANGUAGES[key]}, {store}: import to first call', of(name), key, 'ms', 150))
        for store in ('PostgreSQL', 'SQLite'):
            name = f'{key}-memory-{store}'
            if name in groups:
                group = of(name)
                own = values(group, 'without-weir')
                found.append(Row(f'{LANGUAGES[key]}, {store}: memory of a worker', middle(group, key), 'MiB',
                                 'bare interpreter', middle(group, 'bare'), 'MiB more',
                                 difference(group, 'bare', key), None if own else 15, True))
                if own:
                    found.append(Row('the same beside functions without weir', middle(group, key), 'MiB', 'Node alone',
                                     middle(group, 'without-weir'), 'MiB more',
                                     rest(group, 'bare', key, 'without-weir'), 15, True))
    return found


def errors(groups):
    """One line for each program that failed."""
    return list(dict.fromkeys(f"{name}: {one['key']}: {one['error']}"
                              for name, group in groups.items() for one in group if 'error' in one))
