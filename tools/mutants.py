#!/usr/bin/env python3
"""Mutation score: does a test fail when a line of the queue, of the dispatcher or of the stores' SQL is changed?

A mutant is one small change of one line: a condition is negated, a boundary moved, a statement dropped, a lock clause
taken away. All of a draw are in one build of a copy of the tree, and WEIR_MUTANT=NUMBER chooses one when a program
starts (mutant_schemata.py). Each test program of the core suite runs once without a mutant; each of its tests leaves
its time and the points that it reached (tests/mutants/chosen_tests.c). A mutant then meets the tests that reach it, those
of fast and related programs first, until one fails (killed), or all or those of SECONDS_EACH have passed (survived). A
failure, and a program without an end, counts when it comes a second time, and not without the mutant. A change that does
not compile is no mutant and is not counted; one that compiles only alone, as in a table, is left out. No free() is
dropped: leaks are what the sanitizers find.

  mutants.py [--count N] [--seed S]   N mutants, drawn by the seed from all
             [--only TEXT]            of files whose path contains TEXT
             [--minutes M]            begin no more after M minutes
             [--jobs J]               J mutants at a time (2)
             [--folder FOLDER]        the copy, its build and the results (build-mutants); a run is taken up where it ended
             [--again]                those that survived before, without explanation
             [--fresh]                all, with no verdict of the folder or of the list
             [--keep]                 try none; add the verdicts of the folder to tests/mutants/decided.txt
             [--first FILE [--only-first]]  the likely killers of FILE, lines "ID PROGRAM TEST,TEST", before all others
             [--list]                 print what would be tried
             [--id ID]                this one alone, with the output of the test that kills it
  mutants.py --self-test

A mutant whose verdict is in tests/mutants/decided.txt is not tried again. Ends with 1 when a mutant survived that
tests/mutants/explained.md does not explain. Its ids are made of the file, the
text of the line and the change, so that they stay when other lines move.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import functools
import glob
import hashlib
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

import mutant_programs
import mutant_schemata as schemata
import mutant_verdicts as verdicts

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SECONDS_LEAST = 20  # more than this and TIMES what it took is no end; a busy machine kills no mutant
SECONDS_UNKNOWN = 100  # for a program of which no run is known yet; tests that have not ended by then judge nothing
SECONDS_EACH = (6, 25, 100)  # of a mutant in each round, so that those that are soon killed come first
STORES = (False, True)  # whether PostgreSQL is needed, in the order of judging
TIMES_POSTGRES = 3  # what it gets of them, for a server begins with each program
TIMES = 4
LATE = '# no end in time'

TEMPLATE = f'/tmp/weir-mutants-{os.getpid()}'
under_way = set()  # programs

Mutant = collections.namedtuple('Mutant', 'id file line operator old new begin end')


# --- finding them ---

def blank_c(text):
    """Comments, strings and characters as blanks of the same length."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda found: re.sub(r'[^\n]', ' ', found.group()), text, flags=re.S)


def blank_sql(text):
    return re.sub(r"--[^\n]*|'(?:''|[^'\n])*'", lambda found: re.sub(r'[^\n]', ' ', found.group()), text)


BOUNDARIES = (('boundary', r' < ', ' <= '), ('boundary', r' <= ', ' < '),
              ('boundary', r' > ', ' >= '), ('boundary', r' >= ', ' > '))
C_SWAPS = (('equal', r' == ', ' != '), ('equal', r' != ', ' == '),
           *BOUNDARIES,
           ('and-or', r' && ', ' || '), ('and-or', r' \|\| ', ' && '),
           ('plus-minus', r'(?<=[\w\)\]]) \+ (?=[\w(])', ' - '), ('plus-minus', r'(?<=[\w\)\]]) - (?=[\w(])', ' + '),
           ('true-false', r'\btrue\b', 'false'), ('true-false', r'\bfalse\b', 'true'))
SQL_SWAPS = (*BOUNDARIES,
             ('equal', r'(?<=\w) <> ', ' = '),
             ('and-or', r'\bAND\b(?!\s+\S+\s*$)', 'OR'), ('and-or', r'\bOR\b(?!\s+REPLACE)', 'AND'),
             ('null', r'\bIS NOT NULL\b', 'IS NULL'), ('null', r'\bIS NULL\b', 'IS NOT NULL'),
             ('exists', r'\bNOT EXISTS\b', 'EXISTS'), ('exists', r'(?<!NOT )(?<!IF )\bEXISTS \(', 'NOT EXISTS ('),
             ('lock', r' FOR (NO KEY |KEY )?(UPDATE|SHARE)( OF \w+)?( SKIP LOCKED| NOWAIT)?(?=[;\s)])', ''),
             ('lock', r' (SKIP LOCKED|NOWAIT)\b', ''),
             ('plus-minus', r'(?<=[\w)]) \+ (?=[\w:(])', ' - '), ('plus-minus', r'(?<=[\w)]) - (?=[\w:(])', ' + '),
             ('least', r'\bleast\(', 'greatest('), ('least', r'\bgreatest\(', 'least('),
             ('order', r' DESC\b', ' ASC'),
             ('true-false', r'\btrue\b', 'false'), ('true-false', r'\bfalse\b', 'true'))
