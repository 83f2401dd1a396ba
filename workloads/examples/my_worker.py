"""A worker of one's own, for Fencepost's reference services: one line of JSON in, one line out.

Name it in a suite:  [worker] command = ["python3", "my_worker.py"]

The one rule: `fail` means that it definitely did not happen. Whatever leaves a doubt is `info`.
"""
import http.client, json, os, sys, threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

hello = json.loads(sys.stdin.readline())  # {"f":"hello","clients":[...],"links":{...},"options":{...}}
timeout = hello["options"]["timeout_ms"] / 1000
stdout_turn = threading.Lock()

def call(service, method, path, body, headers={}, wait=0):
    """Sends one request on a connection of its own, once: no retry could ever apply it twice."""
    connection = http.client.HTTPConnection(hello["links"][service], timeout=timeout + wait)
    try:
        connection.request(method, path, body.encode(), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()

def send(r):
    """Turns a request of the protocol into one of the service."""
    if r["f"] in ("acquire", "renew", "release"):
        body = {name: r[name] for name in ("client", "token", "ttl_ms", "wait_ms") if name in r}
        path = f"/v1/locks/{quote(r['lock'], safe='')}/{r['f']}"
        return call("lock", "POST", path, json.dumps(body), {"Content-Type": "application/json"}, r.get("wait_ms", 0) / 1000)
    path = f"/v1/keys/{quote(r['key'], safe='')}"
    if r["f"] == "read":
        return call("resource", "GET", path, "")
    return call("resource", "PUT", path, r["value"], {"Fencing-Token": str(r["token"]), "Fencing-Client": r["client"]})

def carry_out(r):
    try:
        status, answer = send(r)
        error = answer.get("error")
        definite = status in (400, 429) or (status, error) == (503, "overloaded") or (
            status == 409 and error in ("held", "not-held", "token-exhausted", "stale-token"))
        kind = "ok" if status == 200 else "fail" if definite else "info"
    except Exception as exception:  # timed out, reset, closed, garbage: nobody knows whether it was applied
        kind, answer = "info", {"error": repr(exception)}
    told = {name: answer[name] for name in ("token", "value", "high_water", "error", "ttl_ms") if name in answer}
    with stdout_turn:  # a line is never torn by another thread's, and leaves at once
        print(json.dumps({"id": r["id"], "type": kind, **told}), flush=True)

pool = ThreadPoolExecutor(2 * len(hello["clients"]) + 1)  # a client's renewals go on beside its writes
for line in sys.stdin:
    pool.submit(carry_out, json.loads(line))
os._exit(0)  # the input ended: stop at once, and leave what is open unanswered
