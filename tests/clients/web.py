"""The standard library's file server on a free loopback port; tells each request it got.

Usage: web.py FOLDER. Prints its port, then one JSON object a request: {"line": REQUEST-LINE, "headers": {...}, "status": N},
before the response leaves. Ends at the end of its standard input.
"""

import functools
import http.server
import json
import sys
import threading


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_request(self, code="-", size="-"):
        headers = {name.lower(): value for name, value in self.headers.items()}
        print(json.dumps({"line": self.requestline, "headers": headers, "status": int(code)}), flush=True)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=sys.argv[1]))
print(server.server_port, flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
server.shutdown()
