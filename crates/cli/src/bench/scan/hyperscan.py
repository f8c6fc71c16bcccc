# Scans files with Hyperscan, for `pelton bench scan`. Arguments: the rules, the text, and the ranges of files in it.
#
# A line of JSON says how the rules were compiled. Then every line "collect" on standard input is answered by the pairs
# of file and rule with a match, and every line "scan" by the seconds that a scan of all files took.
import json
import sys
import time

import hyperscan

with open(sys.argv[1]) as file:
    rules = json.load(file)
with open(sys.argv[2], "rb") as file:
    text = memoryview(file.read())
with open(sys.argv[3]) as file:
    files = [text[start:end] for start, end in json.load(file)]


def compile_rules(numbers):
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[rules[number].encode() for number in numbers],
        ids=numbers,
        elements=len(numbers),
        flags=[hyperscan.HS_FLAG_SINGLEMATCH] * len(numbers),
    )
    return database


def compiles(number):
    try:
        compile_rules([number])
        return True
    except hyperscan.error:
        return False


numbers = [number for number, rule in enumerate(rules) if rule is not None]
start = time.perf_counter()
try:
    database = compile_rules(numbers)
except hyperscan.error:
    numbers = [number for number in numbers if compiles(number)]
    start = time.perf_counter()
    database = compile_rules(numbers)
compile_seconds = time.perf_counter() - start
about = {
    "version": database.info().decode(),
    "compile_seconds": compile_seconds,
    "compiled": numbers,
}
print(json.dumps(about), flush=True)

for line in sys.stdin:
    if line.strip() == "collect":
        pairs = []
        for number, data in enumerate(files):
            database.scan(data, match_event_handler=lambda rule, *_: pairs.append((number, rule)) and None)
        print(json.dumps(pairs), flush=True)
    else:
        # Without a handler, no time is spent in Python for matches.
        scan = database.scan
        start = time.perf_counter()
        for data in files:
            scan(data, match_event_handler=None)
        print(json.dumps(time.perf_counter() - start), flush=True)
