"""Verdicts of mutants, for mutants.py: those of a folder of results, and the kept list tests/mutants/decided.txt.

The list spares a machine what another one has judged. It has one line for each mutant:

    ID VERDICT COMMIT FILE BY

COMMIT is the one whose tree was judged, with a + when src/ or tests/ had other changes. BY is the program and the test that
killed the mutant, or how many tests it passed, or why it is no mutant. An id is made of the file, the text of the line
and the change, so a verdict stays when other lines move. It ends with its line, and a killed mutant is open again when the
tests no longer have the test that killed it.
"""

import collections
import glob
import json
import os
import re
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXPLAINED = 'tests/mutants/explained.md'
DECIDED = 'tests/mutants/decided.txt'
WORDS = {'killed': 'killed', 'survived': 'survived', 'no mutant': 'no-mutant', 'left out': 'left-out'}
HEAD = """# Verdicts of mutants: ID VERDICT COMMIT FILE BY, ordered by the file and the id. tools/mutants.py reads them and
# tries none of these again; --again tries the survivors, --fresh all, and --keep writes this file. The columns are
# explained in tools/mutant_verdicts.py.
"""


def explained_ids():
    path = os.path.join(ROOT, EXPLAINED)
    if not os.path.isfile(path):
        return set()
    with open(path, encoding='utf-8') as file:
        return set(re.findall(r'\b[0-9a-f]{10}\b', file.read()))


def commit_of_tree():
    def git(*words):
        return subprocess.run(['git', *words], cwd=ROOT, check=False, capture_output=True, text=True).stdout.strip()
    changes = git('status', '--porcelain', '--', 'src', 'tests', f':!{DECIDED}', f':!{EXPLAINED}')
    return (git('rev-parse', '--short=10', 'HEAD') or 'unknown') + ('+' if changes else '')


def load_results(path):
    if not os.path.isfile(path):
        return {}
    with open(path, encoding='utf-8') as file:
        return {result['id']: result for result in map(json.loads, file)}


def read_list(path):
    if not os.path.isfile(path):
        return {}
    names = {word: verdict for verdict, word in WORDS.items()}
    results = {}
    with open(path, encoding='utf-8') as file:
        for number, line in enumerate(file, 1):
            if line.startswith('#') or not line.strip():
                continue
            found = re.fullmatch(r'([0-9a-f]{10}) (\S+) (\S+) (\S+) (.+)\n?', line)
            if not found or found[2] not in names or found[1] in results:
                raise SystemExit(f'mutants: {path}:{number} is no line "ID VERDICT COMMIT FILE BY", or has an id again')
            id, word, commit, name, by = found.groups()
            results[id] = {'id': id, 'verdict': names[word], 'commit': commit, 'file': name, 'by': by}
    return results


def names_of_tests():
    """Every word in the tests' sources, which has the name of each test."""
    words = set()
    for path in glob.glob(os.path.join(ROOT, 'tests/**/*.[ch]'), recursive=True):
        with open(path, encoding='utf-8') as file:
            words.update(re.findall(r'\w+', file.read()))
    return words


def is_in_force(result, names):
    """A program whose tests cannot be chosen names no test, or names it in words."""
    test = result['by'].partition(' ')[2]
    return result['verdict'] != 'killed' or not re.fullmatch(r'[a-z]\w+', test) or test in names


def of_both(folder, listed, names):
    """Of two verdicts of one mutant a kill counts, else that of the folder: a test that killed it can do so again."""
    results = {id: result for id, result in listed.items() if is_in_force(result, names)}
    for id, result in folder.items():
        if is_in_force(result, names) and not (id in results and results[id]['verdict'] == 'killed'):
            results[id] = result
    return results


def known(path):
    """{id: result} of the results at `path` and of the list."""
    return of_both(load_results(path), read_list(os.path.join(ROOT, DECIDED)), names_of_tests())


def write_list(results, files, path=os.path.join(ROOT, DECIDED)):
    """How many it has: those of the results whose mutant exists; `files` has the file of each mutant that does."""
    lines = []
    for id, result in results.items():
        if id in files:
            by = ' '.join(result['by'].split(' ')[:2]) if result['verdict'] == 'killed' else result['by']
            lines.append(f'{id} {WORDS[result["verdict"]]} {result.get("commit", "unknown")} {files[id]} {by}\n')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(HEAD + ''.join(sorted(lines, key=lambda line: (line.split(' ')[3], line))))
    return len(lines)


