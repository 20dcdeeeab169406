#!/usr/bin/env python3
"""The house style as a test. Each finding says where, what is wrong and what to do instead.

usage: check_style.py [ROOT] | --self-test
"""

import os
import re
import subprocess
import sys
import tempfile

LINE_COLUMNS_MAX = 124
SQL_COLUMNS_MAX = 140  # lists of columns read better in long lines
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 800
SQL_FUNCTION_LINES_MAX = 95
COMMENT_PERCENT_MIN = 8

# Longer ones that wait to be split; a number may only fall. A function is named by its file.
FILES_LONGER = {
    'tests/conformance/nodes_recover_test.c': 908,
    'tests/conformance/record_test.c': 854,
    'tests/conformance/schedule_news_test.c': 813,
    'tests/end_to_end/cli_test.py': 865,
    'tests/support/fake_temporal.c': 960,
    'tests/support/frontend.c': 872,
    'tests/unit/store/postgres/schedule_test.c': 812,
    'tests/unit/store/sqlite/schedule_test.c': 844,
}
FUNCTIONS_LONGER = {
    'tests/unit/definition/definition_test.c': 72,
    'tests/unit/grpc/tls_test.c': 77,
}
SQL_FUNCTIONS_LONGER = {}
# Lines with a comment among the lines of the .c files of a room, in percent; a number may only rise, to COMMENT_PERCENT_MIN.
COMMENT_PERCENT = {}
# Of the exported functions with more than CHECKED_LINES lines so many percent check their arguments or their state with
# INVARIANT(). The rest takes NULL, or anything. A number may only rise. In a room with CHECKED_FUNCTIONS exported functions
# or more, INVARIANT() has one condition for each of them on average.
CHECKED_LINES = 8
CHECKED_FUNCTIONS = 10
CHECKED_PERCENT = {
    'src/dispatch': 97,
    'src/engine': 100,
    'src/engine/in_process': 87,
    'src/engine/temporal': 98,
    'src/queue': 93,
    'src/store': 95,
    'src/store/http': 100,
    'src/store/postgres': 98,
    'src/store/sqlite': 97,
}

CODE_ENDINGS = ('.c', '.h', '.py', '.sql', '.sh', 'meson.build', 'meson_options.txt', '/dev', '.ci/run')
TEXT_ENDINGS = CODE_ENDINGS + ('.md', '.scd', '.yaml', '.yml', '.json', '.js', '.mjs', '.ts', '.jsx', '.css', '.html', '.txt', '.in')
SKIPPED_FOLDERS = ('.git', 'node_modules', '__pycache__')
# Inputs of fuzzers may hold anything; this file has to spell the words that it looks for.
SKIPPED_PATHS = ('tests/fuzz/corpus/', 'tools/check_style.py', 'LICENSE')

BANNED_CALLS = {
    'strcpy': 'use text_copy(), which knows the size of the target',
    'strncpy': 'use text_copy(), which always ends the text',
    'strcat': 'use text_add_string() or text_format()',
    'strncat': 'use text_add_string() or text_format()',
    'sprintf': 'use snprintf() with sizeof, or text_format()',
    'vsprintf': 'use vsnprintf() with sizeof',
    'gets': 'use fgets() or getline() with a limit',
    'strtok': 'use strcspn() and strspn(), or strtok_r()',
    'atoi': 'use strtol() and check errno and the end pointer',
    'atol': 'use strtol() and check errno and the end pointer',
    'atoll': 'use strtoll() and check errno and the end pointer',
    'atof': 'use strtod() and check errno and the end pointer',
    'system': 'use posix_spawn() with an argument list; a shell turns input into code',
    'popen': 'use posix_spawn() with an argument list; a shell turns input into code',
    'alloca': 'use an array with a named maximum, or an arena',
    'rand': 'use random_next() or random_below(), which are seeded by the caller',
    'srand': 'use random_seed()',
    'random': 'use random_next() or random_below(), which are seeded by the caller',
    'localtime': 'times are UTC: use time_format()',
    'gmtime': 'use time_format(), or gmtime_r()',
    'ctime': 'use time_format()',
    'asctime': 'use time_format()',
    'tmpnam': 'use mkstemp()',
    'mktemp': 'use mkstemp()',
}

