"""Drives the real Codex CLI without a model: its app server has a request that calls a tool of an MCP server.

Usage: codex.py CODEX FOLDER, with the plan on stdin:
    {"server": [PROGRAM, ARGUMENT...], "steps": [{"tool": NAME, "arguments": {...}}...],
     "answers": [{"action": ..., "content": {...}?}...]}
FOLDER becomes its home and all it writes to. One answer is given to each question, and none once they are used up. Prints one JSON
object: {"questions": [{"message", "schema"}...], "steps": [{"is_error", "text", "outcome"}...]}.

Nothing leaves this machine: whatever goes to another host is sent to a proxy that is not there. Codex ends a server with SIGTERM
and, some milliseconds later, SIGKILL.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

# The longest a whole session takes; never waited for in a test that passes.
PATIENCE_S = 60

CONFIG = """check_for_update_on_startup = false
[analytics]
enabled = false
[features]
plugins = false
shell_snapshot = false
[mcp_servers.gateway]
command = {command}
args = {args}
"""


class AppServer:
    """JSON-RPC over the pipes of `codex app-server`, one of our requests at a time."""

    def __init__(self, codex, folder, answers):
        dead = "http://127.0.0.1:9"
        home = {"HOME": folder, "TMPDIR": folder, "PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "dumb"}
        proxies = {"HTTP_PROXY": dead, "HTTPS_PROXY": dead, "ALL_PROXY": dead, "NO_PROXY": "127.0.0.1,localhost"}
        self.child = subprocess.Popen(
            [codex, "app-server"], cwd=folder, env=home | proxies, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.answers, self.count, self.questions = answers, 0, []

    def send(self, message):
        self.child.stdin.write(json.dumps(message) + "\n")
        self.child.stdin.flush()

    def request(self, method, params):
        self.count += 1
        self.send({"id": self.count, "method": method, "params": params})
        for line in self.child.stdout:
            message = json.loads(line)
            if "method" not in message:
                assert message["id"] == self.count, message
                return message
            if "id" in message:
                self.asked(message)
        sys.exit(f"codex ended before it answered {method}")

    def asked(self, message):
        if message["method"] != "mcpServer/elicitation/request":
            return self.send({"id": message["id"], "error": {"code": -32601, "message": "not expected"}})
        params = message["params"]
        self.questions.append({"message": params["message"], "schema": params["requestedSchema"]})
        if self.answers:
            self.send({"id": message["id"], "result": {"content": None, "_meta": None} | self.answers.pop(0)})

    def end(self):
        self.child.stdin.close()
        self.child.wait()


def step_seen(reply):
    result = reply["result"]
    text = [block["text"] for block in result["content"]]
    return {"is_error": result["isError"], "text": text, "outcome": result["_meta"]["tidegate/outcome"]}


def drive(codex, folder, plan):
    program, *arguments = plan["server"]
    Path(folder, ".codex").mkdir()
    config = CONFIG.format(command=json.dumps(program), args=json.dumps(arguments))
    Path(folder, ".codex/config.toml").write_text(config)
    server = AppServer(codex, folder, plan["answers"])
    # Ends a session that hangs; then the read above comes to its end.
    signal.signal(signal.SIGALRM, lambda *_: server.child.kill())
    signal.alarm(PATIENCE_S)
    info = {"name": "drive", "title": "drive", "version": "1"}
    server.request("initialize", {"clientInfo": info, "capabilities": {"experimentalApi": True}})
    server.send({"method": "initialized"})
    thread = server.request("thread/start", {"cwd": folder})["result"]["thread"]["id"]
    call = lambda step: server.request("mcpServer/tool/call", {"threadId": thread, "server": "gateway"} | step)
    steps = [step_seen(call(step)) for step in plan["steps"]]
    server.end()
    return {"questions": server.questions, "steps": steps}


if __name__ == "__main__":
    os.umask(0o077)
    print(json.dumps(drive(sys.argv[1], sys.argv[2], json.load(sys.stdin))))
