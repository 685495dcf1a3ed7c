"""Runs a real Phoenix for the tests: on loopback only, without assistant, MCP or calls outside.

Executed by the interpreter of the environment Phoenix is installed in, never imported. Phoenix has a setting
for the address of its HTTP port, but binds OTLP/gRPC to every interface, so the address is replaced where
grpc receives it. That is a private function of grpc's: the caller must check where the process really listens
(`conftest.phoenix` does).
"""

import os
import sys
import tempfile

import grpc.aio._server as grpc_server

SETTINGS = {
    "PHOENIX_HOST": "127.0.0.1",
    "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
    "PHOENIX_TELEMETRY_ENABLED": "false",
    "PHOENIX_DISABLE_AGENT_ASSISTANT": "true",
    "PHOENIX_AGENTS_DISABLE_BASH": "true",
    "PHOENIX_AGENTS_DISABLE_GITHUB": "true",
    "PHOENIX_AGENTS_DISABLE_WEB_ACCESS": "true",
    "PHOENIX_ENABLE_MCP_SERVER": "false",
}


def keep_grpc_on_loopback():
    """Open every insecure port requested of grpc on 127.0.0.1."""
    bind = grpc_server.Server.add_insecure_port

    def bind_on_loopback(server, address):
        return bind(server, "127.0.0.1:" + address.rpartition(":")[2])

    grpc_server.Server.add_insecure_port = bind_on_loopback


def run(http_port, grpc_port, directory):
    """Serve until terminated."""
    os.environ.update(SETTINGS)
    os.environ["PHOENIX_PORT"] = http_port
    os.environ["PHOENIX_GRPC_PORT"] = grpc_port
    os.environ["PHOENIX_WORKING_DIR"] = directory
    keep_grpc_on_loopback()
    # Phoenix reads its settings while it is imported.
    from phoenix.server.main import main

    sys.argv = ["phoenix", "serve"]
    main()


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else tempfile.mkdtemp())
