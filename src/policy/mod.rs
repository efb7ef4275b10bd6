//! Who may do what: rules, the pure decision, and the grant that executors demand.
//!
//! Nothing here touches the world: no credential value, no clock, no file; what is counted (`pace`) is given the time. `decide` alone makes an `Authorized`.

pub mod shape;
pub mod rules;
pub mod grant;
pub mod consent;
pub mod allow;
pub mod decide;
pub mod pace;
