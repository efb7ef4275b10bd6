//! What unit tests of the operator's way have in common: a table of questions, a state folder, somebody who listens and is no
//! gateway.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::approval::operator::Desk;
use crate::approval::operator::folder::{Folder, of_state};
use crate::approval::{Answer, Extent, Question};

pub(crate) use crate::outcome::testing::StateDir;

/// Open questions, and the answers that were taken.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) open: Mutex<Vec<(Question, Duration)>>,
    pub(crate) answers: Mutex<Vec<(String, Answer, u32)>>,
}

impl Table {
    /// Questions of these ids, each open for 42.9 s.
    pub(crate) fn of(questions: &[(&str, Extent)]) -> Arc<Table> {
        let open = questions.iter().map(|(id, extent)| (question(id, *extent), Duration::from_millis(42_900)));
        Arc::new(Table { open: Mutex::new(open.collect()), answers: Mutex::default() })
    }

    pub(crate) fn answers(&self) -> Vec<(String, Answer, u32)> {
        self.answers.lock().unwrap().clone()
    }
}

impl Desk for Table {
    fn open(&self) -> Vec<(Question, Duration)> {
        self.open.lock().unwrap().clone()
    }

    fn answer(&self, id: &str, answer: Answer, by: u32) -> bool {
        let mut open = self.open.lock().unwrap();
        let before = open.len();
        open.retain(|(question, _)| question.id != id);
        let was_open = open.len() < before;
        if was_open {
            self.answers.lock().unwrap().push((id.to_owned(), answer, by));
        }
        was_open
    }
}

/// A question whose texts would move a terminal.
pub(crate) fn question(id: &str, extent: Extent) -> Question {
    Question {
        id: id.to_owned(),
        tool: "restart".to_owned(),
        rule: "declared:restart".to_owned(),
        target: format!("ssh web1 {id}\u{1b}[2J\u{202e}\\"),
        action: format!("{{\"ssh\":{{\"argv\":[\"restart\",\"{id}\\u001b\u{202e}é\"]}}}}"),
        extent,
    }
}

/// The sockets of a state folder, as paths.
pub(crate) fn sockets(state_dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(of_state(state_dir)).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Somebody of this user who listens in the folder under the name of a gateway.
pub(crate) fn impostor(state_dir: &Path, pid: u32) -> UnixListener {
    Folder::make(state_dir).unwrap();
    UnixListener::bind(of_state(state_dir).join(format!("{pid}-{:032x}.sock", pid))).unwrap()
}
