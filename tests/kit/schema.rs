//! Every byte a gateway wrote on stdout: whole lines, each one protocol message, each valid against the schema of its revision.

use serde_json::Value;
use tidegate::mcp::era::Revision;

use crate::mcp_schema::validate_server_line;

/// Checks a whole recorded stdout. The revision of a legacy line is the one agreed last.
pub fn check_stdout(stdout: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(stdout).map_err(|error| format!("stdout is not UTF-8: {error}"))?;
    if !text.is_empty() && !text.ends_with('\n') {
        return Err(format!("stdout ends inside a line: {:?}", text.lines().last()));
    }
    let mut agreed = Revision::V2025_11_25;
    for line in text.split_terminator('\n') {
        let message: Value =
            serde_json::from_str(line).map_err(|error| format!("a stdout line is no JSON: {error}: {line:?}"))?;
        if message["jsonrpc"] != "2.0" {
            return Err(format!("a stdout line is no JSON-RPC message: {line}"));
        }
        if let Some(revision) = message["result"]["protocolVersion"].as_str() {
            agreed = Revision::parse(revision).ok_or_else(|| format!("unknown revision {revision}"))?;
        }
        check_line(agreed, &message, line)?;
    }
    Ok(())
}

fn check_line(agreed: Revision, message: &Value, line: &str) -> Result<(), String> {
    let is_modern = message["result"].get("resultType").is_some()
        || !message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].is_null();
    if is_modern {
        return validate_server_line(Revision::V2026_07_28, line);
    }
    if message.get("error").is_some() {
        // Which era an error answers cannot be seen in it; an id of null has no valid form in any schema (JSON-RPC's own).
        if message.get("id") == Some(&Value::Null) {
            return Ok(());
        }
        let modern = validate_server_line(Revision::V2026_07_28, line);
        return modern.or_else(|_| validate_server_line(agreed, line));
    }
    let legacy = validate_server_line(agreed, line);
    let may_be_modern = message.get("method").is_some();
    legacy.or_else(|error| if may_be_modern { validate_server_line(Revision::V2026_07_28, line) } else { Err(error) })
}
