#!/usr/bin/env python3
"""Checks that includes point one way: base <- queue <- definition <- {store, engine, observe} <- dispatch <- {library,
cli}, and grpc stands on base alone.

The table below is the rule. A driver (one store, one engine) sees its interface and what lies under it, never a sibling;
only src/assemble.c names drivers; public headers stand on the C library alone.

usage: check_layers.py [ROOT] | --self-test
"""

import os
import re
import sys
import tempfile

PUBLIC = 'weir/'
RULES = ('base/', 'queue/', 'calendar/', 'definition/', PUBLIC)  # what everything but base and the public headers may use
STORE_DRIVER = RULES + ('observe/', 'store/store.h', 'store/driver.h', 'store/reading.h', 'store/refusal.h',
                        'store/complete.h', 'store/queue_order.h', 'store/slot_timeline.h', 'store/import_source.h')
ENGINE_DRIVER = RULES + ('observe/', 'engine/engine.h')

# (where, what it may include beside its own folder). The first row that fits a file counts. A name that ends with '/' is
# a folder with all that is in it, but for the drivers.
LAYERS = [
    ('include/weir/', (PUBLIC,)),
    ('src/base/', (PUBLIC,)),
    ('src/grpc/', ('base/', PUBLIC)),  # a gRPC client knows neither queues nor Temporal
    ('src/remote/', ('base/', PUBLIC)),  # a client of the REST API, for the http driver and for workers
    ('src/queue/', ('base/', PUBLIC)),
    ('src/calendar/', ('base/', PUBLIC)),
    ('src/definition/', ('base/', 'queue/', 'calendar/', PUBLIC)),
    ('src/observe/', RULES),
    ('src/store/sqlite/', STORE_DRIVER),
    ('src/store/postgres/', STORE_DRIVER),
    ('src/store/http/', STORE_DRIVER + ('remote/', 'store/filter.h')),
    ('src/engine/in_process/', ENGINE_DRIVER),
    ('src/engine/temporal/', ENGINE_DRIVER + ('grpc/',)),
    ('src/store/', RULES + ('observe/',)),
    ('src/engine/', RULES + ('observe/',)),
    ('src/dispatch/', RULES + ('observe/', 'store/store.h', 'engine/engine.h')),
    ('src/worker/', RULES + ('observe/', 'engine/engine.h', 'remote/')),
    # Pages without a script: they read the store as the other routes do, and change nothing.
    ('src/server/plain/', RULES + ('store/store.h', 'server/access.h', 'server/api.h', 'server/dashboard_file.h',
                                   'server/own_workspaces.h', 'server/request.h', 'server/session_cookie.h',
                                   'server/routes/')),
    ('src/server/', RULES + ('observe/', 'store/store.h', 'store/bulk_act.h', 'store/complete.h', 'store/failure_groups.h',
                             'store/filter.h', 'store/json_line.h', 'engine/engine.h', 'dispatch/', 'assemble.h')),
    ('src/cli/output/', ('base/', PUBLIC)),  # prints JSON and texts, and knows nothing of their meaning
    # Options of engines and types of the store's calls: a setting or an argument is read into them, no call is made.
    ('src/cli/settings/', RULES + ('observe/event.h', 'assemble.h')),
    ('src/cli/arguments/', RULES + ('cli/settings/', 'store/store.h', 'store/filter.h')),
    ('src/cli/help/', ('base/', 'cli/arguments/', 'cli/output/', 'cli/settings/', PUBLIC)),
    ('src/cli/verbs/',
     RULES + ('observe/', 'store/store.h', 'store/bulk_act.h',
              'store/complete.h', 'store/failure_groups.h', 'store/filter.h',
              'store/json_line.h',
              'store/complete.h', 'store/import_source.h', 'store/rehearsal.h', 'engine/engine.h', 'dispatch/',
              'server/', 'assemble.h',
              'cli/')),
    ('src/cli/', RULES + ('observe/', 'store/store.h', 'engine/engine.h', 'dispatch/', 'server/', 'assemble.h')),
    ('src/library/', RULES + ('observe/', 'store/store.h',
              'store/complete.h', 'store/failure_groups.h', 'engine/engine.h', 'dispatch/',
                              'worker/', 'assemble.h')),
    ('src/sqlite_extension/', RULES + ('store/store.h', 'store/sqlite/')),
    ('src/assemble.', RULES + ('observe/', 'store/', 'engine/', 'dispatch/', 'server/')),
    ('examples/', (PUBLIC,)),
]
DRIVERS = ('store/sqlite/', 'store/postgres/', 'store/http/', 'engine/in_process/', 'engine/temporal/')
ASSEMBLER = 'src/assemble.c'  # and its header, which shows the drivers' options
# For hosts with an SQLite of their own: it has this one driver.
SQLITE_DOORS = ('src/sqlite_extension/extension.c', 'src/sqlite_extension/sql_values.c')

C_LIBRARY = set('''
    assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic stdbool
    stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype
'''.split())

INCLUDE = re.compile(r'^\s*#\s*include\s*(?P<mark>[<"])(?P<name>[^>"]+)[>"]')


def driver_of(name):
    return next((driver for driver in DRIVERS if name.startswith(driver)), None)


def covers(allowed, name):
    """Whether a row's list has the header. A folder does not stand for the drivers in it."""
    for entry in allowed:
        if name == entry or (entry.endswith('/') and name.startswith(entry)):
            return driver_of(name) is None or driver_of(entry) is not None
    return False


