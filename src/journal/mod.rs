//! The journal: what was about to be done is on disk before it is done, and what became of it is there after.
//!
//! One JSONL file a process, made at the first call. `record` is the shape, `append` the writer; what was refused has files of
//! its own in `refusals`. Nothing here decides.

pub mod record;
pub mod append;
pub mod refusals;
