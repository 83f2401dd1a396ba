"""Asserts that the services of docker/compose.yaml, once healthy, fence: what docker/README.md shows with curl."""
import json
import time
import urllib.error
import urllib.request

LOCK, RESOURCE, TOXIPROXY = (f"http://127.0.0.1:{port}" for port in (18100, 18200, 18474))


def ask(url, body=None, method=None, headers={}):
    request = urllib.request.Request(url, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def until_healthy(url):
    deadline = time.monotonic() + 60
    while True:
        try:
            return ask(url)
        except OSError:
            assert time.monotonic() < deadline, f"{url} does not answer"
            time.sleep(0.1)


for url in (LOCK + "/healthz", RESOURCE + "/healthz", TOXIPROXY + "/version"):
    until_healthy(url)
acquire = LOCK + "/v1/locks/shard-7/acquire"
first = ask(acquire, json.dumps({"client": "c3", "ttl_ms": 200}).encode())[1]["token"]
second = ask(acquire, json.dumps({"client": "c4", "ttl_ms": 60000, "wait_ms": 5000}).encode())[1]["token"]
assert second > first, (first, second)
key = RESOURCE + "/v1/keys/shard-7"
write = lambda token: ask(key, b"value", "PUT", {"Fencing-Token": str(token)})
assert write(second) == (200, {"high_water": second})
assert write(first) == (409, {"error": "stale-token", "high_water": second})
proxy = {"name": "resource", "listen": "0.0.0.0:8300", "upstream": "resource:8200", "enabled": True}
assert ask(TOXIPROXY + "/proxies", json.dumps(proxy).encode())[0] == 201
assert ask("http://127.0.0.1:18300/v1/keys/shard-7")[1]["high_water"] == second
print(f"token {first} is refused after {second}, also through Toxiproxy")
