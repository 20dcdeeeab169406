"""Mutant schemata: one text that is a file of weir and all its mutants; a number chooses (tests/mutants/switch.h).

Of C, the smallest whole expression around a change becomes a choice between the changed one and itself, and a dropped
statement becomes conditional. Of SQL, whose texts are data of the program, the changed texts are beside in a table, and
the places that read the texts ask it first. Used by mutants.py.
"""

import os
import re
import tempfile

import sql_to_c

SWITCH = 'mutants/switch.h'
TEXTS = 'mutants/sql_texts.h'  # written into the copy's tests/
FIRST_POINT = {'sqlite': 32768, 'postgres': 49152}  # as in switch.h


# --- C ---

def is_assignment(blank, at):
    """Whether the = at `at` assigns; also as a part of += and the like."""
    before, after = blank[at - 1:at], blank[at + 1:at + 2]
    if after == '=' or before in ('=', '!'):
        return False
    return before not in ('<', '>') or blank[at - 2:at - 1] == before


def expression_around(text, blank, begin, end):
    """The bounds of the smallest expression around begin..end that may stand in parentheses wherever it stands now."""
    left, depth = begin, 0
    while left > 0:
        letter = blank[left - 1]
        if depth == 0 and (letter in '([{},;?:' or letter == '=' and is_assignment(blank, left - 1)
                           or re.search(r'\b(?:return|else|do|case)\Z', blank[max(0, left - 8):left])):
            break
        depth += {')': 1, ']': 1, '}': 1, '(': -1, '[': -1, '{': -1}.get(letter, 0)
        left -= 1
    right, depth = end, 0
    while right < len(blank):
        letter = blank[right]
        if depth == 0 and (letter in ')]},;?:' or letter == '=' and is_assignment(blank, right)):
            break
        depth += {'(': 1, '[': 1, '{': 1, ')': -1, ']': -1, '}': -1}.get(letter, 0)
        right += 1
    while left < begin and text[left].isspace():
        left += 1
    while right > end and text[right - 1].isspace():  # not of `blank`, where a last '\\0' is blank, too
        right -= 1
    return left, right


def with_switches(text, blank, numbered):
    """The text with all mutants of `numbered`, pairs of a number and a mutant. Its lines keep their numbers."""
    places = []
    for number, mutant in numbered:
        drops = mutant.operator == 'drop-statement'
        begin, end = (mutant.begin, mutant.end) if drops else expression_around(text, blank, mutant.begin, mutant.end)
        places.append((begin, -end, not drops, number, mutant))
    return switched(text, 0, len(text), sorted(places, key=lambda place: place[:4]))


def switched(text, begin, end, places):
    """text[begin:end] with the places, all of which are inside; the widest come first."""
    out, at = [], begin
    while places:
        first, minus_last, is_choice, number, mutant = places[0]
        last = -minus_last
        inside = [place for place in places[1:] if place[0] < last]
        assert all(-place[1] <= last for place in inside), (mutant, inside)
        places = places[1 + len(inside):]
        out.append(text[at:first])
        original = switched(text, first, last, inside)
        if is_choice:
            changed = ' '.join((text[first:mutant.begin] + mutant.new + text[mutant.end:last]).split('\n'))
            out.append(f'(mutant_is({number}) ? ({changed}) : ({original}))')
        else:
            out.append(f'if (!mutant_is({number})) {{ {original} }}')
        at = last
    out.append(text[at:end])
    return ''.join(out)


def with_include(text):
    return f'#include "{SWITCH}"\n#line 1\n{text}'


# --- SQL ---

