#!/usr/bin/env python3
"""Prints the line coverage of each folder of src/, and ends with 1 when one of those named is below the minimum.

A named folder without measured lines is a failure too: else a folder that no test links would look well covered.

usage: coverage_report.py SUMMARY.json --min PERCENT FOLDER...      (the summary is gcovr's --json-summary)
"""

import argparse
import json
import sys


def lines_of_folders(files):
    """{'src/queue': [covered, total]}: the first two parts of each path."""
    folders = {}
    for entry in files:
        counts = folders.setdefault('/'.join(entry['filename'].split('/')[:2]), [0, 0])
        counts[0] += entry['line_covered']
        counts[1] += entry['line_total']
    return folders


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument('summary')
    arguments.add_argument('--min', type=float, required=True)
    arguments.add_argument('folders', nargs='+')
    options = arguments.parse_args()
    with open(options.summary, encoding='utf-8') as source:
        files = json.load(source)['files']

    failed = False
    folders = lines_of_folders(files)
    for folder in sorted(set(folders) | set(options.folders)):
        covered, total = folders.get(folder, (0, 0))
        percent = 100 * covered / total if total else 0
        remark = ''
        if folder in options.folders and percent < options.min:
            failed = True
            remark = f'  below {options.min:g} %' if total else '  no line was measured'
        print(f'{folder:<16} {percent:6.1f} % of {total:5} lines{remark}')
    if failed:
        print('the least covered files:')
        named = [entry for entry in files if entry['filename'].startswith(tuple(options.folders)) and entry['line_total']]
        for entry in sorted(named, key=lambda entry: entry['line_covered'] - entry['line_total'])[:10]:
            print(f"  {entry['filename']}: {entry['line_total'] - entry['line_covered']} lines not reached")
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