CONJUNCT = (r'\bAND (?:NOT )?[\w.]+ (?:=|<>|<=|>=|<|>) (?:ANY \([\w.:$]+\)|[\w.:$]+)(?=[\s;)]|$)'
            r'|\bAND (?:NOT )?[\w.]+ IS (?:NOT )?NULL\b')
STATEMENT = (r'^( +)(?!return\b|break\b|goto\b|continue\b|case\b|INVARIANT|free\(|json_decref\(|\(void\)pthread_\w+_destroy'
             r'|\(void\)va_|\(void\)memset)([\w(*].*;) *$')
DECLARATION = r'^ +(?:const |static |struct |enum |unsigned |volatile )*\w+(?: \*?| \*const )\w+(?:\[[^\]]*\])*(?: = .*)?;'


def close_of(text, begin):
    depth = 0
    for at in range(begin, len(text)):
        depth += {'(': 1, ')': -1}.get(text[at], 0)
        if depth == 0:
            return at
    return None


def changes_of_c(line):
    """Yields (operator, begin, end, new) for one line without comments and strings."""
    if line.startswith('#') or 'INVARIANT(' in line or re.match(r'\w', line) or line.strip().startswith('static const'):
        return
    for operator, pattern, new in C_SWAPS:
        for found in re.finditer(pattern, line):
            yield operator, found.start(), found.end(), new
    for found in re.finditer(r'\b(?:if|while) \(', line):
        end = close_of(line, found.end() - 1)
        if end is not None:
            yield 'negate', found.end(), end, '!(' + line[found.end():end] + ')'
    for found in re.finditer(r'(?<![\w.\[])(\d+)(?![\w.\]])', line):
        number = int(found.group(1))
        yield 'constant', found.start(), found.end(), str(number + 1)
        if number > 1:
            yield 'constant', found.start(), found.end(), str(number - 1)
    found = re.match(STATEMENT, line)
    if found and not re.match(DECLARATION, line) and line.count('(') == line.count(')'):
        yield 'drop-statement', found.start(2), found.end(2), ';'


def changes_of_sql(line):
    for operator, pattern, new in SQL_SWAPS:
        for found in re.finditer(pattern, line):
            yield operator, found.start(), found.end(), new
    for found in re.finditer(CONJUNCT, line):
        yield 'drop-conjunct', found.start(), found.end(), ''
    for found in re.finditer(r'(?<![\w.:$\[])(\d{1,9})(?![\w.\]])', line):
        yield 'constant', found.start(), found.end(), str(int(found.group(1)) + 1)
    found = re.match(r'^ +(PERFORM .*;)$', line)
    if found and line.count('(') == line.count(')'):
        yield 'drop-statement', found.start(1), found.end(1), 'NULL;'


def mutants_of(file, text):
    is_sql = file.endswith('.sql')
    blank = blank_sql(text) if is_sql else blank_c(text)
    offset, seen = 0, collections.Counter()
    for number, (line, original) in enumerate(zip(blank.split('\n'), text.split('\n')), 1):
        for operator, begin, end, new in (changes_of_sql if is_sql else changes_of_c)(line):
            old = original[begin:end]
            if operator == 'negate':
                new = f'!({old})'
            key = '\0'.join((file, original.strip(), operator, str(begin - len(line) + len(line.lstrip())), new))
            seen[key] += 1
            id = hashlib.sha256(f'{key}\0{seen[key]}'.encode()).hexdigest()[:10]
            yield Mutant(id, file, number, operator, old, new, offset + begin, offset + end)
        offset += len(original) + 1


def is_source(file):
    """scheduler_check.c asserts and does nothing else: to weaken it is no change of what weir does."""
    sources = r'src/(queue|definition|dispatch)/\w+\.c$|src/store/(sqlite|postgres)/(queries|functions)/\w+\.sql$'
    return file != 'src/queue/scheduler_check.c' and bool(re.match(sources, file))


