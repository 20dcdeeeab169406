#!/usr/bin/env python3
"""Turns a text file into a C header with one string constant, so that a program can carry the file.

usage: text_to_c.py NAME FROM TO.h

Lines of SQL that hold nothing but a comment are left out, as in sql_to_c.py.
"""

import sys


def main():
    name, source, target = sys.argv[1:]
    with open(source, encoding='utf-8') as file:
        lines = file.read().splitlines(keepends=True)
    if source.endswith('.sql'):
        lines = [line for line in lines if not line.lstrip().startswith('--')]
    with open(target, 'w', encoding='utf-8') as file:
        file.write(f'static const char {name}[] =\n')
        for line in lines:
            escaped = line.replace('\\', '\\\\').replace('"', '\\"').replace('\n', '\\n')
            file.write(f'    "{escaped}"\n')
        file.write('    ;\n')


main()
