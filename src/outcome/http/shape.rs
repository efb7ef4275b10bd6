//! In which form a body is shown: JSON as JSON, text as text, the rest described or as base64, each within the budget.
//!
//! Nothing is guessed into text, and whatever is not shown is stored, to be read on from where the shown part ended. Large JSON
//! is looked at by one call at a time, so that memory stays bounded; every loop over it looks at the cancel.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine};

use crate::limits::{ARTIFACT_BYTES, JSON_BODY_BYTES, NESTING_LEVELS};
use crate::outcome::artifact::Stored;
use crate::outcome::budget::{Capture, Kept, Sinks};
use crate::outcome::http::items::{FirstItems, first_items};
use crate::outcome::http::media::{Charset, Kind, Media};
use crate::outcome::http::select::{Picked, Select, pick};
use crate::outcome::http::walk::Stopped;
use crate::wire::escape::{escaped_len, to_line};

/// Says how to get less.
const NARROW: &str = "the body was cut; to need less, narrow the request, page through it, or select fewer members";
/// Of the reason why nothing could be stored.
const WHY_CHARS: usize = 100;
/// Larger JSON is not compacted to see whether it then fits.
const COMPACTED_BYTES: usize = 4 << 20;
/// How often one that waits for its turn looks at its cancel.
const LOOK: Duration = Duration::from_millis(20);

/// What a look at the call says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Nothing new.
    GoOn,
    /// It was cancelled: nothing will be shown.
    Cancelled,
    /// Its time is over: what needs none is still shown.
    Late,
}

/// Whose turn it is with JSON that is larger than `JSON_BODY_BYTES`.
static LARGE: Turn = Turn { is_taken: Mutex::new(false), free: Condvar::new() };

struct Turn {
    is_taken: Mutex<bool>,
    free: Condvar,
}

/// Ends the turn when it is dropped.
struct Taken<'a>(&'a Turn);

impl Turn {
    /// Waits for the turn; `None` if `stop` said so first.
    fn take(&self, stop: &dyn Fn() -> bool) -> Option<Taken<'_>> {
        let mut is_taken = self.is_taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *is_taken {
            if stop() {
                return None;
            }
            is_taken = self.free.wait_timeout(is_taken, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        *is_taken = true;
        Some(Taken(self))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.0.is_taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.free.notify_one();
    }
}

/// What of a body is not shown.
pub(super) struct Rest {
    /// What it belongs to, if not to the body as it came.
    own: Option<Kept>,
    /// How much of that is shown.
    offset: u64,
}

/// The body, ready to be put into both renderings.
pub(super) struct Body {
    /// Members of the structured object.
    pub(super) members: String,
    /// The plain rendering.
    pub(super) text: String,
    /// `None`: all of it is shown.
    pub(super) rest: Option<Rest>,
    pub(super) notes: Vec<String>,
}

impl Body {
    /// Stores what the rest belongs to and says how to read on.
    pub(super) fn store_rest(&mut self, kept: Kept) -> Option<Stored> {
        let Rest { own, offset } = self.rest.take()?;
        match own.unwrap_or(kept).store() {
            Ok(stored) => {
                let cursor = stored.cursor(offset);
                self.members.push_str(&format!(",\"nextCursor\":\"{cursor}\""));
                let gone = stored.gone_note().map(|note| format!("; {note}")).unwrap_or_default();
                self.notes.push(format!("read_result goes on after what is shown with cursor {cursor}{gone}"));
                Some(stored)
            }
            Err(why) => {
                let why: String = why.chars().take(WHY_CHARS).collect();
                self.notes.push(format!("what is not shown could not be stored: {why}"));
                None
            }
        }
    }
}

/// Decides in which form a body is shown.
pub(super) struct Shaper<'a> {
    pub(super) media: &'a Media,
    pub(super) select: &'a Select,
    pub(super) sinks: &'a Sinks,
    pub(super) bytes: u64,
    /// For a body that is shown whole.
    pub(super) whole_budget: usize,
    /// For one that is not, and has to say so.
    pub(super) budget: usize,
    pub(super) whole: bool,
    pub(super) look: &'a dyn Fn() -> Look,
}

