"""Drives the real Claude Code through its agent loop with a model that is none: a web server on loopback that plans its turns.

Usage: claude.py CLAUDE FOLDER, with the plan on stdin:
    {"server": [PROGRAM, ARGUMENT...], "steps": [{"tool": NAME, "arguments": {...}}...],
     "answers": [{"action": ..., "content": {...}?}...], "after_s": SECONDS?}
FOLDER becomes its home and all it writes to. Answers are given by an `Elicitation` hook, as people configure one, to each question
one; where there are none there is no hook, so Claude Code has nobody to ask and closes the question. Prints one JSON object:
{"questions": [{"message", "schema"}...], "steps": [{"is_error", "text"}...]}: what the hook was told and what the model gets.

The stand-in knows three things of the Messages API: a turn streams a `tool_use` or a text, results come back as `tool_result`, and
everything else is answered with an empty object. Nothing leaves this machine: what goes to another host is sent to a proxy that
is not there.
"""

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

# The longest a whole session takes; never waited for in a test that passes.
PATIENCE_S = 60
PREFIX = "mcp__gateway__"


class Model(http.server.ThreadingHTTPServer):
    """Asks for one step after another, then says that it is done."""

    def __init__(self, steps):
        super().__init__(("127.0.0.1", 0), Turn)
        self.steps, self.results = steps, []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def turn(self, request):
        """The block that answers a conversation: its results tell how far it is."""
        contents = [message["content"] for message in request["messages"] if isinstance(message["content"], list)]
        results = [block for content in contents for block in content if block["type"] == "tool_result"]
        if len(results) > len(self.results):
            self.results = results
        has_tools = any(tool["name"].startswith(PREFIX) for tool in request.get("tools", []))
        if not has_tools or len(results) == len(self.steps):
            return {"type": "text", "text": "done"}
        step = self.steps[len(results)]
        return {"type": "tool_use", "id": f"toolu_{len(results)}", "name": PREFIX + step["tool"], "input": step["arguments"]}


class Turn(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        if self.path.split("?")[0] != "/v1/messages":
            return self.reply({}, "application/json")
        block = self.server.turn(body)
        stop = "tool_use" if block["type"] == "tool_use" else "end_turn"
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "stop_sequence": None,
                   "usage": {"input_tokens": 1, "output_tokens": 1}}
        if body.get("stream"):
            return self.reply(stream(message, block, stop), "text/event-stream")
        return self.reply(message | {"content": [block], "stop_reason": stop}, "application/json")

    def do_GET(self):
        self.reply({}, "application/json")

    do_HEAD = do_GET

    def reply(self, body, kind):
        body = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


def stream(message, block, stop):
    """A message as server-sent events."""
    if block["type"] == "tool_use":
        start, delta = block | {"input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    else:
        start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
    events = [
        {"type": "message_start", "message": message | {"content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


# The folder, the seconds: tells what it is asked and gives the answer of that number.
HOOK = "cd '{}' && {{ cat; echo; }} >>asked && sleep {} && cat answer-$(grep -c . asked)"


def hooks(folder, plan):
    """The settings with the hook, if somebody answers."""
    for at, answer in enumerate(plan["answers"]):
        output = {"hookSpecificOutput": {"hookEventName": "Elicitation"} | answer}
        Path(folder, f"answer-{at + 1}").write_text(json.dumps(output))
    hook = {"type": "command", "command": HOOK.format(folder, plan.get("after_s", 0))}
    return {"hooks": {"Elicitation": [{"hooks": [hook]}]}} if plan["answers"] else {}


def environment(folder, model):
    dead = "http://127.0.0.1:9"
    return {
        "HOME": folder, "TMPDIR": folder, "CLAUDE_CODE_TMPDIR": folder, "PATH": "/usr/local/bin:/usr/bin:/bin",
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.server_port}", "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "ENABLE_TOOL_SEARCH": "false",
        "HTTP_PROXY": dead, "HTTPS_PROXY": dead, "NO_PROXY": "127.0.0.1,localhost",
    }


def drive(claude, folder, plan):
    program, *arguments = plan["server"]
    model = Model(plan["steps"])
    mcp = {"mcpServers": {"gateway": {"command": program, "args": arguments}}}
    allowed = ",".join(PREFIX + step["tool"] for step in plan["steps"])
    command = [claude, "-p", "go", "--mcp-config", json.dumps(mcp), "--strict-mcp-config", "--settings",
               json.dumps(hooks(folder, plan)), "--allowedTools", allowed]
    child = subprocess.Popen(command, cwd=folder, env=environment(folder, model), stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    # Ends a session that hangs.
    signal.signal(signal.SIGALRM, lambda *_: child.kill())
    signal.alarm(PATIENCE_S)
    said = child.communicate()[0]
    if child.returncode != 0:
        sys.exit(f"claude ended with {child.returncode}: {said}")
    asked = Path(folder, "asked").read_text().splitlines() if plan["answers"] else []
    questions = [json.loads(line) for line in asked if line]
    return {
        "questions": [{"message": asked["message"], "schema": asked["requested_schema"]} for asked in questions],
        "steps": [{"is_error": step.get("is_error", False), "text": [step["content"]]} for step in model.results],
    }


if __name__ == "__main__":
    os.umask(0o077)
    print(json.dumps(drive(sys.argv[1], sys.argv[2], json.load(sys.stdin))))