SQL = re.compile(r'\bSELECT\b.*\bFROM\b|\bINSERT\s+(OR\s+\w+\s+)?INTO\b|\bREPLACE\s+INTO\b|\bUPDATE\s+\S+\s+SET\b|'
                 r'\bDELETE\s+FROM\b|\b(CREATE|DROP|ALTER)\s+(UNIQUE\s+)?(TABLE|INDEX|VIEW|TRIGGER)\b', re.DOTALL)
SQL_AT_START = re.compile(r'^\s*(select\s.*\sfrom\s|insert\s+into\s|update\s+\w+\s+set\s|delete\s+from\s)',
                          re.DOTALL | re.IGNORECASE)
PRINTING = re.compile(r'(?<![\w.>])(printf|puts|putchar|perror|vprintf|fprintf|vfprintf|fputs|fputc|putc|fwrite)\s*'
                      r'\(([^;]*)')
# Beside the command line: a broken invariant, and a failpoint with a wrong name, end the process with their last words.
PRINTING_ALLOWED = ('src/cli/', 'src/base/error.c', 'src/base/failpoint.c')
UNFINISHED = re.compile(r'\b(TODO|FIXME|XXX)\b')
LEFTOVERS = [
    # Both words have a plain meaning too (setsid() makes a session), which "this" and its like do not go with.
    (re.compile(r'\b(this|previous|earlier|later|next|last|my|our) (session|sandbox)', re.IGNORECASE),
     'speaks of the place where it was written', 'say what the code or the reader needs'),
    (re.compile(r'(?<![\w.])/(work|home|root|Users)/\w+'), 'names a path of one machine',
     'write a path from the project\'s root'),
]
PROTOTYPE = re.compile(r'^[A-Za-z_][\w\s*]*?\b(?P<name>\w+)\s*\(.*\)[^{}]*;\s*$', re.DOTALL)
NO_PROTOTYPE = re.compile(r'^\s*(typedef|struct\s+\w+\s*\{|enum\b.*\{|union\b.*\{|return\b|static_assert|_Static_assert)')
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


class Source:
    """A C file with its comments and texts told apart from its code; line numbers stay what they are."""

    def __init__(self, text):
        self.lines = text.split('\n')
        self.strings = []  # (line, content), neighbours joined as the compiler joins them
        end_of_last = None
        code = []
        at = 0
        for token in TOKEN.finditer(text):
            between = text[at:token.start()]
            code.append(between)
            line = text.count('\n', 0, token.start()) + 1
            value = token.group()
            if value[0] == '"':
                if end_of_last is not None and not text[end_of_last:token.start()].strip():
                    first, content = self.strings[-1]
                    self.strings[-1] = (first, content + value[1:-1])
                else:
                    self.strings.append((line, value[1:-1]))
                end_of_last = token.end()
                code.append('""')
            elif value[0] == "'":
                code.append("' '")
            else:
                code.append(' ' + '\n' * value.count('\n'))
            at = token.end()
        code.append(text[at:])
        self.code = ''.join(code).split('\n')

    def functions(self):
        """(line of the opening brace, number of lines): the formatter puts both braces of a function in column 0."""
        start = None
        for number, line in enumerate(self.code, 1):
            if line.rstrip() == '{':
                start = number
            elif line.rstrip() == '}' and start is not None:
                yield start, number - start + 1
                start = None


def check_text(path, text, found):
    lines = text.split('\n')
    columns_max = SQL_COLUMNS_MAX if path.endswith('.sql') else LINE_COLUMNS_MAX
    for number, line in enumerate(lines, 1):
        if '\t' in line:
            found(number, 'a tab', 'use spaces')
        if line != line.rstrip() and not path.endswith('.md'):
            found(number, 'blanks at the end of the line', 'remove them')
        if UNFINISHED.search(line):
            found(number, f'{UNFINISHED.search(line).group()}: unfinished work in the tree', 'finish it, or open an issue')
        for pattern, wrong, remedy in LEFTOVERS:
            if pattern.search(line):
                found(number, f'"{pattern.search(line).group()}" {wrong}', remedy)
        if path.endswith(CODE_ENDINGS) and len(line) > columns_max:
            found(number, f'{len(line)} columns', f'break the line; {columns_max} is the most')
    lines_max = FILES_LONGER.get(path, FILE_LINES_MAX)
    if path.endswith(CODE_ENDINGS) and len(lines) - 1 > lines_max:
        found(lines_max + 1, f'the file has {len(lines) - 1} lines', f'split it by noun; {lines_max} is the most')
    if text and not text.endswith('\n'):
        found(len(lines), 'no newline at the end of the file', 'add one')


