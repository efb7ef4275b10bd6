//! The running gateway: one reader that is the loop, workers that hold one call each, one writer, one end.
//!
//! `pipeline` is the security argument, `inflight` and `desk` (calls, and questions to humans) the state the threads share, `session`
//! the loop, `asking` the way from a question to a consent, `answer` the only place that turns refusals, failures and outcomes
//! into replies.

pub mod counters;
pub mod progress;
pub mod inflight;
pub mod answer;
pub mod question;
pub mod desk;
pub mod pipeline;
pub mod live;
pub mod shared;
pub mod answers;
pub mod asking;
pub mod pool;
pub mod reading;
pub mod status;
pub mod waiting;
pub mod writer;
pub mod session;
pub mod assemble;
