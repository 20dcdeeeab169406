#!/usr/bin/env python3
"""Headers as a test: a .c file of src/ opens with a comment, and one with exported functions has a header of its name. The
header of a SQL function names its callers, and the locks that it takes.

usage: check_headers.py [ROOT] | --self-test

The exceptions are parts of an interface that one header shows whole, so that a reader sees all of it in one place: the
verbs of the store and of a driver, the commands, the handlers of routes, the public functions, the files of one module.
SHARED_HEADERS names these headers by room. Each function of a file without a header of its own is declared in one of
them, or listed there as X(name) behind its prefix.
"""

import glob
import os
import re
import sys
import tempfile

from check_style import EXPORTED, Source

SHARED_HEADERS = {
    'src/base': ('src/base/json.h', 'include/weir/weir.h'),
    'src/cli/verbs': ('src/cli/arguments/command_table.h', 'src/cli/verbs/doctor.h', 'src/cli/verbs/signal_execution.h'),
    'src/definition': ('src/definition/definition.h', 'src/definition/definition_internal.h',
                       'src/definition/expression.h'),
    'src/engine/temporal': ('src/engine/temporal/decode.h', 'src/engine/temporal/encode.h',
                            'src/engine/temporal/operator_client.h'),
    'src/grpc': ('src/grpc/grpc_client.h',),
    'src/library': ('include/weir/weir.h', 'src/library/library.h'),
    'src/observe': ('src/observe/metrics.h',),
    'src/queue': ('src/queue/scheduler.h', 'src/queue/scheduler_internal.h'),
    'src/server': ('src/server/route.h', 'src/server/task_hub.h', 'src/server/task_hub_internal.h'),
    'src/server/plain': ('src/server/routes/routes.h', 'src/server/plain/refusal.h'),
    'src/server/routes': ('src/server/routes/routes.h', 'src/server/dashboard_file.h'),
    'src/store': tuple(f'src/store/{name}.h' for name in ('store', 'driver', 'archive', 'bulk', 'history', 'hooks',
                                                          'key_mode', 'logs', 'progress', 'schedules', 'settings',
                                                          'signals', 'states', 'stream', 'tokens',
                                                          'definition_schedules')),
    'src/store/http': ('src/store/http/http_verbs.h',),
    'src/store/postgres': ('src/store/postgres/postgres.h', 'src/store/postgres/postgres_store.h',
                           'src/store/postgres/claimed.h', 'src/store/import_source.h',
                           'src/store/postgres/definition_schedules.h'),
    'src/store/sqlite': ('src/store/sqlite/sqlite_store.h', 'src/store/sqlite/archive.h',
                         'src/store/sqlite/definition_schedules.h'),
    'src/worker': ('src/worker/worker_internal.h',),
}
# These have no declaration of ours.
# Of others: the attribute before the entry of the extension of SQLite, and the function that libmicrohttpd calls.
ENTRY_POINTS = ('main', 'visibility', 'MHD_queue_response')
PREFIXES = ('verb_', 'answer_')  # of functions that a header declares by a list X(name)


def read(path):
    with open(path, encoding='utf-8') as source:
        return source.read()


def is_declared(name, texts):
    forms = [rf'\b{name}\s*\('] + [rf'\bX\({name[len(prefix):]}\)' for prefix in PREFIXES if name.startswith(prefix)]
    return any(re.search(form, text) for form in forms for text in texts)


def check(root):
    problems = []
    for folder, _, names in sorted(os.walk(os.path.join(root, 'src'))):
        room = os.path.relpath(folder, root)
        headers = SHARED_HEADERS.get(room, ())
        texts = ['\n'.join(Source(read(os.path.join(root, header))).code) for header in headers
                 if os.path.exists(os.path.join(root, header))]
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.endswith('.c') and not read(path).startswith('/*'):
                problems.append(f'{room}/{name}: no comment at the beginning\n'
                                '    explain what the file is responsible for, how it works and what it must never do')
            if not name.endswith('.c') or os.path.exists(path[:-2] + '.h'):
                continue
            functions = [found[1] for found in EXPORTED.finditer('\n'.join(Source(read(path)).code))]
            alone = [function for function in functions
                     if function not in ENTRY_POINTS and not is_declared(function, texts)]
            if alone:
                problems.append(f'{room}/{name}: no header {name[:-2]}.h, and {alone[0]}() is in no SHARED_HEADERS\n'
                                '    give the file a header of its name, or make the function static')
    return problems


# --- the headers of SQL functions ---

SQL = 'src/store/postgres'
SQL_COMMENT = re.compile(r'--[^\n]*')
SQL_CALLS = re.compile(r'(?<!FUNCTION ):schema\.(\w+)\(|EXECUTE FUNCTION :schema\.(\w+)\(')
SQL_BLOCK = re.compile(r'^-- name: (\w+)\n(.*?)(?=^-- name: |\Z)', re.MULTILINE | re.DOTALL)
SQL_WRITES = re.compile(r'\b(INSERT INTO|UPDATE :schema|DELETE FROM|FOR (NO KEY )?UPDATE|FOR (KEY )?SHARE|LOCK TABLE)\b')
CALLERS = re.compile(r'\bCallers?: ((?:[^.]|\.sql)*)')
FUNCTION_NAME = re.compile(r'(\w+)\(\)')
QUERY_NAME = re.compile(r'(\w+) \((queries/\w+\.sql)\)')
# Any role may call it. A list of this kind is not compared with the calls.
PUBLIC = re.compile(r'\b[Ff]or (programs|callers in SQL|the owner)\b')
COLLECTIVE = re.compile(r'\b(every|all|trigger|functions|views|queries)\b(?!/)')


