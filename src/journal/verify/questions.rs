//! Pairs questions with answers, and each intent that was approved with the yes that approved it.
//!
//! The call of an operator's or a command's question waits for its answer in the same process. A client without a handshake
//! answers with another call, perhaps in another process, or never: such a question and such an answer each stand for themselves.
//! The order of records is only relied on as far as a yes goes: nobody can say it before the question is recorded, and nothing
//! is done before it is; a question that a stalled disk holds may stand behind its own withdrawal.
//!
//! ```text
//! question ─▶ yes ─▶ one intent, of the same call
//!         │    yes_for_session ─▶ any intents of the tool, in later files of the chain too
//!         └─▶ anything else ─▶ none
//! ```
//! What is remembered is bounded. What was forgotten is not held against an intent.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::journal::verify::Kind;
use crate::journal::verify::calls::Place;
use crate::journal::verify::links::{Answered, Approved, Asked};

/// Questions that wait, answers, and approvals that stand: so many of each are remembered.
pub const REMEMBERED: usize = 4096;

type Wrong = (Kind, String);

/// The questions of one chain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Questions {
    /// Whose calls wait for an answer here.
    waiting: BTreeMap<String, (Asked, Place)>,
    /// The latest ones, and what was answered.
    known: HashMap<String, Known>,
    /// Their names, the first known first.
    knowing: VecDeque<String>,
    /// Yes for the session; the tool, where the question stands in this chain.
    standing: HashMap<String, Option<String>>,
    /// The latest call whose yes to one action was forgotten before it was used.
    forgotten: Option<u64>,
    /// Questions that found no room among those that wait, approvals among those that stand.
    beyond: u64,
    /// Something before this is not known.
    is_partial: bool,
}

/// What is known of a question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Known {
    asked: Option<Asked>,
    answer: Option<(Answered, Place)>,
    /// The call whose intent used a yes, and where that stands.
    used: Option<(u64, Place)>,
}

impl Known {
    /// An intent under this answer, which does not stand for the session; what is wrong with that.
    fn approve(&mut self, call: u64, approved: &Approved, place: &Place) -> Option<Wrong> {
        let (question, (answered, _)) = (&approved.question, self.answer.as_ref()?);
        if answered.answer == SESSION {
            // It found no room among those that stand.
            return None;
        }
        if let Some((first, at)) = &self.used {
            let text = format!("the yes to question {question} was used by call {first} in {}:{} already", at.file, at.line);
            return Some((Kind::SecondUse, text));
        }
        let is_other = self.asked.as_ref().is_some_and(|asked| asked.action != approved.action);
        let why = match answered.answer.as_str() {
            ONCE if answered.call != call => format!("the yes to question {question} was given to call {}", answered.call),
            ONCE if is_other => format!("question {question} was about another action"),
            ONCE => {
                self.used = Some((call, Place { tool: String::new(), ..place.clone() }));
                return None;
            }
            other => format!("the answer to question {question} was {other}"),
        };
        Some((Kind::UnapprovedIntent, why))
    }

    fn holds_unused_yes(&self) -> Option<u64> {
        let (answered, _) = self.answer.as_ref().filter(|_| self.used.is_none())?;
        (answered.answer == ONCE).then_some(answered.call)
    }
}

const ONCE: &str = "yes";
const SESSION: &str = "yes_for_session";

impl Questions {
    /// Something before what follows is gone or not looked at.
    pub fn lose_sight(&mut self) {
        self.is_partial = true;
    }

    /// A question; what is wrong with it.
    pub fn asked(&mut self, asked: Asked, place: Place) -> Option<Wrong> {
        let question = asked.question.clone();
        let known = self.know(&question);
        // Names are random and short: the same one again is another question.
        (known.answer, known.used, known.asked) = (None, None, None);
        if !asked.has_waiting_call {
            known.asked = Some(asked);
            return None;
        }
        if self.waiting.len() >= REMEMBERED {
            return self.too_many("questions wait for an answer");
        }
        self.waiting.insert(question, (asked, place));
        None
    }

