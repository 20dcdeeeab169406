#!/usr/bin/env python3
"""Writes the schemas of /openapi.json as a C header. A field's type and description come from the tables of docs/names.md,
so that a name means the same in SQL, on the command line and over HTTP.

usage: openapi_schemas.py NAMES.md TO.h
"""

import json
import re
import sys

#: Fields of each object. A name with ? may be null, one with ~ may be left out; NAME:Type is an object of another schema,
#: NAME[]:Type a list of them, NAME[] a list of texts.
OBJECTS = {
    'ExecutionRow': 'id workspace? workflow? version? status pending_reason? priority run_at starts_refused deferrals'
                    ' handovers node? fence error_code? error? created_at claimed_at? dispatched_at? stuck_since?'
                    ' finished_at? executor_group? idempotency_key? retry_of? traceparent?',
    'Execution': '+ExecutionRow params steps[]:Step earlier_attempts[]:Step events[]:Event earlier_events',
    'Step': 'step status attempt failures exit_code? error_code? error? due_at? started_at? finished_at? node? fence'
            ' output? variables~?',
    'Event': 'execution_id at event node? fence? actor? reason? detail? attempt?',
    'Problem': 'type title status detail code request_id hint~ errors~ allowed_actions~',
    'EnqueueRequest': 'workspace~ workflow params~ idempotency_key~ executor_group~ priority~ run_at~'
                      ' traceparent~',
    'Enqueued': 'id duplicate',
    'TaskClaimRequest': 'worker handlers max~ wait_us~ executor_group~',
    'TaskClaim': 'tasks[]:Task lease_us waited_us',
    'Task': 'task execution_id workspace step handler attempt fence idempotency_key timeout_us? input',
    'TaskReport': 'task',
    'TaskHeartbeatRequest': 'worker tasks[]:TaskReport',
    'TaskCompletion': 'task output~',
    'TaskCompleteRequest': 'worker tasks[]:TaskCompletion',
    'TaskFailure': 'task error_code~ error~ retry~ retry_after_us~',
    'TaskFailRequest': 'worker tasks[]:TaskFailure',
    'TaskVerdicts': 'tasks[]:TaskVerdict',
    'TaskVerdict': 'task verdict',
}
#: Lists that come in pages.
PAGES = {'ExecutionPage': 'ExecutionRow', 'EventPage': 'Event', 'StepPage': 'Step'}

KINDS = {
    'id': {'type': ['string', 'integer']}, 'uuid': {'type': 'string', 'format': 'uuid'}, 'text': {'type': 'string'},
    'status': {'type': 'string', 'enum': ['PENDING', 'CLAIMED', 'DISPATCHED', 'COMPLETED', 'FAILED', 'CANCELLED']},
    'state': {'type': 'string'}, 'counts': {'type': 'object', 'additionalProperties': {'type': 'integer'}},
    'number': {'type': 'integer'}, 'microseconds': {'type': 'integer'}, 'time': {'type': 'string', 'format': 'date-time'},
    'yes or no': {'type': 'boolean'}, 'list': {'type': 'array'}, 'object': {'type': 'object'}, 'data': {},
}
#: Names with another kind in one object than in docs/names.md.
OWN = {
    ('Problem', 'status'): {'type': 'integer'}, ('Problem', 'type'): {'type': 'string', 'format': 'uri-reference'},
    ('Problem', 'title'): {'type': 'string'}, ('Problem', 'request_id'): {'type': 'string', 'format': 'uuid'},
    ('Problem', 'allowed_actions'): {'type': 'array', 'items': {'type': 'string'}},
    ('Problem', 'errors'): {'type': 'array', 'items': {
        'type': 'object', 'required': ['pointer', 'detail'],
        'properties': {'pointer': {'type': 'string'}, 'detail': {'type': 'string'}}}},
    ('Step', 'status'): {'type': 'string', 'enum': ['RUNNING', 'WAITING', 'COMPLETED', 'FAILED', 'CANCELLED']},
    # A duration as "10m" from now, too.
    ('EnqueueRequest', 'run_at'): {'type': 'string'}, ('EnqueueRequest', 'params'): {'type': 'object'},
}


def read_names(path):
    """name -> (kind, meaning)"""
    names = {}
    with open(path, encoding='utf-8') as file:
        for line in file:
            cells = [cell.strip() for cell in line.strip().strip('|').split('|')]
            if len(cells) == 3 and cells[1] in KINDS:
                for name in re.findall(r'`(\w+)`', cells[0]):
                    names[name] = cells[1], cells[2]
    return names


def read_field(text, names, schema):
    """The name, its schema, and whether it must be there."""
    name, is_list, marks, of = re.fullmatch(r'(\w+)(\[\])?([?~]*)(?::(\w+))?', text).groups()
    if of is not None:
        field = {'$ref': f'#/components/schemas/{of}'}
    elif (schema, name) in OWN:
        field = dict(OWN[schema, name])
    elif name not in names:
        sys.exit(f'openapi_schemas.py: {schema} has the field {name}, which docs/names.md does not have')
    else:
        kind, meaning = names[name]
        field = dict(KINDS[kind], **({'description': meaning} if meaning else {}))
    if is_list:
        field = {'type': 'array', 'items': field}
    if '?' in marks and field.get('type'):
        types = field['type'] if isinstance(field['type'], list) else [field['type']]
        field['type'] = [*types, 'null']
        if 'enum' in field:
            field['enum'] = [*field['enum'], None]
    return name, field, '~' not in marks


def make_object(schema, names):
    properties, required = {}, []
    for text in OBJECTS[schema].split():
        if text.startswith('+'):
            base = make_object(text[1:], names)
            properties.update(base['properties'])
            required += base['required']
            continue
        name, field, is_required = read_field(text, names, schema)
        properties[name] = field
        required += [name] * is_required
    return {'type': 'object', 'properties': properties, 'required': required, 'additionalProperties': False}


def make_page(row):
    return {'type': 'object', 'required': ['items', 'next_cursor', 'count', 'count_is_exact'], 'properties': {
        'items': {'type': 'array', 'items': {'$ref': f'#/components/schemas/{row}'}},
        'next_cursor': {'type': ['string', 'null'],
                        'description': 'the argument `cursor` of the next page; null: this is the last one'},
        'count': {'type': ['integer', 'null']}, 'count_is_exact': {'type': 'boolean'}}}


def main():
    source, target = sys.argv[1:]
    names = read_names(source)
    schemas = {schema: make_object(schema, names) for schema in OBJECTS}
    schemas.update({schema: make_page(row) for schema, row in PAGES.items()})
    text = json.dumps(schemas, indent=0)
    with open(target, 'w', encoding='utf-8') as file:
        file.write('/* Made by tools/openapi_schemas.py. */\nstatic const char openapi_schemas[] =\n')
        for line in text.splitlines():
            escaped = line.replace('\\', '\\\\').replace('"', '\\"')
            file.write(f'    "{escaped}"\n')
        file.write('    ;\n')


if __name__ == '__main__':
    main()
