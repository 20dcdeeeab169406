#!/usr/bin/env python3
"""Mutation score: does a test fail when a line of the queue, of the dispatcher or of the stores' SQL is changed?

A mutant is one small change of one line: a condition is negated, a boundary moved, a statement dropped, a lock clause
taken away. Each is built in a copy of the tree, and the tests that are nearest to its file run first, until one fails
(killed) or all have passed (survived). A failure counts when the test fails a second time with the change and has
passed without it. A change that does not compile is no mutant and is not counted. No free() is dropped: leaks are what
the sanitizers find.

  mutants.py [--count N] [--seed S]   N mutants, drawn by the seed from all
             [--only TEXT]            of files whose path contains TEXT
             [--minutes M]            begin no more after M minutes
             [--folder FOLDER]        the copy, its build and the results (build-mutants); a run is taken up where it ended
             [--list]                 print what would be tried
             [--id ID]                this one alone, with the output of the test that kills it
  mutants.py --self-test

Ends with 1 when a mutant survived that tests/mutants/explained.md does not explain. Its ids are made of the file, the
text of the line and the change, so that they stay when other lines move.
"""

import argparse
import collections
import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXPLAINED = 'tests/mutants/explained.md'
SECONDS_LEAST = 60  # for a test that takes no time; a busy machine must kill no mutant
SECONDS_UNKNOWN = 600  # for a test of which no passed run is known yet
TIMES = 8  # what a test may take, in times of what it took when it passed

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


# --- the copy and its build ---

