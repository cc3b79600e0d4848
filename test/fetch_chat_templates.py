"""Extracts the chat templates from the source archive of llama-cpp-python to the folder in the argument.

Reads the archive from the package index as a stream, because it is large, and checks its hash.
"""

import hashlib
import json
import os
import shutil
import sys
import tarfile
import urllib.request

ARCHIVE = "llama_cpp_python-0.3.36.tar.gz"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
TEMPLATES = "/vendor/llama.cpp/models/templates/"


class HashedStream:
    """A stream that hashes what is read from it."""

    def __init__(self, stream):
        self.stream = stream
        self.hash = hashlib.sha256()

    def read(self, size):
        data = self.stream.read(size)
        self.hash.update(data)
        return data


def archive_url():
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
    accept = {"Accept": "application/vnd.pypi.simple.v1+json"}
    request = urllib.request.Request(f"{index}/llama-cpp-python/", headers=accept)
    with urllib.request.urlopen(request, timeout=60) as response:
        files = json.load(response)["files"]
    return next(file["url"] for file in files if file["filename"] == ARCHIVE)


def main(folder):
    partial = f"{folder}.{os.getpid()}"
    os.makedirs(partial)
    try:
        with urllib.request.urlopen(archive_url(), timeout=60) as response:
            stream = HashedStream(response)
            with tarfile.open(fileobj=stream, mode="r|gz") as archive:
                for member in archive:
                    if TEMPLATES in member.name and member.name.endswith(".jinja"):
                        content = archive.extractfile(member).read()
                        with open(os.path.join(partial, os.path.basename(member.name)), "wb") as file:
                            file.write(content)
            while stream.read(1 << 20):
                pass
        if stream.hash.hexdigest() != SHA256:
            sys.exit(f"{ARCHIVE} has the wrong hash")
        os.rename(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


main(sys.argv[1])