def check_c(path, text, found):
    source = Source(text)
    check_calls(path, source, found)
    if path.startswith(('src/', 'include/')):
        check_sql(source, found)
        if not path.startswith(PRINTING_ALLOWED):
            check_printing(source, found)
    for start, lines in source.functions():
        # A test program's main() is a list of its tests.
        is_list = path.startswith('tests/') and 'main(' in source.code[max(start - 2, 0)]
        lines_max = FUNCTIONS_LONGER.get(path, FUNCTION_LINES_MAX)
        if lines > lines_max and not is_list:
            found(start, f'a function of {lines} lines', f'split it by what it does; {lines_max} is the most')
    if path.endswith('.h'):
        check_guard(path, source, found)
        if path.startswith(('src/', 'include/')):
            check_prototypes(source, found)


def check_calls(path, source, found):
    calls = re.compile(r'(?<![\w.>])(' + '|'.join(BANNED_CALLS) + r')\s*\(')
    waits = re.compile(r'(?<![\w.>])(sleep|usleep)\s*\(')
    forks = re.compile(r'(?<![\w.>])fork\s*\(')
    for number, line in enumerate(source.code, 1):
        for call in calls.finditer(line):
            found(number, f'{call[1]}() is not used here', BANNED_CALLS[call[1]])
        if path.startswith(('tests/unit/', 'tests/conformance/')) and forks.search(line):
            found(number, 'fork() in a test: an assertion that fails in the child does not end it', 'use test_fork()')
        if path.startswith('tests/') and waits.search(line):
            found(number, f'{waits.search(line)[1]}() in a test makes it slow or shaky',
                  'wait for the event itself, with a deadline, or step a virtual clock')


def check_sql(source, found):
    for number, content in source.strings:
        if 'sqlite_schema' in content:
            continue  # asked of a file of which it is not yet known whether it has our tables
        if SQL.search(content) or SQL_AT_START.search(content):
            found(number, 'SQL in a C string', 'put it in the queries/*.sql of the store, as a named block')


def check_printing(source, found):
    for number, line in enumerate(source.code, 1):
        for call in PRINTING.finditer(line):
            to_terminal = call[1] in ('printf', 'puts', 'putchar', 'perror', 'vprintf') or \
                re.search(r'\b(stdout|stderr)\b', call[2])
            if to_terminal:
                found(number, f'{call[1]}() in library code',
                      'emit an event (src/observe), or fill the caller\'s struct weir_error')


def guards_of(path):
    """WEIR_ and the path from src/ or include/weir/; where a file repeats the name of its folder, once is enough."""
    parts = re.sub(r'^(include/weir/|src/)', '', path)[:-2].split('/')
    short = parts[:-2] + parts[-1:] if len(parts) > 2 and (parts[-1] + '_').startswith(parts[-2] + '_') else parts
    return ['WEIR_' + re.sub(r'\W', '_', '_'.join(names)).upper() + '_H' for names in (short, parts)]


def check_guard(path, source, found):
    code = [line.strip() for line in source.code if line.strip()]
    guards = guards_of(path)
    if not any(code[:2] == [f'#ifndef {guard}', f'#define {guard}'] for guard in guards) or not code[-1].startswith('#endif'):
        found(1, 'the include guard is missing or has another name than the file', f'the guard of this file is {guards[0]}')


def check_prototypes(source, found):
    """Each prototype shares its paragraph (the lines without a blank one between) with a comment, or stands under a section
    line such as "/* --- any thread --- */". What is called _name, _init or _close
    says itself what it does."""
    section = False  # the paragraph above was a section line
    for first, last in paragraphs(source):
        text = '\n'.join(source.lines[first - 1:last])
        commented = '/*' in text or '//' in text
        if not commented and not section:
            for line, name in prototypes(source, first, last):
                if not name.endswith(('_name', '_init', '_close')):
                    found(line, f'{name}() has no comment',
                          'say on or above it what it does, who owns what, and which errors it returns')
        section = re.fullmatch(r'/\* ---.*--- \*/', source.lines[last - 1].strip()) is not None


