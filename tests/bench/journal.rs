//! `journal`: durable intents a second from 1 and 8 workers, beside what the disk itself syncs, and how fast `verify` reads.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use tidegate::clock::Clock;
use tidegate::journal::JournalRules;
use tidegate::journal::append::{Journal, OnDisk};
use tidegate::journal::record::Record;
use tidegate::journal::verify::folder::verify_all;

/// Of each measurement.
const TIME: Duration = Duration::from_secs(1);
const ROUNDS: usize = 5;

fn intent(call: u64) -> Record {
    Record::Intent {
        call,
        tool: "restart".to_owned(),
        rule: "declared:restart".to_owned(),
        target: "ssh web1 systemctl".to_owned(),
        args_sha256: "0".repeat(64),
        action_sha256: "0".repeat(64),
        credential: Some("web_key".to_owned()),
        era: "2026-07-28",
        trace: None,
        question: None,
    }
}

/// How often a second a line of that length is appended and synced, by nobody else.
fn disk(folder: &Path) -> f64 {
    let mut file = File::options().append(true).create(true).open(folder.join("disk")).unwrap();
    let line = [b'x'; 600];
    let (began, mut count) = (Instant::now(), 0_u64);
    while began.elapsed() < TIME {
        file.write_all(&line).unwrap();
        file.sync_data().unwrap();
        count += 1;
    }
    count as f64 / began.elapsed().as_secs_f64()
}

fn intents(folder: &Path, workers: u64) -> f64 {
    let journal = Journal::new(folder, JournalRules::default(), Clock::System).unwrap();
    let began = Instant::now();
    let work = |worker: u64| {
        let mut count = 0;
        while began.elapsed() < TIME {
            journal.append(intent(worker << 32 | count), OnDisk::ByMode, None).unwrap();
            count += 1;
        }
        count
    };
    let count: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|worker| scope.spawn(move || work(worker))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(journal.close());
    count as f64 / began.elapsed().as_secs_f64()
}

/// The middle of what was measured.
fn middle(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

pub(crate) fn run() {
    let folder = std::env::temp_dir().join(format!("tidegate-bench-journal-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    // By turns: a disk is not as fast at one time as at another.
    let (mut own, mut one, mut eight) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        own.push(disk(&folder));
        one.push(intents(&folder, 1));
        eight.push(intents(&folder, 8));
    }
    let disk = middle(own);
    println!("{:<34} {disk:.0} a second", "journal: the disk's own fdatasync");
    for (workers, rates) in [(1, one), (8, eight)] {
        let rate = middle(rates);
        println!("{:<34} {rate:.0} a second, {:.2} of that", format!("journal: intents, {workers} workers"), rate / disk);
    }
    let (began, mut records) = (Instant::now(), 0);
    verify_all(&folder, None, &mut |report| records += report.records).unwrap();
    println!("{:<34} {:.0} records a second", "journal: verify", records as f64 / began.elapsed().as_secs_f64());
    fs::remove_dir_all(&folder).unwrap();
}
