//! The one way of replies made on the reader, and the ids of requests whose reply did not fit and that wait for their `busy`.
//!
//! ```text
//! reply ──fits──▶ outbox
//!   └─does not─▶ its id waits ──room──▶ busy ──▶ outbox
//!                     └──cancel──▶ gone (nothing is sent)
//! ```
//! Bounded twice: replies by their bytes in the outbox, of which a reply alone may be more, and ids by theirs, of which the
//! last may stand out. The caller takes no further line while `is_full`. Nothing here waits. Only the reader may use this:
//! room that was seen cannot be taken by anybody else.

use std::collections::VecDeque;

use crate::gateway::answer::{self, RequestKind};
use crate::limits::{READER_REPLY_BYTES, WAITING_ID_BYTES, WAITING_ID_OVERHEAD};
use crate::mcp::era::Origin;
use crate::mcp::render::render;
use crate::rpc::id::Id;
use crate::wire::outbox::{Frame, Outbox};

/// What the reader has said and what it still owes.
pub struct Replies {
    waiting: VecDeque<Owed>,
    waiting_bytes: usize,
    reply_bytes_max: usize,
    waiting_bytes_max: usize,
}

struct Owed {
    origin: Origin,
    asked: RequestKind,
    bytes: usize,
}

impl Default for Replies {
    fn default() -> Self {
        Replies::new(READER_REPLY_BYTES, WAITING_ID_BYTES)
    }
}

impl Replies {
    /// None yet; `reply_bytes_max` of them may stand in the outbox, `waiting_bytes_max` of ids may wait here.
    pub fn new(reply_bytes_max: usize, waiting_bytes_max: usize) -> Self {
        Replies { waiting: VecDeque::new(), waiting_bytes: 0, reply_bytes_max, waiting_bytes_max }
    }

    /// Sends a reply (as a line without its LF), or keeps the id for a `busy`. True if the reply itself went.
    pub fn send(&mut self, origin: &Origin, asked: RequestKind, line: String, outbox: &Outbox) -> bool {
        let fits = self.fits(&line, outbox);
        if fits {
            outbox.push(Frame::reply(line, key(origin, asked)));
        } else {
            let bytes = origin.id.to_json().len() + WAITING_ID_OVERHEAD;
            self.waiting_bytes += bytes;
            self.waiting.push_back(Owed { origin: origin.clone(), asked, bytes });
        }
        fits
    }

    /// Sends a line that answers no id, or drops it. True if it went.
    pub fn send_unaddressed(&self, line: String, outbox: &Outbox) -> bool {
        self.fits(&line, outbox) && outbox.push(Frame::new(line, None))
    }

    /// Sends a question, whose frame is found by `key`. The caller has looked for room.
    pub fn send_question(&self, line: String, key: &str, outbox: &Outbox) {
        outbox.push(Frame::reply(line, Some(key.to_owned())));
    }

    /// Sends what is owed, as far as there is room. If nothing can leave any more, nothing is owed.
    pub fn catch_up(&mut self, outbox: &Outbox) {
        while let Some(first) = self.waiting.front() {
            let line = render(&first.origin, &answer::no_room(first.asked));
            if !self.fits(&line, outbox) && !outbox.is_broken() {
                return;
            }
            outbox.push(Frame::reply(line, key(&first.origin, first.asked)));
            self.remove(0);
        }
    }

    /// Whether no further line may be taken.
    pub fn is_full(&self) -> bool {
        self.waiting_bytes >= self.waiting_bytes_max
    }

    /// Whether no `busy` is owed.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a request with this id waits for its `busy`.
    pub fn contains(&self, id: &Id) -> bool {
        self.waiting.iter().any(|owed| owed.origin.id == *id)
    }

    /// The client cancels request `id`: nothing is sent for it. False where it does not wait, or cannot be cancelled.
    pub fn cancel(&mut self, id: &Id) -> bool {
        let is_it = |owed: &Owed| owed.origin.id == *id && owed.asked != RequestKind::Handshake;
        let at = self.waiting.iter().position(is_it);
        at.inspect(|at| self.remove(*at)).is_some()
    }

