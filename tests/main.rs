//! Tests from outside: what the library promises, checked against data and schemas that are not ours.

mod json_suite;
mod mcp_schema;
mod shared;