class Copy:
    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.tree = os.path.join(self.folder, 'tree')
        self.build = os.path.join(self.folder, 'build')
        self.template = self.digest = None

    def refresh(self):
        """Writes only what differs, so that little is built anew; each test is built when it is first needed."""
        os.makedirs(self.tree, exist_ok=True)
        digest = hashlib.sha256()
        for file in sorted(files_of_tree()):
            path = os.path.join(self.tree, file)
            with open(os.path.join(ROOT, file), 'rb') as source:
                data = source.read()
            if file.startswith(('src/', 'include/', 'tests/')) and file != EXPLAINED:
                digest.update(f'{file} {len(data)} '.encode() + data)
            if os.path.isfile(path):
                with open(path, 'rb') as old:
                    if old.read() == data:
                        continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, 'wb') as target:
                target.write(data)
            os.chmod(path, os.stat(os.path.join(ROOT, file)).st_mode & 0o777)
        if not os.path.isfile(os.path.join(self.build, 'build.ninja')):
            self.run(['meson', 'setup', self.build, self.tree, '-Dtests=true', '-Dbench=false', '-Dwerror=false',
                      '-Doptimization=1', '-Ddebug=false'])
        self.digest = digest.hexdigest()

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
        folder = os.path.join('/tmp', f'weir-mutants-{os.getpid()}')
        os.makedirs(folder)
        made = subprocess.run([sys.executable, os.path.join(ROOT, 'tests/end_to_end/postgres_template.py'), folder],
                              capture_output=True, check=False)
        self.template = folder if made.returncode == 0 else None
        try:
            yield
        finally:
            subprocess.run(['rm', '-rf', folder], check=False)

    def call(self, test, seconds, until_failure=True):
        """(passed, seconds that it took, output)"""
        words = list(test['cmd'])
        if test['name'] == 'simulation':
            words[words.index('--seeds') + 1] = '40'
        environment = {**os.environ, **test['env']}
        if self.template:
            environment['WEIR_POSTGRES_TEMPLATE'] = self.template
        began = time.monotonic()
        process = subprocess.Popen(words, cwd=test['workdir'] or self.build, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
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
                time.sleep(0.2)  # the reason follows the line
                kill_group(process)
            lines.append(process.communicate()[0].decode(errors='replace'))
            timer.cancel()
        if late.is_set():
            lines.append('\n# no end in time')
        return passed and not late.is_set() and process.returncode == 0, time.monotonic() - began, ''.join(lines)


def kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


# --- which tests ---

RUN_DEFINITIONS = ('evaluator_process', 'execution', 'stages', 'step_inputs', 'step_run', 'step_secrets', 'step_signal',
                   'waiting')


def distance(file, name):
    """How near a test is to a file: less is nearer; None = it cannot reach it."""
    area = re.match(r'src/(store/\w+|\w+)', file).group(1)
    stem = os.path.splitext(os.path.basename(file))[0]
    if name == 'mutants' or name.startswith(('end_to_end', 'interop', 'docs', 'cli', 'library', 'base', 'observe')):
        return None
    if name == f'{area}/{stem}_test':
        return 0
    if area == 'queue':
        reach = ('queue/', 'dispatch/', 'engine/evaluator')
    elif area == 'dispatch':
        reach = ('dispatch/', 'simulation')
    elif area == 'definition':
        reach = ('definition/', *(f'engine/in_process/{name}_test' for name in RUN_DEFINITIONS))
    else:
        store = area.split('/')[1]
        reach = (f'conformance/{store}/', f'store/{store}/') + (
            ('dispatch/', 'simulation') if store == 'sqlite' else ('simulation_postgres',))
    if area == 'queue' and stem.startswith(('scheduler', 'item', 'retry', 'breaker')):
        reach += ('simulation',)
    if not name.startswith(reach):
        return None
    if name == 'simulation_postgres' and area != 'store/postgres':
        return None
    words = [word.rstrip('s') for word in stem.split('_') if len(word) > 3]
    return (1 if any(word in name for word in words) else 2) + (2 if name.startswith('simulation') else 0) + next(
        (rank for rank, start in enumerate(reach) if name.startswith(start)), 1)


class Judge:
    def __init__(self, copy):
        self.copy, self.tests, self.kills = copy, copy.tests(), collections.Counter()
        # Seconds of each test on the unchanged tree, None where it fails there; kept for the same tree.
        self.took_path = os.path.join(copy.folder, 'took.json')
        kept = json.loads(read(self.took_path)) if os.path.isfile(self.took_path) else {}
        self.took = kept['took'] if kept.get('digest') == copy.digest else {}

    def nearest(self, file):
        names = [(distance(file, name), -self.kills[file, name], self.took.get(name) or SECONDS_LEAST, name)
                 for name in self.tests if self.took.get(name, 0) is not None]
        return [name for near, *_, name in sorted(names, key=lambda row: (row[0] is None, row)) if near is not None]

    def keep(self, name, seconds):
        self.took[name] = seconds
        with open(self.took_path, 'w', encoding='utf-8') as file:
            json.dump({'digest': self.copy.digest, 'took': self.took}, file)

    def call(self, name):
        known = self.took.get(name)
        seconds = SECONDS_UNKNOWN if known is None else SECONDS_LEAST + TIMES * known
        passed, took, output = self.copy.call(self.tests[name], seconds)
        if passed and known is None:
            self.keep(name, took)
        return passed, output

    def passes_unchanged(self, name):
        """A test that fails on the unchanged tree judges nothing. The tree is unchanged here."""
        if self.took.get(name) is None:
            self.copy.compile(self.tests[name]['targets'])
            passed, output = self.call(name)
            if not passed:
                self.keep(name, None)
                print(f'# {name} fails on the unchanged tree and judges nothing:\n{output[-1500:]}', flush=True)
        return self.took.get(name) is not None

    def fails(self, mutant, text, name):
        """The output of a test that notices the change, else None."""
        passed, output = self.call(name)
        if not passed and self.took.get(name) is None:
            write(self.path(mutant), text)
            passed = not self.passes_unchanged(name)
            write(self.path(mutant), changed(text, mutant))
            self.copy.compile(self.tests[name]['targets'])
        if not passed:
            passed, output = self.call(name)
        return None if passed else output

    def path(self, mutant):
        return os.path.join(self.copy.tree, mutant.file)

    def judge(self, mutant):
        """(verdict, the test that killed it or why it is none, its output)"""
        text = read(self.path(mutant))
        assert text[mutant.begin:mutant.end] == mutant.old, mutant
        try:
            write(self.path(mutant), changed(text, mutant))
            names = self.nearest(mutant.file)
            for begin in range(0, len(names), 4):  # a mutant that the first ones kill needs no more
                chunk = names[begin:begin + 4]
                if not self.copy.compile(sorted({target for name in chunk for target in self.tests[name]['targets']})):
                    return 'no mutant', 'it does not compile', ''
                for name in chunk:
                    output = self.fails(mutant, text, name)
                    if output is not None:
                        self.kills[mutant.file, name] += 1
                        return 'killed', name, output
            return 'survived', f'{len(names)} tests', ''
        finally:
            write(self.path(mutant), text)


# --- the run ---

def explained_ids():
    path = os.path.join(ROOT, EXPLAINED)
    return set(re.findall(r'\b[0-9a-f]{10}\b', read(path))) if os.path.isfile(path) else set()


def load_results(path):
    if not os.path.isfile(path):
        return {}
    with open(path, encoding='utf-8') as file:
        return {result['id']: result for result in map(json.loads, file)}


def show(mutant):
    return f'{mutant.id} {mutant.file}:{mutant.line} {mutant.operator}: {" ".join(mutant.old.split())!r} -> {mutant.new!r}'


def report(wanted, results, all_count):
    explained = explained_ids()
    done = [(mutant, results[mutant.id]) for mutant in wanted if mutant.id in results]
    verdicts = collections.Counter(result['verdict'] for _, result in done)
    survivors = [mutant for mutant, result in done if result['verdict'] == 'survived']
    open_ones = [mutant for mutant in survivors if mutant.id not in explained]
    for area in ('src/queue', 'src/definition', 'src/dispatch', 'src/store/sqlite', 'src/store/postgres'):
        part = collections.Counter(result['verdict'] for mutant, result in done if mutant.file.startswith(area))
        counted = part['killed'] + part['survived']
        if counted:
            print(f'# {area}: {part["killed"]} of {counted} killed')
    counted = verdicts['killed'] + verdicts['survived']
    share = f' ({100 * verdicts["killed"] / counted:.1f} %)' if counted else ''
    print(f'# mutation score: {verdicts["killed"]} of {counted} killed{share},'
          f' {len(survivors) - len(open_ones)} survivors explained, {len(open_ones)} not;'
          f' {verdicts["no mutant"]} did not compile; {len(done)} of {len(wanted)} tried, {all_count} exist')
    for mutant in open_ones:
        print(f'survived: {show(mutant)}')
    return open_ones, len(done)


def run(options):
    found = all_mutants(options.only)
    wanted = draw(found, options.seed, options.count)
    if options.id:
        wanted = [mutant for mutant in found if mutant.id == options.id]
        if not wanted:
            sys.exit(f'mutants: there is no mutant {options.id}')
    if options.list:
        print(*map(show, wanted), sep='\n')
        return 0
    only = f' --only {options.only}' if options.only else ''
    print(f'# mutants: {len(wanted)} of {len(found)}, --seed {options.seed} --count {options.count}{only}', flush=True)
    os.makedirs(options.folder, exist_ok=True)
    path = os.path.join(options.folder, 'results.jsonl')
    results = {} if options.id else load_results(path)
    if any(mutant.id not in results for mutant in wanted):
        judge_all(options, wanted, results, path)
    open_ones, done = report(wanted, results, len(found))
    if done < len(wanted):
        print(f'# {len(wanted) - done} are left; the same command goes on with them')
    return 1 if open_ones else 0


def judge_all(options, wanted, results, path):
    until = time.monotonic() + 60 * options.minutes if options.minutes else None
    copy = Copy(options.folder)
    copy.refresh()
    with copy.with_template():
        judge = Judge(copy)
        for mutant in wanted:
            if mutant.id in results:
                continue
            if until and time.monotonic() > until:
                break
            verdict, by, output = judge.judge(mutant)
            results[mutant.id] = {'id': mutant.id, 'verdict': verdict, 'by': by}
            if not options.id:
                with open(path, 'a', encoding='utf-8') as file:
                    file.write(json.dumps(results[mutant.id]) + '\n')
            print(f'{verdict} ({by}): {show(mutant)}', flush=True)
            if options.id:
                print(output)


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
    assert distance('src/queue/retry.c', 'queue/retry_test') == 0
    assert distance('src/queue/retry.c', 'end_to_end/cli_test') is None
    assert distance('src/store/postgres/functions/inbox.sql', 'conformance/postgres/inbox') < \
        distance('src/store/postgres/functions/inbox.sql', 'conformance/postgres/why')
    assert distance('src/store/postgres/functions/inbox.sql', 'conformance/sqlite/inbox') is None
    found = all_mutants('')
    assert len(found) > 1000
    for mutant in found:
        distance(mutant.file, 'engine/in_process/stages_test')  # each file has its tests
    print('mutants.py: ok')
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--count', type=int, default=500)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--only', default='')
    parser.add_argument('--minutes', type=float)
    parser.add_argument('--folder', default=os.path.join(ROOT, 'build-mutants'))
    parser.add_argument('--list', action='store_true')
    parser.add_argument('--id')
    parser.add_argument('--self-test', action='store_true')
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the program under way ends too
    sys.exit(self_test() if options.self_test else run(options))


if __name__ == '__main__':
    main()
