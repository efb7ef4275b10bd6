//! The one integration binary: what the project promises, seen from outside.
//!
//! `kit` is shared; a module a subject; tests named after behaviour, with the R number of the field report they come from.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
#![allow(clippy::print_stderr, reason = "skips are printed")]
#![allow(clippy::disallowed_methods, reason = "tests start real processes and threads of their own")]
#![allow(missing_docs, reason = "tests are named")]
#![allow(unreachable_pub, reason = "the kit is shared inside this crate")]
#![allow(dead_code, reason = "the kit offers more than each test needs")]

mod kit;

mod approvals;
mod approvals_cli;
mod attacks;
mod cancel;
mod canary;
mod clients;
mod config;
mod corpus;
mod credentials;
mod demo;
mod ending;
mod explain;
mod flood;
mod flow;
mod json_suite;
mod json_wire;
mod journal;
mod limits;
mod mcp_schema;
mod order;
mod perform;
mod pipeline;
mod policy;
mod progress;
mod purity;
mod quirks;
mod rate;
mod readme;
mod refusals;
mod reload;
mod remote;
mod reports;
mod scarce;
mod schema_differential;
mod schema_suite;
mod shared;
mod shell;
mod signals;
mod smoke;
mod ssh;
mod startup;
mod stored;
mod tidy;
mod tls;
mod transcripts;
mod waiting;