def paragraphs(source):
    """(first line, last line) of each run of lines without a blank one; a blank line in a comment does not end it."""
    first = None
    in_comment = False
    for number, line in enumerate(source.lines + [''], 1):
        if line.strip() or in_comment:
            first = first or number
            in_comment = line.rfind('/*') > line.rfind('*/') or (in_comment and '*/' not in line)
        elif first:
            yield first, number - 1
            first = None


def prototypes(source, first, last):
    """(line, name) of each prototype that stands outside of any braces but those of extern "C"."""
    depth = 0
    statement = ''
    start = first
    for number in range(first, last + 1):
        code = source.code[number - 1]
        if not code.strip() or code.strip().startswith(('#', 'extern ""')):
            continue
        if not statement:
            start = number
        statement += code + '\n'
        depth += code.count('{') - code.count('}')
        if depth <= 0 and code.rstrip().endswith((';', '}')):
            prototype = PROTOTYPE.match(statement)
            if prototype and not NO_PROTOTYPE.match(statement):
                yield start, prototype['name']
            statement = ''
            depth = 0


def files_of(root):
    try:
        listed = subprocess.run(['git', '-C', root, 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
                                check=True, capture_output=True).stdout.decode()
        return sorted(path for path in set(listed.split('\0')) if path and os.path.isfile(os.path.join(root, path)))
    except (OSError, subprocess.CalledProcessError):
        pass  # a tree without git, as in a source archive
    paths = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith('build')]
        paths += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(paths)


SQL_FUNCTION = re.compile(r'^CREATE (?:OR REPLACE )?(?:FUNCTION|PROCEDURE)\b.*?(?P<quote>\$\w*\$).*?(?P=quote)[^;]*;',
                          re.DOTALL | re.MULTILINE)


def check_sql_functions(path, text, found):
    lines_max = SQL_FUNCTIONS_LONGER.get(path, SQL_FUNCTION_LINES_MAX)
    for function in SQL_FUNCTION.finditer(text):
        lines = function.group().count('\n') + 1
        if lines > lines_max:
            found(text.count('\n', 0, function.start()) + 1, f'a SQL function of {lines} lines',
                  f'split it by what it does; {lines_max} is the most')


def count_comments(text):
    """(lines with a comment, lines that are not empty) of a C file."""
    marked = TOKEN.sub(lambda token: re.sub(r'[^\n]', '\x01', token.group()) if token.group()[0] == '/' else token.group(), text)
    lines = [line for line in marked.split('\n') if line.strip()]
    return sum(1 for line in lines if '\x01' in line), len(lines)


def comment_shares(root):
    """room -> percent of the lines of its .c files that hold a comment"""
    totals = {}
    for path in files_of(root):
        if path.startswith('src/') and path.endswith('.c'):
            with open(os.path.join(root, path), encoding='utf-8', errors='replace') as source:
                comments, lines = count_comments(source.read())
            total = totals.setdefault(os.path.dirname(path), [0, 0])
            total[0] += comments
            total[1] += lines
    return {room: 100.0 * comments / lines for room, (comments, lines) in totals.items() if lines >= 100}


def check_comment_shares(root, problems):
    for room, share in sorted(comment_shares(root).items()):
        least = COMMENT_PERCENT.get(room, COMMENT_PERCENT_MIN)
        if share < least:
            problems.append((room, 1, f'{share:.1f} % of the lines of its .c files hold a comment; {least} % is the least',
                             'explain what each file is responsible for, the steps of its algorithm and their reasons'))


EXPORTED = re.compile(r'^(?!(?:_Noreturn )?static\b|typedef\b|extern\b|#)[A-Za-z_][^\n;={}]*?\b(\w+)\s*\([^;{}]*\)\n\{\n(.*?)^\}',
                      re.MULTILINE | re.DOTALL)


def count_checked(text):
    """The exported functions with more than CHECKED_LINES lines with a check, and those without; all exported functions, and
    the conditions that they check."""
    code = '\n'.join(Source(text).code)
    bodies = [function[2] for function in EXPORTED.finditer(code)]
    longer = [body for body in bodies if body.count('\n') + 2 > CHECKED_LINES]
    checked = sum('INVARIANT(' in body for body in longer)
    conditions = sum(1 + condition.count('&&') for body in bodies
                     for condition in re.findall(r'\bINVARIANT\((.*?)\);', body, re.DOTALL))
    return checked, len(longer) - checked, len(bodies), conditions


