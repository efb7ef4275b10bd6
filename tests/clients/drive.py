"""Connects one Python MCP client to a stdio server, walks through a plan, prints what the client saw as one JSON object.

Usage: drive.py LIBRARY MODE, with the plan on stdin:
    {"server": [PROGRAM, ARGUMENT...],
     "steps": [{"tool": NAME, "arguments": {...}, "cancel_once_written": FILE?, "write_once_told": FILE?}...],
     "answers": [{"action": ..., "content": {...}?}...]?, "after_s": SECONDS?}
LIBRARY is `mcp` or `fastmcp`; MODE is what both call so: `auto`, `legacy`, or a modern revision.

With `answers` the client can ask its user, who gives one to each question, after that long; all questions are printed.

A step with `cancel_once_written` is cancelled when the command has written its process id there; the step's result says
whether that process was there before and is gone while the session still stands.

A step with `write_once_told` asks for progress; the file is written at the second notification. Its result has all of them.
"""

import json
import sys
from pathlib import Path

import anyio

# The longest a whole session takes, and a cancelled command to end; neither is waited for in a test that passes.
PATIENCE_S = 60
END_S = 15


def connect(library, mode, server, answer):
    """A client, not yet connected, and what its `call_tool` needs beside name and arguments."""
    program, *arguments = server
    if library == "mcp":
        from mcp import Client, StdioServerParameters, stdio_client

        transport = stdio_client(StdioServerParameters(command=program, args=arguments))
        return Client(transport, mode=mode, elicitation_callback=answer and (lambda _, asked: answer(asked))), {}
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    asks = {"elicitation_handler": lambda _message, _type, asked, _context: answer(asked)} if answer else {}
    return Client(StdioTransport(program, arguments, keep_alive=False), mode=mode, **asks), {"raise_on_error": False}


def user(plan, questions):
    """Who answers questions as planned, if somebody does."""
    if "answers" not in plan:
        return None
    answers = iter(plan["answers"])
    from mcp.types import ElicitResult

    async def answer(asked):
        questions.append({"message": asked.message, "schema": asked.requested_schema})
        await anyio.sleep(plan.get("after_s", 0))
        return ElicitResult(**next(answers))

    return answer


async def call(client, step, options):
    from mcp import MCPError

    try:
        result = await client.call_tool(step["tool"], step["arguments"], **options)
    except MCPError as error:
        seen = {"code": error.error.code, "message": error.error.message}
        return {"error": seen, "outcome": (error.error.data or {}).get("tidegate/outcome")}
    return {
        "is_error": result.is_error,
        "structured": result.structured_content,
        "text": [block.text for block in result.content],
        "outcome": (result.meta or {}).get("tidegate/outcome"),
    }


async def listen(client, step, options):
    told = []

    async def hear(progress, total, message):
        told.append({"progress": progress, "total": total, "message": message})
        if len(told) == 2:
            Path(step["write_once_told"]).touch()

    name = "progress_handler" if "raise_on_error" in options else "progress_callback"
    seen = await call(client, step, options | {name: hear})
    return seen | {"told": told}


async def cancel(client, step, options):
    async with anyio.create_task_group() as group:
        group.start_soon(call, client, step, options)
        pid = await written(Path(step["cancel_once_written"]))
        process = Path("/proc", pid)
        was_there = process.exists()
        group.cancel_scope.cancel()
    with anyio.fail_after(END_S):
        while process.exists():
            await anyio.sleep(0.005)
    return {"pid": int(pid), "was_there": was_there, "is_gone": True}


async def written(path):
    while not (path.exists() and path.read_text().endswith("\n")):
        await anyio.sleep(0.005)
    return path.read_text().strip()


async def drive(library, mode, plan):
    questions = []
    client, options = connect(library, mode, plan["server"], user(plan, questions))
    with anyio.fail_after(PATIENCE_S):
        async with client:
            listed = await client.list_tools()
            tools = listed if isinstance(listed, list) else listed.tools
            seen = {
                "protocol_version": client.protocol_version,
                "server": client.server_info.name if client.server_info else None,
                "tools": [{"name": tool.name, "input": tool.input_schema} for tool in tools],
                "questions": questions,
                "steps": [],
            }
            for step in plan["steps"]:
                act = cancel if "cancel_once_written" in step else listen if "write_once_told" in step else call
                seen["steps"].append(await act(client, step, options))
    return seen


if __name__ == "__main__":
    print(json.dumps(anyio.run(drive, sys.argv[1], sys.argv[2], json.load(sys.stdin))))
