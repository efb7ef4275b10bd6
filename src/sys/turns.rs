//! How long a thread runs at a time beside others: those that only pass bytes on must not wait for those that work.
//!
//! It never changes policy, niceness or anything of another thread or process.

/// What `sched_setattr(2)` takes, in its first version.
#[repr(C)]
#[derive(Debug, Default, PartialEq, Eq)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// For how long a thread wants to run at a time, beside an ordinary one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turns {
    /// As short as the kernel allows: it does little, and others wait for that.
    Short,
    /// Twice as long: what it does takes time anyway.
    Long,
}

/// Lets the calling thread take such turns. From Linux 6.12 on a thread that wakes need not wait for the end of a turn longer
/// than its own: so the threads that read and write go before those that work, and so does the client. Policy and niceness
/// stay, no privilege is needed, and no thread or process started from here inherits it. Without effect on an older kernel and
/// under another policy.
pub fn take_turns(turns: Turns) {
    const SHORTEST_NS: u64 = 100_000;
    let Some(mut attr) = scheduling().filter(|attr| attr.policy == libc::SCHED_OTHER as u32) else { return };
    attr.runtime_ns = match turns {
        Turns::Short => SHORTEST_NS,
        Turns::Long => 2 * attr.runtime_ns,
    };
    attr.flags |= libc::SCHED_FLAG_RESET_ON_FORK as u64;
    // SAFETY: `attr` outlives the call and is as large as it says; a failure leaves things as they were.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
}

/// Of the calling thread; `None` where the kernel will not say.
fn scheduling() -> Option<SchedAttr> {
    const SIZE: u32 = size_of::<SchedAttr>() as u32;
    let mut attr = SchedAttr { size: SIZE, ..SchedAttr::default() };
    // SAFETY: `attr` outlives the call and is as large as it says.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, SIZE, 0) };
    (got == 0).then_some(attr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_a_threads_own_and_nothing_else_of_its_scheduling_changes() {
        let before = scheduling().unwrap();
        // Before 6.12 the kernel tells no length, and keeps none.
        let lengths = match before.runtime_ns {
            0 => [0, 0],
            usual => [100_000, 2 * usual],
        };
        for (turns, runtime_ns) in [Turns::Short, Turns::Long].into_iter().zip(lengths) {
            let (own, started) = std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    take_turns(turns);
                    let started = std::thread::scope(|scope| scope.spawn(scheduling).join().unwrap());
                    (scheduling().unwrap(), started.unwrap())
                });
                thread.join().unwrap()
            });
            let flags = libc::SCHED_FLAG_RESET_ON_FORK as u64;
            assert_eq!(own, SchedAttr { flags, runtime_ns, size: own.size, ..scheduling().unwrap() }, "{turns:?}");
            assert_eq!(started, before, "{turns:?}");
        }
    }
}
