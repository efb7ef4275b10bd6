//! What became of a call: the outcome every executor ends in, and the budget its output passes on the way.
//!
//! Results are decisions, not raw material: bounded, redacted, and honest about what was left out.

pub mod artifact;
pub mod meter;
pub mod budget;
pub mod result;
pub mod page;
pub mod command;
pub mod http;
#[cfg(test)]
pub(crate) mod testing;