def rows_of(file, text):
    """The names and texts that sql_to_c.py makes of a file with this text."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, os.path.basename(file))
        with open(path, 'w', encoding='utf-8') as out:
            out.write(text)
        return sql_to_c.read_queries([path]) if '/queries/' in file else dict(sql_to_c.read_functions([path]))


def table_of(file):
    return f'{file.split("/")[2]}_{file.split("/")[3]}'


def changed_row(file, text, mutant):
    """(table, name of the row, its changed text); None when no row changes."""
    old = rows_of(file, text)
    new = rows_of(file, text[:mutant.begin] + mutant.new + text[mutant.end:])
    changed = [name for name in old if new.get(name) != old[name]]
    return (table_of(file), changed[0], new[changed[0]]) if len(changed) == 1 else None


def texts_header(rows):
    """The table of changed texts, {number: (table, name, text)}, and how they are asked for."""
    lines = [f'#include "{SWITCH}"', '',
             'static const struct { int number; const char *table, *name, *sql; } mutant_texts[] = {']
    for number, (table, name, sql) in rows.items():
        lines.append(f'    {{{number}, "{table}", "{name}",\n        {sql_to_c.c_string(sql)}}},')
    lines += ['    {0, "", "", ""}};', '',
              'static inline const char *mutant_sql(const char *table, const char *name, const char *sql)', '{',
              '    for (int i = 0; mutant_chosen > 0 && mutant_texts[i].number != 0; i++) {',
              '        if (mutant_texts[i].number == mutant_chosen && strcmp(mutant_texts[i].table, table) == 0 &&',
              '            strcmp(mutant_texts[i].name, name) == 0) {', '            return mutant_texts[i].sql;',
              '        }', '    }', '    return sql;', '}']
    return '\n'.join(lines) + '\n'


def with_texts(text):
    """A file that reads the tables of SQL: it asks for the changed text, and marks a query that it uses by its number."""
    new = re.sub(r'\b(sqlite|postgres)_(queries|functions)\[(\w+)\]\.sql\b',
                 lambda found: f'mutant_sql("{found[1]}_{found[2]}", {found[1]}_{found[2]}[{found[3]}].name, '
                               f'{found[1]}_{found[2]}[{marked(found[1], found[3])}].sql)', text)
    new = re.sub(r'\bfunction->sql\b', 'mutant_sql("postgres_functions", function->name, function->sql)', new)
    new = re.sub(r'(?<=->texts)\[([^\]\[]*\b(?:query|QUERY_\w+)[^\]\[]*)\]',
                 lambda found: f'[{marked("postgres", found[1])}]', new)
    return f'#include "{TEXTS}"\n#line 1\n{new}' if new != text else text


def marked(store, query):
    """A loop over all queries uses none of them."""
    return query if query == 'i' else f'mutant_query({FIRST_POINT[store]}, (int)({query}))'


def calls_of(texts):
    """For each name of {name: text} the names that its text can reach, itself too. A text names all with the schema."""
    words = {name: set(re.findall(r':schema\.(\w+)', text)) & set(texts) for name, text in texts.items()}
    reached = {}
    for name in texts:
        seen, waiting = {name}, [name]
        while waiting:
            more = words[waiting.pop()] - seen
            seen |= more
            waiting.extend(more)
        reached[name] = seen
    return reached


def self_test(mutants_of, blank_c, files):
    """`files`: the texts of the stores' sources."""
    text = 'int f(int a)\n{\n    int b = a < 3 ? a + g(1, a) : 2;\n    h(b + 1);\n    return a == b;\n}\n'
    pairs = list(enumerate(mutants_of('src/queue/x.c', text), 1))
    switched = with_switches(text, blank_c(text), pairs)
    assert '(a <= 3) : (' in switched and '(a - g(1, a)) : (' in switched and 'return (mutant_is(' in switched, switched
    assert re.search(r'if \(!mutant_is\(\d+\)\) \{ h\(\(mutant_is\(', switched), switched
    assert switched.count('\n') == text.count('\n') and switched.count('mutant_is(') == len(pairs), switched
    assert any('mutant_sql("postgres_functions", function->name' in with_texts(text) for text in files)
    unasked = {found for text in files for found in re.findall(r'(?<!\w)\w+->sql\b', text)}
    assert unasked <= {'function->sql', 'migration->sql'}, unasked  # else a mutant of SQL would change nothing
    called = calls_of({'a': ':schema.b(1)', 'b': ':schema.c', 'c': ':schema.x c'})
    assert called == {'a': {'a', 'b', 'c'}, 'b': {'b', 'c'}, 'c': {'c'}}
