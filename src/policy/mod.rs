//! Who may do what: rules, the pure decision, and the grant that executors demand.
//!
//! Nothing here touches the world: no credential value, no clock, no file. `decide` alone makes an `Authorized`.

pub mod rules;
pub mod grant;
pub mod decide;