impl Shaper<'_> {
    pub(super) fn shape(&self, kept: &Kept) -> Option<Body> {
        if self.bytes == 0 {
            return Some(Body { members: "\"body\":null".into(), text: String::new(), rest: None, notes: vec![] });
        }
        Some(match (self.media.kind, &self.media.charset) {
            (Kind::Binary, _) => self.described("not text"),
            (Kind::Json | Kind::Text | Kind::Opaque, Charset::Unknown(name)) => {
                self.encoded(kept, &format!("the character set {name} is not known here"))
            }
            (Kind::Json, _) => match self.json(kept) {
                Ok(body) => body,
                Err(_) if (self.look)() == Look::Cancelled => return None,
                Err(note) => self.text(kept, note),
            },
            (Kind::Text, _) => self.text(kept, None),
            (Kind::Opaque, _) => self.opaque(kept),
        })
    }

    /// The body as JSON; otherwise why not, unless that is said elsewhere.
    fn json(&self, kept: &Kept) -> Result<Body, Option<String>> {
        if !self.whole {
            return Err(None);
        }
        let is_large = kept.stored_bytes() > JSON_BODY_BYTES as u64;
        let unselected = if self.select.is_all() { "" } else { ", so `select` was not applied" };
        let late = || Some(format!("the call's time was over before the JSON had been looked at{unselected}"));
        let stop = || (self.look)() != Look::GoOn;
        let _turn = if is_large { Some(LARGE.take(&stop).ok_or_else(late)?) } else { None };
        let lost = || match kept.stored_bytes() > ARTIFACT_BYTES {
            true => format!("the JSON is larger than {} MiB{unselected}", ARTIFACT_BYTES >> 20),
            false => format!("the JSON could not be kept whole to be parsed{unselected}"),
        };
        let bytes = kept.load().ok_or_else(|| Some(lost()))?;
        let Ok(text) = str::from_utf8(&bytes) else { return Err(None) };
        let mut notes = Vec::new();
        let text = text.strip_prefix('\u{feff}').map_or(text, |rest| {
            notes.push("a byte order mark before the JSON was dropped".to_owned());
            rest
        });
        let body = self.chosen(kept, text, bytes.len() - text.len(), notes, &stop).map_err(|stopped| match stopped {
            Stopped::Cancelled => late(),
            Stopped::NotJson => Some(format!("the body is not valid JSON{unselected}")),
            Stopped::TooDeep => Some(format!("the JSON is nested deeper than {NESTING_LEVELS} levels{unselected}")),
        })?;
        if (self.look)() == Look::Cancelled { Err(None) } else { Ok(body) }
    }

    /// What `select` names of a JSON text, or all of it. `before`: bytes of the body before the text.
    fn chosen(
        &self,
        kept: &Kept,
        text: &str,
        before: usize,
        mut notes: Vec<String>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Body, Stopped> {
        let mut out = String::new();
        if !self.select.is_all() {
            if let Picked::Named { replaced } = pick(text, self.select, &mut out, stop)? {
                surrogates(replaced, &mut notes);
                return self.selected(&out, notes, stop);
            }
            notes.push("`select` names nothing in this body; all of it is shown".to_owned());
        }
        if text.len() <= COMPACTED_BYTES
            && let Picked::Named { replaced } = pick(text, &Select::new(&[]), &mut out, stop)?
            && cost(&out) <= 2 * self.whole_budget
        {
            if matches!(out.as_str(), "[]" | "{}") {
                notes.retain(|note| !note.starts_with("`select`"));
            }
            surrogates(replaced, &mut notes);
            return Ok(Body { members: format!("\"body\":{out}"), text: out, rest: None, notes });
        }
        drop(out);
        if let Some(items) = first_items(text, 2 * self.budget, &cost, stop)? {
            let offset = items.rest_at.map(|at| (before + at) as u64);
            return Ok(some_items(items, offset.map(|offset| Rest { own: None, offset }), notes));
        }
        let capture = kept.capture(self.bytes, self.budget);
        Ok(as_text(&capture, None, notes))
    }

    /// A selection, cut to the budget. What is left out of it is stored as the selection, not as the body it was made from.
    fn selected(&self, json: &str, notes: Vec<String>, stop: &dyn Fn() -> bool) -> Result<Body, Stopped> {
        if cost(json) <= 2 * self.whole_budget {
            return Ok(Body { members: format!("\"body\":{json}"), text: json.to_owned(), rest: None, notes });
        }
        let own = self.sinks.keep("body", self.budget, json.as_bytes());
        if let Some(items) = first_items(json, 2 * self.budget, &cost, stop)? {
            let offset = items.rest_at.map(|at| at as u64);
            return Ok(some_items(items, offset.map(|offset| Rest { own: Some(own), offset }), notes));
        }
        let capture = own.capture(json.len() as u64, self.budget);
        Ok(as_text(&capture, Some(own), notes))
    }

    fn text(&self, kept: &Kept, note: Option<String>) -> Body {
        let capture = self.fitting(kept);
        if capture.not_utf8 > 0 && self.media.charset != Charset::Utf8 {
            return self.encoded(kept, "no character set is declared and it is not UTF-8");
        }
        let mut notes: Vec<String> = note.into_iter().collect();
        if capture.not_utf8 > 0 {
            notes.push(format!("{} bytes were not UTF-8 and stand as U+FFFD", capture.not_utf8));
        }
        if capture.is_cut() {
            notes.push(NARROW.to_owned());
        }
        let text = capture.text();
        let rest = capture.is_cut().then_some(Rest { own: None, offset: capture.head_bytes });
        Body { members: format!("\"body\":{}", to_line(&text)), text, rest, notes }
    }

    /// All of the text, or what of it there is room for beside the words on the cut.
    fn fitting(&self, kept: &Kept) -> Capture {
        let whole = kept.capture(self.bytes, self.whole_budget);
        if whole.is_cut() { kept.capture(self.bytes, self.budget) } else { whole }
    }

    /// Text if the bytes look like it, else a description.
    fn opaque(&self, kept: &Kept) -> Body {
        let capture = self.fitting(kept);
        if capture.not_utf8 > 0 || capture.head.contains('\0') || capture.tail.contains('\0') {
            self.described("not text")
        } else {
            self.text(kept, None)
        }
    }

    fn described(&self, what: &str) -> Body {
        let text = format!("{}, {} bytes, {what}", self.media.label(), self.bytes);
        Body {
            members: format!("\"body\":null,\"described\":{}", to_line(&text)),
            text,
            rest: Some(Rest { own: None, offset: 0 }),
            notes: vec![],
        }
    }

    /// Base64 of as many of the first bytes as fit.
    fn encoded(&self, kept: &Kept, why: &str) -> Body {
        let Some(bytes) = kept.whole() else {
            return self.described(&format!("not shown: {why}, and base64 is given up to {JSON_BODY_BYTES} bytes"));
        };
        let fits = bytes.len() <= self.whole_budget / 4 * 3;
        let shown = if fits { bytes.len() } else { bytes.len().min(self.budget / 4 * 3) };
        let text = BASE64_STANDARD.encode(&bytes[..shown]);
        let rest = (shown < bytes.len()).then_some(Rest { own: None, offset: shown as u64 });
        let mut notes = vec![format!("{why}: the body is given as base64")];
        if rest.is_some() {
            notes.push(format!("the first {shown} of {} bytes are shown; narrow the request", bytes.len()));
        }
        Body { members: format!("\"base64\":\"{text}\""), text, rest, notes }
    }
}