def problem_of(path, mark, name):
    """What is wrong with one include, and what to do; None when nothing is."""
    row = next((row for row in LAYERS if path.startswith(row[0])), None)
    if row is None:
        return 'this folder has no row in the table of layers', 'add one to LAYERS in tools/check_layers.py'
    where, allowed = row

    if mark == '<':
        header = name[:-2] if name.endswith('.h') else name
        if where == 'include/weir/' and header not in C_LIBRARY:
            return (f'a public header includes <{name}>, which is not of the C library',
                    'declare the type as an incomplete struct, and include the library in the .c file')
        return None
    if '..' in name.split('/'):
        return f'"{name}" climbs out of its folder', 'write the path from src/ or include/'

    folder = os.path.dirname(path)
    if '/' not in name and os.path.dirname(path) != 'src' and not name.startswith('assemble.'):
        name = re.sub(r'^(src|include)/', '', folder) + '/' + name
    if path in (ASSEMBLER, ASSEMBLER[:-1] + 'h') or (path in SQLITE_DOORS and driver_of(name) == 'store/sqlite/'):
        return None
    driver = driver_of(name)
    own = re.sub(r'^(src|include)/', '', where)
    if driver is not None and not own.startswith(driver):
        return (f'"{name}" is of the driver {driver}, which only {ASSEMBLER} may name',
                f"use {driver.split('/')[0]}/{driver.split('/')[0]}.h, or make the driver known in {ASSEMBLER}")
    if name.startswith(own) or covers(allowed, name):
        return None
    return (f'{where} may not include "{name}"',
            'it may include its own folder and: ' + ' '.join(allowed) +
            '; move what is shared down, or hand it in as an argument')


def check(root):
    problems = []
    for top in ('include', 'src', 'examples'):
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(names):
                if not name.endswith(('.c', '.h')):
                    continue
                path = os.path.relpath(os.path.join(folder, name), root)
                with open(os.path.join(root, path), encoding='utf-8', errors='replace') as source:
                    for number, line in enumerate(source, 1):
                        include = INCLUDE.match(line)
                        problem = include and problem_of(path, include['mark'], include['name'])
                        if problem:
                            problems.append((path, number) + problem)
    return problems


def self_test():
    good = {
        'include/weir/status.h': '#include <stddef.h>\n#include "weir/version.h"\n',
        'src/base/text.c': '#include "base/text.h"\n#include <sys/types.h>\n#include "text_tables.h"\n',
        'src/store/sqlite/open.c': '#include "store/store.h"\n#include "store/sqlite/open.h"\n#include "queue/state.h"\n',
        'src/store/store.c': '#include "store/store.h"\n#include "observe/event.h"\n',
        'src/engine/temporal/start.c': '#include "grpc/grpc_client.h"\n#include "queue/retry.h"\n',
        'src/grpc/framing.c': '#include "grpc/framing.h"\n#include "base/text.h"\n',
        'src/assemble.c': '#include "store/sqlite/open.h"\n#include "engine/in_process/engine.h"\n',
        'src/cli/main.c': '#include "assemble.h"\n#include "dispatch/node.h"\n#include "cli/help/help.h"\n',
        'src/cli/arguments/parse.c': '#include "cli/settings/settings.h"\n#include "store/store.h"\n',
        'src/cli/verbs/verb_top.c': '#include "cli/output/table.h"\n#include "cli/signals.h"\n#include "dispatch/node.h"\n',
        'tests/unit/any.c': '#include "store/sqlite/open.h"\n',
    }
    bad = {
        'include/weir/store.h': '#include <sqlite3.h>\n',
        'include/weir/queue.h': '#include "queue/state.h"\n',
        'src/base/clock.c': '#include "queue/state.h"\n',
        'src/queue/state.c': '#include "store/store.h"\n',
        'src/observe/log.c': '#include "dispatch/node.h"\n',
        'src/store/store.c': '#include "store/sqlite/open.h"\n',
        'src/store/sqlite/open.c': '#include "store/postgres/open.h"\n',
        'src/store/postgres/open.c': '#include "dispatch/node.h"\n',
        'src/store/postgres/record.c': '#include "engine/engine.h"\n',
        'src/engine/in_process/run.c': '#include "store/store.h"\n',
        'src/grpc/call.c': '#include "engine/temporal/start.h"\n',
        'src/grpc/framing.c': '#include "queue/retry.h"\n',
        'src/engine/in_process/start.c': '#include "grpc/grpc_client.h"\n',
        'src/dispatch/node.c': '#include "store/sqlite/open.h"\n',
        'src/dispatch/wake.c': '#include "store/lanes.h"\n',
        'src/cli/main.c': '#include "engine/in_process/engine.h"\n',
        'src/cli/output/table.c': '#include "store/store.h"\n',
        'src/cli/output/progress.c': '#include "cli/signals.h"\n',
        'src/cli/settings/settings.c': '#include "cli/arguments/parse.h"\n',
        'src/cli/arguments/parse.c': '#include "cli/output/output.h"\n',
        'src/cli/help/help.c': '#include "cli/verbs/verb.h"\n',
        'src/cli/verbs/verb_list.c': '#include "store/sqlite/open.h"\n',
        'src/base/text.c': '#include "../queue/state.h"\n',
        'src/novel/thing.c': '#include "base/text.h"\n',
        'examples/enqueue.c': '#include "base/text.h"\n',
    }

    def write_tree(files):
        root = tempfile.TemporaryDirectory()
        for path, text in files.items():
            os.makedirs(os.path.join(root.name, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root.name, path), 'w', encoding='utf-8') as target:
                target.write(text)
        return root

    with write_tree(good) as root:
        assert check(root) == [], check(root)
    with write_tree(bad) as root:
        refused = {problem[0] for problem in check(root)}
        assert refused == set(bad), set(bad) - refused


def main():
    if sys.argv[1:] == ['--self-test']:
        self_test()
        return 0
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
    problems = check(root)
    for path, line, wrong, remedy in problems:
        print(f'{path}:{line}: {wrong}\n    {remedy}')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