    /// An answer; what is wrong with it.
    pub fn answered(&mut self, answered: Answered, place: Place) -> Option<Wrong> {
        let Answered { question, call, by, answer } = &answered;
        let waited = self.waiting.remove(question).map(|(asked, _)| asked);
        let is_sure = !self.is_partial && self.beyond == 0;
        let known = self.know(question);
        if let Some((first, at)) = &known.answer {
            let text = format!("question {question} has the answer {} in {}:{} already", first.answer, at.file, at.line);
            return Some((Kind::SecondAnswer, text));
        }
        let is_yes = answer == ONCE || answer == SESSION;
        let wrong = match &waited {
            Some(asked) if is_yes && (asked.by != *by || asked.call != *call) => {
                Some(format!("question {question} was put to the {} about call {}", asked.by, asked.call))
            }
            None if is_yes && is_sure && is_of_this_process(by) => {
                Some(format!("question {question} was not put to the {by} before it"))
            }
            Some(_) | None => None,
        };
        known.asked = waited.or(known.asked.take());
        let tool = known.asked.as_ref().map(|asked| asked.tool.clone());
        let (question, is_session) = (question.clone(), answer == SESSION);
        known.answer = Some((answered, place));
        let full = if is_session { self.stand(question, tool) } else { None };
        wrong.map(|text| (Kind::AnswerAlone, text)).or(full)
    }

    fn stand(&mut self, question: String, tool: Option<String>) -> Option<Wrong> {
        if self.standing.len() >= REMEMBERED && !self.standing.contains_key(&question) {
            return self.too_many("approvals stand for the session");
        }
        self.standing.insert(question, tool);
        None
    }

    fn too_many(&mut self, what: &str) -> Option<Wrong> {
        self.beyond += 1;
        let text = || format!("more than {REMEMBERED} {what}: from here on what is approved is checked in part only");
        (self.beyond == 1).then(|| (Kind::TooManyQuestions, text()))
    }

    /// An intent that was approved; what is wrong with that.
    pub fn intent(&mut self, call: u64, approved: &Approved, place: &Place) -> Option<Wrong> {
        let question = &approved.question;
        let unapproved = |text: String| Some((Kind::UnapprovedIntent, text));
        if let Some(of) = self.standing.get(question) {
            let other = of.as_ref().filter(|of| **of != place.tool)?;
            return unapproved(format!("question {question} was about the tool {other}"));
        }
        let may_be_forgotten = self.is_partial || self.beyond > 0 || self.forgotten.is_some_and(|last| call <= last);
        let known = self.known.get_mut(question).filter(|known| known.answer.is_some());
        match known {
            Some(known) => known.approve(call, approved, place),
            None if may_be_forgotten => None,
            None => unapproved(format!("question {question} has no answer before it")),
        }
    }

    /// Questions whose calls wait for an answer.
    pub fn waiting(&self) -> impl Iterator<Item = (&Asked, &Place)> {
        self.waiting.values().map(|(asked, place)| (asked, place))
    }

    /// What is known of a question; the oldest one is forgotten for it.
    fn know(&mut self, question: &str) -> &mut Known {
        if !self.known.contains_key(question) {
            self.knowing.push_back(question.to_owned());
            let oldest = self.knowing.pop_front_if(|_| self.known.len() >= REMEMBERED);
            let forgotten = oldest.and_then(|oldest| self.known.remove(&oldest));
            self.forgotten = self.forgotten.max(forgotten.and_then(|known| known.holds_unused_yes()));
        }
        self.known.entry(question.to_owned()).or_default()
    }
}

