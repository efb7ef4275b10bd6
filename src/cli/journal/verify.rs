//! `tidegate journal verify`: findings by file and line, one summary a file, one verdict.

use serde::Serialize;

use crate::cli::flags::JournalOptions;
use crate::cli::journal::table::cell;
use crate::cli::journal::{Out, Place, Problem};
use crate::cli::{EXIT_NO, EXIT_OK};
use crate::journal::verify::folder::{verify_all, verify_one};
use crate::journal::verify::{Kind, Report};
use crate::wire::escape::to_line;

/// Prints what was found; `EXIT_NO` if something of it is damage.
pub fn run(place: &Place, options: &JournalOptions, out: &mut Out) -> Result<u8, Problem> {
    let mut verdict = Verdict::new(options.json);
    let saved = options.heads.as_deref();
    match place {
        Place::File(path) => {
            let report = verify_one(path, saved, options.head).map_err(Problem::input(path))?;
            verdict.take(&report, out)?;
        }
        Place::State(state_dir) => {
            // The first failure to print is the one that is reported; reading goes on for nobody.
            let mut failed = None;
            let mut each = |report: Report| {
                if failed.is_none() {
                    failed = verdict.take(&report, out).err();
                }
            };
            verify_all(state_dir, saved, &mut each).map_err(Problem::input(state_dir))?;
            if let Some(problem) = failed {
                return Err(problem);
            }
        }
    }
    verdict.print(out)?;
    Ok(if verdict.damage > 0 { EXIT_NO } else { EXIT_OK })
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "verdict")]
struct Verdict {
    #[serde(skip)]
    is_json: bool,
    files: u64,
    records: u64,
    /// Findings that no crash explains.
    damage: u64,
    /// Intents without an outcome.
    unknown: u64,
    /// Lines that were cut while they were written.
    torn: u64,
    /// Questions whose calls waited and that have no answer.
    unanswered: u64,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "finding")]
struct Shown<'a> {
    file: &'a str,
    line: u64,
    kind: &'a str,
    is_damage: bool,
    text: &'a str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "file")]
struct Summary<'a> {
    file: &'a str,
    records: u64,
    last_seq: Option<u64>,
    head: Option<String>,
    state: &'a str,
    findings: u64,
}

impl Verdict {
    fn new(is_json: bool) -> Verdict {
        Verdict { is_json, files: 0, records: 0, damage: 0, unknown: 0, torn: 0, unanswered: 0 }
    }

    fn take(&mut self, report: &Report, out: &mut Out) -> Result<(), Problem> {
        for finding in &report.findings {
            let kind = finding.kind;
            self.damage += u64::from(kind.is_damage());
            self.unknown += u64::from(kind == Kind::Unknown);
            self.torn += u64::from(kind == Kind::Torn);
            self.unanswered += u64::from(kind == Kind::Unanswered);
            let (file, line, text) = (finding.file.as_str(), finding.line, finding.text.as_str());
            if self.is_json {
                out.line(&to_line(&Shown { file, line, kind: kind.as_str(), is_damage: kind.is_damage(), text }))?;
            } else {
                out.line(&format!("{}:{line}: {}: {}", cell(file), kind.as_str(), cell(text)))?;
            }
        }
        self.damage += u64::from(report.is_left_out_damage);
        self.files += 1;
        self.records += report.records;
        self.summary(report, out)
    }

    fn summary(&self, report: &Report, out: &mut Out) -> Result<(), Problem> {
        let findings = report.findings.len() as u64 + report.left_out;
        let (last_seq, head) = (report.head.map(|(seq, _)| seq), report.head.map(|(_, hash)| hash.to_string()));
        if self.is_json {
            let (file, records, state) = (report.file.as_str(), report.records, report.state.as_str());
            return out.line(&to_line(&Summary { file, records, last_seq, head, state, findings }));
        }
        if report.left_out > 0 {
            out.line(&format!("{}: and {} more findings", cell(&report.file), report.left_out))?;
        }
        let head = last_seq.zip(head).map_or_else(String::new, |(seq, head)| format!(", head {seq}:{head}"));
        let sound = if report.is_damaged() { "damaged" } else { "sound" };
        out.line(&format!("{}: {sound}, {} records, {}{head}", cell(&report.file), report.records, report.state.as_str()))
    }

    fn print(&self, out: &mut Out) -> Result<(), Problem> {
        if self.is_json {
            return out.line(&to_line(self));
        }
        let Verdict { files, records, damage, unknown, torn, unanswered, .. } = self;
        let found = if *damage == 0 { "no damage".to_owned() } else { format!("damage in {damage} places") };
        let left = format!("{unknown} intents with an unknown outcome, {unanswered} questions without an answer");
        out.line(&format!("{records} records in {files} files: {found}, {left}, {torn} lines cut while written"))
    }
}
