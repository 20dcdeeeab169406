"""Compares answers with /openapi.json: the keywords of JSON Schema that the document uses, and no others."""

import json
import re

TYPES = {'string': str, 'integer': int, 'number': (int, float), 'boolean': bool, 'array': list, 'object': dict,
         'null': type(None)}
KEYWORDS = {'$ref', 'type', 'enum', 'format', 'description', 'properties', 'required', 'additionalProperties', 'items',
            'anyOf', 'allOf', 'oneOf', 'minimum', 'maximum', 'multipleOf', 'maxLength', 'minItems', 'maxItems',
            'uniqueItems'}
FORMATS = {'uuid': r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}', 'uri-reference': r'\S+',
           'date-time': r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z'}


def check_limits(value, schema, place):
    if isinstance(value, int):
        assert schema.get('minimum', value) <= value <= schema.get('maximum', value), f'{place}: {value}'
        assert value % schema.get('multipleOf', 1) == 0, f'{place}: {value}'
    if isinstance(value, str):
        assert len(value) <= schema.get('maxLength', len(value)), f'{place}: {value}'
    if isinstance(value, list):
        assert schema.get('minItems', 0) <= len(value) <= schema.get('maxItems', len(value)), f'{place}: {value}'
        repeated = [item for i, item in enumerate(value) if item in value[:i]]
        assert not (schema.get('uniqueItems') and repeated), f'{place}: {repeated}'


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
        if 'anyOf' in schema:
            self.check_any(value, schema['anyOf'], place)
        for part in schema.get('allOf', ()):
            self.check(value, part, place)
        if 'oneOf' in schema:
            fitting = sum(self.fits(value, part, place) for part in schema['oneOf'])
            assert fitting == 1, f'{place} fits {fitting} of {schema["oneOf"]}'
        check_limits(value, schema, place)
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

    def fits(self, value, schema, place):
        try:
            self.check(value, schema, place)
        except AssertionError:
            return False
        return True

    def check_any(self, value, schemas, place):
        """All that is wrong by each of them is reported, because it is not known which of them was meant."""
        mistakes = []
        for schema in schemas:
            try:
                return self.check(value, schema, place)
            except AssertionError as mistake:
                mistakes.append(str(mistake))
        raise AssertionError(f'{place} fits none of {len(schemas)} schemas: ' + '; '.join(mistakes))

    def check_references(self):
        """Each schema that is named is there, and each one that is there is named by an operation, or by another schema."""
        schemas = self.document['components']['schemas']
        named, left = set(), [self.document['paths']]
        while left:
            part = left.pop()
            if isinstance(part, list):
                left += part
            elif isinstance(part, dict):
                name = part.get('$ref', '').removeprefix('#/components/schemas/')
                assert not name or name in schemas, f'the schema {name} is named and not described'
                if name and name not in named:
                    named.add(name)
                    left.append(schemas[name])
                left += part.values()
        assert not set(schemas) - named, f'no operation has the schemas {sorted(set(schemas) - named)}'

    def check_body(self, method, target, content_type, body):
        """Of a request that was accepted."""
        described = self.operation(method, target).get('requestBody')
        assert described is not None, f'{method} {target} takes a body, which is not described'
        content_type = content_type.partition(';')[0]
        assert content_type in described['content'], (method, target, content_type)
        if content_type == 'application/json':
            self.check(json.loads(body), described['content'][content_type]['schema'], f'the body of {method} {target}')

    def operation(self, method, target):
        """None: there is no such route, which the answer must report."""
        path = target.partition('?')[0]
        found = [operations for pattern, name, operations in self.paths if pattern.fullmatch(path)]
        method = 'get' if method == 'HEAD' else method.lower()
        return next((operations[method] for operations in found if method in operations), None)

    def check_fields(self, method, target, status, head):
        """Those that mean something to a client are described."""
        operation = self.operation(method, target)
        kind = '2XX' if 200 <= status < 300 else 'default' if status in (429, 503) else None
        if operation is None or kind not in operation['responses']:
            return
        described = {name.lower() for name in operation['responses'][kind].get('headers', {})}
        found = {'etag', 'link', 'location', 'retry-after'} & set(head)
        assert found <= described, f'{method} {target} answers {status} with {found - described}, which is not described'

    def check_answer(self, method, target, status, content_type, body):
        operation = self.operation(method, target)
        content_type = content_type.partition(';')[0]
        if status >= 400:
            pages = operation['responses']['default']['content'] if operation else {}
            if content_type == 'text/html' and content_type in pages:
                assert body.startswith(b'<!doctype html>'), (target, body)
            elif not (target.startswith('/readyz') and status == 503):
                assert content_type == 'application/problem+json', (target, status, content_type)
                self.check(json.loads(body), {'$ref': '#/components/schemas/Problem'}, f'{method} {target}')
            return
        assert operation is not None, f'{method} {target} is answered and not described'
        if status == 304:
            assert body == b'', (target, body)
            return
        if status == 303:
            assert '303' in operation['responses'] and body == b'', (method, target, body)
            return
        described = operation['responses']['2XX']['content']
        assert content_type in described, (method, target, content_type, described)
        if content_type == 'application/json':
            self.check(json.loads(body), described[content_type]['schema'], f'{method} {target}')