/// Whether an answer of this approver is always for a question of the same process. One that a client brings may not be, nor one
/// by somebody who is not known here.
fn is_of_this_process(by: &str) -> bool {
    matches!(by, "operator" | "command")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: u64) -> Place {
        Place { file: "f".into(), line, tool: "t".to_owned() }
    }

    /// `question CALL NAME ASKED`, `answer CALL NAME ASKED ANSWER` or `intent CALL NAME`; the action is `a` unless one more word
    /// says otherwise.
    fn take(questions: &mut Questions, line: u64, record: &str) -> Option<Kind> {
        let words: Vec<&str> = record.split(' ').collect();
        let word = |at: usize| words.get(at).copied().unwrap_or("a").to_owned();
        let (call, question) = (word(1).parse().unwrap(), word(2));
        let wrong = match words[0] {
            "question" => {
                // A client with a handshake is asked as `client!`.
                let has_waiting_call = word(3) != "client";
                let (by, tool, action) = (word(3).replace('!', ""), "t".to_owned(), word(4));
                questions.asked(Asked { call, question, by, tool, action, has_waiting_call }, place(line))
            }
            "answer" => questions.answered(Answered { call, question, by: word(3), answer: word(4) }, place(line)),
            "intent" => questions.intent(call, &Approved { question, action: word(3) }, &place(line)),
            other => panic!("{other}"),
        };
        wrong.map(|(kind, _)| kind)
    }

    /// What is wrong with these records, by line, and which questions wait at the end.
    #[track_caller]
    fn check_from(mut questions: Questions, records: &[&str], expected: &[(u64, Kind)], waiting: &[&str]) {
        let mut found = Vec::new();
        for (line, record) in (1..).zip(records) {
            found.extend(take(&mut questions, line, record).map(|kind| (line, kind)));
        }
        let still: Vec<&str> = questions.waiting().map(|(asked, _)| asked.question.as_str()).collect();
        assert_eq!((&found[..], &still[..]), (expected, waiting), "{records:?}");
    }

    #[track_caller]
    fn check(records: &[&str], expected: &[(u64, Kind)], waiting: &[&str]) {
        check_from(Questions::default(), records, expected, waiting);
    }

    #[test]
    fn a_question_whose_call_waits_has_an_answer_and_another_may_have_none() {
        check(&["question 1 q client!", "question 2 r client", "question 3 s operator"], &[], &["q", "s"]);
        check(&["question 1 q client!", "answer 1 q client withdrawn"], &[], &[]);
        check(&["question 1 q client!", "answer 1 q client yes", "intent 1 q"], &[], &[]);
        check(&["question 1 q client!", "answer 2 q client yes"], &[(2, Kind::AnswerAlone)], &[]);
    }

    #[test]
    fn a_yes_approves_one_intent_of_its_call() {
        check(&["question 1 x operator", "answer 1 x operator yes", "intent 1 x"], &[], &[]);
        check(&["question 1 x command", "answer 1 x command yes"], &[], &[]);
        check(
            &["question 1 x command", "answer 1 x command yes", "intent 1 x", "intent 2 x", "intent 1 x"],
            &[(4, Kind::SecondUse), (5, Kind::SecondUse)],
            &[],
        );
        let unapproved = |records: &[&str]| check(records, &[(records.len() as u64, Kind::UnapprovedIntent)], &[]);
        unapproved(&["intent 1 x"]);
        unapproved(&["question 1 x client", "intent 1 x"]);
        unapproved(&["question 1 x operator", "answer 1 x operator yes", "intent 2 x"]);
        unapproved(&["question 1 x operator", "answer 1 x operator yes", "intent 1 y"]);
        unapproved(&["question 1 x operator", "answer 1 x operator yes", "intent 1 x other"]);
        for no in ["no", "timed_out", "unusable", "withdrawn", "yes_and_no"] {
            unapproved(&["question 1 x operator", &format!("answer 1 x operator {no}"), "intent 1 x"]);
        }
        check(&["question 1 x operator", "intent 1 x"], &[(2, Kind::UnapprovedIntent)], &["x"]);
    }

    #[test]
    fn a_yes_for_the_session_approves_every_intent_of_its_tool() {
        let asked = ["question 1 x operator", "answer 1 x operator yes_for_session"];
        check(&[&asked[..], &["intent 1 x", "intent 2 x other", "intent 3 x"]].concat(), &[], &[]);
        let mut questions = Questions::default();
        asked.iter().for_each(|record| assert_eq!(take(&mut questions, 1, record), None));
        let (approved, other) = (Approved { question: "x".to_owned(), action: String::new() }, "other".to_owned());
        let wrong = questions.intent(2, &approved, &Place { tool: other, ..place(2) });
        assert_eq!(wrong.map(|(kind, _)| kind), Some(Kind::UnapprovedIntent));
    }

    #[test]
    fn a_client_answers_with_another_call_in_another_process_or_never() {
        check(&["question 1 x client", "answer 5 x client yes", "intent 5 x"], &[], &[]);
        check(&["answer 5 x client yes", "intent 5 x"], &[], &[]);
        check(&["answer 5 x client yes_for_session", "intent 5 x", "intent 6 x"], &[], &[]);
        check(&["question 1 x client", "question 2 y client", "answer 3 z client no"], &[], &[]);
        check(&["question 1 x client", "answer 5 x client yes", "intent 5 x other"], &[(3, Kind::UnapprovedIntent)], &[]);
    }

    #[test]
    fn a_question_that_waits_has_one_answer_of_its_own() {
        check(&["question 1 x operator", "question 2 y command", "answer 1 x operator no"], &[], &["y"]);
        check(&["answer 1 x operator yes"], &[(1, Kind::AnswerAlone)], &[]);
        check(&["answer 1 x command yes_for_session", "intent 1 x"], &[(1, Kind::AnswerAlone)], &[]);
        check(&["question 1 x operator", "answer 2 x operator yes"], &[(2, Kind::AnswerAlone)], &[]);
        check(&["question 1 x operator", "answer 1 x client yes"], &[(2, Kind::AnswerAlone)], &[]);
        for again in ["yes", "no", "withdrawn"] {
            let again = format!("answer 1 x operator {again}");
            check(&["question 1 x operator", "answer 1 x operator no", &again], &[(3, Kind::SecondAnswer)], &[]);
        }
        check(
            &["answer 1 x client no", "answer 2 x client yes", "intent 2 x"],
            &[(2, Kind::SecondAnswer), (3, Kind::UnapprovedIntent)],
            &[],
        );
    }

    /// What a stalled disk leaves, and names that come twice by chance.
    #[test]
    fn what_the_gateway_may_write_is_no_damage() {
        check(&["answer 1 x operator withdrawn", "question 1 x operator"], &[], &["x"]);
        check(&["answer 1 x command timed_out"], &[], &[]);
        let twice = ["question 1 x command", "answer 1 x command yes", "intent 1 x"];
        check(&[&twice[..], &["question 2 x command", "answer 2 x command yes", "intent 2 x"]].concat(), &[], &[]);
        let standing =
            ["question 1 x client", "answer 1 x client yes_for_session", "question 2 x client", "answer 2 x client no"];
        check(&[&standing[..], &["intent 3 x"]].concat(), &[], &[]);
    }

    #[test]
    fn where_something_is_gone_only_what_is_there_counts() {
        let mut partial = Questions::default();
        partial.lose_sight();
        let check = |records: &[&str], expected: &[(u64, Kind)]| check_from(partial.clone(), records, expected, &[]);
        check(&["answer 1 x operator yes", "intent 1 x", "intent 2 y"], &[]);
        check(&["question 1 x client", "intent 1 x"], &[]);
        check(&["answer 1 x operator no", "intent 1 x"], &[(2, Kind::UnapprovedIntent)]);
        check(&["answer 1 x operator yes", "intent 1 x", "intent 2 x"], &[(3, Kind::SecondUse)]);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_what_is_forgotten_is_not_held_against_anybody() {
        let mut questions = Questions::default();
        let most = REMEMBERED as u64;
        for call in 0..2 * most {
            assert_eq!(take(&mut questions, call, &format!("question {call} {call} client")), None);
            assert_eq!(take(&mut questions, call, &format!("answer {call} {call} client yes")), None);
        }
        assert!(questions.known.len() == REMEMBERED && questions.knowing.len() == REMEMBERED);
        assert_eq!(take(&mut questions, 1, "intent 5 5"), None, "it may have been approved");
        let last = 2 * most - 1;
        assert_eq!(take(&mut questions, 1, &format!("intent {last} {last}")), None);
        assert_eq!(take(&mut questions, 1, &format!("intent {last} none")), Some(Kind::UnapprovedIntent));
    }

    #[track_caller]
    fn check_too_many(record: impl Fn(u64) -> [String; 2], remembered: impl Fn(&Questions) -> usize) {
        let mut questions = Questions::default();
        let records = (0..2 * REMEMBERED as u64).flat_map(record);
        let said: Vec<Kind> = records.filter_map(|record| take(&mut questions, 1, &record)).collect();
        assert_eq!((said, remembered(&questions)), (vec![Kind::TooManyQuestions], REMEMBERED));
        assert_eq!(take(&mut questions, 1, "answer 1 none operator yes"), None);
        assert_eq!(take(&mut questions, 1, "intent 2 none2"), None);
    }

    #[test]
    fn what_stands_is_bounded_and_that_is_said_once() {
        let waiting = |call| [format!("question {call} {call} operator"), format!("question {call} {call} client")];
        check_too_many(waiting, |questions| questions.waiting.len());
        let standing =
            |call| [format!("question {call} {call} client"), format!("answer {call} {call} client yes_for_session")];
        check_too_many(standing, |questions| questions.standing.len());
    }
}