def check_checks(root, problems):
    totals = {}
    for path in files_of(root):
        room = next((room for room in sorted(CHECKED_PERCENT, reverse=True) if path.startswith(room + '/')), None)
        if room is not None and path.endswith('.c'):
            with open(os.path.join(root, path), encoding='utf-8', errors='replace') as source:
                counts = count_checked(source.read())
            totals[room] = [sum(pair) for pair in zip(totals.get(room, (0, 0, 0, 0)), counts)]
    for room, (checked, rest, functions, conditions) in sorted(totals.items()):
        least = CHECKED_PERCENT[room]
        if checked * 100 < least * (checked + rest):
            problems.append((room, 1, f'{rest} of {checked + rest} exported functions have no INVARIANT(); {least} % must have one',
                             'check the arguments and the state at the beginning of a function; bad input is an error instead'))
        if functions >= CHECKED_FUNCTIONS and conditions < functions:
            problems.append((room, 1, f'{conditions} conditions of INVARIANT() in {functions} exported functions; one each is the least',
                             'check the arguments and the state at the beginning of a function'))


def check_alarms(root, problems):
    """An operator finds every alarm of the log, and what to do about it, in one place."""
    events, told = os.path.join(root, 'src/observe/event.h'), os.path.join(root, 'docs/operations.md')
    if not os.path.exists(events):
        return
    with open(events, encoding='utf-8') as source:
        names = re.findall(r'"([a-z_.]+)", EVENT_(?:WARN|ERROR)\)', source.read())
    text = ''
    if os.path.exists(told):
        with open(told, encoding='utf-8') as source:
            text = source.read()
    problems += [('src/observe/event.h', 1, f'the alarm {name} is not explained', 'say what to do about it in docs/operations.md')
                 for name in names if f'`{name}`' not in text]


def check(root):
    problems = []
    check_alarms(root, problems)
    check_comment_shares(root, problems)
    check_checks(root, problems)
    for path in files_of(root):
        if path.startswith(SKIPPED_PATHS) or not ('/' + path).endswith(TEXT_ENDINGS):
            continue

        def found(line, wrong, remedy, path=path):
            problems.append((path, line, wrong, remedy))

        try:
            with open(os.path.join(root, path), encoding='utf-8', newline='') as source:
                text = source.read()
        except UnicodeDecodeError:
            found(1, 'is not UTF-8', 'write bytes of other encodings as escapes')
            continue
        if '\r' in text:
            found(text.count('\n', 0, text.index('\r')) + 1, 'a carriage return', 'end lines with a line feed alone')
        check_text(path, text, found)
        if path.endswith(('.c', '.h')):
            check_c(path, text, found)
        if path.endswith('.sql'):
            check_sql_functions(path, text, found)
    return problems