def sql_header(text):
    lines = [line for line in text.split('\n\n', 1)[0].split('\n')]
    comment = lines[:next((at for at, line in enumerate(lines) if not line.startswith('--')), len(lines))]
    return ' '.join(line[2:].strip() for line in comment)


def sql_callers(root):
    """name of a function -> what calls it: functions and views by their names, and queries as 'name (queries/x.sql)'"""
    texts = {os.path.basename(path)[:-4]: read(path) for kind in ('functions', 'views')
             for path in glob.glob(os.path.join(root, SQL, kind, '*.sql'))}
    for path in glob.glob(os.path.join(root, SQL, 'queries', '*.sql')):
        texts.update((f'{name} (queries/{os.path.basename(path)})', text) for name, text in SQL_BLOCK.findall(read(path)))
    callers = {}
    for name, text in texts.items():
        for found in SQL_CALLS.finditer(SQL_COMMENT.sub('', text)):
            callers.setdefault(found[1] or found[2], set()).add(name)
    return callers


def wrong_callers(name, told, actual, functions, code):
    """The callers that the header names and that do not call it, and those that it does not name."""
    wrong = []
    for caller in FUNCTION_NAME.findall(told):
        is_right = caller in actual if caller in functions else re.search(rf'\b{caller}\(', code)
        wrong += [] if is_right else [f'{caller}() does not call it']
    queries = [f'{query} ({path})' for query, path in QUERY_NAME.findall(told)]
    wrong += [f'{query} does not call it' for query in queries if query not in actual]
    if not COLLECTIVE.search(QUERY_NAME.sub('', told)):
        wrong += [f'{caller} calls it' for caller in sorted(actual - {name})
                  if '(' not in caller and not re.search(rf'\b{caller}\b', told)]
    return wrong


def check_sql(root):
    problems = []
    callers = sql_callers(root)
    paths = sorted(glob.glob(os.path.join(root, SQL, 'functions', '*.sql')))
    functions = {os.path.basename(path)[:-4] for path in paths}
    code = '\n'.join(read(path) for path in glob.glob(os.path.join(root, 'src', '**', '*.c'), recursive=True))
    for path in paths:
        name, text = os.path.basename(path)[:-4], read(path)
        header = sql_header(text)
        told = CALLERS.search(header)
        wrong = []
        if SQL_WRITES.search(SQL_COMMENT.sub('', text)) and not re.search(r'\b[Ll]ock', header):
            wrong.append('no "Locks:", and it writes')
        if told is None and not PUBLIC.search(header):
            wrong.append('no "Callers:"')
        wrong += wrong_callers(name, told[1], callers.get(name, set()), functions, code) if told is not None else []
        problems += [f'{SQL}/functions/{name}.sql: {text}' for text in wrong]
    if problems:
        problems.append('    a header has the purpose, the arguments, the result, the locks and the callers')
    return problems


def self_test():
    sql_self_test()
    routes = 'src/server/routes/'
    body = '/* It. */\nint %s(int a)\n{\n    return a;\n}\n'
    for files, wanted in (({'src/base/x.c': body % 'x_add', 'src/base/x.h': ''}, 0),
                          ({'src/base/x.c': body % 'x_add', 'src/base/y.h': 'int x_add(int a);\n'}, 1),
                          ({'src/base/x.c': '/* It. */\nstatic int a;\n'}, 0),
                          ({'src/base/x.c': 'static int a;\n'}, 1), ({'src/base/main.c': body % 'main'}, 0),
                          ({'src/base/x.c': body % 'x_add', 'src/base/json.h': 'int x_add(int a);\n'}, 0),
                          ({'src/base/x.c': body % 'x_add', 'src/base/json.h': '/* x_add() */\n'}, 1),
                          ({routes + 'x.c': body % 'answer_it', routes + 'routes.h': '    X(it) X(that)\n'}, 0),
                          ({routes + 'x.c': body % 'answer_this', routes + 'routes.h': '    X(it)\n'}, 1)):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), 'w', encoding='utf-8') as target:
                    target.write(text)
            assert len(check(root)) == wanted, (files, check(root))


def sql_self_test():
    body = '%s\nCREATE OR REPLACE FUNCTION :schema.x() RETURNS bigint AS $$ SELECT 1 $$;\n'
    calls = ('-- It. For callers in SQL.\n'
             'CREATE OR REPLACE FUNCTION :schema.y() RETURNS bigint AS $$ SELECT :schema.x() $$;\n')
    writes = body.replace('SELECT 1', 'DELETE FROM :schema.t')
    for text, wanted in ((body % '-- It. Caller: y().', 0), (body % '-- It. Callers: y(), z().', 1), (body % '-- It.', 1),
                         (body % '-- It. Caller: w().', 2), (body % '-- It. Callers: all functions of acts.', 0),
                         (body % '-- It. Callers: q (queries/q.sql).', 2),
                         (body % '-- It. Callers: c_verb(),\n-- y(). More.', 0),
                         (writes % '-- It. Caller: y().', 1), (writes % '-- It. Locks: the rows. Caller: y().', 0)):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, SQL, 'functions'))
            for path, content in ((f'{SQL}/functions/x.sql', text), (f'{SQL}/functions/y.sql', calls),
                                  ('src/c.c', '/* It. */\nint c_verb(void);\n')):
                with open(os.path.join(root, path), 'w', encoding='utf-8') as target:
                    target.write(content)
            problems = check_sql(root)
            assert len(problems) == wanted + (wanted > 0), (text, problems)


def main():
    if sys.argv[1:] == ['--self-test']:
        self_test()
        return 0
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
    problems = check(root) + check_sql(root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