fn surrogates(replaced: usize, notes: &mut Vec<String>) {
    if replaced > 0 {
        notes.push(format!("{replaced} halves of surrogate pairs stand as U+FFFD"));
    }
}

/// The first elements of an array.
fn some_items(found: FirstItems, rest: Option<Rest>, mut notes: Vec<String>) -> Body {
    let FirstItems { json, shown, total, replaced, .. } = found;
    surrogates(replaced, &mut notes);
    notes.push(format!(
        "the first {shown} of {total} items are shown; to need less, narrow the request, page through it, or select fewer members"
    ));
    Body { members: format!("\"items\":{json},\"shown\":{shown},\"items_total\":{total}"), text: json, rest, notes }
}

/// JSON that neither fits nor has first elements that do.
fn as_text(capture: &Capture, own: Option<Kept>, mut notes: Vec<String>) -> Body {
    notes.push("the JSON does not fit and is shown as text".to_owned());
    notes.push(NARROW.to_owned());
    let text = capture.text();
    let rest = Some(Rest { own, offset: capture.head_bytes });
    Body { members: format!("\"body\":{}", to_line(&text)), text, rest, notes }
}

/// What JSON takes as itself in the structured copy and inside a string in the text block.
fn cost(json: &str) -> usize {
    json.len() + escaped_len(json)
}
