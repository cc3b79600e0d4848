"""Runs Python programs, each in its own process, and prints their results as JSON. Reads the programs as JSON.

The processes are forks of this one, because importing `openai` is most of the cost of a program.
"""

import gc
import json
import os
import sys
import tempfile

import openai  # noqa: F401

# Otherwise, each fork would copy and visit all objects of `openai` when it exits.
gc.freeze()
results = []
for program in json.load(sys.stdin):
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        process = os.fork()
        if process == 0:
            os.dup2(stdout.fileno(), 1)
            os.dup2(stderr.fileno(), 2)
            exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
            sys.exit()
        _, status = os.waitpid(process, 0)
        stdout.seek(0)
        stderr.seek(0)
        code = os.waitstatus_to_exitcode(status)
        results.append({"code": code, "stdout": stdout.read(), "stderr": stderr.read()})
print(json.dumps(results))
