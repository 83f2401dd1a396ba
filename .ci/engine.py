"""Whether a Docker engine answers, at DOCKER_HOST or at its usual socket; says why not, and exits with 1 then."""

import http.client
import os
import socket
import sys


def connection(host):
    scheme, _, place = host.partition("://")
    if scheme in ("tcp", "http"):
        return http.client.HTTPConnection(place.rstrip("/"), timeout=20)
    if scheme != "unix":
        raise OSError("neither unix:// nor tcp://")
    asked = http.client.HTTPConnection("localhost", timeout=20)
    asked.sock = socket.socket(socket.AF_UNIX)
    asked.sock.settimeout(20)
    asked.sock.connect(place)
    return asked


host = os.environ.get("DOCKER_HOST", "").strip() or "unix:///var/run/docker.sock"
try:
    asked = connection(host)
    asked.request("GET", "/_ping")
    answer = asked.getresponse()
    if answer.status != 200 or not answer.getheader("Api-Version"):
        raise OSError(f"status {answer.status}, and no engine's")
except (OSError, http.client.HTTPException) as error:
    sys.exit(f"no Docker engine at {host}: {error}")
print(f"a Docker engine answers at {host}")