def wanted_again(results):
    """The results without those survivors that are not explained."""
    explained = explained_ids()
    return {id: result for id, result in results.items() if result['verdict'] != 'survived' or id in explained}


def show(mutant):
    return f'{mutant.id} {mutant.file}:{mutant.line} {mutant.operator}: {" ".join(mutant.old.split())!r} -> {mutant.new!r}'


def report(wanted, results, all_count):
    explained = explained_ids()
    done = [(mutant, results[mutant.id]) for mutant in wanted if mutant.id in results]
    counts = collections.Counter(result['verdict'] for _, result in done)
    survivors = [mutant for mutant, result in done if result['verdict'] == 'survived']
    open_ones = [mutant for mutant in survivors if mutant.id not in explained]
    for area in ('src/queue', 'src/definition', 'src/dispatch', 'src/store/sqlite', 'src/store/postgres'):
        part = collections.Counter(result['verdict'] for mutant, result in done if mutant.file.startswith(area))
        counted = part['killed'] + part['survived']
        if counted:
            print(f'# {area}: {part["killed"]} of {counted} killed')
    counted = counts['killed'] + counts['survived']
    share = f' ({100 * counts["killed"] / counted:.1f} %)' if counted else ''
    print(f'# mutation score: {counts["killed"]} of {counted} killed{share},'
          f' {len(survivors) - len(open_ones)} survivors explained, {len(open_ones)} not;'
          f' {counts["no mutant"]} did not compile, {counts["left out"]} compile only alone;'
          f' {len(done)} of {len(wanted)} tried, {all_count} exist')
    for mutant in open_ones:
        print(f'survived ({results[mutant.id]["by"]}): {show(mutant)}')
    return open_ones, len(done)


def self_test():
    one = {'id': '0123456789', 'verdict': 'killed', 'commit': 'abc+', 'by': 'queue/x_test a_test_of_it'}
    two = {'id': '0123456780', 'verdict': 'no mutant', 'by': 'it does not compile'}
    gone = {'id': '0123456781', 'verdict': 'survived', 'commit': 'abc', 'by': '3 tests of 1 programs'}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'decided.txt')
        assert read_list(path) == {} and load_results(path) == {}
        results = {result['id']: result for result in (one, two, gone)}
        assert write_list(results, {one['id']: 'src/queue/x.c', two['id']: 'src/a.c'}, path) == 2
        again = read_list(path)
        assert again == {one['id']: {**one, 'file': 'src/queue/x.c'},
                         two['id']: {**two, 'file': 'src/a.c', 'commit': 'unknown'}}, again
        with open(path, encoding='utf-8') as file:
            lines = [line for line in file if not line.startswith('#')]
        assert lines[0] == '0123456780 no-mutant unknown src/a.c it does not compile\n', lines
        for wrong in ('0123456789 killed abc src/a.c\n', '0123456789 dead abc src/a.c x y\n', lines[0] * 2):
            with open(path, 'w', encoding='utf-8') as file:
                file.write(wrong)
            try:
                read_list(path)
                raise AssertionError(wrong)
            except SystemExit as refused:
                assert ':1 ' in str(refused) or wrong == lines[0] * 2 and ':2 ' in str(refused), refused
    assert is_in_force(one, {'a_test_of_it'}) and not is_in_force(one, set())
    assert is_in_force({**one, 'by': 'simulation caught: a slot leaks'}, set()) and is_in_force(gone, set())
    survived = {one['id']: {**one, 'verdict': 'survived', 'by': '3 tests of 1 programs'}}
    killed = {one['id']: one}
    assert of_both(survived, killed, {'a_test_of_it'}) == of_both(killed, survived, {'a_test_of_it'}) == killed
    assert of_both(survived, killed, set()) == survived and of_both(killed, {}, set()) == {}
    assert one['id'] in wanted_again(results) and gone['id'] not in wanted_again(results)
    assert 'self_test' not in names_of_tests() and 'main' in names_of_tests()
    read_list(os.path.join(ROOT, DECIDED))