def self_test():
    guard = '#ifndef WEIR_BASE_X_H\n#define WEIR_BASE_X_H\n%s\n#endif\n'
    long_body = 'int f(void)\n{\n' + '    g();\n' * FUNCTION_LINES_MAX + '}\n'
    sql_function = 'CREATE FUNCTION a() RETURNS int\nLANGUAGE plpgsql AS $$\nBEGIN\n%sEND\n$$;\n'
    good = [
        ('src/base/x.h', guard % '/* Adds. */\nint x_add(int a,\n          int b);\nint x_sub(int a, int b);'),
        ('src/base/x.h', guard % 'struct x {\n    int (*call)(int a);\n};\n\nint x_add(int a); /* adds */'),
        ('src/base/x.h', guard % '#ifdef __cplusplus\nextern "C" {\n#endif\n\n/* Two\n\n   paragraphs. */\nint x(void);'),
        ('src/base/x.h', guard % '/* --- other --- */\n\nint x_add(int a);\n\nconst char *x_name(int a);'),
        ('src/base/x.c', ('/* The reason. */\n' + 'int a;\n' * 11) * 10),
        ('src/queue/x.c', 'int x_add(int a)\n{\n    INVARIANT(a > 0);\n' + '    g();\n' * CHECKED_LINES + '}\n'),
        ('src/queue/x.c', 'int x_add(int a)\n{\n' + '    g();\n' * (CHECKED_LINES - 2) + '}\n'),
        ('src/queue/x.c', 'int x_add(int a)\n{\n    INVARIANT(a > 0 && b);\n}\nint x_get(void)\n{\n}\n' * (CHECKED_FUNCTIONS // 2)),
        ('src/queue/x.c', 'static int add(int a)\n{\n' + '    g();\n' * CHECKED_LINES + '}\n'),
        ('src/store/postgres/functions/x.sql', sql_function % ('  x;\n' * (SQL_FUNCTION_LINES_MAX - 5))),
        ('src/base/x.c', '/* strcpy(a, b); SELECT a FROM b */\nint x = f("strcpy(a)");\n'),
        ('src/base/x.c', 'void f(void)\n{\n    (void)snprintf(to, 3, "%s", s);\n    gmtime_r(&a, &b);\n}\n'),
        ('src/base/x.c', 'void f(void)\n{\n    fwrite(a, 1, 2, file);\n}\n'),
        ('src/base/x.c', 'const char *hint = "select a workspace, or update the plan set for it";\n'),
        ('src/cli/x.c', 'void f(void)\n{\n    printf("x");\n}\n'),
        ('tests/unit/x.c', 'const char *q = "SELECT a FROM b";\n'),
        ('src/base/x.c', '/* setsid() makes the child leader of a session. */\nint a;\n'),
        ('tests/unit/x.c', long_body.replace('f(void)', 'main(void)')),
    ]
    bad = [
        ('src/base/x.h', 'int x(void); /* x */\n', 'guard'),
        ('src/base/x.h', guard.replace('BASE_X', 'X') % '', 'guard'),
        ('src/base/x.h', guard % '/* Other. */\n\nint x_add(int a);', 'x_add() has no comment'),
        ('src/base/x.h', guard % 'extern "C" {\n\nint *x_add(int a,\n    int b) MUST(1);', 'x_add() has no comment'),
        ('src/base/x.c', 'void f(void)\n{\n    strcpy(a, b);\n}\n', 'strcpy()'),
        ('src/base/x.c', 'int x = atoi ("1");\n', 'atoi()'),
        ('src/store/sqlite/x.c', 'const char *q = "SELECT a "\n    "FROM b";\n', 'SQL'),
        ('src/store/sqlite/x.c', 'const char *q = "delete from items";\n', 'SQL'),
        ('src/store/x.c', 'void f(void)\n{\n    fprintf(stderr, "x");\n}\n', 'fprintf()'),
        ('src/store/x.c', 'void f(void)\n{\n    puts("x");\n}\n', 'puts()'),
        ('tests/unit/x.c', 'void f(void)\n{\n    usleep(10);\n}\n', 'usleep()'),
        ('tests/unit/x.c', 'void f(void)\n{\n    g(fork());\n}\n', 'fork()'),
        ('src/base/x.c', long_body, 'a function of'),
        ('src/base/x.c', 'int a;\n' * (FILE_LINES_MAX + 1), 'the file has'),
        ('src/base/x.c', '/* ' + 'x' * LINE_COLUMNS_MAX + ' */\n', 'columns'),
        ('src/base/x.c', 'int a;\n' * 200, 'hold a comment'),
        ('src/queue/x.c', 'int x_add(int a)\n{\n' + '    g();\n' * CHECKED_LINES + '}\n', 'have no INVARIANT()'),
        ('src/queue/x.c', 'int x_add(int a)\n{\n    g();\n}\n' * CHECKED_FUNCTIONS, 'one each is the least'),
        ('src/store/postgres/functions/x.sql', sql_function % ('  x;\n' * SQL_FUNCTION_LINES_MAX), 'a SQL function of'),
        ('src/base/x.c', '\tint a;\n', 'tab'),
        ('src/base/x.c', 'int a; \n', 'blanks'),
        ('src/base/x.c', 'int a;', 'newline'),
        ('src/base/x.c', 'int a;\r\n', 'carriage'),
        ('src/base/x.c', '/* TODO */\n', 'TODO'),
        ('docs/x.md', 'left for the next session\n', 'session'),
        ('src/observe/event.h', 'X(EVENT_A, "a.happened", EVENT_WARN) /* that */\n', 'a.happened is not explained'),
        ('docs/x.md', 'see /home/somebody/x\n', 'path of one machine'),
    ]
    for path, text, *wanted in good + bad:
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, os.path.dirname(path)))
            with open(os.path.join(root, path), 'w', encoding='utf-8', newline='') as target:
                target.write(text)
            problems = check(root)
            if wanted:
                assert any(wanted[0] in problem[2] for problem in problems), (path, text[:80], wanted, problems)
            else:
                assert not problems, (path, text[:80], problems)


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