    /// The client cancels request `id`, which was answered: takes the answer back if no byte of it left.
    pub fn take_back(&mut self, id: &Id, outbox: &Outbox) -> bool {
        outbox.withdraw_reply(&id.to_json())
    }

    fn remove(&mut self, at: usize) {
        self.waiting_bytes -= self.waiting.remove(at).map_or(0, |owed| owed.bytes);
    }

    /// Whether a short line would be taken now.
    pub fn has_room(&self, outbox: &Outbox) -> bool {
        outbox.reader_bytes() < self.reply_bytes_max / 2 && !outbox.is_broken()
    }

    /// Whatever its length, a line fits where none waits.
    fn fits(&self, line: &str, outbox: &Outbox) -> bool {
        let waiting = outbox.reader_bytes();
        waiting == 0 || waiting + line.len() < self.reply_bytes_max
    }
}

/// What a cancel of the request finds its reply by; the handshake cannot be cancelled.
fn key(origin: &Origin, asked: RequestKind) -> Option<String> {
    (asked != RequestKind::Handshake).then(|| origin.id.to_json())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Read};

    use crate::mcp::era::{Era, Revision};
    use crate::mcp::reply::Reply;
    use crate::wire::outbox::{Ticket, Told};
    use crate::wire::stdio::Output;

    /// Room for two pongs (each takes 36 bytes and its line feed), and for two ids of one digit.
    const ROOM: usize = 2 * 37;
    const IDS: usize = 2 * (1 + WAITING_ID_OVERHEAD);

    struct Rig {
        replies: Replies,
        outbox: Outbox,
    }

    struct Nobody;
    impl Told for Nobody {
        fn left(&self, _ticket: Option<Ticket>, _bytes: usize) {}
        fn broken(&self, error: Option<io::Error>) {
            panic!("{error:?}");
        }
    }

    fn origin(id: &str) -> Origin {
        Origin { id: Id::parse(id).unwrap(), era: Era::Legacy(Revision::V2025_11_25) }
    }

    impl Rig {
        fn new() -> Self {
            Rig { replies: Replies::new(ROOM, IDS), outbox: Outbox::new().unwrap() }
        }

        /// Whose room is taken: pings 1 and 2 are answered.
        fn full() -> Self {
            let mut rig = Rig::new();
            assert!(rig.send("1", RequestKind::Other) && rig.send("2", RequestKind::Other));
            rig
        }

        fn send(&mut self, id: &str, asked: RequestKind) -> bool {
            let origin = origin(id);
            self.replies.send(&origin, asked, render(&origin, &Reply::Pong), &self.outbox)
        }

        fn cancel(&mut self, id: &str) -> bool {
            self.replies.cancel(&Id::parse(id).unwrap())
        }

        /// What leaves in one turn of the writer.
        fn written(&self) -> Vec<String> {
            let (mut reader, writer) = io::pipe().unwrap();
            self.outbox.write_once(&Output::new(writer.into()).unwrap(), &Nobody);
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text.lines().map(str::to_owned).collect()
        }

        /// The next reply, after everything that stands in the outbox has left.
        fn next_busy(&mut self) -> String {
            self.replies.catch_up(&self.outbox);
            let lines = self.written();
            assert_eq!(lines.len(), 1, "{lines:?}");
            lines.into_iter().next().unwrap()
        }
    }

    fn pong(id: &str) -> String {
        render(&origin(id), &Reply::Pong)
    }

    #[test]
    fn a_reply_fits_up_to_the_limit_and_one_past_it_its_id_waits() {
        let mut rig = Rig::full();
        assert_eq!(rig.outbox.reader_bytes(), ROOM);
        assert!(!rig.send("3", RequestKind::Other));
        assert!(rig.replies.contains(&Id::integer(3)) && !rig.replies.contains(&Id::text("3")));
        assert!(!rig.replies.is_full());
        assert!(!rig.send("4", RequestKind::Other));
        assert!(rig.replies.is_full());
        rig.replies.catch_up(&rig.outbox);
        assert_eq!(rig.written(), [pong("1"), pong("2")]);
        assert!(rig.next_busy().starts_with(r#"{"jsonrpc":"2.0","id":3,"#));
        assert!(!rig.replies.is_full() && !rig.replies.is_empty());
        assert!(rig.next_busy().starts_with(r#"{"jsonrpc":"2.0","id":4,"#));
        assert!(rig.replies.is_empty());
        assert!(rig.send("5", RequestKind::Other));
    }

    #[test]
    fn one_byte_too_much_does_not_fit() {
        let mut rig = Rig::new();
        assert!(rig.send("1", RequestKind::Other) && !rig.send("10", RequestKind::Other) && rig.send("2", RequestKind::Other));
    }

    #[test]
    fn a_reply_that_is_larger_than_the_room_fits_where_none_waits() {
        let (mut rig, id) = (Rig::new(), "7".repeat(2 * ROOM));
        assert!(rig.send(&id, RequestKind::Other));
        assert!(!rig.send("1", RequestKind::Other));
        assert_eq!(rig.written(), [pong(&id)]);
        assert!(!rig.next_busy().is_empty());
    }

    #[test]
    fn a_cancelled_id_is_answered_nothing_and_gives_its_room_back() {
        let mut rig = Rig::full();
        assert!(!rig.send("3", RequestKind::Call) && !rig.send("4", RequestKind::Handshake));
        assert!(rig.cancel("3") && !rig.cancel("3"));
        assert!(!rig.cancel("1"), "it was answered");
        let one = Id::parse("1").unwrap();
        assert!(rig.replies.take_back(&one, &rig.outbox) && !rig.replies.take_back(&one, &rig.outbox));
        assert!(!rig.cancel("4"), "a handshake cannot be cancelled");
        assert!(!rig.replies.is_full());
        rig.written();
        assert!(rig.next_busy().starts_with(r#"{"jsonrpc":"2.0","id":4,"#));
        assert!(rig.replies.is_empty());
    }

    #[test]
    fn busy_has_the_shape_of_what_was_asked() {
        let outcome = r#"{"code":"busy","executed":"no","truncated":false,"bytes":0,"duration_ms":0}"#;
        let text = "tidegate: busy (executed: no): answers that nobody has read yet fill 1 MiB; read them, then try again";
        let result = format!(
            r#"{{"jsonrpc":"2.0","id":"a","result":{{"content":[{{"type":"text","text":"{text}"}}],"isError":true,"_meta":{{"tidegate/outcome":{outcome}}}}}}}"#
        );
        let error = format!(
            r#"{{"jsonrpc":"2.0","id":"a","error":{{"code":-32000,"message":"{text}","data":{{"tidegate/outcome":{outcome}}}}}}}"#
        );
        for (method, expected) in [("tools/call", &result), ("initialize", &error), ("ping", &error)] {
            let mut rig = Rig::full();
            assert!(!rig.send("\"a\"", RequestKind::by(method)));
            rig.written();
            assert_eq!(rig.next_busy(), *expected, "{method}");
        }
    }

    #[test]
    fn what_answers_no_id_is_dropped_where_it_does_not_fit() {
        let rig = Rig::full();
        assert!(!rig.replies.send_unaddressed("{}".to_owned(), &rig.outbox));
        rig.written();
        assert!(rig.replies.send_unaddressed("{}".to_owned(), &rig.outbox));
    }

    #[test]
    fn nothing_is_owed_to_a_stdout_that_takes_nothing_any_more() {
        let mut rig = Rig::full();
        assert!(!rig.send("3", RequestKind::Other));
        rig.outbox.give_up();
        rig.replies.catch_up(&rig.outbox);
        assert!(rig.replies.is_empty());
    }
}