def files_of_tree():
    listed = subprocess.run(['git', 'ls-files'], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split('\n')
    return [file for file in listed if file and os.path.isfile(os.path.join(ROOT, file))]


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def read_bytes(path):
    with open(path, 'rb') as file:
        return file.read()


def write(path, text):
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def changed(text, mutant):
    return text[:mutant.begin] + mutant.new + text[mutant.end:]


def all_mutants(only):
    found = []
    for file in sorted(filter(is_source, files_of_tree())):
        if only in file:
            found.extend(mutants_of(file, read(os.path.join(ROOT, file))))
    return found


def draw(found, seed, count):
    """In an order by hash: what is drawn stays drawn when other lines change."""
    return sorted(found, key=lambda mutant: hashlib.sha256(f'{seed} {mutant.id}'.encode()).digest())[:count]


def draw_of(options, found):
    """All of one draw are in the tree, also when one of them is wanted, so that nothing is built anew for it."""
    drawn = draw(found, options.seed, options.count)
    return drawn + [mutant for mutant in found if mutant.id == options.id and mutant not in drawn]


# --- the copy and its build ---

class Copy:
    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.tree = os.path.join(self.folder, 'tree')
        self.build = os.path.join(self.folder, 'build')
        self.template = None
        self.chooser = None

    def refresh(self, replaced=None):
        """Writes only what differs, so that little is built anew; `replaced` has texts beside those of the tree."""
        replaced = {file: text.encode() for file, text in (replaced or {}).items()}
        os.makedirs(self.tree, exist_ok=True)
        for file in sorted({*files_of_tree(), *replaced}):
            path, source = os.path.join(self.tree, file), os.path.join(ROOT, file)
            data = replaced[file] if file in replaced else read_bytes(source)
            if os.path.isfile(path) and read_bytes(path) == data:
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, 'wb') as target:
                target.write(data)
            if os.path.isfile(source):
                os.chmod(path, os.stat(source).st_mode & 0o777)
        if not os.path.isfile(os.path.join(self.build, 'build.ninja')):
            self.run(['meson', 'setup', self.build, self.tree, '-Dtests=true', '-Dbench=false', '-Dwerror=false',
                      '-Doptimization=1', '-Ddebug=false'])

    def make_chooser(self):
        """The library that runs chosen tests of a program."""
        source = os.path.join(ROOT, 'tests/mutants/chosen_tests.c')
        self.chooser = os.path.join(self.folder, 'chosen_tests.so')
        self.run(['cc', '-std=c17', '-O1', '-shared', '-fPIC', '-o', self.chooser, source, '-ldl'])

    def run(self, words):
        answer = subprocess.run(words, capture_output=True, text=True)
        if answer.returncode != 0:
            sys.exit(f'mutants: {" ".join(words)} failed:\n{answer.stdout[-3000:]}{answer.stderr[-3000:]}')
        return answer.stdout

    def tests(self):
        listed = json.loads(self.run(['meson', 'introspect', '--tests', self.build]))
        targets = {target['id']: target['filename'] for target in
                   json.loads(self.run(['meson', 'introspect', '--targets', self.build]))}
        for test in listed:
            test['targets'] = [os.path.relpath(name, self.build) for id in test['depends'] for name in targets.get(id, ())]
        return {test['name']: test for test in listed}

    def compile(self, targets):
        words = ['ninja', '-C', self.build, '--quiet', *targets]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0

    @contextlib.contextmanager
    def with_template(self):
        """A database cluster that the tests on PostgreSQL copy, so that each needs no initdb."""
        folder = TEMPLATE
        os.makedirs(folder)
        made = subprocess.run([sys.executable, os.path.join(ROOT, 'tests/end_to_end/postgres_template.py'), folder],
                              capture_output=True, check=False)
        self.template = folder if made.returncode == 0 else None
        for cluster in glob.glob(os.path.join(folder, '*/postgresql.conf')):
            with open(cluster, 'a', encoding='utf-8') as file:  # no mutant depends on what a loss of power leaves
                file.write('\nfsync = off\nfull_page_writes = off\nautovacuum_naptime = 1min\n')
        try:
            yield
        finally:
            subprocess.run(['rm', '-rf', folder], check=False)

    def call(self, test, seconds, chosen=None, more=None, until_failure=True):
        """(passed, seconds that it took, output) of the chosen tests, or of all; `more` is put into the environment"""
        words = list(test['cmd'])
        if test['name'] == 'simulation':
            words[words.index('--seeds') + 1] = '40'
        own = {'LD_PRELOAD': self.chooser, 'WEIR_POSTGRES_TEMPLATE': self.template,
               'WEIR_MUTANTS_TESTS': ','.join(chosen or ())}
        environment = {**os.environ, **test['env'], **{name: value for name, value in own.items() if value}, **(more or {})}
        began = time.monotonic()
        process = subprocess.Popen(words, cwd=test['workdir'] or self.build, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        under_way.add(process)
        lines, late = [], threading.Event()
        timer = threading.Timer(seconds, lambda: (late.set(), kill_group(process)))
        timer.start()
        passed = True
        try:
            for line in process.stdout:
                lines.append(line.decode(errors='replace'))
                if lines[-1].startswith('not ok'):
                    passed = False
                    if until_failure:  # the rest of the program would change nothing
                        break
        except BaseException:
            kill_group(process)
            raise
        finally:
            if not passed and until_failure:
                time.sleep(0.1)  # the reason follows the line
                kill_group(process)
            lines.append(process.communicate()[0].decode(errors='replace'))
            timer.cancel()
            under_way.discard(process)
        if late.is_set():
            lines.append(f'\n{LATE}')
        return passed and not late.is_set() and process.returncode == 0, time.monotonic() - began, ''.join(lines)


def kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


# --- one tree of all mutants ---

def compile_commands(build):
    """How each source file of the library is compiled: {file in the tree: words}"""
    found = {}
    for entry in json.loads(read(os.path.join(build, 'compile_commands.json'))):
        if 'libweir_internal' in entry['output']:
            words = shlex.split(entry['command'])
            at = words.index('-o')
            found[os.path.abspath(os.path.join(entry['directory'], entry['file']))] = words[:at] + words[at + 2:]
    return found


class MutantTree:
    """The copy with all mutants in it; `numbers` has those that are, `left_out` those that are not, with the reason."""

    def __init__(self, copy, wanted):
        self.copy, self.numbers, self.left_out, self.rows = copy, {}, {}, {}
        numbered = list(enumerate(wanted, 1))
        replaced = self.of_sql([pair for pair in numbered if pair[1].file.endswith('.sql')])
        by_file = collections.defaultdict(list)
        for number, mutant in numbered:
            if mutant.file.endswith('.c'):
                by_file[mutant.file].append((number, mutant))
        # Files of C stay as an earlier run left them, until it is known what they will be.
        paths = {file: os.path.join(copy.tree, file) for file in by_file}
        copy.refresh({**replaced, **{file: read(path) for file, path in paths.items() if os.path.isfile(path)}})
        headers = [name for target in json.loads(copy.run(['meson', 'introspect', '--targets', copy.build]))
                   for name in target['filename'] if name.endswith('.h')]
        copy.run(['ninja', '-C', copy.build, '--quiet', *(os.path.relpath(name, copy.build) for name in headers)])
        self.commands = compile_commands(copy.build)
        self.known_path = os.path.join(copy.folder, 'left_out.json')
        self.known = json.loads(read(self.known_path)) if os.path.isfile(self.known_path) else {}
        for file, pairs in by_file.items():
            replaced[file] = self.of_c(file, pairs)
        write(self.known_path, json.dumps(self.known))
        copy.refresh(replaced)

    def compiles(self, file, text):
        path = os.path.join(self.copy.tree, file)
        words = [*self.commands[path], '-fsyntax-only', '-w', '-x', 'c', '-iquote', os.path.dirname(path), '-']
        return subprocess.run([word for word in words if not word.endswith(os.path.basename(file))], cwd=self.copy.build,
                              input=text.encode(), capture_output=True, check=False).returncode == 0

    def of_c(self, file, pairs):
        text = read(os.path.join(ROOT, file))
        blank = blank_c(text)

        def of(pairs):
            return schemata.with_include(schemata.with_switches(text, blank, pairs))
        key = hashlib.sha256(of(pairs).encode()).hexdigest()
        if key not in self.known:
            self.known[key] = {}
            if not self.compiles(file, of(pairs)):
                for pair in pairs:
                    if not self.compiles(file, of([pair])):
                        self.known[key][pair[1].id] = self.compiles(file, changed(text, pair[1]))
        for number, mutant in pairs:
            if mutant.id not in self.known[key]:
                self.numbers[mutant.id] = number
            elif self.known[key][mutant.id]:
                self.left_out[mutant.id] = 'left out'
            else:
                self.left_out[mutant.id] = 'no mutant'
        return of([pair for pair in pairs if pair[1].id in self.numbers])

    def of_sql(self, numbered):
        texts = {}
        for number, mutant in numbered:
            row = schemata.changed_row(mutant.file, read(os.path.join(ROOT, mutant.file)), mutant)
            if row is None:
                self.left_out[mutant.id] = 'left out'
            else:
                self.numbers[mutant.id], self.rows[mutant.id], texts[number] = number, row[:2], row
        replaced = {f'tests/{schemata.TEXTS}': schemata.texts_header(texts)}
        for file in files_of_tree():
            if re.match(r'(src|tests/unit)/store/\w.*\.c$', file):
                text = read(os.path.join(ROOT, file))
                if schemata.with_texts(text) != text:
                    replaced[file] = schemata.with_texts(text)
        return replaced


# --- which tests ---

def queries_of(build, store):
    """The names of the queries of a store, in the order of their numbers."""
    header = read(os.path.join(build, f'src/store/{store}_queries.h'))
    return [name.lower() for name in re.findall(r'^    QUERY_(\w+),$', header, re.M)]


def calls_of_postgres():
    """What each query and function of PostgreSQL can reach of the functions; '' is what the schema itself names."""
    texts, folder = {'': ''}, os.path.join(ROOT, 'src/store/postgres')
    for kind in ('functions', 'views', 'queries', 'schema'):
        for file in sorted(os.listdir(os.path.join(folder, kind))):
            text = read(os.path.join(folder, kind, file))
            if kind == 'schema':
                texts[''] += text
            elif kind == 'queries':
                rows = schemata.rows_of(f'src/store/postgres/queries/{file}', text)
                texts.update({f'{name}?': sql for name, sql in rows.items()})
            else:
                texts[file[:-len('.sql')]] = text
                texts[''] += f':schema.{file[:-len(".sql")]} ' if re.search('CREATE (CONSTRAINT )?TRIGGER', text) else ''
    return schemata.calls_of(texts)


class Judge:
    def __init__(self, copy, tree):
        self.copy, self.tree, self.kills, self.lock = copy, tree, collections.Counter(), threading.RLock()
        self.tests = {name: test for name, test in copy.tests().items() if is_judge(test)}
        self.queries = {store: queries_of(copy.build, store) for store in schemata.FIRST_POINT}
        self.calls = calls_of_postgres()
        # The programs, kept for as long as their files are the same.
        self.runs_path = os.path.join(copy.folder, 'runs.json')
        self.runs = {}
        if os.path.isfile(self.runs_path):
            self.runs = {name: mutant_programs.Program(*row) for name, row in json.loads(read(self.runs_path)).items()}
        self.recorded, self.recording = set(), threading.Lock()
        self.alone = {}  # {(program, tests): whether they pass without a mutant}
        self.explained = verdicts.explained_ids()
        # Of mutants without a verdict the programs that they have met, with the digest of the program's file.
        self.passed_path = os.path.join(copy.folder, 'passed.json')
        self.passed = json.loads(read(self.passed_path)) if os.path.isfile(self.passed_path) else {}

    def record(self, is_postgres, jobs):
        names = [name for name in self.tests if needs_postgres(name) == is_postgres and name not in self.recorded]
        self.recorded.update(names)
        if names:
            self.build(names)
            with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
                list(pool.map(self.record_one, names))

    def record_one(self, name):
        test = self.tests[name]
        digest = hashlib.sha256(b''.join(map(read_bytes, [os.path.join(self.copy.build, target)
                                                           for target in test['targets']]))).hexdigest()
        if name in self.runs and self.runs[name].digest == digest:
            return
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            path, trace = os.path.join(folder, 'reached'), os.path.join(folder, 'trace')
            for _ in range(2):  # a busy machine may fail one
                with open(path, 'wb') as file:
                    file.truncate(65536)
                if os.path.isfile(trace):
                    os.remove(trace)
                passed, took, output = self.copy.call(test, SECONDS_UNKNOWN, more={'WEIR_MUTANTS_REACHED': path,
                                                                                   'WEIR_MUTANTS_TRACE': trace})
                is_cut = LATE in output and 'not ok' not in output and os.path.isfile(trace)
                if passed or is_cut:
                    break
            points = [point for point, reached in enumerate(read_bytes(path)) if reached]
            row = (digest, passed or is_cut, took, mutant_programs.read_trace(trace, took, points))
        if not passed:
            print(f'# {name} fails on the unchanged tree and judges nothing:\n{output[-1500:]}', flush=True)
        with self.lock:
            self.runs[name] = mutant_programs.Program(*row)
            write(self.runs_path, json.dumps({name: (run.digest, run.passed, run.took, run.tests)
                                              for name, run in self.runs.items()}))

    def reaches(self, mutant, name, points):
        if mutant.file.endswith('.c'):
            return self.tree.numbers[mutant.id] in points
        table, row = self.tree.rows[mutant.id]
        store = table.split('_')[0]
        first, queries = schemata.FIRST_POINT[store], self.queries[store]
        used = [queries[point - first] for point in points if first <= point < first + len(queries)]
        if table.endswith('queries'):
            return row in used
        if not used:
            return False
        return (row in self.calls[''] or any(row in self.calls[f'{query}?'] for query in used)
                or any(row in self.calls[called] for called in self.called_by_text(name)))

    @functools.lru_cache(maxsize=None)
    def called_by_text(self, name):
        """The functions of PostgreSQL that a program of tests calls by itself."""
        text = read(self.source_of(name)) if self.source_of(name) else ''
        return [called for called in re.findall(r'(?:\bweir|\bscene|SCHEMA ")\.(\w+)', text) if called in self.calls]

    def source_of(self, name):
        stem = re.sub(r'^conformance/\w+/(\w+?)(_by_news)?$', r'conformance/\1_test', name)
        path = os.path.join(ROOT, 'tests', stem if stem.startswith('conformance') else f'unit/{stem}') + '.c'
        return path if os.path.isfile(path) else None

    def costs(self, mutant, is_on_all=False):
        """{(program, *some of its tests that reach the mutant): cost}. The cost are their seconds, less for a program that
        killed a neighbour or whose name is alike, or most of whose tests reach the mutant."""
        words = [word.rstrip('s') for word in
                 re.split('[_/.]', f'{mutant.file}_{"_".join(self.tree.rows.get(mutant.id, ()))}') if len(word) > 4]
        costs = {}
        for name in self.tests:
            run = self.runs[name] if name in self.recorded else None
            is_on_its_store = is_on_all or needs_postgres(name) == needs_postgres(mutant.file)
            if run is None or not run.passed or not is_on_its_store:
                continue
            chosen = [test for test, (_, points) in run.tests.items() if self.reaches(mutant, name, points)]
            is_related = self.kills[mutant.file, name] > 0 or any(word in name for word in words)
            factor = 0.1 if is_related else 1 if '' in run.tests else 1.1 - len(chosen) / max(1, len(run.tests))
            for part in run.parts(chosen):
                costs[name, *part] = run.seconds(part) * factor
        return costs

    def seconds_of_all(self, mutant):
        """Of all tests that reach the mutant: those that few reach come first, since they are soon decided."""
        costs = self.costs(mutant) if mutant.id in self.tree.numbers else {}
        return sum(self.runs[name].seconds(part) for name, *part in costs)

    def judge(self, mutant, seconds_most, jobs):
        """(verdict, the test that killed it or why it is none, its output); None when the seconds were not enough, but
        after the last round those have survived, too: more tests could only kill more."""
        is_last = seconds_most == SECONDS_EACH[-1] or mutant.id in self.explained
        if mutant.id not in self.tree.numbers:
            verdict = self.tree.left_out[mutant.id]
            return verdict, 'it compiles only alone' if verdict == 'left out' else 'it does not compile', ''
        costs = self.costs(mutant)
        if not costs:  # what only PostgreSQL reaches
            if seconds_most == SECONDS_EACH[0] and not needs_postgres(mutant.file):
                return None
            with self.recording:
                self.record(True, jobs)
            costs = self.costs(mutant, True)
        if needs_postgres(mutant.file):
            seconds_most *= TIMES_POSTGRES
        passed_ones = self.passed.setdefault(mutant.id, {})
        met = {key for key in costs if passed_ones.get(' '.join(key)) == self.runs[key[0]].digest}
        spent, order = sum(self.runs[name].seconds(part) for name, *part in met), sorted(set(costs) - met, key=costs.get)
        for key in order:
            name, *part = key
            seconds = self.runs[name].seconds(part)
            if met and spent + seconds > seconds_most:
                continue
            spent += seconds
            killer, output = self.meet(mutant, name, part)
            if killer is None:
                return None
            if killer:
                if self.is_no_sql(mutant, output):
                    return 'no mutant', 'it is no SQL', output
                self.kills[mutant.file, name] += 1
                return 'killed', killer, output
            with self.lock:
                met.add(key)
                passed_ones[' '.join(key)] = self.runs[name].digest
                write(self.passed_path, json.dumps(self.passed))
        if len(met) < len(costs) and not is_last:
            return None
        passed, reaching = (sum(len(key) - 1 for key in keys) for keys in (met, costs))
        return 'survived', f'{passed} of {reaching} tests that reach it', ''

    def judge_first(self, mutant, likely):
        """The same with the likely killers alone, [(program, its tests)]; they need no record of all programs."""
        if mutant.id not in self.tree.numbers:
            return None
        for name, tests in likely:
            if name not in self.runs:
                self.runs[name] = mutant_programs.unknown(tests)
            killer, output = self.meet(mutant, name, tests)
            if killer is None:
                return None
            if killer:
                is_no_sql = self.is_no_sql(mutant, output)
                return ('no mutant', 'it is no SQL', output) if is_no_sql else ('killed', killer, output)
        count = sum(len(tests) for _, tests in likely if tests != [''])
        return ('survived', f'{count} likely tests', '') if count > 0 and mutant.id in self.explained else None

    @staticmethod
    def is_no_sql(mutant, output):
        return mutant.file.endswith('.sql') and 'syntax error' in output

    def build(self, names):
        targets = {target for name in names for target in self.tests[name]['targets']}
        self.copy.run(['ninja', '-C', self.copy.build, '--quiet', *sorted(targets)])

    def meet(self, mutant, name, chosen):
        """(the test that fails or '', its output) of a program. A failure counts when it comes again, and when it does not
        come without the mutant. (None, ''): it came without the mutant, too, so that nothing is known."""
        more, test, run = {'WEIR_MUTANT': str(self.tree.numbers[mutant.id])}, self.tests[name], self.runs[name]

        def call(tests, more=more):
            return self.copy.call(test, SECONDS_LEAST + TIMES * run.seconds(tests),
                                  None if '' in tests else tests, more)
        passed, _, output = call(chosen)
        if passed:
            return '', ''
        failed = re.findall(r'^not ok \d+ - (.*)$', output, re.M)
        ended = len(re.findall(r'^ok \d+', output, re.M))
        is_name = '' in chosen and bool(re.fullmatch(r'[a-z]\w+', ' '.join(failed[:1])))
        last = [one for one in failed if one in chosen or is_name] or chosen[ended:ended + 1]
        is_late = LATE in output  # the machine may have been that busy, or have stood still
        for again in (chosen,) if is_late else (last, chosen):
            if again and not call(again)[0]:
                is_known = call(again, {})[0] if is_late else self.passes_alone(name, again, call)
                return (f'{name} {"".join(last[:1])}'.strip(), output) if is_known else (None, '')
        return '', ''

    def passes_alone(self, name, tests, call):
        key = name, tuple(tests)
        if key not in self.alone:
            self.alone[key] = call(tests, {})[0]
        return self.alone[key]


def needs_postgres(name):
    """Of a file or a program. What both stores use is judged on SQLite, which takes a tenth of the time."""
    return 'postgres' in name


# They test what is below or above the queue, definitions, dispatch and stores.
OTHER_AREAS = ('base/', 'calendar/', 'cli/', 'docs/', 'grpc/', 'library/', 'observe/', 'server/', 'support/')


def is_judge(test):
    suites = {suite.split(':')[-1] for suite in test['suite']}
    is_core = bool(suites & {'unit', 'conformance'}) and not suites & {'slow', 'long'}
    return test['name'] == 'simulation' or is_core and not test['name'].startswith(OTHER_AREAS)


# --- the run ---

def run(options):
    found = all_mutants(options.only)
    drawn = wanted = draw_of(options, found)
    if options.id:
        wanted = [mutant for mutant in found if mutant.id == options.id]
        if not wanted:
            sys.exit(f'mutants: there is no mutant {options.id}')
    if options.list:
        print(*map(verdicts.show, wanted), sep='\n')
        return 0
    only = f' --only {options.only}' if options.only else ''
    print(f'# mutants: {len(wanted)} of {len(found)}, --seed {options.seed} --count {options.count}{only}', flush=True)
    os.makedirs(options.folder, exist_ok=True)
    path = os.path.join(options.folder, 'results.jsonl')
    if options.keep:
        files = {mutant.id: mutant.file for mutant in all_mutants('')}
        print(f'# {verdicts.write_list(verdicts.known(path), files)} verdicts are in {verdicts.DECIDED}')
        return 0
    if options.fresh and os.path.isfile(path):
        os.remove(path)
    results = {} if options.id or options.fresh else verdicts.known(path)
    if options.again:
        results = verdicts.wanted_again(results)
    print(f'# {sum(mutant.id in results for mutant in wanted)} of them are decided already', flush=True)
    if any(mutant.id not in results for mutant in wanted):
        judge_all(options, drawn, wanted, results, path)
    open_ones, done = verdicts.report(wanted, results, len(found))
    if done < len(wanted):
        print(f'# {len(wanted) - done} are left; the same command goes on with them')
    return 1 if open_ones else 0


def judge_all(options, drawn, wanted, results, path):
    until = time.monotonic() + 60 * options.minutes if options.minutes else None
    copy, commit = Copy(options.folder), verdicts.commit_of_tree()
    tree = MutantTree(copy, drawn)
    copy.make_chooser()
    with copy.with_template():
        judge = Judge(copy, tree)
        for mutant in wanted:
            if mutant.id in results:
                judge.kills[mutant.file, results[mutant.id]['by'].split(' ')[0]] += 1
        left = [mutant for mutant in wanted if mutant.id not in results]

        def judge_one(mutant, seconds_most, likely=None):
            if until and time.monotonic() > until or mutant.id in results:
                return
            found = judge.judge_first(mutant, likely) if likely else judge.judge(mutant, seconds_most, options.jobs)
            if found:
                with judge.lock:
                    results[mutant.id] = {'id': mutant.id, 'verdict': found[0], 'by': found[1], 'commit': commit}
                    keep(options, mutant, results[mutant.id], path, found[2])

        likely = mutant_programs.read_likely(options.first) if options.first else {}
        first = [mutant for mutant in left if mutant.id in likely]
        if first:
            judge.build({name for mutant in first for name, _ in likely[mutant.id]})
            with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                for done in [pool.submit(judge_one, mutant, 0, likely[mutant.id]) for mutant in first]:
                    done.result()
        for seconds_most, is_postgres in itertools.product(() if options.only_first else SECONDS_EACH, STORES):
            those = [mutant for mutant in left if needs_postgres(mutant.file) == is_postgres and mutant.id not in results]
            if those and not (until and time.monotonic() > until):
                judge.record(is_postgres, options.jobs)
                with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                    for done in [pool.submit(judge_one, mutant, seconds_most)
                                 for mutant in sorted(those, key=judge.seconds_of_all)]:
                        done.result()


def keep(options, mutant, result, path, output):
    print(f'{result["verdict"]} ({result["by"]}): {verdicts.show(mutant)}', flush=True)
    if options.id:
        print(output)
    else:
        with open(path, 'a', encoding='utf-8') as file:
            file.write(json.dumps(result) + '\n')


# --- self-test ---

def self_test():
    def of(file, text):
        found = list(mutants_of(file, text))
        for mutant in found:
            assert text[mutant.begin:mutant.end] == mutant.old, mutant
        assert len({mutant.id for mutant in found}) == len(found)
        return {(mutant.line, mutant.operator, mutant.old.strip(), mutant.new.strip()) for mutant in found}

    c = of('src/queue/x.c', '/* a == b */\nint f(int a)\n{\n    if (a < 3 && g("x == y")) {\n        h(a);\n    }\n'
                            '    int b = a + 1;\n    INVARIANT(a == 1);\n    return true;\n}\n')
    assert (4, 'boundary', '<', '<=') in c and (4, 'and-or', '&&', '||') in c, c
    assert (4, 'negate', 'a < 3 && g("x == y")', '!(a < 3 && g("x == y"))') in c, c
    assert (4, 'constant', '3', '4') in c and (4, 'constant', '3', '2') in c, c
    assert (5, 'drop-statement', 'h(a);', ';') in c and (7, 'plus-minus', '+', '-') in c, c
    assert (9, 'true-false', 'true', 'false') in c, c
    assert not [row for row in c if row[0] in (1, 8) or row[1] == 'equal'], c
    assert not [row for row in c if row[:2] == (7, 'drop-statement')], c

    sql = of('src/store/postgres/functions/x.sql',
             "-- a < b\nSELECT 'a < b' FROM t WHERE t.a = $1 AND t.b = 2 AND t.c IS NULL\n    FOR UPDATE SKIP LOCKED;\n"
             '    PERFORM f(1);\n')
    assert (2, 'drop-conjunct', 'AND t.b = 2', '') in sql and (2, 'drop-conjunct', 'AND t.c IS NULL', '') in sql, sql
    assert (2, 'null', 'IS NULL', 'IS NOT NULL') in sql and (2, 'constant', '2', '3') in sql, sql
    assert (3, 'lock', 'FOR UPDATE SKIP LOCKED', '') in sql and (3, 'lock', 'SKIP LOCKED', '') in sql, sql
    assert (4, 'drop-statement', 'PERFORM f(1);', 'NULL;') in sql, sql
    assert not [row for row in sql if row[1] == 'boundary'], sql

    one = next(iter(mutants_of('src/queue/x.c', '    a = b + c;\n')))
    other = next(iter(mutants_of('src/queue/x.c', '\n\n    a = b + c;\n')))
    assert one.id == other.id and one.line != other.line
    found = all_mutants('')
    assert len(found) > 1000
    schemata.self_test(mutants_of, blank_c, [read(os.path.join(ROOT, file)) for file in files_of_tree()
                                             if re.match(r'src/store/\w+/.*\.c$', file)])
    verdicts.self_test()
    mutant_programs.self_test()
    print('mutants.py: ok')
    return 0


def end_all(*_):
    """Also the programs under way, which are children of no thread that would end by itself."""
    for process in list(under_way):
        kill_group(process)
    subprocess.run(['rm', '-rf', TEMPLATE], check=False)
    os._exit(143)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--count', type=int, default=500)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--only', default='')
    parser.add_argument('--minutes', type=float)
    parser.add_argument('--jobs', type=int, default=2)
    parser.add_argument('--folder', default=os.path.join(ROOT, 'build-mutants'))
    parser.add_argument('--first')
    parser.add_argument('--only-first', action='store_true')
    parser.add_argument('--list', action='store_true')
    parser.add_argument('--again', action='store_true')
    parser.add_argument('--fresh', action='store_true')
    parser.add_argument('--keep', action='store_true')
    parser.add_argument('--id')
    parser.add_argument('--self-test', action='store_true')
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, end_all)
    sys.exit(self_test() if options.self_test else run(options))


if __name__ == '__main__':
    main()
