"""Runs the functions of a test file, and prints TAP."""


def run_tests(names):
    """`names`: globals() of the file; its functions with an underscore in their names are the tests. Returns the exit
    code."""
    tests = [value for value in list(names.values())
             if getattr(value, '__module__', '') == '__main__' and '_' in value.__name__]
    failed = False
    print(f'TAP version 13\n1..{len(tests)}')
    for number, test in enumerate(tests, 1):
        problem = None
        try:
            test()
        except Exception as error:  # whatever goes wrong fails this test alone
            problem = f'{type(error).__name__}: {error}'
            print('# ' + problem.replace('\n', '\n# '))
        print(f"{'not ok' if problem else 'ok'} {number} - {test.__name__}")
        failed = failed or problem is not None
    return 1 if failed else 0
