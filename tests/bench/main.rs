//! Benches of the built gateway. Figures, no verdicts; each stands beside what the machine itself takes for the same, measured
//! by turns in the same run.
//!
//! `cold` start to first answer · `pipe` one request after the other · `idle` doing nothing · `cancel` from the line to the death
//! of the command · `busy` a ping while everything else works · `drain` 10 GiB of output through the default budget · `flood`
//! lines in one burst · `journal` durable intents a second · `ssh` a warm remote command. `cargo bench` runs all, `cargo bench -- drain` one.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a bench talks to a person")]

mod busy;
mod cancel;
mod cold;
mod drain;
mod flood;
mod gateway;
mod idle;
mod journal;
mod pipe;
#[cfg(feature = "ssh")]
mod ssh;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let benches: &[(&str, fn())] = &[
        ("cold", cold::run),
        ("pipe", pipe::run),
        ("idle", idle::run),
        ("cancel", cancel::run),
        ("busy", busy::run),
        ("drain", drain::run),
        ("flood", flood::run),
        ("journal", journal::run),
        #[cfg(feature = "ssh")]
        ("ssh", ssh::run),
    ];
    for (name, bench) in benches {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            bench();
        }
    }
}
