"""Compares answers with /openapi.json: the keywords of JSON Schema that the document uses, and no others."""

import json
import re

TYPES = {'string': str, 'integer': int, 'number': (int, float), 'boolean': bool, 'array': list, 'object': dict,
         'null': type(None)}
KEYWORDS = {'$ref', 'type', 'enum', 'format', 'description', 'properties', 'required', 'additionalProperties', 'items'}
FORMATS = {'uuid': r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}', 'uri-reference': r'\S+',
           'date-time': r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z'}


class Api:
    def __init__(self, document):
        self.document = json.loads(document)
        assert self.document['openapi'].startswith('3.1'), self.document['openapi']
        self.paths = [(re.compile(re.sub(r'\\{\w+\\}', '[^/]+', re.escape(path))), path, operations)
                      for path, operations in self.document['paths'].items()]

    def resolve(self, schema):
        while '$ref' in schema:
            value = self.document
            for name in schema['$ref'].removeprefix('#/').split('/'):
                value = value[name]
            schema = value
        return schema

    def check(self, value, schema, place='body'):
        schema = self.resolve(schema)
        assert set(schema) <= KEYWORDS, f'{place}: this check does not know {set(schema) - KEYWORDS}'
        types = schema.get('type', [])
        types = [types] if isinstance(types, str) else types
        assert not types or any(isinstance(value, TYPES[name]) and (name == 'boolean' or not isinstance(value, bool))
                                for name in types), f'{place}: {value!r} is no {types}'
        assert 'enum' not in schema or value in schema['enum'], f'{place}: {value!r} is none of {schema["enum"]}'
        if 'format' in schema and value is not None:
            assert re.fullmatch(FORMATS[schema['format']], value), f'{place}: {value!r} is no {schema["format"]}'
        if isinstance(value, list) and 'items' in schema:
            for place_of, item in enumerate(value):
                self.check(item, schema['items'], f'{place}[{place_of}]')
        if isinstance(value, dict):
            missing = set(schema.get('required', ())) - set(value)
            assert not missing, f'{place} lacks {missing}'
            more = schema.get('additionalProperties', True)
            for name, item in value.items():
                if name in schema.get('properties', {}):
                    self.check(item, schema['properties'][name], f'{place}.{name}')
                else:
                    assert more is not False, f'{place} has {name}, which is not described'
                    self.check(item, more if isinstance(more, dict) else {}, f'{place}.{name}')

    def operation(self, method, target):
        """None: there is no such route, which the answer must report."""
        path = target.partition('?')[0]
        found = [operations for pattern, name, operations in self.paths if pattern.fullmatch(path)]
        method = 'get' if method == 'HEAD' else method.lower()
        return next((operations[method] for operations in found if method in operations), None)

    def check_answer(self, method, target, status, content_type, body):
        operation = self.operation(method, target)
        content_type = content_type.partition(';')[0]
        if status >= 400:
            if not (target.startswith('/readyz') and status == 503):
                assert content_type == 'application/problem+json', (target, status, content_type)
                self.check(json.loads(body), {'$ref': '#/components/schemas/Problem'}, f'{method} {target}')
            return
        assert operation is not None, f'{method} {target} is answered and not described'
        described = operation['responses']['2XX']['content']
        assert content_type in described, (method, target, content_type, described)
        if content_type == 'application/json':
            self.check(json.loads(body), described[content_type]['schema'], f'{method} {target}')
